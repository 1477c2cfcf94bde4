//! Tests that record a real control plane and replay the recording: how many decisions are reproduced.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where something is not as it should be, and prints its seed and its results"
)]

mod common;
#[allow(dead_code, reason = "others use the rest")]
#[path = "record/recorder.rs"]
mod recorder;
#[allow(dead_code, reason = "others use the rest")]
#[path = "record/server.rs"]
mod server;

use std::fmt::Write as _;
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::Value;
use testcluster::{Cluster, ClusterOptions};

use crate::common::run;
use crate::recorder::Recorder;
use crate::server::{seed, start};

const PRIORITIES: [&str; 2] = [
    "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 1}",
    "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}",
];
/// kwok completes each pod of the Job after 2 to 10 seconds.
const ROLLED: &str = "--timeout=90s";

#[tokio::test(flavor = "multi_thread")]
async fn decisions_of_a_real_control_plane_are_reproduced() {
    let options = ClusterOptions { service_accounts: true, ..ClusterOptions::default() };
    let Some(mut cluster) = start(options) else { return };
    cluster.start_controller_manager().unwrap();
    cluster.start_scheduler(16, &[]).unwrap();
    cluster.start_kwok(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testcluster/stages.yaml")).unwrap();
    let mut rng = Pcg64::seed_from_u64(seed());
    create(&cluster, &PRIORITIES.join("\n---\n"));
    create(&cluster, &nodes(&mut rng));
    cluster.kubectl(&["wait", "--for=condition=Ready", "nodes", "--all", ROLLED]).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--into", "real.kine"];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    let path = folder.path().join("real.kine");
    // Kinds are listed in parallel. A replay begins after all were listed, so nothing may happen before.
    for kind in ["nodes", "namespaces", "priorityclasses", "services"] {
        let existing = listed(&cluster, kind);
        recorder
            .wait(&format!("the {kind} are recorded"), || {
                path.exists() && names(folder.path(), kind) == existing
            })
            .await;
    }
    // One after the other, so that their order does not depend on milliseconds.
    for number in 0..6 {
        let name = format!("web-{number}");
        create(&cluster, &deployment(&name, &mut rng));
        cluster.kubectl(&["rollout", "status", &format!("deployment/{name}"), ROLLED]).unwrap();
    }
    create(&cluster, &job());
    cluster.kubectl(&["wait", "--for=condition=Complete", "job/sum", ROLLED]).unwrap();
    cluster.kubectl(&["scale", "deployment/web-0", "--replicas=9"]).unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/web-0", ROLLED]).unwrap();
    cluster.kubectl(&["set", "env", "deployment/web-1", "A=b"]).unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/web-1", ROLLED]).unwrap();
    cluster.check_running().unwrap();
    let staying = cluster.kubectl(&["get", "pods", "--no-headers"]).unwrap();
    let staying: Vec<String> = (staying.lines().filter(|line| !line.contains("Terminating")))
        .filter_map(|line| Some(format!("pod/{}", line.split_whitespace().next()?)))
        .collect();
    assert!(staying.len() > 20, "{staying:?}");
    // Pods of the rollout may still be terminating, so list them each time.
    let mut existing = Vec::new();
    recorder
        .wait("all pods are recorded", || {
            existing = listed(&cluster, "pods");
            names(folder.path(), "pods") == existing
        })
        .await;
    recorder.stop().await.success();

    for level in ["pods", "workloads"] {
        let out = run(folder.path(), &["replay", "real.kine", "--level", level, "--out", level]);
        let output = out.success();
        let fidelity = output.lines().skip_while(|line| !line.starts_with("Placements")).take(2);
        eprintln!("level {level}: {}", fidelity.collect::<Vec<_>>().join(" "));
        let text = std::fs::read_to_string(folder.path().join(level).join("report.json")).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let placements = &report["fidelity"]["placements"];
        let count = |field: &str| placements[field].as_u64().unwrap();
        eprintln!("{placements}");
        // Each pod created was bound once, in the recording and in the replay.
        assert!(count("recorded") >= existing.len() as u64, "{placements}");
        assert_eq!((count("notBound"), count("notRecorded")), (0, 0), "{placements}");
        assert!(2 * count("sameNode") > count("recorded"), "{placements}");
        // The pods at the end exist in the replay with the same names; others may still be terminating.
        let replayed =
            run(folder.path(), &["get", "pods", "-o", "name", "--history", &format!("{level}/replay.kine")]);
        let replayed: Vec<String> = replayed.success().lines().map(str::to_owned).collect();
        assert!(staying.iter().all(|pod| replayed.contains(pod)), "{replayed:?} {staying:?}");
    }
}

/// The objects that the API server lists now.
fn listed(cluster: &Cluster, what: &str) -> Vec<String> {
    let output = cluster.kubectl(&["get", what, "-o", "name"]).unwrap();
    let mut names: Vec<String> = output.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

/// The objects at the end of the history.
fn names(folder: &Path, what: &str) -> Vec<String> {
    let output = run(folder, &["get", what, "-o", "name", "--history", "real.kine"]);
    output.out.lines().map(str::to_owned).collect()
}

fn create(cluster: &Cluster, manifests: &str) {
    cluster.kubectl_with_input(&["create", "-f", "-"], manifests).unwrap();
}

/// Eight nodes of different sizes.
fn nodes(rng: &mut Pcg64) -> String {
    let mut yaml = String::new();
    for number in 0..8 {
        let (cpu, memory) = (rng.random_range(4..9), rng.random_range(8..33));
        let size = format!("{{cpu: \"{cpu}\", memory: {memory}Gi, pods: \"110\"}}");
        writeln!(
            yaml,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: node-{number}, labels: {{kubernetes.io/hostname: \
             node-{number}}}}}, status: {{capacity: {size}, allocatable: {size}}}}}"
        )
        .unwrap();
    }
    yaml
}

fn deployment(name: &str, rng: &mut Pcg64) -> String {
    let (replicas, cpu) = (rng.random_range(2..6), rng.random_range(1..8) * 100);
    let class = ["low", "high"][rng.random_range(0..2)];
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: default}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      priorityClassName: {class}
      terminationGracePeriodSeconds: 1
      containers: [{{name: a, image: a, resources: {{requests: {{cpu: {cpu}m, memory: 256Mi}}}}}}]
"
    )
}

fn job() -> String {
    "apiVersion: batch/v1
kind: Job
metadata: {name: sum, namespace: default}
spec:
  parallelism: 2
  completions: 4
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: a, resources: {requests: {cpu: 300m, memory: 256Mi}}}]
"
    .to_owned()
}
