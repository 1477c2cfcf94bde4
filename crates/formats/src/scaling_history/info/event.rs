//! Events of the autoscaler, the scheduler, the node controller and machine-controller-manager.

use model::Moment;
use serde_json::{Value, json};

use super::{InfoResult, SnapshotMeta, set_if_not_empty, text, time};

const MACHINE_CONTROLLER: &str = "machine-controller-manager";

/// A row of `event_info`.
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
    /// The recorder's row for an event of either API group; `None` if the recorder ignores its component, or it has no
    /// time.
    pub(crate) fn of(event: &Value) -> InfoResult<Option<EventInfo>> {
        // The newer group has other names for the same fields.
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
            // Its events are in the control plane and are read by other code of the recorder, which takes the name for
            // the namespace and fails where a string is missing.
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

    /// An event from which the recorder would make this row. Its uid stands in for its name, which is not recorded.
    pub(crate) fn object(&self) -> Value {
        // The namespace of these events is lost, see above.
        let namespace =
            if self.controller == MACHINE_CONTROLLER { "" } else { self.involved_namespace.as_str() };
        let meta = SnapshotMeta {
            name: self.uid.clone(),
            namespace: if namespace.is_empty() { "default" } else { namespace }.to_owned(),
            created: Some(self.at),
            deleted: None,
        };
        let mut object = meta.object("v1", "Event");
        set_if_not_empty(&mut object["metadata"], "uid", json!(self.uid));
        object["eventTime"] = json!(self.at.to_string());
        object["involvedObject"] = json!({});
        for (field, value) in [
            ("kind", &*self.involved_kind),
            ("namespace", namespace),
            ("name", &self.involved_name),
            ("uid", &self.involved_uid),
        ] {
            set_if_not_empty(&mut object["involvedObject"], field, json!(value));
        }
        object["source"] = json!({});
        set_if_not_empty(&mut object["source"], "component", json!(self.controller));
        set_if_not_empty(&mut object, "reportingComponent", json!(self.controller));
        set_if_not_empty(&mut object, "reason", json!(self.reason));
        set_if_not_empty(&mut object, "message", json!(self.message));
        object
    }
}
