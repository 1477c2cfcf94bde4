//! The parsed view of a pod.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::meta::{ObjectMeta, OwnerReference, controller_of};
use super::pod_spec::PodSpec;
use super::pod_status::{Phase, PodConditionType, PodStatus};
use crate::labels::Labels;
use crate::read::{nullable, view};

/// The fields of a pod that components read. Cloning one copies no text.
#[derive(Clone, Debug, Default)]
pub struct PodView {
    /// Its namespace and name.
    pub name: NamespacedName,
    /// Empty if it has none.
    pub uid: Arc<str>,
    /// The prefix of its name, if that was generated.
    pub generate_name: Option<Arc<str>>,
    /// When it was created.
    pub creation_timestamp: Option<Moment>,
    /// Set while it is terminating: the end of its grace period.
    pub deletion_timestamp: Option<Moment>,
    /// The grace period of its deletion.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its owners.
    pub owner_references: Arc<[OwnerReference]>,
    /// Its finalizers.
    pub finalizers: Arc<[Arc<str>]>,
    /// Its spec, shared by all versions of the pod unless it changes.
    pub spec: Arc<PodSpec>,
    /// The node it is bound to: `spec.nodeName`.
    pub node_name: Option<Arc<str>>,
    /// Its status.
    pub status: PodStatus,
    /// The error, if the object is unreadable. Such a view has only some fields: name, labels, scheduler, node, phase,
    /// and whether it is terminating.
    pub read_error: Option<Arc<str>>,
}

#[derive(Deserialize)]
struct PodJson<'a> {
    metadata: ObjectMeta,
    #[serde(default, borrow)]
    spec: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "nullable")]
    status: PodStatus,
}

impl PodView {
    /// Parses a Pod object. An unreadable one has `read_error` set.
    pub fn parse(object: &Object) -> PodView {
        PodView::parse_with(object, PodSpec::parse_bound)
    }

    /// The same with another parser of the spec's text, which also returns the node that it is bound to.
    pub(super) fn parse_with(
        object: &Object,
        parse_spec: impl FnOnce(&str) -> Result<(Arc<PodSpec>, Option<Arc<str>>), String>,
    ) -> PodView {
        PodView::try_parse(object, parse_spec).unwrap_or_else(|error| PodView::partial(object, error))
    }

    fn try_parse(
        object: &Object,
        parse_spec: impl FnOnce(&str) -> Result<(Arc<PodSpec>, Option<Arc<str>>), String>,
    ) -> Result<PodView, String> {
        let PodJson { metadata, spec, status } = view(object)?;
        let (spec, node_name) = spec.map(|spec| parse_spec(spec.get())).transpose()?.unwrap_or_default();
        Ok(PodView {
            name: metadata.namespaced_name(),
            uid: metadata.uid,
            generate_name: metadata.generate_name,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            deletion_grace_period_seconds: metadata.deletion_grace_period_seconds,
            labels: metadata.labels,
            annotations: metadata.annotations,
            owner_references: metadata.owner_references,
            finalizers: metadata.finalizers,
            node_name,
            spec,
            status,
            read_error: None,
        })
    }

    fn partial(object: &Object, error: String) -> PodView {
        let meta = object.meta();
        let value = object.value().unwrap_or_default();
        let text = |pointer: &str| value.pointer(pointer).and_then(|text| text.as_str());
        let labels = value.pointer("/metadata/labels").and_then(|labels| Labels::deserialize(labels).ok());
        let deletion = text("/metadata/deletionTimestamp");
        let scheduler_name = text("/spec/schedulerName").unwrap_or_default().into();
        PodView {
            name: NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() },
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            labels: labels.unwrap_or_default(),
            deletion_timestamp: deletion.map(|text| text.parse().unwrap_or_default()),
            spec: Arc::new(PodSpec { scheduler_name, ..PodSpec::default() }),
            node_name: text("/spec/nodeName").filter(|name| !name.is_empty()).map(Arc::from),
            status: PodStatus {
                phase: Phase::of(text("/status/phase").unwrap_or_default()),
                ..PodStatus::default()
            },
            read_error: Some(error.into()),
            ..PodView::default()
        }
    }

    /// Its managing controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        controller_of(&self.owner_references)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// Whether it has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether its phase is Succeeded or Failed.
    pub fn is_finished(&self) -> bool {
        self.status.is_finished()
    }

    /// Whether its condition DisruptionTarget says that it was preempted.
    pub fn is_preempted(&self) -> bool {
        let disruption = self.status.condition(PodConditionType::DisruptionTarget);
        disruption.is_some_and(|condition| {
            condition.status == super::ConditionStatus::True && condition.reason == "PreemptionByScheduler"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> PodView {
        PodView::parse(&Object::parse(json).unwrap())
    }

    #[test]
    fn the_node_is_not_part_of_the_spec() {
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"},
                "spec":{"nodeName":"n","priority":7,"schedulerName":"","schedulingGates":[{"name":"g"}]},
                "status":{"phase":"Strange","conditions":[{"type":"DisruptionTarget","status":"True",
                "reason":"PreemptionByScheduler"}],"resourceClaimStatuses":[{"name":"c"}]}}"#,
        );
        assert_eq!((pod.node_name.as_deref(), pod.spec.node_name.as_deref()), (Some("n"), None));
        assert_eq!((pod.spec.priority, pod.spec.scheduler_name()), (Some(7), "default-scheduler"));
        assert_eq!((pod.status.phase, pod.is_preempted()), (Phase::Unknown, true));
        assert_eq!(&*pod.spec.scheduling_gates, [Arc::from("g")]);
        assert!(pod.status.resource_claim_statuses.is_some());
        assert!(pod.spec.json.contains("nodeName"));
    }

    #[test]
    fn an_unreadable_pod_keeps_what_can_be_read() {
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"deletionTimestamp":"soon"},
                "spec":{"nodeName":"n","schedulerName":"other","priority":"high"},"status":{"phase":"Failed"}}"#,
        );
        assert_eq!((pod.node_name.as_deref(), pod.spec.scheduler_name()), (Some("n"), "other"));
        assert_eq!((pod.label("a"), pod.is_terminating(), pod.is_finished()), (Some("b"), true, true));
        let error = pod.read_error.unwrap();
        assert!(error.contains("metadata.deletionTimestamp"), "{error}");
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"ports":7}]}}"#,
        );
        let error = pod.read_error.unwrap();
        assert!(error.starts_with("spec.containers[0].ports: invalid type"), "{error}");
    }

    #[test]
    fn nulls_are_absent() {
        let pod = parse(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":null,"finalizers":null},
                "spec":null,"status":null}"#,
        );
        assert_eq!(pod.read_error, None);
        assert_eq!(pod.status, PodStatus::default());
    }
}
