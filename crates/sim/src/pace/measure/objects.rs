//! What is read of the objects that tell how long things took.

use model::Moment;
use serde::Deserialize;

use super::Disruption;
use crate::scheduler::read::{moment, nullable};

#[derive(Deserialize)]
pub(super) struct PodJson {
    pub metadata: MetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    pub spec: PodSpecJson,
    #[serde(default, deserialize_with = "nullable")]
    pub status: PodStatusJson,
}

#[derive(Deserialize)]
pub(super) struct NodeJson {
    pub metadata: MetadataJson,
}

/// An Event of either API group: `core` calls things otherwise than `events.k8s.io`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventJson {
    #[serde(default, deserialize_with = "nullable")]
    pub reason: String,
    #[serde(default, deserialize_with = "nullable", alias = "message")]
    pub note: String,
    #[serde(default, deserialize_with = "nullable", alias = "involvedObject")]
    pub regarding: ReferenceJson,
    #[serde(default, deserialize_with = "moment")]
    pub event_time: Option<Moment>,
    #[serde(default)]
    pub series: Option<SeriesJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataJson {
    pub name: String,
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
    #[serde(default, deserialize_with = "moment")]
    pub creation_timestamp: Option<Moment>,
    #[serde(default, deserialize_with = "moment")]
    deletion_timestamp: Option<Moment>,
    #[serde(default)]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerJson>,
}

#[derive(Deserialize)]
pub(super) struct OwnerJson {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub uid: String,
    #[serde(default, deserialize_with = "nullable")]
    controller: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    pub node_name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatusJson {
    #[serde(default, deserialize_with = "nullable")]
    pub phase: String,
    #[serde(default, deserialize_with = "nullable")]
    pub nominated_node_name: String,
    #[serde(default, deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Deserialize)]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default, deserialize_with = "nullable")]
    reason: String,
    #[serde(default, deserialize_with = "nullable")]
    message: String,
}

#[derive(Default, Deserialize)]
pub(super) struct ReferenceJson {
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesJson {
    #[serde(default, deserialize_with = "moment")]
    pub last_observed_time: Option<Moment>,
}

// === impl PodJson ===

impl PodJson {
    pub(super) fn controller(&self) -> Option<&OwnerJson> {
        self.metadata.owner_references.iter().find(|owner| owner.controller)
    }

    pub(super) fn is_marked(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// What the scheduler says of a pod that it refused. One that is gated was never tried.
    pub(super) fn refusal(&self) -> Option<&str> {
        let refuses =
            |condition: &&ConditionJson| condition.status == "False" && condition.reason != "SchedulingGated";
        self.condition("PodScheduled").filter(refuses).map(|condition| &*condition.message)
    }

    pub(super) fn disruption(&self) -> Disruption {
        match self.condition("DisruptionTarget").filter(|condition| condition.status == "True") {
            None => Disruption::None,
            Some(condition) if condition.reason == "DeletionByPodGC" => Disruption::Collected,
            Some(_) => Disruption::Disrupted,
        }
    }

    fn condition(&self, kind: &str) -> Option<&ConditionJson> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}
