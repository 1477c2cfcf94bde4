//! Tests of `--style simkube`, with real controllers, a real scheduler and KWOK.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;
use testcluster::{Cluster, ClusterOptions};

use crate::common::{program_output, run};
use crate::server::start;
use crate::{file, line_count, replay, replaying, wait};

const STAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/kwok/simkube-stages.yaml");
const NODE: &str = "{apiVersion: v1, kind: Node, metadata: {name: kwok-1, labels: {type: virtual}, annotations: \
    {kwok.x-k8s.io/node: fake}}, spec: {taints: [{key: kwok-provider, effect: NoSchedule}]}, status: \
    {capacity: {cpu: '32', memory: 64Gi, pods: '110'}, allocatable: {cpu: '32', memory: 64Gi, pods: '110'}}}";

/// A Deployment of two pods, a Job whose pod ran for three seconds, and a bare pod that kept running.
fn recording() -> String {
    let line = |second: u32, event: &str, resource: Value| {
        json!({"time": format!("2026-11-15T10:00:{second:02}Z"), "event": event, "resource": resource})
            .to_string()
    };
    let template = |restart: &str, labels: Value| {
        json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": restart, "serviceAccountName": "theirs",
            "nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}})
    };
    let mut web_template = template("Always", json!({"app": "web"}));
    web_template["spec"].as_object_mut().unwrap().remove("nodeSelector");
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "d"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": web_template}});
    let mut job_template = template("Never", json!({"job-name": "sums"}));
    job_template["spec"].as_object_mut().unwrap().remove("nodeSelector");
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums", "namespace": "shop", "uid": "j"},
        "spec": {"parallelism": 1, "completions": 1, "template": job_template}});
    let state = |from: u32, to: Option<u32>| {
        let time = |second: u32| format!("2026-11-15T10:00:{second:02}Z");
        match to {
            None => json!({"running": {"startedAt": time(from)}}),
            Some(to) => {
                json!({"terminated": {"exitCode": 0, "startedAt": time(from), "finishedAt": time(to)}})
            }
        }
    };
    let pod = |name: &str, owner: Value, phase: &str, state: Value| {
        testobjects::pod(name)
            .namespace("shop")
            .set("metadata.ownerReferences", owner)
            .set("spec.restartPolicy", "Never")
            .set("spec.containers.0.image", "i")
            .on("old")
            .phase(phase)
            .set("status.containerStatuses", json!([{"name": "c", "state": state}]))
            .json()
    };
    let of_job =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "sums", "uid": "j", "controller": true}]);
    let bare = || pod("bare", json!([]), "Running", state(1, None));
    let lines = [
        line(
            0,
            "Add",
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "s"}}),
        ),
        line(1, "Add", deployment),
        line(1, "Add", job),
        line(1, "Add", bare()),
        line(2, "Add", pod("sums-x", of_job.clone(), "Running", state(2, None))),
        line(5, "Update", pod("sums-x", of_job, "Succeeded", state(2, Some(5)))),
        // Marks the end of the recording.
        line(25, "Update", bare()),
    ];
    lines.join("\n") + "\n"
}

fn text(cluster: &Cluster, arguments: &[&str]) -> String {
    cluster.kubectl(arguments).unwrap_or_default()
}

fn target(cluster: &Cluster, folder: &Path, command: &str) -> String {
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    run(folder, &["replay", command, "--target", kubeconfig]).success()
}

/// A cluster with controllers, and a folder with the recording and these hooks.
fn prepared(hooks: &str) -> Option<(Cluster, TempDir)> {
    let mut cluster = start(ClusterOptions { service_accounts: true, ..ClusterOptions::default() })?;
    cluster.start_controller_manager().unwrap();
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "record.jsonl", &recording());
    file(folder.path(), "hooks.yml", hooks);
    run(folder.path(), &["import", "record.jsonl", "--into", "sim.kine"]).success();
    Some((cluster, folder))
}

