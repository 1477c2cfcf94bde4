//! The fields of a pod that the autoscaler reads, and updates of its status.

use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::labels::Labels;
use kubernetes::owners::OwnerRef;
use kubernetes::read::{moment, nullable, view};
use model::{Moment, NamespacedName, Object};
use scheduler::pod::Pod as SchedulerPod;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::equivalence::SpecEquivalence;

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub name: NamespacedName,
    pub uid: Arc<str>,
    pub created: Moment,
    pub labels: Labels,
    pub annotations: Labels,
    /// Its controller.
    pub controller: Option<Arc<OwnerRef>>,
    pub phase: Arc<str>,
    pub restart_policy: Arc<str>,
    pub scheduler_name: Arc<str>,
    /// `None` if the object has none: such a pod is never expendable.
    pub priority: Option<i32>,
    pub priority_class: Arc<str>,
    pub preemption_policy: Arc<str>,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: Option<Arc<str>>,
    /// Its deletion timestamp.
    pub deletion_timestamp: Option<Moment>,
    /// In seconds; `None` if the object names none.
    pub termination_grace_period_seconds: Option<i64>,
    /// The condition `PodScheduled`.
    pub scheduled_condition: Option<PodScheduledCondition>,
    /// Names of local volumes, which are lost with the node: `hostPath`, and `emptyDir` unless in memory.
    pub local_volumes: Vec<Arc<str>>,
    /// The object, for fields that are rarely read.
    pub object: Object,
    /// For the comparison with other pods.
    pub spec_equivalence: SpecEquivalence,
    /// The pod as the scheduler's filters read it.
    pub scheduler_pod: Arc<SchedulerPod>,
}

/// The condition `PodScheduled`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodScheduledCondition {
    /// `True` or `False`.
    pub status: Arc<str>,
    /// `Unschedulable`, for example.
    pub reason: Arc<str>,
    /// Its `lastTransitionTime`.
    pub last_transition_time: Option<Moment>,
}

/// A change of a pod's binding, status or deletion, while its template fields stay the same.
#[derive(Debug)]
pub struct PodStatusUpdate {
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated_node_name: Option<Arc<str>>,
    /// The condition `PodScheduled`.
    pub scheduled_condition: Option<PodScheduledCondition>,
    /// Its phase.
    pub phase: &'static str,
    /// Its deletion timestamp.
    pub deletion_timestamp: Option<Moment>,
    /// Whether it is terminating because it was preempted.
    pub is_preempted: bool,
}

#[derive(Deserialize)]
struct PodJson<'a> {
    metadata: MetadataJson,
    #[serde(default, borrow)]
    spec: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    #[serde(default, deserialize_with = "moment")]
    creation_timestamp: Option<Moment>,
    #[serde(default, deserialize_with = "moment")]
    deletion_timestamp: Option<Moment>,
    #[serde(default)]
    annotations: Labels,
    #[serde(default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerRef>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    node_name: Option<Arc<str>>,
    priority: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    priority_class_name: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    preemption_policy: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    restart_policy: Arc<str>,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    volumes: Vec<VolumeJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolumeJson {
    #[serde(default, deserialize_with = "nullable")]
    name: Arc<str>,
    #[serde(default)]
    host_path: Option<IgnoredAny>,
    #[serde(default)]
    empty_dir: Option<EmptyDirJson>,
}

#[derive(Deserialize)]
struct EmptyDirJson {
    #[serde(default, deserialize_with = "nullable")]
    medium: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    #[serde(deserialize_with = "nullable")]
    phase: Arc<str>,
    nominated_node_name: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: Arc<str>,
    #[serde(default)]
    status: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    reason: Arc<str>,
    #[serde(default, deserialize_with = "moment")]
    last_transition_time: Option<Moment>,
}

/// The condition `PodScheduled`, if present.
fn pod_scheduled_condition(conditions: Vec<ConditionJson>) -> Option<PodScheduledCondition> {
    let condition = conditions.into_iter().find(|condition| &*condition.kind == "PodScheduled")?;
    Some(PodScheduledCondition {
        status: condition.status,
        reason: condition.reason,
        last_transition_time: condition.last_transition_time,
    })
}

// === impl Pod ===

