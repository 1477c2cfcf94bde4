//! Statuses that plugins return. A rejection is an ordinary result, not a failure.

use std::borrow::Cow;
use std::fmt;

use smallvec::{SmallVec, smallvec};

use super::plugin::Plugin;

/// A non-success status of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The plugin.
    pub plugin: Plugin,
    /// Its code.
    pub code: Code,
    /// kube-scheduler's texts.
    pub reasons: Reasons,
}

/// The reasons of a status; rarely more than one.
pub type Reasons = SmallVec<[Cow<'static, str>; 1]>;

/// The code of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The plugin failed, which ends the cycle.
    Error,
    /// Rejected; preemption may help.
    Unschedulable,
    /// Rejected; preemption does not help.
    UnschedulableAndUnresolvable,
}

/// Statuses that many nodes get for one pod, without their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommonStatus {
    /// A node lacks the topology key of a hard spread constraint.
    MissingSpreadLabel,
    /// The domain has too many pods for a hard spread constraint.
    MaxSkewExceeded,
    /// No pod of the domain matches the pod's required affinity.
    AffinityUnmatched,
    /// A pod of the domain matches the pod's required anti-affinity.
    AntiAffinityViolated,
    /// The required anti-affinity of a pod of the domain matches the pod.
    ExistingAntiAffinityViolated,
}

// === impl Status ===

impl Status {
    /// A rejection that preemption may resolve.
    pub fn unschedulable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Status {
        Status { plugin, code: Code::Unschedulable, reasons: smallvec![reason.into()] }
    }

    /// A rejection that preemption cannot resolve.
    pub fn unresolvable(plugin: Plugin, reason: impl Into<Cow<'static, str>>) -> Status {
        Status { plugin, code: Code::UnschedulableAndUnresolvable, reasons: smallvec![reason.into()] }
    }

    /// All reasons, joined by commas.
    pub fn message(&self) -> String {
        self.reasons.join(", ")
    }
}

impl From<CommonStatus> for Status {
    fn from(common_status: CommonStatus) -> Status {
        let (spread, affinity) = (Plugin::PodTopologySpread, Plugin::InterPodAffinity);
        match common_status {
            CommonStatus::MissingSpreadLabel => Status::unresolvable(
                spread,
                "node(s) didn't match pod topology spread constraints (missing required label)",
            ),
            CommonStatus::MaxSkewExceeded => {
                Status::unschedulable(spread, "node(s) didn't match pod topology spread constraints")
            }
            CommonStatus::AffinityUnmatched => {
                Status::unresolvable(affinity, "node(s) didn't match pod affinity rules")
            }
            CommonStatus::AntiAffinityViolated => {
                Status::unschedulable(affinity, "node(s) didn't match pod anti-affinity rules")
            }
            CommonStatus::ExistingAntiAffinityViolated => {
                Status::unschedulable(affinity, "node(s) didn't satisfy existing pods anti-affinity rules")
            }
        }
    }
}

impl CommonStatus {
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
