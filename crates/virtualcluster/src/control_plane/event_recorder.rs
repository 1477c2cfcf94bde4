//! Events about objects, written as client-go's recorder writes them: equal ones become a series.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver::{Registry, UpdatedPart};
use kubernetes::objects::PodView;
use kubernetes::time::micro_time;
use model::{Kind, Moment, NamespacedName};
use serde_json::json;

/// Writes Events.
#[derive(Default)]
pub(super) struct EventRecorder {
    /// The Event of each pod's uid, reason and note, of which there may be more.
    series: HashMap<EventKey, NamespacedName>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    uid: Arc<str>,
    reason: &'static str,
    note: String,
}

/// An Event about a pod.
pub(super) struct PodEventNote<'a> {
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) note: String,
    pub(super) is_warning: bool,
    pub(super) reporter: &'a str,
}

/// The most series that are continued; then all begin again.
const MAX_SERIES: usize = 10_000;

impl EventRecorder {
    /// Writes an Event about a pod. One that cannot be written is lost, as in Kubernetes.
    pub(super) fn record(
        &mut self,
        registry: &Registry,
        now: Moment,
        pod: &PodView,
        event: PodEventNote<'_>,
    ) {
        let PodEventNote { reason, action, note, is_warning, reporter } = event;
        let kind = Kind::new("events.k8s.io", "Event");
        let key = EventKey { uid: pod.uid.clone(), reason, note: note.clone() };
        if let Some(name) = self.series.get(&key) {
            let continued = registry.update_object(&kind, name, UpdatedPart::Everything, |event| {
                let count = event["series"]["count"].as_u64().unwrap_or(1) + 1;
                event["series"] = json!({"count": count, "lastObservedTime": micro_time(now)});
                true
            });
            if continued.is_ok() {
                return;
            }
        }
        self.count += 1;
        let name = format!("{}.{:x}{:04x}", pod.name.name, now.nanos(), self.count & 0xffff);
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": name, "namespace": *pod.name.namespace},
            "eventTime": micro_time(now), "type": if is_warning { "Warning" } else { "Normal" },
            "reason": reason, "action": action, "note": note,
            "reportingController": reporter, "reportingInstance": format!("{reporter}-kinescope"),
            "regarding": {
                "kind": "Pod", "apiVersion": "v1", "namespace": *pod.name.namespace, "name": *pod.name.name,
                "uid": *pod.uid,
            },
        });
        if registry.create_object(event).is_ok() {
            if self.series.len() >= MAX_SERIES {
                self.series.clear();
            }
            self.series.insert(key, NamespacedName::new(pod.name.namespace.clone(), name));
        }
    }
}
