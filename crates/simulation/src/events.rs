//! Kubernetes Events, as the scheduler and the autoscaler write them.

use std::sync::Arc;

use autoscaler::{Event, InvolvedObject};
use kubernetes::time::{micro_time, whole_second};
use model::{Moment, NamespacedName, Object};
use serde_json::json;

const SCHEDULER: &str = "default-scheduler";
const AUTOSCALER: &str = "cluster-autoscaler";

/// Writes Events, and numbers them.
#[derive(Debug, Default)]
pub(crate) struct EventWriter {
    count: u64,
}

/// The scheduler's Event about a pod.
pub(crate) struct SchedulerEvent {
    pub(crate) reason: &'static str,
    pub(crate) action: &'static str,
    pub(crate) note: String,
    pub(crate) warning: bool,
}

/// The object that an Event is about.
struct Regarding<'a> {
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl EventWriter {
    /// An Event of the scheduler about a pod.
    pub(crate) fn scheduler_event(
        &mut self,
        now: Moment,
        pod: &NamespacedName,
        uid: &str,
        event: &SchedulerEvent,
    ) -> Object {
        let regarding = Regarding { kind: "Pod", namespace: &pod.namespace, name: &pod.name, uid };
        self.write(now, &regarding, event.warning, event.reason, event.action, &event.note, SCHEDULER)
    }

    /// An Event of the autoscaler.
    pub(crate) fn autoscaler_event(
        &mut self,
        now: Moment,
        event: &Event,
        uid_of: impl Fn(&NamespacedName) -> Option<Arc<str>>,
    ) -> Object {
        let config_map = |name| Regarding { kind: "ConfigMap", namespace: "kube-system", name, uid: "" };
        let pod_uid;
        let regarding = match &event.involved_object {
            InvolvedObject::Pod(pod) => {
                pod_uid = uid_of(pod).unwrap_or_default();
                Regarding { kind: "Pod", namespace: &pod.namespace, name: &pod.name, uid: &pod_uid }
            }
            InvolvedObject::Node(node) => Regarding { kind: "Node", namespace: "", name: node, uid: node },
            InvolvedObject::StatusConfigMap => config_map("cluster-autoscaler-status"),
            InvolvedObject::PriorityConfigMap => config_map("cluster-autoscaler-priority-expander"),
        };
        self.write(now, &regarding, event.is_warning, event.reason, event.reason, &event.message, AUTOSCALER)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of an Event")]
    fn write(
        &mut self,
        now: Moment,
        regarding: &Regarding<'_>,
        warning: bool,
        reason: &str,
        action: &str,
        note: &str,
        reporter: &str,
    ) -> Object {
        self.count += 1;
        let namespace = if regarding.namespace.is_empty() { "default" } else { regarding.namespace };
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:016x}", regarding.name, self.count),
                "namespace": namespace,
                "creationTimestamp": whole_second(now).to_string(),
                "uid": format!("event-{:016x}", self.count),
            },
            "eventTime": micro_time(now),
            "type": if warning { "Warning" } else { "Normal" },
            "reason": reason,
            "action": action,
            "note": note,
            "reportingController": reporter,
            "reportingInstance": reporter,
            "regarding": {
                "kind": regarding.kind,
                "apiVersion": "v1",
                "namespace": regarding.namespace,
                "name": regarding.name,
                "uid": regarding.uid,
            },
        });
        Object::from_trusted(event.to_string())
    }
}
