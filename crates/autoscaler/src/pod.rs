//! A pod as the autoscaler sees it.

use std::sync::Arc;

use kubernetes::amounts::ScalarNames;
use kubernetes::labels::Labels;
use kubernetes::owners::OwnerRef;
use kubernetes::read::{moment, nullable, view};
use model::{Moment, NamespacedName, Object};
use scheduler::pod::Pod as ForFilters;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::similar::Likeness;

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub name: NamespacedName,
    pub uid: Arc<str>,
    pub created: Moment,
    pub labels: Labels,
    pub annotations: Labels,
    /// Who manages it.
    pub controller: Option<Arc<OwnerRef>>,
    pub phase: Arc<str>,
    pub restart_policy: Arc<str>,
    pub scheduler_name: Arc<str>,
    /// `None` if the object names none: such a pod is never expendable.
    pub priority: Option<i32>,
    pub priority_class: Arc<str>,
    pub preemption_policy: Arc<str>,
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// The node it was promised.
    pub nominated: Option<Arc<str>>,
    /// Since when it is being deleted.
    pub deleted: Option<Moment>,
    /// In seconds; `None` if the object names none.
    pub grace: Option<i64>,
    /// The condition `PodScheduled`.
    pub scheduled: Option<Scheduled>,
    /// Volumes that are gone with the node: `hostPath`, and `emptyDir` unless in memory. By name.
    pub local_volumes: Vec<Arc<str>>,
    /// The object, for what is rarely looked at.
    pub object: Object,
    /// What makes it like other pods.
    pub likeness: Likeness,
    /// The same for the filters.
    pub spec: Arc<ForFilters>,
}

/// What the scheduler said of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// `True` or `False`.
    pub status: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// Since when.
    pub changed: Option<Moment>,
}

/// What becomes of a pod, while what its owner asked for stays as it is.
#[derive(Debug)]
pub struct PodStatusUpdate {
    /// The node it is bound to.
    pub node: Option<Arc<str>>,
    /// The node it was promised.
    pub nominated: Option<Arc<str>>,
    /// The condition `PodScheduled`.
    pub scheduled: Option<Scheduled>,
    /// Its phase.
    pub phase: &'static str,
    /// Since when it is being deleted.
    pub deleted: Option<Moment>,
    /// It is being deleted to make room.
    pub preempted: bool,
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

/// What the scheduler said last.
fn scheduled(conditions: Vec<ConditionJson>) -> Option<Scheduled> {
    let condition = conditions.into_iter().find(|condition| &*condition.kind == "PodScheduled")?;
    Some(Scheduled {
        status: condition.status,
        reason: condition.reason,
        changed: condition.last_transition_time,
    })
}

// === impl Pod ===

impl Pod {
    /// What an object says of a pod. What makes no sense is told in `spec.trouble`: no node takes such a pod.
    pub(crate) fn read(object: &Object, scalars: &mut ScalarNames) -> Pod {
        let mut spec = ForFilters::read(object, scalars);
        let json: PodJson<'_> = view(object).unwrap_or_else(|trouble| {
            spec.trouble.get_or_insert_with(|| trouble.into());
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
        let said: Option<SpecJson> = serde_json::from_str(text.unwrap_or("null")).unwrap_or_else(|trouble| {
            spec.trouble.get_or_insert_with(|| format!("spec: {trouble}").into());
            None
        });
        let said = said.unwrap_or_default();
        let controller = metadata.owner_references.into_iter().find(|owner| owner.controller == Some(true));
        Pod {
            name: spec.name.clone(),
            uid: spec.uid.clone(),
            created: metadata.creation_timestamp.unwrap_or_default(),
            labels: spec.labels.clone(),
            annotations: metadata.annotations,
            controller: controller.map(Arc::new),
            phase: status.phase,
            restart_policy: said.restart_policy,
            scheduler_name: spec.shape.scheduler_name.clone(),
            priority: said.priority,
            priority_class: said.priority_class_name,
            preemption_policy: said.preemption_policy,
            node: said.node_name.filter(|name| !name.is_empty()),
            nominated: status.nominated_node_name.filter(|name| !name.is_empty()),
            deleted: metadata.deletion_timestamp,
            grace: said.termination_grace_period_seconds,
            scheduled: scheduled(status.conditions),
            local_volumes: said.volumes.into_iter().filter_map(VolumeJson::local).collect(),
            likeness: Likeness::new(object.as_str(), text),
            object: object.clone(),
            spec: Arc::new(spec),
        }
    }

