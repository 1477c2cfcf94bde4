//! The components of a virtual cluster, through the program.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{command, run};
use crate::server::Server;

const GROUPS: &str = "
groups:
- name: small
  min: 0
  max: 5
  template: {cpu: 2, memory: 8Gi, pods: 10}
  provisioning: {registersAfter: 30s}
";

/// A cluster without TLS and token, whose clock stands still.
fn start(folder: &Path, arguments: &[&str]) -> Server {
    Server::of(command(folder).args(["cluster", "--insecure", "--clock", "virtual"]).args(arguments))
}

fn get(server: &Server, path: &str) -> Value {
    let response = server.get(path);
    assert_eq!(response.code, 200, "{path}");
    serde_json::from_slice(&response.body).unwrap()
}

#[track_caller]
fn create(server: &Server, path: &str, object: &Value) -> Value {
    let response = server.post(path, object);
    let body: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(response.code, 201, "{body}");
    body
}

fn advance(server: &Server, seconds: u64) {
    let response = server.post("/kinescope/v1/cluster/advance", &json!({"seconds": seconds}));
    assert_eq!(response.code, 200, "{}", String::from_utf8_lossy(&response.body));
}

fn pod(name: &str, cpu: &str) -> Value {
    let resources = json!({"requests": {"cpu": cpu}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox:1", "resources": resources}]},
    })
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[test]
fn a_cluster_is_scaled_up_and_down() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    let server = start(
        folder.path(),
        &[
            "--controllers",
            "scheduler,kubelet,gc,pv,autoscaler",
            "--node-groups",
            "groups.yaml",
            "--autoscaler-flags",
            "--scale-down-unneeded-time=2m --scale-down-delay-after-add=1m",
        ],
    );
    create(&server, PODS, &pod("a", "1500m"));
    create(&server, PODS, &pod("b", "1500m"));
    let node_count = || get(&server, "/api/v1/nodes")["items"].as_array().unwrap().len();
    advance(&server, 15);
    assert_eq!(node_count(), 0, "the machines are on their way");
    advance(&server, 60);
    assert_eq!(node_count(), 2);
    assert_eq!(get(&server, &format!("{PODS}/a"))["status"]["phase"], "Running");
    let events = get(&server, "/api/v1/namespaces/default/events?fieldSelector=reason=TriggeredScaleUp");
    assert_eq!(events["items"].as_array().unwrap().len(), 2, "{events}");
    let status = get(&server, "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status");
    assert!(status["data"]["status"].as_str().unwrap().contains("autoscalerStatus: Running"), "{status}");
    for name in ["a", "b"] {
        assert_eq!(server.request("DELETE", &format!("{PODS}/{name}"), &[], b"").code, 200);
    }
    advance(&server, 300);
    assert_eq!(node_count(), 0);
}

#[test]
fn an_autoscaler_needs_node_groups_and_node_groups_an_autoscaler() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    let refused = run(folder.path(), &["cluster", "--controllers", "scheduler,autoscaler"]).failure(2);
    assert!(
        refused.contains("has no node groups to scale: name a file of them with --node-groups"),
        "{refused}"
    );
    let refused = run(folder.path(), &["cluster", "--node-groups", "groups.yaml"]).failure(2);
    assert!(refused.contains("add it to --controllers"), "{refused}");
    std::fs::write(folder.path().join("wrong.yaml"), "groups: [{name: a}]").unwrap();
    let arguments = ["cluster", "--controllers", "autoscaler", "--node-groups", "wrong.yaml"];
    let refused = run(folder.path(), &arguments).failure(1);
    assert!(refused.contains("wrong.yaml") && refused.contains("groups[0]"), "{refused}");
}