#[test]
fn workloads_are_played_as_simkube_plays_them() {
    let hooks = "preStartHooks: [{cmd: echo, args: [begins]}]\npostStopHooks: [{cmd: cat, sendSim: true}]\n";
    let Some((mut cluster, folder)) = prepared(hooks) else { return };
    cluster.start_scheduler(16, &[]).unwrap();
    cluster.start_kwok(Path::new(STAGES)).unwrap();
    cluster.kubectl_with_input(&["create", "-f", "-"], NODE).unwrap();
    let arguments = [
        "sim.kine",
        "--style",
        "simkube",
        "--speed",
        "1",
        "--start-paused",
        "--image-pull-delay",
        "200",
        "--pod-startup-delay",
        "100",
        "--reschedule-interrupted-bare-pods",
        "--hooks",
        "hooks.yml",
    ];
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &arguments);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let runs = |word: &str| {
        let replay_output =
            run(folder.path(), &["replay", "runs", "--target", cluster.kubeconfig().to_str().unwrap()]);
        replay_output.out.contains(word)
    };
    wait("the run is paused", || runs("paused"));
    assert_eq!(text(&cluster, &["get", "deployments", "-A", "--no-headers"]), "");
    assert!(target(&cluster, folder.path(), "resume").contains("resumed"));

    let in_shop = |kind: &str, what: &str| text(&cluster, &["get", kind, "-n", "virtual-shop", "-o", what]);
    wait("the pods of the Deployment run", || {
        in_shop("deployment/web", "jsonpath={.status.readyReplicas}") == "2"
    });
    wait("the Job is complete", || in_shop("job/sums", "jsonpath={.status.succeeded}") == "1");
    let pods: Value = serde_json::from_str(&in_shop("pods", "json")).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let spec = &pod["spec"];
        assert_eq!(
            (&spec["nodeName"], &spec["nodeSelector"]["type"]),
            (&json!("kwok-1"), &json!("virtual")),
            "{pod}"
        );
        assert!(spec["containers"][0].get("ports").is_none(), "{pod}");
        let annotations = &pod["metadata"]["annotations"];
        assert_eq!(annotations["static.simkube.io/original-namespace"], "shop", "{pod}");
        assert_eq!(annotations["simkube.io/kwok-stage-create-delay"], "200ms", "{pod}");
        assert_eq!(
            annotations.get("simkube.io/kwok-stage-complete-time").is_some(),
            pod["status"]["phase"] == "Succeeded",
            "{pod}"
        );
    }
    let ran = pods["items"].as_array().unwrap().iter().find_map(|pod| {
        let state = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        let seconds = |field: &str| Some(state[field].as_str()?.parse::<jiff::Timestamp>().ok()?.as_second());
        Some(seconds("finishedAt")? - seconds("startedAt")?)
    });
    // It ran for three seconds; times have a resolution of one second.
    assert!(ran.is_some_and(|ran| (2..=6).contains(&ran)), "{ran:?}");

    wait("the bare pod runs", || in_shop("pod/bare", "jsonpath={.status.phase}") == "Running");
    cluster.kubectl(&["delete", "pod", "bare", "-n", "virtual-shop", "--wait=false"]).unwrap();
    wait("its clone runs", || in_shop("pod/bare-clone-0", "jsonpath={.status.phase}") == "Running");
    let output = program_output(playing.wait_with_output().unwrap());
    eprintln!("{}{}", output.out, output.err);
    assert_eq!(output.code, 0);
    assert!(output.err.contains("preStart echo: begins"), "{}", output.err);
    assert!(output.err.contains(r#""kind":"Simulation""#), "{}", output.err);

    // All objects belong to the run, and `clean` removes them.
    let owner = in_shop("deployment/web", "jsonpath={.metadata.ownerReferences[0].name}");
    assert_eq!(owner, "kinescope-replay-sim");
    target(&cluster, folder.path(), "clean");
    wait("nothing is left", || {
        line_count(&cluster, &["get", "pods", "-A"]) == 0
            && !text(&cluster, &["get", "namespaces"]).contains("virtual-shop")
    });
}

#[test]
fn a_run_is_repeated_as_often_as_requested() {
    let hooks = "preRunHooks: [{cmd: echo, args: [once more]}]\npostRunHooks: [{cmd: 'false'}]\n\
        postStopHooks: [{cmd: 'false', ignoreFailure: false}]\n";
    let Some((cluster, folder)) = prepared(hooks) else { return };
    let arguments = [
        "sim.kine",
        "--style",
        "simkube",
        "--speed",
        "max",
        "--repetitions",
        "2",
        "--hooks",
        "hooks.yml",
        "--duration",
        "3s",
    ];
    let output = replay(folder.path(), cluster.kubeconfig(), &arguments);
    // A failing hook without ignoreFailure ends the run.
    assert_eq!(output.code, 1, "{}{}", output.out, output.err);
    assert!(output.err.contains("error: the postStop hook false ended"), "{}", output.err);
    assert_eq!(output.err.matches("warning: the postRun hook false ended").count(), 2, "{}", output.err);
    assert_eq!(output.err.matches("preRun echo: once more").count(), 2, "{}", output.err);
    assert_eq!(output.out.matches("Replayed").count(), 2, "{}", output.out);
    assert_eq!(line_count(&cluster, &["get", "deployments", "-n", "virtual-shop"]), 1);
}
