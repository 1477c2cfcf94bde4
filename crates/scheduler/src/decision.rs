//! Decisions of the scheduler, and explanations of them.

use std::sync::Arc;

use model::NamespacedName;

use super::plugin::Plugin;
use super::status::Status;

/// The result of one attempt to schedule a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It was skipped, with the reason.
    Skipped(String),
    /// A PreEnqueue plugin keeps it out of the queue.
    Gated(Status),
    /// It is scheduled to a node.
    Scheduled(ScheduleResult),
    /// No node is feasible.
    Unschedulable(Rejection),
    /// The cycle failed with an error; the pod will be retried.
    Failed(String),
}

/// The node chosen for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleResult {
    /// The node.
    pub node: Arc<str>,
    /// Claims to be bound or provisioned; the caller applies these changes.
    pub volume_changes: Vec<VolumeChange>,
    /// The number of nodes evaluated; zero if the pod's nominated node was feasible.
    pub evaluated_nodes: usize,
    /// The number of feasible nodes among them.
    pub feasible_nodes: usize,
    /// The number of nodes with the highest score, including the chosen one.
    pub tied_nodes: usize,
    /// The outcome of the recorded node, if one was given.
    pub recorded_node: Option<RecordedNodeOutcome>,
}

/// The outcome of a pod's recorded node, given by
/// [`Scheduler::prefer_recorded_node`](crate::Scheduler::prefer_recorded_node).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordedNodeOutcome {
    /// It was chosen.
    Chosen,
    /// Its score was lower by so much.
    LowerScore(i64),
    /// A plugin rejected it.
    Rejected(Plugin),
    /// It was not evaluated: enough feasible nodes had been found, the nominated node was feasible, or PreFilter
    /// excluded it.
    NotEvaluated,
    /// There is no such node.
    NoSuchNode,
}

/// A change to a claim that scheduling a pod implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// The claim is bound to this volume.
    Bind {
        /// The claim, in the pod's namespace.
        claim: Arc<str>,
        /// The volume.
        volume: Arc<str>,
    },
    /// A volume is to be provisioned for the claim, reachable from the node.
    Provision {
        /// The claim, in the pod's namespace.
        claim: Arc<str>,
        /// The node.
        node: Arc<str>,
    },
}

/// Why a pod is unschedulable, and the result of preemption.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// `0/3 nodes are available: …`, without the message of PostFilter.
    pub message: String,
    /// The message of the PostFilter plugins; empty if none ran.
    pub post_filter_message: String,
    /// The plugins that rejected it: their events requeue the pod.
    pub unschedulable_plugins: Vec<Plugin>,
    /// The node that preemption nominated.
    pub nominated_node: Option<Arc<str>>,
    /// The preemption victims, without those that are terminating already.
    pub victims: Vec<NamespacedName>,
    /// Pods whose nomination is cleared.
    pub cleared_nominations: Vec<NamespacedName>,
}

/// Every node's verdict and scores for a pod, without sampling, and the scheduler's decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The pod.
    pub pod: NamespacedName,
    /// Set if PreFilter rejects the pod.
    pub pre_filter_status: Option<Status>,
    /// The only nodes considered, by name, existing or not, sorted; `None` for all.
    pub pre_filter_node_names: Option<Vec<Arc<str>>>,
    /// The filters that run for the pod, in the profile's order: PreFilter skips the others.
    pub filters: Vec<Plugin>,
    /// Every node considered that exists, in the scheduler's order.
    pub nodes: Vec<EvaluatedNode>,
    /// The decision, with sampling.
    pub decision: Decision,
}

/// A node with its verdict.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluatedNode {
    /// The node.
    pub node: Arc<str>,
    /// The verdict.
    pub verdict: NodeVerdict,
}

/// The verdict on one node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeVerdict {
    /// The status of the first plugin that rejected it.
    Rejected(Status),
    /// It passes all filters; the scores of all plugins in order, and the sum of the weighted ones.
    Feasible {
        /// By plugin.
        scores: Vec<PluginScore>,
        /// The sum.
        total: i64,
    },
}

/// One plugin's score of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: Plugin,
    /// The score before normalization.
    pub raw: i64,
    /// From 0 to 100.
    pub normalized: i64,
    /// The normalized score times the plugin's weight.
    pub weighted: i64,
}

// === impl Rejection ===

impl Rejection {
    /// A rejection with this message by these plugins, without preemption.
    pub(super) fn new(message: String, plugins: Vec<Plugin>) -> Rejection {
        Rejection {
            message,
            post_filter_message: String::new(),
            unschedulable_plugins: plugins,
            nominated_node: None,
            victims: Vec::new(),
            cleared_nominations: Vec::new(),
        }
    }

    /// The message that kube-scheduler writes to the pod's condition.
    pub fn full_message(&self) -> String {
        if self.post_filter_message.is_empty() {
            return self.message.clone();
        }
        format!("{} {}", self.message, self.post_filter_message)
    }

    /// The text as an Event holds it: the first 1,024 bytes, of which the last four say that there is more.
    pub fn event_message(&self) -> String {
        const MAX_LENGTH: usize = 1024;
        const ELLIPSIS: &str = " ...";
        let mut message = self.full_message();
        if message.len() > MAX_LENGTH {
            // Go cuts through a multi-byte character, whose remaining bytes are lost in transit.
            let end = (0..=MAX_LENGTH - ELLIPSIS.len()).rev().find(|end| message.is_char_boundary(*end));
            message.truncate(end.unwrap_or(0));
            message.push_str(ELLIPSIS);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expected: &str) {
        let mut rejection = Rejection::new(message.to_owned(), Vec::new());
        assert_eq!(rejection.event_message(), expected);
        if let Some((message, post_filter)) = message.split_once(' ') {
            (rejection.message, rejection.post_filter_message) = (message.to_owned(), post_filter.to_owned());
            assert_eq!(rejection.event_message(), expected);
        }
    }

    #[test]
    fn an_event_holds_1024_bytes_of_the_message() {
        check("0/1 nodes", "0/1 nodes");
        check(&"x".repeat(1024), &"x".repeat(1024));
        check(&"x".repeat(1025), &format!("{} ...", "x".repeat(1020)));
        check(&format!("a {}", "x".repeat(1030)), &format!("a {} ...", "x".repeat(1018)));
        check(&format!("{}{}", "x".repeat(1019), "é".repeat(3)), &format!("{} ...", "x".repeat(1019)));
    }
}