    /// Whether pods are alike: labels and `spec`, as far as it counts. Not whether the same controller made them.
    pub(crate) fn is_similar(&self, other: &Pod) -> bool {
        self.likeness.is_known_to_be(&other.likeness)
            || self.labels == other.labels
                && self.likeness.is_like(self.object.as_str(), &other.likeness, other.object.as_str())
    }

    /// Whether an autoscaler makes the same of both: when a pod has started, for one, is nothing to it.
    pub(crate) fn means_the_same(&self, other: &Pod) -> bool {
        self.created == other.created
            && self.annotations == other.annotations
            && self.controller == other.controller
            && self.is_finished() == other.is_finished()
            && self.nominated == other.nominated
            && self.deleted == other.deleted
            && self.scheduled == other.scheduled
            && self.likeness.text(self.object.as_str()) == other.likeness.text(other.object.as_str())
            && ForFilters { started: other.spec.started, ..(*self.spec).clone() } == *other.spec
    }

    /// The same pod after something has become of it.
    pub(crate) fn after(&self, fate: PodStatusUpdate) -> Pod {
        let spec = ForFilters {
            node_name: fate.node.clone(),
            nominated_node: fate.nominated.clone(),
            said_nominated: fate.nominated.clone(),
            terminating: fate.deleted.is_some(),
            preempted: fate.preempted,
            finished: is_finished(fate.phase),
            ..(*self.spec).clone()
        };
        Pod {
            node: fate.node,
            nominated: fate.nominated,
            scheduled: fate.scheduled,
            phase: fate.phase.into(),
            deleted: fate.deleted,
            spec: Arc::new(spec),
            ..self.clone()
        }
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Whether it belongs to a DaemonSet, or says that it is to be treated so.
    pub(crate) fn is_of_daemon_set(&self) -> bool {
        self.controller.as_ref().is_some_and(|owner| owner.kind == "DaemonSet")
            || self.annotation("cluster-autoscaler.kubernetes.io/daemonset-pod") == Some("true")
    }

    /// Whether a kubelet made it out of a file.
    pub(crate) fn is_mirror(&self) -> bool {
        self.annotation("kubernetes.io/config.mirror").is_some()
    }

    /// Since when a scheduler says that no node takes it.
    pub(crate) fn unschedulable_since(&self) -> Option<Moment> {
        let scheduled = self.scheduled.as_ref().filter(|_| self.node.is_none())?;
        let is_refused = (&*scheduled.status, &*scheduled.reason) == ("False", "Unschedulable");
        scheduled.changed.filter(|_| is_refused)
    }

    /// Whether it has run to its end.
    pub(crate) fn is_finished(&self) -> bool {
        is_finished(&self.phase)
    }
}

impl PodStatusUpdate {
    /// Whether a pod that was read before is after this what it says of itself then. Whoever tells fates instead of texts
    /// can be tested by it.
    pub fn leads(self, before: &Object, after: &Object) -> bool {
        let mut scalars = ScalarNames::default();
        let mut read = |object| Pod::read(object, &mut scalars);
        let (told, text) = (read(before).after(self), read(after));
        // When a pod has started is told to the scheduler alone; the text is kept as it was first read.
        let spec = ForFilters { started: text.spec.started, ..(*told.spec).clone() };
        let rest = |pod: &Pod| {
            let (node, nominated) = (pod.node.clone(), pod.nominated.clone());
            (node, nominated, pod.deleted, pod.scheduled.clone(), pod.phase.clone(), pod.created)
        };
        spec == *text.spec && rest(&told) == rest(&text)
    }
}

fn is_finished(phase: &str) -> bool {
    matches!(phase, "Succeeded" | "Failed")
}

impl VolumeJson {
    fn local(self) -> Option<Arc<str>> {
        let in_memory = self.empty_dir.as_ref().is_some_and(|dir| &*dir.medium == "Memory");
        let is_local = self.host_path.is_some() || (self.empty_dir.is_some() && !in_memory);
        is_local.then_some(self.name)
    }
}