impl Pod {
    /// Reads a pod. A parse error is kept in `scheduler_pod.read_error`: such a pod passes no filters.
    pub(crate) fn read(object: &Object, scalars: &mut ScalarResourceNames) -> Pod {
        let mut spec = SchedulerPod::read(object, scalars);
        let json: PodJson<'_> = view(object).unwrap_or_else(|error| {
            spec.read_error.get_or_insert_with(|| error.into());
            PodJson {
                metadata: MetadataJson {
                    creation_timestamp: None,
                    deletion_timestamp: None,
                    annotations: Labels::default(),
                    owner_references: Vec::new(),
                },
                spec: None,
                status: StatusJson::default(),
            }
        });
        let PodJson { metadata, spec: text, status } = json;
        let text = text.map(RawValue::get);
        let spec_json: Option<SpecJson> =
            serde_json::from_str(text.unwrap_or("null")).unwrap_or_else(|error| {
                spec.read_error.get_or_insert_with(|| format!("spec: {error}").into());
                None
            });
        let spec_json = spec_json.unwrap_or_default();
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller == Some(true));
        Pod {
            name: spec.name.clone(),
            uid: spec.uid.clone(),
            created: metadata.creation_timestamp.unwrap_or_default(),
            labels: spec.labels.clone(),
            annotations: metadata.annotations,
            controller: controller.map(Arc::new),
            phase: status.phase,
            restart_policy: spec_json.restart_policy,
            scheduler_name: spec.spec.scheduler_name.clone(),
            priority: spec_json.priority,
            priority_class: spec_json.priority_class_name,
            preemption_policy: spec_json.preemption_policy,
            node_name: spec_json.node_name.filter(|name| !name.is_empty()),
            nominated_node_name: status.nominated_node_name.filter(|name| !name.is_empty()),
            deletion_timestamp: metadata.deletion_timestamp,
            termination_grace_period_seconds: spec_json.termination_grace_period_seconds,
            scheduled_condition: pod_scheduled_condition(status.conditions),
            local_volumes: spec_json.volumes.into_iter().filter_map(VolumeJson::local_volume_name).collect(),
            spec_equivalence: SpecEquivalence::new(object.as_str(), text),
            object: object.clone(),
            scheduler_pod: Arc::new(spec),
        }
    }

    /// Whether pods are equivalent: equal labels and semantically equal `spec`. Controllers are not compared.
    pub(crate) fn is_similar(&self, other: &Pod) -> bool {
        self.spec_equivalence.is_known_equivalent(&other.spec_equivalence)
            || self.labels == other.labels
                && self.spec_equivalence.is_equivalent(
                    self.object.as_str(),
                    &other.spec_equivalence,
                    other.object.as_str(),
                )
    }

    /// Whether all fields that the autoscaler's decisions depend on are equal. The start time, for example, is not one.
    pub(crate) fn has_same_relevant_fields(&self, other: &Pod) -> bool {
        self.created == other.created
            && self.annotations == other.annotations
            && self.controller == other.controller
            && self.is_finished() == other.is_finished()
            && self.nominated_node_name == other.nominated_node_name
            && self.deletion_timestamp == other.deletion_timestamp
            && self.scheduled_condition == other.scheduled_condition
            && self.spec_equivalence.spec_text(self.object.as_str())
                == other.spec_equivalence.spec_text(other.object.as_str())
            && SchedulerPod { start_time: other.scheduler_pod.start_time, ..(*self.scheduler_pod).clone() }
                == *other.scheduler_pod
    }

    /// The same pod after a status update.
    pub(crate) fn with_status_update(&self, update: PodStatusUpdate) -> Pod {
        let spec = SchedulerPod {
            node_name: update.node_name.clone(),
            nominated_node: update.nominated_node_name.clone(),
            status_nominated_node: update.nominated_node_name.clone(),
            terminating: update.deletion_timestamp.is_some(),
            preempted: update.is_preempted,
            finished: is_finished(update.phase),
            ..(*self.scheduler_pod).clone()
        };
        Pod {
            node_name: update.node_name,
            nominated_node_name: update.nominated_node_name,
            scheduled_condition: update.scheduled_condition,
            phase: update.phase.into(),
            deletion_timestamp: update.deletion_timestamp,
            scheduler_pod: Arc::new(spec),
            ..self.clone()
        }
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Whether it belongs to a DaemonSet, or its annotation says that it is to be treated so.
    pub(crate) fn is_daemon_set_pod(&self) -> bool {
        self.controller.as_ref().is_some_and(|owner| owner.kind == "DaemonSet")
            || self.annotation("cluster-autoscaler.kubernetes.io/daemonset-pod") == Some("true")
    }

    /// Whether it is the mirror pod of a static pod.
    pub(crate) fn is_mirror(&self) -> bool {
        self.annotation("kubernetes.io/config.mirror").is_some()
    }

    /// Since when the scheduler reports it as unschedulable.
    pub(crate) fn unschedulable_since(&self) -> Option<Moment> {
        let scheduled = self.scheduled_condition.as_ref().filter(|_| self.node_name.is_none())?;
        let is_unschedulable = (&*scheduled.status, &*scheduled.reason) == ("False", "Unschedulable");
        scheduled.last_transition_time.filter(|_| is_unschedulable)
    }

    /// Whether its phase is `Succeeded` or `Failed`.
    pub(crate) fn is_finished(&self) -> bool {
        is_finished(&self.phase)
    }
}

impl PodStatusUpdate {
    /// Whether the pod `before` with this update equals the pod `after` as read from its object. For tests of callers
    /// that apply updates instead of objects.
    pub fn transforms(self, before: &Object, after: &Object) -> bool {
        let mut scalars = ScalarResourceNames::default();
        let mut read = |object| Pod::read(object, &mut scalars);
        let (updated, text) = (read(before).with_status_update(self), read(after));
        // The start time is not part of an update, and the object's text is kept as it was first read.
        let spec =
            SchedulerPod { start_time: text.scheduler_pod.start_time, ..(*updated.scheduler_pod).clone() };
        let status_fields = |pod: &Pod| {
            let (node, nominated) = (pod.node_name.clone(), pod.nominated_node_name.clone());
            (
                node,
                nominated,
                pod.deletion_timestamp,
                pod.scheduled_condition.clone(),
                pod.phase.clone(),
                pod.created,
            )
        };
        spec == *text.scheduler_pod && status_fields(&updated) == status_fields(&text)
    }
}

fn is_finished(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

impl VolumeJson {
    fn local_volume_name(self) -> Option<Arc<str>> {
        let in_memory = self.empty_dir.as_ref().is_some_and(|dir| &*dir.medium == "Memory");
        let is_local = self.host_path.is_some() || (self.empty_dir.is_some() && !in_memory);
        is_local.then_some(self.name)
    }
}
