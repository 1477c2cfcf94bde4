//! Very large objects.

use serde_json::{Value, json};

use super::{TestScheduler, node, on, pod};

#[test]
fn a_pod_of_ten_thousand_containers() {
    let mut huge = pod("p");
    let container = json!({"name": "c", "image": "web", "resources": {"requests": {"cpu": "1m"}},
        "ports": [{"hostPort": 80}]});
    huge["spec"]["containers"] = json!(vec![container; 10_000]);
    let mut large = node("n");
    let mut bench = TestScheduler::with(&[&large, &huge]);
    assert_eq!(bench.outcome("p"), "0/1 nodes are available: 1 Insufficient cpu.");
    large["status"]["allocatable"]["cpu"] = json!("10");
    bench.modify(&large);
    assert_eq!(bench.attempt("p"), "-> n");
    // It fills the node until it is deleted.
    bench.add(&pod("q"));
    assert_eq!(bench.outcome("q"), "0/1 nodes are available: 1 Insufficient cpu.");
    bench.delete(&huge);
    assert_eq!(bench.outcome("q"), "-> n");
}

#[test]
fn a_pod_of_a_thousand_constraints() {
    let mut huge = pod("p");
    let constraint = |index: usize| {
        json!({
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": if index.is_multiple_of(2) { "DoNotSchedule" } else { "ScheduleAnyway" },
            "labelSelector": {"matchLabels": {"app": format!("a{}", index % 500)}},
        })
    };
    huge["spec"]["topologySpreadConstraints"] = (0..1_000).map(constraint).collect();
    let mut other = on(pod("other"), "n");
    other["metadata"]["labels"]["app"] = json!("a498");
    let mut bench = TestScheduler::with(&[&node("n"), &node("m"), &other, &huge]);
    // The pod does not match its own selectors, so a skew of one is allowed on every node.
    assert_eq!(bench.outcome("p"), "-> m");
    let mut more = on(pod("more"), "n");
    more["metadata"]["labels"]["app"] = json!("a498");
    bench.add(&more);
    let explanation = bench.explain("p");
    assert_eq!(explanation.nodes.len(), 2);
    assert_eq!(bench.outcome("p"), "-> m");
}

#[test]
fn a_pod_and_a_node_of_ten_thousand_labels() {
    let labels = |prefix: &str| -> Value {
        (0..10_000)
            .map(|index| (format!("{prefix}{index}"), json!("x")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut large = node("n");
    large["metadata"]["labels"] = labels("n");
    let mut huge = pod("p");
    huge["metadata"]["labels"] = labels("p");
    huge["spec"]["nodeSelector"] = labels("n");
    let mut bench = TestScheduler::with(&[&large, &node("m"), &huge]);
    assert_eq!(bench.attempt("p"), "-> n");
    large["metadata"]["labels"]["n9999"] = json!("y");
    bench.modify(&large);
    huge["metadata"]["name"] = json!("q");
    huge["metadata"]["uid"] = json!("q");
    bench.add(&huge);
    assert_eq!(
        bench.outcome("q"),
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector."
    );
}

#[test]
fn terms_and_taints_by_the_thousand() {
    let term = |index: usize| json!({"topologyKey": format!("k{index}"), "labelSelector": {"matchLabels": {"app": "a"}}});
    let mut huge = pod("p");
    let terms: Vec<Value> = (0..1_000).map(term).collect();
    huge["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
        json!(terms);
    huge["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let mut large = node("n");
    let taint = |index: usize| json!({"key": format!("t{index}"), "effect": "NoSchedule"});
    large["spec"]["taints"] = (0..1_000).map(taint).collect();
    large["metadata"]["labels"]["k999"] = json!("here");
    let mut bench = TestScheduler::with(&[&large, &huge]);
    assert_eq!(bench.attempt("p"), "-> n");
    huge["metadata"]["name"] = json!("q");
    huge["metadata"]["uid"] = json!("q");
    bench.add(&huge);
    assert_eq!(
        bench.outcome("q"),
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules."
    );
}
