//! Events of the core group about objects, written as client-go's older recorder writes them: equal ones are counted.

use std::collections::HashMap;
use std::time::Duration;

use apiserver::{Registry, UpdatedPart};
use kubernetes::time::{nanos, whole_second};
use model::{Kind, Moment, NamespacedName};
use serde_json::json;

/// Writes Events of one component.
pub(super) struct CoreEventRecorder {
    component: &'static str,
    /// The shortest time between two writes of equal Events.
    min_interval: Duration,
    counts: HashMap<EventIdentity, EventCount>,
    /// The number of names ever made.
    created: i64,
}

/// The object that an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct InvolvedObject {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) name: NamespacedName,
    pub(super) uid: String,
}

/// The text of an Event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventText {
    /// `Normal` or `Warning`.
    pub(super) event_type: String,
    pub(super) reason: String,
    pub(super) message: String,
}

type EventIdentity = (InvolvedObject, EventText);

/// An Event that may occur again.
struct EventCount {
    name: NamespacedName,
    /// How often it occurred.
    count: u64,
    written: Moment,
}

/// How many names are tried for an Event.
const MAX_NAME_ATTEMPTS: usize = 4;
/// The most Events that are counted; then all begin again.
const MAX_COUNTED: usize = 8192;

impl CoreEventRecorder {
    pub(super) fn new(component: &'static str, min_interval: Duration) -> CoreEventRecorder {
        CoreEventRecorder { component, min_interval, counts: HashMap::new(), created: 0 }
    }

    /// Writes an Event, or counts it if it occurred before. One that cannot be written is lost, as in Kubernetes.
    pub(super) fn record(
        &mut self,
        registry: &Registry,
        now: Moment,
        involved: InvolvedObject,
        text: EventText,
    ) {
        let kind = Kind::new("", "Event");
        let time = whole_second(now).to_string();
        let identity = (involved, text);
        if let Some(known) = self.counts.get_mut(&identity) {
            known.count += 1;
            if now.nanos_since(known.written) < nanos(self.min_interval) {
                return;
            }
            let count = known.count;
            let counted = registry.update_object(&kind, &known.name, UpdatedPart::Everything, |event| {
                event["count"] = count.into();
                event["lastTimestamp"] = time.as_str().into();
                true
            });
            if counted.is_ok() {
                known.written = now;
                return;
            }
        }
        let (involved, text) = &identity;
        let namespace = match &*involved.name.namespace {
            "" => "default",
            namespace => namespace,
        };
        let mut regarding = json!({
            "apiVersion": involved.api_version, "kind": involved.kind, "name": *involved.name.name,
            "uid": involved.uid,
        });
        if !involved.name.namespace.is_empty() {
            regarding["namespace"] = (*involved.name.namespace).into();
        }
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": namespace},
            "involvedObject": regarding, "type": text.event_type, "reason": text.reason, "message": text.message,
            "source": {"component": self.component}, "reportingComponent": self.component, "reportingInstance": "",
            "firstTimestamp": time, "lastTimestamp": time, "count": 1, "eventTime": null,
        });
        for _ in 0..MAX_NAME_ATTEMPTS {
            // At one moment of a virtual clock there may be several Events about an object.
            self.created += 1;
            let name = format!("{}.{:x}", involved.name.name, now.nanos().wrapping_add(self.created));
            event["metadata"]["name"] = name.as_str().into();
            if registry.create_object(event.clone()).is_err() {
                continue;
            }
            if self.counts.len() >= MAX_COUNTED {
                self.counts.clear();
            }
            let name = NamespacedName::new(namespace, name);
            self.counts.insert(identity, EventCount { name, count: 1, written: now });
            return;
        }
    }
}
