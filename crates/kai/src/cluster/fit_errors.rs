//! The reasons why pods and jobs were not placed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use smallvec::SmallVec;

/// The reason of one node.
pub type FitReason = Cow<'static, str>;

/// A node's rejection of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The check that failed.
    pub predicate: Predicate,
    /// The reasons, as the original words them.
    pub reasons: SmallVec<[FitReason; 1]>,
}

/// The checks of a pod on a node, in the order in which they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Predicate {
    /// The node's resources, idle or being released.
    NodeResources,
    /// Limits and quotas of queues, with the node's GPU memory considered.
    QueueCapacity,
    /// Whether the node has the requested form of GPUs.
    ResourceType,
    /// Whether the memory of the node's GPUs is known.
    GpuMemory,
    /// The number of pods on the node.
    MaxPods,
    /// The node's conditions.
    NodeCondition,
    /// Host ports.
    PodFitsHostPorts,
    /// Taints.
    PodToleratesNodeTaints,
    /// Node selectors and node affinity.
    NodeAffinity,
    /// Affinity between pods.
    PodAffinity,
    /// Volumes.
    VolumeBinding,
    /// Nodes reserved for pods with or without GPUs.
    RestrictedNodes,
}

/// The reasons why a pod was not placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFitErrors {
    /// A reason that concerns no node in particular.
    pub error: Option<String>,
    /// The number of nodes that each reason was given for.
    pub reasons: BTreeMap<FitReason, u32>,
}

/// The reason why a job was not placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFitError {
    /// In one word, mostly.
    pub reason: Cow<'static, str>,
    /// In full.
    pub messages: Vec<String>,
}

/// The reason of jobs whose pods were not placed.
pub(crate) const POD_SCHEDULING_ERRORS: &str = "PodSchedulingErrors";
/// The error of a pod without any other.
pub(crate) const DEFAULT_POD_ERROR: &str = "Unable to schedule pod";
/// The error of a pod with reasons of nodes only.
const NO_NODES: &str = "no nodes with enough resources were found";

/// The errors that are kept of one job. Simulations may fail for the same reason very often.
const MAX_JOB_ERRORS: usize = 4096;

// === impl Rejection ===

impl Rejection {
    /// A rejection for one reason.
    pub(crate) fn new(predicate: Predicate, reason: impl Into<FitReason>) -> Rejection {
        Rejection { predicate, reasons: SmallVec::from_iter([reason.into()]) }
    }

    /// A rejection for resources of which enough would be idle if shared GPUs were counted together.
    pub(crate) fn of_unknown_resources() -> Rejection {
        Rejection { predicate: Predicate::NodeResources, reasons: SmallVec::new() }
    }
}

// === impl PodFitErrors ===

impl PodFitErrors {
    /// An error that concerns no node in particular.
    pub(crate) fn of_error(error: String) -> PodFitErrors {
        PodFitErrors { error: Some(error), reasons: BTreeMap::new() }
    }

    /// Counts the reasons of a node.
    pub(crate) fn add(&mut self, rejection: &Rejection) {
        for reason in &rejection.reasons {
            match self.reasons.get_mut(reason) {
                Some(count) => *count = count.saturating_add(1),
                None => drop(self.reasons.insert(reason.clone(), 1)),
            }
        }
    }

    /// The error, then the reasons with their counts.
    pub fn texts(&self) -> Vec<String> {
        let mut reasons: Vec<String> =
            self.reasons.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        reasons.sort_unstable();
        reasons.insert(0, self.error.as_deref().unwrap_or(NO_NODES).to_owned());
        reasons
    }
}

impl fmt::Display for PodFitErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.texts();
        f.write_str(&texts[0])?;
        if texts.len() > 1 {
            write!(f, ": {}.", texts[1..].join(". \n"))?;
        }
        Ok(())
    }
}

// === impl JobFitError ===

impl JobFitError {
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>, message: String) -> JobFitError {
        JobFitError { reason: reason.into(), messages: vec![message] }
    }

    /// Adds an error to those of a job, unless there are very many already.
    pub(crate) fn add_to(self, errors: &mut Vec<JobFitError>) {
        if errors.len() < MAX_JOB_ERRORS {
            errors.push(self);
        }
    }
}

impl fmt::Display for JobFitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.messages.join(", "))
    }
}

impl Predicate {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Predicate::NodeResources => "NodeResources",
            Predicate::QueueCapacity => "QueueCapacity",
            Predicate::ResourceType => "ResourceType",
            Predicate::GpuMemory => "GpuMemory",
            Predicate::MaxPods => "MaxPods",
            Predicate::NodeCondition => "NodeCondition",
            Predicate::PodFitsHostPorts => "PodFitsHostPorts",
            Predicate::PodToleratesNodeTaints => "PodToleratesNodeTaints",
            Predicate::NodeAffinity => "NodeAffinity",
            Predicate::PodAffinity => "PodAffinity",
            Predicate::VolumeBinding => "VolumeBinding",
            Predicate::RestrictedNodes => "RestrictedNodes",
        }
    }
}
