//! The fields of pods and nodes that show their scheduling.

use model::Object;
use serde::Deserialize;

/// The fields of an object that show its scheduling. Malformed objects read as empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulingFields {
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

// === impl SchedulingFields ===

impl SchedulingFields {
    pub(crate) fn read(object: &Object) -> SchedulingFields {
        object.view().unwrap_or_default()
    }
}

// === impl Spec ===

impl Spec {
    /// The node that the pod is bound to.
    pub(crate) fn bound_node(self) -> Option<String> {
        self.node_name.filter(|node| !node.is_empty())
    }
}

// === impl Status ===

impl Status {
    /// When the pod was bound, according to its PodScheduled condition.
    pub(crate) fn bound_at(&self) -> Option<&str> {
        let conditions = self.conditions.iter().flatten();
        let mut bound =
            conditions.filter(|condition| condition.kind == "PodScheduled" && condition.status == "True");
        bound.find_map(|condition| condition.last_transition_time.as_deref())
    }

    /// Whether the pod is marked unschedulable.
    pub(crate) fn is_unschedulable(&self) -> bool {
        let unschedulable = Some("Unschedulable");
        self.conditions.iter().flatten().any(|condition| {
            condition.kind == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == unschedulable
        })
    }

    /// The node that the pod is nominated to.
    pub(crate) fn nominated_node(self) -> Option<String> {
        self.nominated_node_name.filter(|node| !node.is_empty())
    }
}
