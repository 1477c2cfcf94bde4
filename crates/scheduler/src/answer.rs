//! What the scheduler answers: decisions, and explanations of them.

use std::sync::Arc;

use model::NamespacedName;

use super::plugin::Plugin;
use super::verdict::Refusal;

/// What became of one attempt to place a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It was not tried, and why.
    Skipped(String),
    /// It is kept out of the queue.
    Gated(Refusal),
    /// It goes to a node.
    Placed(Placement),
    /// No node takes it.
    Refused(Rejection),
    /// A plugin failed: it is neither placed nor refused, and will be tried again.
    Failed(String),
}

/// A pod that goes to a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The node.
    pub node: Arc<str>,
    /// Claims that now wait for this volume or this node; the caller applies them.
    pub volumes: Vec<VolumeChange>,
    /// How many nodes were looked at in search of one; none if the pod was promised one that still takes it.
    pub looked_at: usize,
    /// How many of them fit.
    pub fitting: usize,
    /// How many of those are as good as the one that was taken, it included.
    pub equals: usize,
    /// What became of the node that the pod was inclined to, if it was to any.
    pub inclined: Option<Inclined>,
}

/// What became of the node that a pod was inclined to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Inclined {
    /// It was taken.
    Taken,
    /// Its score was lower by so much.
    Worse(i64),
    /// A plugin refused it.
    Refused(Plugin),
    /// It was not looked at: enough others had been found.
    NotLookedAt,
    /// There is no such node.
    NotThere,
}

/// What placing a pod means for a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeChange {
    /// The claim gets this volume.
    Bind {
        /// The claim, in the pod's namespace.
        claim: Arc<str>,
        /// The volume.
        volume: Arc<str>,
    },
    /// A volume is to be made for the claim, reachable from the node.
    Provision {
        /// The claim, in the pod's namespace.
        claim: Arc<str>,
        /// The node.
        node: Arc<str>,
    },
}

/// A pod that no node takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// `0/3 nodes are available: …`, without what making room came to.
    pub message: String,
    /// What making room came to; empty if that was not tried.
    pub post_filter: String,
    /// Who refused it, by name: their events bring the pod back.
    pub plugins: Vec<Plugin>,
    /// The node on which room is made for it.
    pub nominated_node: Option<Arc<str>>,
    /// The pods to delete for it. One that is terminating already is not named.
    pub victims: Vec<NamespacedName>,
    /// Pods that are no longer promised a node.
    pub cleared: Vec<NamespacedName>,
}

/// All that can be said of a pod at one moment: every node's verdict and scores, without sampling, and what the
/// scheduler does.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The pod.
    pub pod: NamespacedName,
    /// Set if the pod as such is refused before any node is looked at.
    pub pre_filter: Option<Refusal>,
    /// The only nodes considered, by name, existing or not, sorted; `None` for all.
    pub only_nodes: Option<Vec<Arc<str>>>,
    /// Every node considered that exists, in the scheduler's order.
    pub nodes: Vec<NodeAnswer>,
    /// What the scheduler does: with sampling, and with the node chosen among equals as it chooses.
    pub decision: Decision,
}

/// What is said of one node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeAnswer {
    /// The node.
    pub node: Arc<str>,
    /// The verdict.
    pub verdict: NodeVerdict,
}

/// The verdict on one node.
#[derive(Clone, Debug, PartialEq)]
pub enum NodeVerdict {
    /// The first plugin that refused it.
    Refused(Refusal),
    /// It fits; every scoring plugin's opinion in their order, and the sum of the weighted ones.
    Fits {
        /// By plugin.
        scores: Vec<PluginScore>,
        /// The sum.
        total: i64,
    },
}

/// One plugin's opinion of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginScore {
    /// Whose.
    pub plugin: Plugin,
    /// As the plugin counts.
    pub raw: i64,
    /// From 0 to 100.
    pub normalised: i64,
    /// Times the plugin's weight.
    pub weighted: i64,
}

// === impl Rejection ===

impl Rejection {
    /// Refused with these words by these plugins, and no room made.
    pub(super) fn new(message: String, plugins: Vec<Plugin>) -> Rejection {
        Rejection {
            message,
            post_filter: String::new(),
            plugins,
            nominated_node: None,
            victims: Vec::new(),
            cleared: Vec::new(),
        }
    }

    /// The whole text that kube-scheduler writes to the pod.
    pub fn full_message(&self) -> String {
        if self.post_filter.is_empty() {
            return self.message.clone();
        }
        format!("{} {}", self.message, self.post_filter)
    }

    /// The text as an Event holds it: the first 1,024 bytes, of which the last four say that there is more.
    pub fn event_message(&self) -> String {
        const MOST: usize = 1024;
        const MORE: &str = " ...";
        let mut message = self.full_message();
        if message.len() > MOST {
            // Go cuts through a character, and what is left of it is lost on the way.
            let end = (0..=MOST - MORE.len()).rev().find(|end| message.is_char_boundary(*end));
            message.truncate(end.unwrap_or(0));
            message.push_str(MORE);
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
            (rejection.message, rejection.post_filter) = (message.to_owned(), post_filter.to_owned());
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
