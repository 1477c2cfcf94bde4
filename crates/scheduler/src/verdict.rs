//! What a plugin says of a pod, or of a pod on a node. "No" is a value here, never an error.

use std::borrow::Cow;
use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::plugin::Plugin;

/// Why a plugin says no.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Who says so.
    pub plugin: Plugin,
    /// How final it is.
    pub code: Code,
    /// In kube-scheduler's words.
    pub reasons: Reasons,
}

/// Why a plugin says no: rarely more than one reason, for thousands of nodes.
pub type Reasons = SmallVec<[Cow<'static, str>; 1]>;

/// How final a refusal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The cycle failed: neither yes nor no.
    Error,
    /// No, but it might be yes without some of the pods there.
    Unschedulable,
    /// No, whichever pods go.
    UnschedulableAndUnresolvable,
}

/// Refusals that thousands of nodes get for one pod: small, until somebody wants the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usual {
    /// A hard spread constraint, and the node has not its label.
    NoSpreadLabel,
    /// A hard spread constraint, and the domain has too many pods.
    TooManyInDomain,
    /// Nobody that the pod must be near is there.
    NobodyNear,
    /// Somebody that the pod must not be near is there.
    SomebodyNear,
    /// Somebody is there that does not want the pod near.
    Unwanted,
}

// === impl Refusal ===

impl Refusal {
    /// No, but it might be yes without some of the pods there.
    pub fn unschedulable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { plugin, code: Code::Unschedulable, reasons: smallvec![reason.into()] }
    }

    /// No, whichever pods go.
    pub fn unresolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { plugin, code: Code::UnschedulableAndUnresolvable, reasons: smallvec![reason.into()] }
    }

    /// All reasons in one line.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

impl From<Usual> for Refusal {
    fn from(usual: Usual) -> Refusal {
        let (spread, affinity) = (Plugin::PodTopologySpread, Plugin::InterPodAffinity);
        match usual {
            Usual::NoSpreadLabel => Refusal::unresolvable(
                spread,
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            Usual::TooManyInDomain => {
                Refusal::unschedulable(spread, "node(s) didn't match pod topology spread constraints")
            }
            Usual::NobodyNear => Refusal::unresolvable(affinity, "node(s) didn't match pod affinity rules"),
            Usual::SomebodyNear => {
                Refusal::unschedulable(affinity, "node(s) didn't match pod anti-affinity rules")
            }
            Usual::Unwanted => {
                Refusal::unschedulable(affinity, "node(s) didn't satisfy existing pods anti-affinity rules")
            }
        }
    }
}

impl Usual {
    /// How many there are.
    pub(super) const COUNT: usize = 5;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::Error => "Error",
            Code::Unschedulable => "Unschedulable",
            Code::UnschedulableAndUnresolvable => "UnschedulableAndUnresolvable",
        })
    }
}