#[test]
fn a_cluster_is_recorded_until_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut server = start(folder, &["--nodes", "2", "--record", "lab.kine"]);
    assert!(server.first_line.starts_with("virtual cluster, recorded into lab.kine, on http://"));
    create(&server, PODS, &pod("small", "1"));
    create(&server, PODS, &pod("big", "100"));
    advance(&server, 3600);
    server.signal("-INT");
    assert!(server.child.wait().unwrap().success());

    let info = run(folder, &["info", "lab.kine"]).success();
    assert!(info.contains("source kinescope") && info.contains("no gaps"), "{info}");
    let pods = run(folder, &["get", "pods", "--history", "lab.kine", "--no-headers"]).success();
    let rows: Vec<Vec<&str>> = pods.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        (rows[0][0], rows[0][2], rows[1][0], rows[1][2]),
        ("big", "Pending", "small", "Running"),
        "{pods}"
    );
    let explained = run(folder, &["explain", "pod/big", "--history", "lab.kine"]).success();
    assert!(explained.contains("2 Insufficient cpu"), "{explained}");
    let checked = run(folder, &["doctor", "lab.kine"]).success();
    assert!(checked.starts_with("no damage found"), "{checked}");
    let refused = run(folder, &["cluster", "--record", "lab.kine"]).failure(1);
    assert!(refused.contains("lab.kine exists"), "{refused}");
}

#[test]
fn stages_are_loaded_created_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    let stage = "
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-fail}
spec:
  resourceRef: {kind: Pod}
  selector:
    matchExpressions:
    - {key: .status.phase, operator: In, values: [Pending]}
  delay: {durationMilliseconds: 5000}
  next:
    statusTemplate: |
      phase: Failed
      reason: {{ or .metadata.annotations.why \"Unknown\" | Quote }}
";
    std::fs::write(folder.path().join("stages.yaml"), stage).unwrap();
    let server = start(folder.path(), &["--nodes", "1", "--load", "stages.yaml"]);
    create(&server, PODS, &pod("a", "1"));
    advance(&server, 4);
    assert_eq!(get(&server, &format!("{PODS}/a"))["status"]["phase"], "Pending");
    advance(&server, 2);
    let status = get(&server, &format!("{PODS}/a"))["status"].take();
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Unknown")));
    let stages = "/apis/kwok.x-k8s.io/v1alpha1/stages";
    assert_eq!(get(&server, stages)["items"].as_array().unwrap().len(), 1);
    let other = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "pv"},
        "spec": {"resourceRef": {"kind": "PersistentVolume"}},
    });
    let response = server.post(stages, &other);
    let refused: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((response.code, &refused["reason"]), (422, &json!("Invalid")));
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("spec.resourceRef: stages of v1 PersistentVolume are not supported"),
        "{message}"
    );
}

#[test]
fn scheduling_results_are_annotations_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--nodes", "3", "--scheduling-annotations"]);
    create(&server, PODS, &pod("a", "1"));
    create(&server, PODS, &pod("big", "100"));
    advance(&server, 1);
    let result = |pod: &str, key: &str| {
        let annotations = get(&server, &format!("{PODS}/{pod}"))["metadata"]["annotations"].take();
        annotations[format!("kube-scheduler-simulator.sigs.k8s.io/{key}")].as_str().unwrap().to_owned()
    };
    let parsed = |pod: &str, key: &str| serde_json::from_str::<Value>(&result(pod, key)).unwrap();
    let node = get(&server, &format!("{PODS}/a"))["spec"]["nodeName"].as_str().unwrap().to_owned();
    assert_eq!(result("a", "selected-node"), node);
    assert_eq!(parsed("a", "filter-result")["node-0"]["NodeResourcesFit"], "passed");
    assert_eq!(parsed("a", "prefilter-result-status")["NodeAffinity"], "");
    assert_eq!(parsed("a", "prefilter-result-status")["NodeResourcesFit"], "success");
    let score =
        |key: &str| parsed("a", key)["node-1"]["TaintToleration"].as_str().unwrap().parse::<i64>().unwrap();
    assert_eq!((score("score-result"), score("finalscore-result")), (0, 300));
    assert_eq!(parsed("a", "bind-result"), json!({"DefaultBinder": "success"}));
    assert_eq!(parsed("big", "filter-result")["node-2"]["NodeResourcesFit"], "Insufficient cpu");
    assert_eq!(
        (result("big", "selected-node"), result("big", "score-result")),
        (String::new(), "{}".to_owned())
    );
    assert_eq!(parsed("big", "result-history").as_array().unwrap().len(), 1);
    // The same result is not written again and again.
    advance(&server, 600);
    assert_eq!(parsed("big", "result-history").as_array().unwrap().len(), 1);
}
