//! Tests of the alert rules: complete, the same in Kustomize and Helm, and on metrics that exist.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::file;
use crate::rendered::objects;

/// The groups of the rules file.
fn groups() -> Value {
    objects(&file("helm/kinescope/files/alerts.yaml"))[0]["groups"].clone()
}

/// Metrics of other programs that rules use: the kubelet's.
const KUBELET_METRICS: [&str; 2] =
    ["kubelet_volume_stats_available_bytes", "kubelet_volume_stats_capacity_bytes"];

/// Metrics of this program that rules use.
pub(crate) fn metrics() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for rule in groups()[0]["rules"].as_array().unwrap() {
        let expression = rule["expr"].as_str().unwrap();
        let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // Functions, labels and durations have no underscore in them.
        let named: Vec<&str> = words.filter(|word| word.contains('_')).collect();
        assert!(!named.is_empty(), "{expression}");
        all.extend(named.into_iter().filter(|name| !KUBELET_METRICS.contains(name)).map(str::to_owned));
    }
    all
}

#[test]
fn rules_are_complete_and_the_same_everywhere() {
    let groups = groups();
    let rules = groups[0]["rules"].as_array().unwrap();
    let mut names = BTreeSet::new();
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(name.starts_with("Kinescope") && names.insert(name), "{name}");
        assert!(["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()), "{name}");
        for text in ["summary", "description"] {
            assert!(rule["annotations"][text].as_str().is_some_and(|text| text.len() > 20), "{name}");
        }
        let expression = rule["expr"].as_str().unwrap();
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}")] {
            assert_eq!(expression.matches(open).count(), expression.matches(close).count(), "{expression}");
        }
    }
    assert!(metrics().iter().all(|name| name.starts_with("kinescope_")), "{:?}", metrics());
    for metric in [
        "recorder_recording",
        "recorder_lag_seconds",
        "recorder_pauses_total",
        "history_gaps",
        "history_readable",
    ] {
        assert!(metrics().contains(&format!("kinescope_{metric}")), "no rule uses kinescope_{metric}");
    }
    let by_kustomize = &objects(&file("kustomize/alerts/prometheus-rule.yaml"))[0];
    assert_eq!(by_kustomize["spec"]["groups"], groups);
}
