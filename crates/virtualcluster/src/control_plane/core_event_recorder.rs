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
    writer: CoreEventWriter,
}

/// Creates and counts Events.
#[derive(Default)]
pub(super) struct CoreEventWriter {
    /// The number of names ever made.
    named: i64,
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

// === impl CoreEventRecorder ===

impl CoreEventRecorder {
    pub(super) fn new(component: &'static str, min_interval: Duration) -> CoreEventRecorder {
        CoreEventRecorder {
            component,
            min_interval,
            counts: HashMap::new(),
            writer: CoreEventWriter::default(),
        }
    }

    /// Writes an Event, or counts it if it occurred before. One that cannot be written is lost, as in Kubernetes.
    pub(super) fn record(
        &mut self,
        registry: &Registry,
        now: Moment,
        involved: InvolvedObject,
        text: EventText,
    ) {
        let identity = (involved, text);
        let (involved, text) = &identity;
        if let Some(known) = self.counts.get_mut(&identity) {
            known.count += 1;
            if now.nanos_since(known.written) < nanos(self.min_interval) {
                return;
            }
            if self.writer.count(registry, now, &known.name, text, known.count) {
                known.written = now;
                return;
            }
        }
        if let Some(name) = self.writer.create(registry, now, self.component, involved, "", text, 1) {
            if self.counts.len() >= MAX_COUNTED {
                self.counts.clear();
            }
            self.counts.insert(identity, EventCount { name, count: 1, written: now });
        }
    }
}

// === impl CoreEventWriter ===

impl CoreEventWriter {
    /// Updates the count and the message of an Event. Returns false if that is not possible.
    pub(super) fn count(
        &self,
        registry: &Registry,
        now: Moment,
        name: &NamespacedName,
        text: &EventText,
        count: u64,
    ) -> bool {
        let time = whole_second(now).to_string();
        let counted =
            registry.update_object(&Kind::new("", "Event"), name, UpdatedPart::Everything, |event| {
                event["count"] = count.into();
                event["lastTimestamp"] = time.as_str().into();
                event["message"] = text.message.as_str().into();
                true
            });
        counted.is_ok()
    }

    /// Creates an Event. Returns its name, unless it cannot be written.
    #[expect(
        clippy::too_many_arguments,
        reason = "an Event says when, who, what about which version, and how often"
    )]
    pub(super) fn create(
        &mut self,
        registry: &Registry,
        now: Moment,
        component: &'static str,
        involved: &InvolvedObject,
        resource_version: &str,
        text: &EventText,
        count: u64,
    ) -> Option<NamespacedName> {
        let time = whole_second(now).to_string();
        let namespace = match &*involved.name.namespace {
            "" => "default",
            namespace => namespace,
        };
        let mut regarding = json!({
            "apiVersion": involved.api_version, "kind": involved.kind, "name": *involved.name.name,
            "uid": involved.uid,
        });
        for (field, value) in
            [("namespace", &*involved.name.namespace), ("resourceVersion", resource_version)]
        {
            if !value.is_empty() {
                regarding[field] = value.into();
            }
        }
        let mut event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"namespace": namespace},
            "involvedObject": regarding, "type": text.event_type, "reason": text.reason, "message": text.message,
            "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
            "firstTimestamp": time, "lastTimestamp": time, "count": count, "eventTime": null,
        });
        for _ in 0..MAX_NAME_ATTEMPTS {
            // At one moment of a virtual clock there may be several Events about an object.
            self.named += 1;
            let name = format!("{}.{:x}", involved.name.name, now.nanos().wrapping_add(self.named));
            event["metadata"]["name"] = name.as_str().into();
            if registry.create_object(event.clone()).is_ok() {
                return Some(NamespacedName::new(namespace, name));
            }
        }
        None
    }
}
