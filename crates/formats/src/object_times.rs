//! Times inside objects, for files without times.

use model::{Moment, Object};
use serde_json::Value;

/// Fields with the time of something past. `deletionTimestamp` is not one: it lies ahead by the grace period.
const TIME_FIELDS: [&str; 21] = [
    "acquireTime",
    "completionTime",
    "creationTimestamp",
    "eventTime",
    "finishedAt",
    "firstTimestamp",
    // Annotations of KAI's pod groups.
    "kai.scheduler/last-eviction-timestamp",
    "kai.scheduler/last-start-timestamp",
    "kai.scheduler/stale-podgroup-timestamp",
    "lastHeartbeatTime",
    "lastObservedTime",
    "lastProbeTime",
    "lastScheduleTime",
    "lastSuccessfulTime",
    "lastTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "renewTime",
    "startTime",
    "startedAt",
    "time",
];

/// The latest time inside an object, which has had this content since then at the earliest.
pub fn newest_time(object: &Object) -> Option<Moment> {
    newest(&object.value().ok()?)
}

fn newest(value: &Value) -> Option<Moment> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(name, value)| match value {
                Value::String(text) if TIME_FIELDS.contains(&name.as_str()) => text.parse().ok(),
                Value::String(_) => None,
                other => newest(other),
            })
            .max(),
        Value::Array(entries) => entries.iter().filter_map(newest).max(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testobjects::pod;

    use super::*;

    #[test]
    fn the_newest_time_is_found_at_any_depth() {
        let conditions = json!([{"lastTransitionTime": "2026-11-01T00:00:05Z"}, {"lastProbeTime": null}]);
        let pod = pod("a")
            .created("2026-11-01T00:00:00Z")
            .terminating("2030-01-01T00:00:00Z")
            .annotation("expires", "2031-01-01T00:00:00Z")
            .set("status.conditions", conditions);
        assert_eq!(newest_time(&pod.object()).unwrap().to_string(), "2026-11-01T00:00:05Z");
    }

    #[test]
    fn times_of_pod_groups_are_in_annotations() {
        let name = "kai.scheduler/last-start-timestamp";
        let pod = pod("a").created("2026-11-01T00:00:00Z").annotation(name, "2026-11-01T00:00:07Z");
        assert_eq!(newest_time(&pod.object()).unwrap().to_string(), "2026-11-01T00:00:07Z");
    }

    #[test]
    fn no_time_is_none() {
        assert_eq!(newest_time(&pod("a").object()), None);
    }
}
