//! What one version of an object tells of a pod's fate.

use std::sync::Arc;

use model::{Moment, Object};
use serde::{Deserialize, Deserializer};

use super::Lost;
use super::owners::{Owner, OwnerKind};

/// What a version of a pod tells.
#[derive(Debug)]
pub(crate) struct PodSeen {
    pub(super) name: Arc<str>,
    /// Its namespace and name, where it has no uid.
    pub(crate) uid: Arc<str>,
    pub(crate) created: Option<Moment>,
    pub(super) owner: Option<Owner>,
    /// The name, where the owner uses it again.
    pub(super) slot: Option<Arc<str>>,
    /// Which of its owner's templates it is made of, where the owner has several.
    pub(super) hash: Option<Arc<str>>,
    pub(crate) node: Option<Arc<str>>,
    pub(crate) started: Option<Moment>,
    pub(crate) finished: bool,
    pub(super) fails: bool,
    pub(crate) leaving: bool,
    pub(super) disruption: Option<Lost>,
    /// It is kept from being scheduled.
    pub(crate) is_gated: bool,
    /// It has a node and nobody who would make it again: if it is new, its node brought it, as a kubelet does with
    /// what it runs of its own.
    pub(crate) comes_with_node: bool,
    /// The scheduler says that it has a node, whether or not that was recorded.
    pub(crate) is_scheduled: bool,
    /// The scheduler says that no node takes it.
    pub(super) refused: bool,
}

#[derive(Deserialize)]
struct PodJson {
    metadata: MetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    name: String,
    #[serde(default, deserialize_with = "nullable")]
    namespace: String,
    uid: Option<String>,
    creation_timestamp: Option<String>,
    deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerJson>,
    #[serde(default, deserialize_with = "nullable")]
    labels: LabelsJson,
}

#[derive(Default, Deserialize)]
struct LabelsJson {
    #[serde(rename = "controller-revision-hash")]
    revision: Option<String>,
}

#[derive(Deserialize)]
struct OwnerJson {
    #[serde(default, deserialize_with = "nullable")]
    kind: String,
    #[serde(default, deserialize_with = "nullable")]
    uid: String,
    controller: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecJson {
    node_name: Option<String>,
    scheduling_gates: Option<Vec<serde::de::IgnoredAny>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusJson {
    #[serde(default, deserialize_with = "nullable")]
    phase: String,
    start_time: Option<String>,
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
}

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

impl PodSeen {
    pub(crate) fn read(pod: &Object) -> Result<PodSeen, serde_json::Error> {
        let PodJson { metadata, spec, status } = pod.view()?;
        let controller = metadata.owner_references.iter().find(|owner| owner.controller == Some(true));
        let owner = controller.and_then(|owner| {
            let kind = OwnerKind::of(&owner.kind)?;
            Some(Owner { kind, uid: owner.uid.as_str().into() })
        });
        let name: Arc<str> = metadata.name.into();
        let node: Option<Arc<str>> = spec.node_name.filter(|node| !node.is_empty()).map(Into::into);
        let is_bound = node.is_some();
        let is = |kind: &'static str| {
            status.conditions.iter().find(move |it| it.kind == kind && it.status == "True")
        };
        let running = matches!(status.phase.as_str(), "Running" | "Succeeded" | "Failed");
        Ok(PodSeen {
            uid: match metadata.uid.filter(|uid| !uid.is_empty()) {
                Some(uid) => uid.into(),
                None => format!("{}/{name}", metadata.namespace).into(),
            },
            created: moment(metadata.creation_timestamp),
            slot: owner.as_ref().filter(|owner| owner.kind == OwnerKind::StatefulSet).map(|_| name.clone()),
            owner,
            hash: metadata.labels.revision.map(Into::into),
            node,
            started: moment(status.start_time).filter(|_| running),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            fails: status.phase == "Failed",
            is_gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            comes_with_node: is_bound
                && (metadata.owner_references.is_empty()
                    || metadata.owner_references.iter().any(|owner| owner.kind == "Node")),
            leaving: metadata.deletion_timestamp.is_some(),
            is_scheduled: is("PodScheduled").is_some(),
            refused: status.conditions.iter().any(|it| it.kind == "PodScheduled" && it.status == "False"),
            disruption: is("DisruptionTarget").and_then(|it| lost(&it.reason)),
            name,
        })
    }
}

/// Whether an autoscaler is removing a node.
pub(crate) fn is_being_removed(node: &Object) -> bool {
    let node: NodeJson = node.view().unwrap_or_default();
    node.spec.taints.iter().any(|taint| taint.key == "ToBeDeletedByClusterAutoscaler")
}

/// The uid of the pod that an Event says was preempted.
pub(super) fn preempted(event: &Object) -> Option<Arc<str>> {
    let event: EventJson = event.view().ok()?;
    (event.reason == "Preempted").then_some(())?;
    event.regarding.or(event.involved_object)?.uid.map(Into::into)
}

fn lost(reason: &str) -> Option<Lost> {
    match reason {
        "PreemptionByScheduler" => Some(Lost::Preempted),
        "EvictionByEvictionAPI" => Some(Lost::ScaledDown),
        "DeletionByTaintManager" => Some(Lost::Tainted),
        "DeletionByPodGC" => Some(Lost::NodeGone),
        "TerminationByKubelet" => Some(Lost::People),
        _ => None,
    }
}

fn moment(text: Option<String>) -> Option<Moment> {
    text?.parse().ok()
}

/// Nothing, where Kubernetes writes null.
fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
