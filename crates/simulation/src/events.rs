//! Events, as the scheduler and the autoscaler write them.

use std::sync::Arc;

use autoscaler::{About, Event};
use kubernetes::time::whole_second;
use model::{NamespacedName, Object, What};
use scheduler::Rejection;
use serde_json::json;

use super::Run;
use super::told::{Audience, PodId};

const SCHEDULER: &str = "default-scheduler";
const AUTOSCALER: &str = "cluster-autoscaler";

/// What an Event says.
struct Said<'a> {
    kind: &'static str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
    warning: bool,
    reason: &'a str,
    action: &'a str,
    note: &'a str,
    by: &'static str,
}

impl Run<'_> {
    pub(super) fn tell_scheduled(&mut self, id: PodId, node: &str, audience: &mut dyn Audience) {
        self.tell_of_pod(id, audience, |name| {
            let note = format!("Successfully assigned {}/{} to {node}", name.namespace, name.name);
            ("Scheduled", "Binding", note, false)
        });
    }

    pub(super) fn tell_refused(&mut self, id: PodId, rejection: &Rejection, audience: &mut dyn Audience) {
        self.tell_of_pod(id, audience, |_| {
            ("FailedScheduling", "Scheduling", rejection.event_message(), true)
        });
    }

    pub(super) fn tell_preempted(&mut self, id: PodId, by: &NamespacedName, audience: &mut dyn Audience) {
        let by = self.names.get(by).and_then(|by| self.pods.get(by)).map(|pod| pod.uid().clone());
        let node = self.pods.get(&id).and_then(|pod| pod.node.clone());
        self.tell_of_pod(id, audience, |_| {
            let (by, node) = (by.unwrap_or_default(), node.unwrap_or_default());
            ("Preempted", "Preempting", format!("Preempted by pod {by} on node {node}"), false)
        });
    }

    pub(super) fn tell_scaling(&mut self, event: &Event, audience: &mut dyn Audience) {
        if !audience.wants_changes() {
            return;
        }
        let (kind, namespace, name, uid): (_, Arc<str>, Arc<str>, Arc<str>) = match &event.about {
            About::Pod(pod) => {
                let uid = self.names.get(pod).and_then(|id| self.pods.get(id)).map(|pod| pod.uid().clone());
                ("Pod", pod.namespace.clone(), pod.name.clone(), uid.unwrap_or_default())
            }
            About::Node(node) => ("Node", "".into(), node.clone(), node.clone()),
            About::Status => {
                ("ConfigMap", "kube-system".into(), "cluster-autoscaler-status".into(), "".into())
            }
            About::Priorities => {
                ("ConfigMap", "kube-system".into(), "cluster-autoscaler-priority-expander".into(), "".into())
            }
        };
        let said = Said {
            kind,
            namespace: &namespace,
            name: &name,
            uid: &uid,
            warning: event.warning,
            reason: event.reason,
            action: event.reason,
            note: &event.message,
            by: AUTOSCALER,
        };
        self.write(&said, audience);
    }

    fn tell_of_pod(
        &mut self,
        id: PodId,
        audience: &mut dyn Audience,
        words: impl FnOnce(&NamespacedName) -> (&'static str, &'static str, String, bool),
    ) {
        if !audience.wants_changes() {
            return;
        }
        let Some(pod) = self.pods.get(&id) else { return };
        let (name, uid) = (pod.name.clone(), pod.uid().clone());
        let (reason, action, note, warning) = words(&name);
        let said = Said {
            kind: "Pod",
            namespace: &name.namespace,
            name: &name.name,
            uid: &uid,
            warning,
            reason,
            action,
            note: &note,
            by: SCHEDULER,
        };
        self.write(&said, audience);
    }

    fn write(&mut self, said: &Said<'_>, audience: &mut dyn Audience) {
        self.events += 1;
        let namespace = if said.namespace.is_empty() { "default" } else { said.namespace };
        let micros = self.now.nanos().div_euclid(1_000).saturating_mul(1_000);
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": format!("{}.{:016x}", said.name, self.events),
                "namespace": namespace,
                "creationTimestamp": whole_second(self.now).to_string(),
                "uid": format!("event-{:016x}", self.events),
            },
            "eventTime": model::Moment::from_nanos(micros).to_string(),
            "type": if said.warning { "Warning" } else { "Normal" },
            "reason": said.reason,
            "action": said.action,
            "note": said.note,
            "reportingController": said.by,
            "reportingInstance": said.by,
            "regarding": {
                "kind": said.kind,
                "apiVersion": "v1",
                "namespace": said.namespace,
                "name": said.name,
                "uid": said.uid,
            },
        });
        audience.changed(self.now, What::Added(Object::trusted(event.to_string())));
    }
}
