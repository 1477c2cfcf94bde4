//! Live replays with a real scheduler: recorded placements are not applied, and the result is compared with the
//! recording.

use std::fmt::Write as _;

use serde_json::Value;
use testcluster::ClusterOptions;

use crate::common::run;
use crate::server::start;
use crate::{file, import_recording, line_count, replay};

const OWN_NODES: &str = "rules:\n- {name: nodes of its own, kinds: [nodes], drop: true}\n";

/// Nodes that are in no recording, large enough for all pods.
fn nodes() -> String {
    let mut text = String::new();
    for number in 0..8 {
        let room = "{cpu: '256', memory: 1Ti, pods: '2000'}";
        writeln!(
            text,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: fresh-{number}, annotations: \
             {{kwok.x-k8s.io/node: fake}}}}, status: {{capacity: {room}, \
             allocatable: {room}, conditions: [{{type: Ready, status: 'True'}}]}}}}"
        )
        .unwrap();
    }
    text
}

#[test]
fn no_pod_carries_a_recorded_placement() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(mut cluster) = start(ClusterOptions::default()) else { return };
    cluster.kubectl_with_input(&["create", "-f", "-"], &nodes()).unwrap();
    cluster.start_scheduler(16, &[]).unwrap();
    let rules = file(folder.path(), "rules.yaml", OWN_NODES);
    let arguments =
        [history.as_str(), "--speed", "2", "--rules", rules.to_str().unwrap(), "--record", "--out", "out"];
    let output = replay(folder.path(), cluster.kubeconfig(), &arguments).success();
    eprintln!("{output}");
    assert!(output.contains("dropped by nodes of its own"), "{output}");

    let recorded = run(folder.path(), &["get", "nodes", "-o", "name", "--history", &history]).success();
    let recorded: Vec<&str> = recorded.lines().filter_map(|line| line.split('/').nth(1)).collect();
    assert!(recorded.len() > 3, "{recorded:?}");
    let pods = cluster.kubectl(&["get", "pods", "-A", "-o", "json"]).unwrap();
    let pods: Value = serde_json::from_str(&pods).unwrap();
    let pods = pods["items"].as_array().unwrap();
    assert!(pods.len() > 20, "{}", pods.len());
    // Pods of a DaemonSet keep the node affinity that their controller set: it is part of their spec.
    let is_bound_to_one = |pod: &Value| pod.to_string().contains("matchFields");
    assert!(pods.iter().filter(|pod| is_bound_to_one(pod)).all(|pod| pod["spec"].get("nodeName").is_none()));
    for pod in pods.iter().filter(|pod| !is_bound_to_one(pod)) {
        let (text, node) = (pod.to_string(), pod["spec"]["nodeName"].as_str().unwrap_or("fresh-none"));
        assert!(node.starts_with("fresh-"), "{text}");
        assert!(pod["metadata"]["labels"].get("topology.kubernetes.io/zone").is_none(), "{text}");
        for name in &recorded {
            assert!(!text.contains(&format!("\"{name}\"")), "{name} in {text}");
        }
    }
    // The result is a history in the time of the recording, and its report is printed.
    assert!(output.contains("Pods bound") && output.contains("Placements"), "{output}");
    let report = std::fs::read_to_string(folder.path().join("out/report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let (was, is) = (&report["recorded"]["podsBound"], &report["replayed"]["podsBound"]);
    assert!(was.as_u64().unwrap() > 100 && is.as_u64().unwrap() > 100, "{was} {is}");
    let placements = &report["fidelity"]["placements"];
    // No node of the target equals a recorded one, but each is compared with its counterpart.
    let elsewhere = placements["elsewhere"].as_u64().unwrap() + placements["sameClass"].as_u64().unwrap();
    assert!(elsewhere * 3 > was.as_u64().unwrap(), "{placements}");
    let nodes =
        run(folder.path(), &["get", "nodes", "--history", "out/replay.kine", "--no-headers"]).success();
    assert_eq!(nodes.lines().filter(|line| line.starts_with("fresh-")).count(), 8, "{nodes}");
}

#[test]
fn clean_removes_exactly_what_was_created() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(mut cluster) = start(ClusterOptions { service_accounts: true, ..ClusterOptions::default() })
    else {
        return;
    };
    cluster.start_controller_manager().unwrap();
    cluster.kubectl(&["create", "priorityclass", "theirs", "--value=7"]).unwrap();
    cluster.kubectl(&["create", "namespace", "theirs"]).unwrap();
    let before = [("namespaces", 5), ("priorityclasses", 3), ("nodes", 0)];
    let count = |kind: &str| line_count(&cluster, &["get", kind, "-A"]);
    crate::wait("the default service account exists", || {
        line_count(&cluster, &["get", "serviceaccounts", "-n", "theirs"]) == 1
    });
    replay(folder.path(), cluster.kubeconfig(), &[&history, "--speed", "max"]).success();
    assert!(count("nodes") > 3 && count("pods") > 20);
    let clean = ["replay", "clean", "--target", cluster.kubeconfig().to_str().unwrap()];
    let output = run(folder.path(), &clean).success();
    eprintln!("{output}");
    for (kind, expected) in before {
        crate::wait(&format!("{expected} {kind}"), || count(kind) == expected);
    }
    assert_eq!(count("pods"), 0);
    let again = run(folder.path(), &clean).failure(1);
    assert!(again.contains("no runs found"), "{again}");
}
