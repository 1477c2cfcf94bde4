//! Tests of importing a real API server's audit log into a recording of the same server: `log` shows the users.

use std::path::Path;

use history::{History, Selection};
use model::{Kind, Moment};
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

use crate::common::run;
use crate::recorder::Recorder;
use crate::server::{client, send, start};

/// RequestResponse level for everything but Services, which are logged at Metadata level.
const POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: Metadata
  resources: [{group: '', resources: [services]}]
- level: Metadata
  namespaces: [kube-public]
- level: RequestResponse
";

const PODS: &str = "/api/v1/namespaces/default/pods";
/// Logged at a lower level.
const PUBLIC_PODS: &str = "/api/v1/namespaces/kube-public/pods";

/// A cluster with an audit log.
fn audited(folder: &Path) -> Option<Cluster> {
    let policy = folder.join("policy.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    let flags = [("policy-file", policy), ("log-path", folder.join("audit.log"))];
    let apiserver_flags = flags.map(|(flag, path)| format!("--audit-{flag}={}", path.display())).into();
    start(ClusterOptions { apiserver_flags, ..ClusterOptions::default() })
}

/// `MODIFIED by bob: patch` for each version of an object.
fn versions(folder: &Path, object: &str, namespace: &str) -> Vec<String> {
    let lines = run(folder, &["log", object, "-n", namespace, "-o", "json", "--history", "h.kine"]).success();
    let version = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let by = line["by"].as_array().into_iter().flatten().map(|by| {
            let user = by["impersonatedUser"].as_str().or(by["user"].as_str()).unwrap();
            let certain = if by["certain"] == true { "" } else { "?" };
            let words = [&by["verb"], &by["subresource"]].map(|word| word.as_str().unwrap());
            format!(" {} by {user}{certain}", words.join(" ").trim())
        });
        format!("{}{}", line["type"].as_str().unwrap(), by.collect::<String>())
    };
    lines.lines().map(version).collect()
}

