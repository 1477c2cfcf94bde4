//! Conversion of Events between the two API groups that serve them.

use serde_json::{Map, Value, json};

/// The groups with a kind `Event`.
pub const EVENT_GROUPS: [&str; 2] = ["", "events.k8s.io"];

/// Fields by their name in the core group and in `events.k8s.io`. All others have the same name in both.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// An Event as the API server returns it in a group, which must be one of [`EVENT_GROUPS`].
pub fn converted_event(event: Value, group: &str) -> Value {
    let Value::Object(mut fields) = event else { return event };
    let is_core = group.is_empty();
    fields.insert("apiVersion".to_owned(), if is_core { "v1".into() } else { format!("{group}/v1").into() });
    for (core, new) in RENAMED_FIELDS {
        let (from, to) = if is_core { (new, core) } else { (core, new) };
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
    if is_core {
        add_required_core_fields(&mut fields);
    }
    Value::Object(fields)
}

/// Fields that the core group writes even if they are empty.
fn add_required_core_fields(fields: &mut Map<String, Value>) {
    for (name, empty) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", "".into()),
        ("reportingInstance", "".into()),
    ] {
        fields.entry(name).or_insert(empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_the_same_in_both_groups() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Pulled", "type": "Normal",
            "involvedObject": {"kind": "Pod", "name": "p"}, "message": "text", "source": {"component": "kubelet"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:01Z", "count": 2,
            "eventTime": null, "reportingComponent": "kubelet", "reportingInstance": "n",
        });
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "Pulled",
            "type": "Normal", "regarding": {"kind": "Pod", "name": "p"}, "note": "text",
            "deprecatedSource": {"component": "kubelet"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:00:01Z", "deprecatedCount": 2, "eventTime": null,
            "reportingController": "kubelet", "reportingInstance": "n",
        });
        assert_eq!(converted_event(core.clone(), "events.k8s.io"), new);
        assert_eq!(converted_event(new.clone(), ""), core);
        assert_eq!(converted_event(core.clone(), ""), core);
        assert_eq!(converted_event(new.clone(), "events.k8s.io"), new);
    }
}
