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
    let refused = run(folder.path(), &["cluster", "--controllers", "scheduler,autoscaler"]).failure(1);
    assert!(
        refused.contains("has no node groups to scale: name a file of them with --node-groups"),
        "{refused}"
    );
    let refused = run(folder.path(), &["cluster", "--node-groups", "groups.yaml"]).failure(1);
    assert!(refused.contains("add it to --controllers"), "{refused}");
    std::fs::write(folder.path().join("wrong.yaml"), "groups: [{name: a}]").unwrap();
    let arguments = ["cluster", "--controllers", "autoscaler", "--node-groups", "wrong.yaml"];
    let refused = run(folder.path(), &arguments).failure(1);
    assert!(refused.contains("wrong.yaml") && refused.contains("groups[0]"), "{refused}");
}