#[tokio::test]
async fn an_audit_log_adds_the_users() {
    let folder = tempfile::tempdir().unwrap();
    let Some(cluster) = audited(folder.path()) else { return };
    let api = client(&cluster).await;
    let path = folder.path().join("h.kine");
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &["--into", "h.kine"]);
    let has = |kind: &str, count: usize| {
        let chosen = Selection { kinds: Some(vec![Kind::new("", kind)]), ..Selection::default() };
        History::open(&path)
            .and_then(|history| history.at(Moment::MAX, &chosen))
            .map_or(0, |c| c.into_objects().len())
            == count
    };
    recorder.wait("the first Service", || has("Service", 1)).await;

    let pod = |metadata: Value| {
        let spec = json!({"containers": [{"name": "a", "image": "a"}], "terminationGracePeriodSeconds": 30});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).to_string()
    };
    send(&api, "POST", PODS, &pod(json!({"name": "a"}))).await;
    let made: Value =
        serde_json::from_str(&send(&api, "POST", PODS, &pod(json!({"generateName": "b-"}))).await).unwrap();
    let made = made["metadata"]["name"].as_str().unwrap().to_owned();
    cluster.kubectl(&["--as", "bob", "label", "pod", "a", "color=red"]).unwrap();
    cluster.kubectl(&["label", "pod", "a", "color=blue", "--overwrite", "--dry-run=server"]).unwrap();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}});
    send(&api, "POST", &format!("{PODS}/a/binding"), &binding.to_string()).await;
    cluster.kubectl(&["--as", "carol", "create", "service", "clusterip", "shop", "--tcp=80"]).unwrap();
    send(&api, "POST", PUBLIC_PODS, &pod(json!({"name": "c"}))).await;
    send(&api, "POST", &format!("{PUBLIC_PODS}/c/binding"), &binding.to_string().replace("\"a\"", "\"c\""))
        .await;
    recorder.wait("all pods", || has("Pod", 3)).await;
    recorder.wait("the second Service", || has("Service", 2)).await;
    // A bound pod is deleted gracefully: first marked, then removed.
    cluster.kubectl(&["--as", "carol", "delete", "pod", "a", "--wait=false"]).unwrap();
    send(&api, "DELETE", &format!("{PODS}/a?gracePeriodSeconds=0"), "").await;
    send(&api, "DELETE", &format!("{PUBLIC_PODS}/c?gracePeriodSeconds=0"), "").await;
    cluster.kubectl(&["--as", "dave", "delete", "pods", "--all", "--wait=false"]).unwrap();
    cluster.kubectl(&["--as", "dave", "delete", "service", "shop", "--wait=false"]).unwrap();
    recorder.wait("no pods", || has("Pod", 0)).await;
    recorder.wait("one Service", || has("Service", 1)).await;
    recorder.stop().await.success();

    let before = run(folder.path(), &["get", "pods", "--history", "h.kine", "-A", "-o", "json"]).success();
    assert!(versions(folder.path(), "pod/a", "default").iter().all(|version| !version.contains("by")));
    let output = run(folder.path(), &["import", "audit.log", "--into", "h.kine"]);
    assert!(output.err.contains("reads"), "{}", output.err);
    output.success();

    assert_eq!(
        versions(folder.path(), "pod/a", "default"),
        [
            "ADDED create by admin",
            "MODIFIED patch by bob",
            "MODIFIED create binding by admin?",
            "MODIFIED delete by carol",
            // A terminating pod's grace period is first set to zero, by the same request.
            "MODIFIED",
            "DELETED delete by admin"
        ]
    );
    assert_eq!(
        versions(folder.path(), &format!("pod/{made}"), "default"),
        ["ADDED create by admin", "MODIFIED", "DELETED delete by dave"]
    );
    assert_eq!(
        versions(folder.path(), "service/shop", "default"),
        ["ADDED create by carol?", "DELETED delete by dave?"]
    );
    assert_eq!(
        versions(folder.path(), "pod/c", "kube-public"),
        [
            "ADDED create by admin?",
            "MODIFIED create binding by admin?",
            "MODIFIED delete by admin?",
            "DELETED delete by admin?"
        ]
    );
    let text = run(folder.path(), &["log", "pod/a", "--history", "h.kine"]).success();
    assert!(text.contains("    by admin as bob (kubectl/"), "{text}");

    // The audit log is part of the history, and changes nothing else in it.
    let after = run(folder.path(), &["get", "pods", "--history", "h.kine", "-A", "-o", "json"]).success();
    assert_eq!(before, after);
    run(folder.path(), &["doctor", "h.kine"]).success();
    let lines = run(folder.path(), &["export", "h.kine", "--format", "jsonl"]).success();
    assert!(lines.contains("\"carol\""));
    let anonymized = run(folder.path(), &["export", "h.kine", "--format", "jsonl", "--anonymize"]).success();
    assert!(!anonymized.contains("carol") && !anonymized.contains("AuditEvent"));

    // Known writes are not imported again; later ones are.
    let again = run(folder.path(), &["import", "audit.log", "--into", "h.kine"]);
    assert!(again.out.starts_with("0 changes"), "{}", again.out);
    assert!(again.err.contains("skipped: already in the history"), "{}", again.err);
    assert_eq!(versions(folder.path(), "pod/a", "default").len(), 6);
    // A log that is being written may end within a line.
    let log = std::fs::read_to_string(folder.path().join("audit.log")).unwrap();
    std::fs::write(folder.path().join("cut.log"), &log[..log.trim_end().len() - 5]).unwrap();
    let cut = run(folder.path(), &["import", "cut.log", "--into", "h.kine"]);
    assert!(cut.err.contains("cut.log: the last line is truncated"), "{}", cut.err);
    cut.success();
    // Earlier logs cannot be imported after later ones, and are not mistaken for known writes.
    let lines: Vec<&str> = log.lines().collect();
    let (earlier, later) = lines.split_at(lines.len() / 2);
    for (name, lines) in [("earlier.log", earlier), ("later.log", later)] {
        std::fs::write(folder.path().join(name), lines.join("\n")).unwrap();
    }
    let source = History::open(&path).unwrap().sources().unwrap()[0].to_string();
    let plain = run(
        folder.path(),
        &["export", "h.kine", "--format", "jsonl", "--source", &source, "--out", "h.jsonl"],
    );
    plain.success();
    run(folder.path(), &["import", "h.jsonl", "--into", "late.kine", "--source", "other"]).success();
    run(folder.path(), &["import", "later.log", "--into", "late.kine"]).success();
    let late = run(folder.path(), &["import", "earlier.log", "--into", "late.kine"]).failure(1);
    assert!(late.contains("earlier ones first"), "{late}");
    run(folder.path(), &["import", "h.jsonl", "--into", "both.kine"]).success();
    run(folder.path(), &["import", "later.log", "earlier.log", "--into", "both.kine"]).success();
    let alone = run(folder.path(), &["import", "audit.log", "--into", "none.kine"]).failure(1);
    assert!(alone.contains("history none.kine not found"), "{alone}");
    let alone = run(folder.path(), &["import", "audit.log"]).failure(1);
    assert!(alone.contains("--into"), "{alone}");
    assert!(!folder.path().join("audit.kine").exists());
}
