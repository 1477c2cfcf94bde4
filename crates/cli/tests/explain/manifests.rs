//! `kinescope explain --manifest`: pods and workloads that were never created.

use serde_json::{Value, json};

use super::{RecordingBuilder, explain, json_of, node, on, pod, three_sizes, time, with};

#[test]
fn a_pod_is_read_from_a_manifest() {
    let folder = three_sizes().import();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "pod.yaml",
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: huge}\n\
         spec:\n  containers:\n  - name: a\n    image: a\n    resources: {limits: {cpu: 9}}\n",
    );
    let explanation = json_of(folder.path(), &["--manifest", "pod.yaml"]);
    assert_eq!(explanation["pod"], json!({"namespace": "default", "name": "huge"}));
    // Without a request the limit is the request.
    assert_eq!(explanation["node"], "big");
    assert_eq!(explanation["nodes"][0]["reasons"], json!(["Insufficient cpu"]));
    assert_eq!(explanation.get("happened"), None);
    let table = explain(folder.path(), &["--manifest", "pod.yaml", "-n", "web", "--at", &time(3)]).success();
    assert!(
        table.starts_with("Pod:         web/huge\nAs of:       2026-11-01T14:00:03Z, as if created then\n"),
        "{table}"
    );
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"template": {"spec": pod("x", "9", "1Gi")["spec"]}},
    });
    write("deployment.json", &deployment.to_string());
    let explanation = json_of(folder.path(), &["--manifest", "deployment.json"]);
    assert_eq!(explanation["pod"], json!({"namespace": "shop", "name": "web"}));
    assert_eq!(explanation["node"], "big");
    write("none.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n");
    let error = explain(folder.path(), &["--manifest", "none.yaml"]).failure(1);
    assert_eq!(error, "error: none.yaml has no pod and no workload with pods; found Service\n");
    write("daemon.json", &deployment.to_string().replace("Deployment", "DaemonSet"));
    let error = explain(folder.path(), &["--manifest", "daemon.json"]).failure(1);
    assert!(error.contains("the pods of a DaemonSet are each assigned to one node"), "{error}");
    write(
        "unknown-class.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {priorityClassName: gold}\n",
    );
    let warned = explain(folder.path(), &["--manifest", "unknown-class.yaml"]);
    assert!(warned.err.contains("PriorityClass \"gold\" not found"), "{}", warned.err);
}

/// Two equal nodes, the first with three pods of the shop.
fn crowded() -> RecordingBuilder {
    let web = |name: &str| with(on(pod(name, "0", "0"), "first"), "/metadata/labels", json!({"app": "web"}));
    RecordingBuilder::new()
        .add(node("first", "4", "8Gi"))
        .add(node("second", "4", "8Gi"))
        .add(web("web-1"))
        .add(web("web-2"))
        .add(web("web-3"))
}

#[test]
fn pods_of_a_workload_are_spread_as_real_ones_are() {
    let folder = crowded().import();
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod("x", "1", "1Gi")["spec"]});
    let spread = |kind: &str, namespace: Value, arguments: &[&str]| {
        let workload = json!({
            "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web", "namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        std::fs::write(folder.path().join("web.json"), workload.to_string()).unwrap();
        let explanation = json_of(folder.path(), &[&["--manifest", "web.json"], arguments].concat());
        let score = |at: usize| {
            explanation["nodes"][at]["scores"]["PodTopologySpread"]["normalised"].as_i64().unwrap()
        };
        (score(0), score(1))
    };
    for kind in ["Deployment", "ReplicaSet", "StatefulSet"] {
        let (crowded, empty) = spread(kind, "shop".into(), &[]);
        assert_eq!(empty, 100, "{kind}");
        assert!(crowded < empty, "{kind}: {crowded}");
        assert_eq!(
            spread(kind, Value::Null, &["-n", "shop"]),
            (crowded, empty),
            "{kind}: by the namespace given"
        );
        assert_eq!(spread(kind, "shop".into(), &["-n", "other"]), (100, 100), "{kind}: no pods there");
    }
}

#[test]
fn the_first_pod_of_a_stateful_set_needs_its_claims() {
    let folder = three_sizes().import();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {
            "template": {"spec": pod("x", "1", "1Gi")["spec"]},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        },
    });
    std::fs::write(folder.path().join("db.json"), set.to_string()).unwrap();
    let explanation = json_of(folder.path(), &["--manifest", "db.json"]);
    assert_eq!(explanation["pod"], json!({"namespace": "shop", "name": "db-0"}));
    let message = explanation["message"].as_str().unwrap();
    assert!(
        message.starts_with("0/3 nodes are available: persistentvolumeclaim \"data-db-0\" not found."),
        "{message}"
    );
}

#[test]
fn other_documents_of_a_manifest_are_reported() {
    let folder = three_sizes().import();
    let explained = |text: &str| {
        std::fs::write(folder.path().join("pods.yaml"), text).unwrap();
        explain(folder.path(), &["--manifest", "pods.yaml", "-o", "json"])
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: job-}\nspec: {containers: [{name: a}]}\n";
    let output = explained(pod);
    assert_eq!(output.err, "");
    assert_eq!(serde_json::from_str::<Value>(&output.success()).unwrap()["pod"]["name"], "job-");
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
    assert_eq!(explained(&format!("{pod}{service}")).err, "warning: 1 more object is ignored\n");
    let output = explained(&format!("{service}{service}---\n{pod}"));
    assert_eq!(output.err, "warning: 2 more objects are ignored\n");
    assert_eq!(serde_json::from_str::<Value>(&output.success()).unwrap()["pod"]["name"], "job-");
    let odd = explained("apiVersion: v1\nkind: Pod\nmetadata: {name: odd}\nspec: {tolerations: none}\n");
    assert!(odd.out.contains("spec.tolerations"), "{}", odd.out);
    odd.failure(1);
}
