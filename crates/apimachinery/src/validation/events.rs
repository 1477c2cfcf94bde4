//! Checks of Events in the core group and in `events.k8s.io`, whose fields have other names and stricter
//! rules.

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values::semantic_equal;
use super::json_fields::{get, integer, text};
use super::metadata::{check_metadata, check_metadata_update};
use crate::names::{NameRule, qualified_name, subdomain_1123};

const MAX_LENGTH: usize = 128;
const MAX_NOTE_LENGTH: usize = 1024;

/// The names of an event's fields in an API group.
struct EventFields {
    is_core: bool,
    object: &'static str,
    controller: &'static str,
    note: &'static str,
}

const CORE: EventFields = EventFields {
    is_core: true,
    object: "involvedObject",
    controller: "reportingComponent",
    note: "message",
};
const EVENTS: EventFields =
    EventFields { is_core: false, object: "regarding", controller: "reportingController", note: "note" };

fn fields_of(group: &str) -> EventFields {
    if group.is_empty() { CORE } else { EVENTS }
}

/// Checks a new event. The metadata of events in the core group is checked only if there is no other error.
pub(super) fn check_event(errors: &mut FieldErrors, group: &str, event: &Value, namespaced: bool) {
    let fields = fields_of(group);
    check_common(errors, &fields, event);
    if fields.is_core {
        return;
    }
    check_metadata(errors, event, namespaced, NameRule::Subdomain);
    check_series(errors, event);
    if get(event, "eventTime").is_none() {
        errors.required(FieldPath::new("eventTime"), "");
    }
    let event_type = text(event, "type");
    if !["Normal", "Warning"].contains(&event_type) {
        errors.invalid(FieldPath::new("type"), "", format!("has invalid value: {event_type}"));
    }
    let deprecated = [
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
        ("deprecatedSource", "source"),
    ];
    for (name, shown) in deprecated {
        let is_set = get(event, name).is_some_and(|value| match value {
            Value::Object(source) => {
                source.values().any(|value| value.as_str().is_some_and(|it| !it.is_empty()))
            }
            value => *value != 0,
        });
        if is_set {
            errors.invalid(FieldPath::new(shown), "", "needs to be unset");
        }
    }
}

/// Checks the update of an event.
pub(super) fn check_event_update(errors: &mut FieldErrors, group: &str, old: &Value, new: &Value) {
    let fields = fields_of(group);
    check_common(errors, &fields, new);
    if fields.is_core {
        return;
    }
    check_metadata_update(errors, old, new);
    if old.get("series") != new.get("series") {
        check_series(errors, new);
    }
    for (name, shown, go_type) in [
        ("regarding", "involvedObject", "core.ObjectReference"),
        ("reason", "reason", "s"),
        ("note", "message", "s"),
        ("deprecatedSource", "source", "core.EventSource"),
        ("deprecatedFirstTimestamp", "firstTimestamp", "t"),
        ("deprecatedLastTimestamp", "lastTimestamp", "t"),
        ("deprecatedCount", "count", "i"),
        ("reason", "reason", "s"),
        ("type", "type", "s"),
        ("eventTime", "eventTime", "t"),
        ("action", "action", "s"),
        ("related", "related", "*core.ObjectReference"),
        ("reportingController", "reportingController", "s"),
        ("reportingInstance", "reportingInstance", "s"),
    ] {
        if !semantic_equal(go_type, &old[name], &new[name]) {
            errors.invalid(
                FieldPath::new(shown),
                PrintedValue::Go(go_type, &new[name]),
                "field is immutable",
            );
        }
    }
}

fn check_series(errors: &mut FieldErrors, event: &Value) {
    let Some(series) = get(event, "series") else { return };
    if integer(series, "count") < 2 {
        errors.invalid(FieldPath::new("series.count"), "", "should be at least 2");
    }
    if get(series, "lastObservedTime").is_none() {
        errors.required(FieldPath::new("series.lastObservedTime"), "");
    }
}

fn check_common(errors: &mut FieldErrors, fields: &EventFields, event: &Value) {
    let namespace = text(&event["metadata"], "namespace");
    let object_namespace = text(&event[fields.object], "namespace");
    let object = FieldPath::new("involvedObject");
    let has_time = get(event, "eventTime").is_some();
    let matches = match (has_time, object_namespace.is_empty()) {
        (false, true) => matches!(namespace, "" | "default"),
        (false, false) => namespace == object_namespace,
        (true, true) => matches!(namespace, "default" | "kube-system"),
        (true, false) => true,
    };
    if !matches {
        errors.invalid(object.child("namespace"), object_namespace, "does not match event.namespace");
    }
    if has_time {
        let controller = text(event, fields.controller);
        let path = FieldPath::new(fields.controller);
        if controller.is_empty() {
            errors.required(path, "");
        }
        errors.invalid_all(path, controller, qualified_name(controller));
        for name in ["reportingInstance", "action", "reason"] {
            let value = text(event, name);
            if value.is_empty() {
                errors.required(FieldPath::new(name), "");
            }
            check_length(errors, value, MAX_LENGTH, FieldPath::new(name));
        }
        check_length(errors, text(event, fields.note), MAX_NOTE_LENGTH, FieldPath::new("message"));
    }
    errors.invalid_all(FieldPath::new("namespace"), namespace, subdomain_1123(namespace));
}

fn check_length(errors: &mut FieldErrors, value: &str, max: usize, path: FieldPath<'_>) {
    if value.len() > max {
        errors.invalid(path, "", format!("can have at most {max} characters"));
    }
}
