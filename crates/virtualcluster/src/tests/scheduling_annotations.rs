//! Tests of the annotations with scheduling results. Their keys, forms and size are those of kube-scheduler-simulator,
//! and the size is what an API server accepts: 256 KiB for all keys and values of an object.

use std::collections::BTreeMap;

use super::*;

const PREFIX: &str = "kube-scheduler-simulator.sigs.k8s.io/";
const CUT: &str = "kinescope.io/scheduling-results-cut";
/// apimachinery's `TotalAnnotationSizeLimitB`.
const LIMIT: usize = 256 * 1024;

fn annotated_cluster(nodes: usize) -> VirtualCluster {
    cluster_with(
        nodes,
        ControlPlaneSettings { scheduling_annotations: true, ..ControlPlaneSettings::default() },
    )
}

fn annotations(cluster: &VirtualCluster, pod: &str) -> BTreeMap<String, String> {
    let pods = cluster.store().objects(&Kind::new("", "Pod"));
    let pod = pods.get(&name(pod)).unwrap().value().unwrap();
    let annotations = pod["metadata"]["annotations"].as_object().unwrap();
    annotations.iter().map(|(key, text)| (key.clone(), text.as_str().unwrap().to_owned())).collect()
}

fn byte_count(annotations: &BTreeMap<String, String>) -> usize {
    annotations.iter().map(|(key, text)| key.len() + text.len()).sum()
}

/// A result of the last attempt.
fn result(annotations: &BTreeMap<String, String>, key: &str) -> Value {
    serde_json::from_str(&annotations[&format!("{PREFIX}{key}")]).unwrap()
}

fn history(annotations: &BTreeMap<String, String>) -> Vec<Value> {
    let text = annotations.get(&format!("{PREFIX}result-history"));
    text.map_or_else(Vec::new, |text| serde_json::from_str(text).unwrap())
}

/// The number of nodes in each of the results that have nodes, which must be those of the filters.
fn node_count(annotations: &BTreeMap<String, String>) -> usize {
    let nodes = |key| result(annotations, key).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let filtered = nodes("filter-result");
    for key in ["score-result", "finalscore-result"] {
        assert_eq!(nodes(key), filtered, "{key}");
    }
    let selected = &annotations[&format!("{PREFIX}selected-node")];
    assert!(filtered.contains(selected), "the chosen node is among those that are kept");
    filtered.len()
}

#[test]
fn a_cluster_whose_results_fit_has_all_of_them_and_the_history() {
    let cluster = annotated_cluster(100);
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    let annotations = annotations(&cluster, "a");
    assert_eq!(node_count(&annotations), 100);
    let history = history(&annotations);
    assert_eq!(history.len(), 1);
    // An attempt of the history is the complete map of its annotations.
    for (key, text) in history[0].as_object().unwrap() {
        assert_eq!(text.as_str(), annotations.get(key).map(String::as_str), "{key}");
    }
    let others = annotations.keys().filter(|key| !key.ends_with("/result-history"));
    assert_eq!(history[0].as_object().unwrap().len(), others.count());
    assert!(byte_count(&annotations) <= LIMIT && !annotations.contains_key(CUT));
}

#[test]
fn results_of_many_nodes_are_cut_to_what_an_api_server_accepts() {
    let cluster = annotated_cluster(1_500);
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Running"]);
    let annotations = annotations(&cluster, "a");
    let bytes = byte_count(&annotations);
    assert!(bytes <= LIMIT, "{bytes}");
    let kept = node_count(&annotations);
    assert!(kept < 1_500, "{kept}");
    // One more node, with its share of the bytes, would not fit beside the sentence about what is missing.
    let share = bytes / kept;
    assert!(bytes + 2 * share + 300 > LIMIT, "{bytes} bytes of {kept} nodes");
    // The scheduler looks at a part of so many nodes only: it says how many of those are kept.
    let cut = &annotations[CUT];
    assert!(cut.starts_with(&format!("kept {kept} of ")), "{cut}");
    assert!(cut.ends_with("the last 0 of 1 attempts in result-history"), "{cut}");
}

#[test]
fn the_history_loses_its_oldest_attempts_and_other_annotations_stay() {
    let cluster = annotated_cluster(40);
    let mut big = pod("big", "33");
    let own = "x".repeat(100_000);
    big["metadata"]["annotations"] = json!({"example.com/own": own});
    cluster.create(big).unwrap();
    cluster.settle();
    // Each node that comes leads to one more attempt, with other results.
    let mut attempts = 1;
    while !annotations(&cluster, "big").contains_key(CUT) {
        attempts += 1;
        assert!(attempts < 100, "the history grows");
        assert_eq!(history(&annotations(&cluster, "big")).len(), attempts - 1);
        cluster.create(NodeTemplate::default().node(attempts + 1_000)).unwrap();
        cluster.advance(AdvanceTarget::By(Duration::from_secs(400))).unwrap();
    }
    let annotations = annotations(&cluster, "big");
    assert!(byte_count(&annotations) <= LIMIT, "{}", byte_count(&annotations));
    assert_eq!(annotations["example.com/own"], own);
    let history = history(&annotations);
    assert!(!history.is_empty() && history.len() < attempts, "{} of {attempts}", history.len());
    let newest = history.last().unwrap()[format!("{PREFIX}filter-result")].as_str().unwrap();
    assert_eq!(newest, annotations[&format!("{PREFIX}filter-result")], "the oldest ones go");
    let missing =
        format!("kept the last {} of {} attempts in result-history", history.len(), history.len() + 1);
    assert_eq!(annotations[CUT], missing);
}
