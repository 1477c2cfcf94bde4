//! client-go on a virtual cluster: informers, custom resources, leader election, writes (the program in
//! `tests/goclient`).

use std::path::Path;
use std::process::Command;

use testcluster::{Cluster, ClusterOptions};
use testobjects::case_count;

use crate::common::{command, program_output};
use crate::server::Server;

/// Runs the program against a cluster. Informers begin with a list, or with a watch that sends all objects first.
#[track_caller]
fn check(program: &Path, kubeconfig: &Path, is_streaming: bool) {
    let mut client = Command::new(program);
    client.arg("-kubeconfig").arg(kubeconfig);
    client.env("KUBE_FEATURE_WatchListClient", is_streaming.to_string());
    let output = program_output(client.output().unwrap());
    assert_eq!(output.code, 0, "streaming {is_streaming}:\n{}{}", output.out, output.err);
    assert!(output.out.lines().count() > 10, "{}", output.out);
}

#[test]
fn client_go_works_on_a_virtual_cluster() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goclient");
    let Some(program) = testcluster::build_module("goclient", &sources).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let controllers = "scheduler,kubelet,gc,pv,workloads";
    for is_streaming in [false, true] {
        let _server = Server::of(command(folder.path()).args([
            "cluster",
            "--nodes",
            "5",
            "--controllers",
            controllers,
        ]));
        let kubeconfig = folder.path().join("kinescope.kubeconfig");
        check(&program, &kubeconfig, is_streaming);
        // A server that was killed leaves it.
        std::fs::remove_file(kubeconfig).unwrap();
    }
}

/// The program expects what a real control plane does. Checked in thorough runs only, since one takes long to start.
#[test]
fn client_go_works_on_a_real_cluster() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goclient");
    for is_streaming in [false, true].into_iter().take(case_count(0, 2)) {
        let options = ClusterOptions { service_accounts: true, ..ClusterOptions::default() };
        let Some(mut real) = Cluster::start(options).unwrap() else { return };
        real.start_controller_manager().unwrap();
        real.start_scheduler(16, &[]).unwrap();
        real.start_kwok(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testcluster/stages.yaml")).unwrap();
        let amounts = r#"{cpu: "4", memory: 8Gi, pods: "20"}"#;
        let node = |n: usize| {
            format!(
                "apiVersion: v1\nkind: Node\nmetadata: {{name: n{n}}}\n\
                 status: {{capacity: {amounts}, allocatable: {amounts}}}\n---\n"
            )
        };
        let nodes: String = (0..5).map(node).collect();
        real.kubectl_with_input(&["create", "-f", "-"], &nodes).unwrap();
        real.kubectl(&["wait", "nodes", "--all", "--for=condition=Ready", "--timeout=60s"]).unwrap();
        real.kubectl(&["wait", "serviceaccount/default", "--for=create", "--timeout=60s"]).unwrap();
        let program = testcluster::build_module("goclient", &sources).unwrap().unwrap();
        check(&program, real.kubeconfig(), is_streaming);
    }
}
