//! Events of the autoscaler, the scheduler, the node controller and machine-controller-manager.

use model::Moment;
use serde_json::{Value, json};

use super::{Fit, Meta, put, text, time};

const MACHINE_CONTROLLER: &str = "machine-controller-manager";

/// What `event_info` keeps of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventInfo {
    pub(crate) uid: String,
    pub(crate) at: Moment,
    pub(crate) controller: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) involved_kind: String,
    pub(crate) involved_name: String,
    pub(crate) involved_namespace: String,
    pub(crate) involved_uid: String,
}

// === impl EventInfo ===

impl EventInfo {
    /// What the recorder keeps of this event, of either API group; `None` if it is of a component that it does not
    /// listen to, or has no time.
    pub(crate) fn of(event: &Value) -> Fit<Option<EventInfo>> {
        // The newer group shows the same event with other names.
        let either = |one: &str, other: &str| {
            if event[one].is_null() { event[other].clone() } else { event[one].clone() }
        };
        let source = either("source", "deprecatedSource");
        let source = text(&source, "component");
        let reporting = either("reportingComponent", "reportingController");
        let reporting = reporting.as_str().unwrap_or_default();
        let involved = either("involvedObject", "regarding");
        let message = either("message", "note");
        let mut info = EventInfo {
            uid: text(&event["metadata"], "uid").to_owned(),
            at: Moment::MIN,
            controller: if reporting.is_empty() { source } else { reporting }.to_owned(),
            reason: text(event, "reason").to_owned(),
            message: message.as_str().unwrap_or_default().to_owned(),
            involved_kind: text(&involved, "kind").to_owned(),
            involved_name: text(&involved, "name").to_owned(),
            involved_namespace: text(&involved, "namespace").to_owned(),
            involved_uid: text(&involved, "uid").to_owned(),
        };
        let autoscaler = source == "cluster-autoscaler" || reporting == "cluster-autoscaler";
        let scheduler = source.contains("scheduler") || reporting.contains("scheduler");
        let at = if source == MACHINE_CONTROLLER {
            // It tells of the control plane, whose events are read by other code: that takes the name for the
            // namespace, and stops where a text is missing.
            info.controller = source.to_owned();
            info.involved_namespace.clone_from(&info.involved_name);
            let whole = ["kind", "name", "uid"].iter().all(|field| involved[field].is_string());
            let whole = whole && event["reason"].is_string() && message.is_string();
            time(&event["metadata"]["creationTimestamp"])?.filter(|_| whole)
        } else if autoscaler || scheduler || reporting.contains("node-controller") {
            let first = either("firstTimestamp", "deprecatedFirstTimestamp");
            let last = either("lastTimestamp", "deprecatedLastTimestamp");
            time(&event["eventTime"])?.or(time(&first)?).or(time(&last)?)
        } else {
            None
        };
        Ok(at.map(|at| EventInfo { at, ..info }))
    }

    /// An event that the recorder would have seen so. Its name is not recorded, its uid is.
    pub(crate) fn object(&self) -> Value {
        // See above: of these events the namespace is lost.
        let namespace =
            if self.controller == MACHINE_CONTROLLER { "" } else { self.involved_namespace.as_str() };
        let meta = Meta {
            name: self.uid.clone(),
            namespace: if namespace.is_empty() { "default" } else { namespace }.to_owned(),
            created: Some(self.at),
            deleted: None,
        };
        let mut object = meta.object("v1", "Event");
        put(&mut object["metadata"], "uid", json!(self.uid));
        object["eventTime"] = json!(self.at.to_string());
        object["involvedObject"] = json!({});
        for (field, value) in [
            ("kind", &*self.involved_kind),
            ("namespace", namespace),
            ("name", &self.involved_name),
            ("uid", &self.involved_uid),
        ] {
            put(&mut object["involvedObject"], field, json!(value));
        }
        object["source"] = json!({});
        put(&mut object["source"], "component", json!(self.controller));
        put(&mut object, "reportingComponent", json!(self.controller));
        put(&mut object, "reason", json!(self.reason));
        put(&mut object, "message", json!(self.message));
        object
    }
}
