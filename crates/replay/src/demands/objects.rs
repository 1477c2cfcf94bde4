//! Signs of scale-down and preemption in Nodes and Events.

use std::sync::Arc;

use model::Object;
use serde::{Deserialize, Deserializer};

#[derive(Default, Deserialize)]
struct NodeJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: NodeSpecJson,
}

#[derive(Default, Deserialize)]
struct NodeSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    taints: Vec<TaintJson>,
}

#[derive(Deserialize)]
struct TaintJson {
    #[serde(default)]
    key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventJson {
    #[serde(default, deserialize_with = "nullable")]
    reason: String,
    regarding: Option<AboutJson>,
    involved_object: Option<AboutJson>,
}

#[derive(Deserialize)]
struct AboutJson {
    uid: Option<String>,
}

/// Whether an autoscaler is removing a node.
pub(crate) fn is_being_removed(node: &Object) -> bool {
    let node: NodeJson = node.view().unwrap_or_default();
    node.spec.taints.iter().any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
}

/// The uid of the pod that an Event says was preempted.
pub(super) fn preempted_pod_uid(event: &Object) -> Option<Arc<str>> {
    let event: EventJson = event.view().ok()?;
    (event.reason == "Preempted").then_some(())?;
    event.regarding.or(event.involved_object)?.uid.map(Into::into)
}

/// Reads null as the default value.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
