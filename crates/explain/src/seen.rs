//! What of a recorded pod or node tells how its scheduling went.

use model::Object;
use serde::Deserialize;

/// What of an object tells how its scheduling went. What makes no sense there is as if it were not there.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Seen {
    pub metadata: Metadata,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub creation_timestamp: Option<String>,
    pub deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    node_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    nominated_node_name: Option<String>,
    pub phase: Option<String>,
    conditions: Option<Vec<Condition>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: Option<String>,
    last_transition_time: Option<String>,
}

// === impl Seen ===

impl Seen {
    pub(crate) fn read(object: &Object) -> Seen {
        object.view().unwrap_or_default()
    }
}

// === impl Spec ===

impl Spec {
    /// The node that a pod is bound to.
    pub(crate) fn node(self) -> Option<String> {
        self.node_name.filter(|node| !node.is_empty())
    }
}

// === impl Status ===

impl Status {
    /// When a pod was bound, as its condition says.
    pub(crate) fn bound(&self) -> Option<&str> {
        let conditions = self.conditions.iter().flatten();
        let mut bound = conditions.filter(|one| one.kind == "PodScheduled" && one.status == "True");
        bound.find_map(|one| one.last_transition_time.as_deref())
    }

    /// Whether a scheduler says that no node takes the pod.
    pub(crate) fn is_refused(&self) -> bool {
        let refused = Some("Unschedulable");
        self.conditions.iter().flatten().any(|one| {
            one.kind == "PodScheduled" && one.status == "False" && one.reason.as_deref() == refused
        })
    }

    /// The node that a pod is promised.
    pub(crate) fn promised(self) -> Option<String> {
        self.nominated_node_name.filter(|node| !node.is_empty())
    }
}
