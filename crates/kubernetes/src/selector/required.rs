//! A pod's required node affinity: its requirements on a node's labels and name.

use super::{BadSelector, NodeSelector, Selector};
use crate::labels::Labels;

/// A pod's `nodeSelector` and required node affinity, which must both match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RequiredNodeAffinity {
    /// `nodeSelector`.
    pub selector: Option<Selector>,
    /// `requiredDuringSchedulingIgnoredDuringExecution`.
    pub affinity: Option<NodeSelector>,
}

impl RequiredNodeAffinity {
    /// Combines these fields of a pod's spec.
    pub fn new(node_selector: Option<&Labels>, affinity: Option<NodeSelector>) -> RequiredNodeAffinity {
        let pairs =
            |labels: &Labels| Selector::of_labels(labels.iter().map(|(key, value)| (&**key, &**value)));
        RequiredNodeAffinity { selector: node_selector.map(pairs), affinity }
    }

    /// Whether there are no requirements.
    pub fn is_none(&self) -> bool {
        self.selector.is_none() && self.affinity.is_none()
    }

    /// Whether a node matches; an error if that depends on invalid terms.
    pub fn matches(&self, name: &str, labels: &Labels) -> Result<bool, &BadSelector> {
        let label = |key: &str| labels.get(key);
        if self.selector.as_ref().is_some_and(|selector| !selector.matches(label)) {
            return Ok(false);
        }
        self.affinity.as_ref().map_or(Ok(true), |nodes| nodes.matches(name, label))
    }

    /// Whether a node matches. An invalid term never matches.
    pub fn selects(&self, name: &str, labels: &Labels) -> bool {
        self.matches(name, labels).unwrap_or(false)
    }
}
