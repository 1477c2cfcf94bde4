//! Tests of live replays that are rejected, of dry runs, and of recordings in other formats.

use std::process::Stdio;

use testcluster::ClusterOptions;

use crate::common::{program_output, run};
use crate::server::start;
use crate::{file, import_recording, line_count, objects, replay, replaying, wait};

/// A recording like kube-scheduler-simulator's own example.
const RECORD: &str = r#"{"time":"2026-11-15T10:00:00Z","event":"Add","resource":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"s"}}}
{"time":"2026-11-15T10:00:00Z","event":"Add","resource":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1","uid":"n"},"status":{"capacity":{"cpu":"4","memory":"8Gi","pods":"110"},"allocatable":{"cpu":"4","memory":"8Gi","pods":"110"}}}}
{"time":"2026-11-15T10:00:01Z","event":"Add","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"w"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Pending"}}}
{"time":"2026-11-15T10:00:02Z","event":"Update","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"w","labels":{"a":"b"}},"spec":{"nodeName":"node-1","containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}}
{"time":"2026-11-15T10:00:02Z","event":"Add","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"gone","namespace":"shop","uid":"g"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Pending"}}}
{"time":"2026-11-15T10:00:03Z","event":"Delete","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"gone","namespace":"shop","uid":"g"},"spec":{"containers":[{"name":"c","image":"i"}]}}}
"#;

#[test]
fn recordings_of_the_simulator_are_played() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "record.jsonl", RECORD);
    run(folder.path(), &["import", "record.jsonl", "--into", "record.kine"]).success();
    let output = replay(folder.path(), cluster.kubeconfig(), &["record.kine", "--speed", "2"]).success();
    assert!(output.contains("Delay:"), "{output}");
    let pods =
        cluster.kubectl(&["get", "pods", "-A", "-o", "jsonpath={.items[*].metadata.labels.a}"]).unwrap();
    assert_eq!(pods, "b");
    assert_eq!(line_count(&cluster, &["get", "nodes"]), 1);
    let node =
        cluster.kubectl(&["get", "pod", "web", "-n", "shop", "-o", "jsonpath={.spec.nodeName}"]).unwrap();
    assert_eq!(node, "");

    // With `--keep-placement` the pod is bound, and runs.
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let arguments = ["record.kine", "--speed", "max", "--keep-placement"];
    let output = replay(folder.path(), cluster.kubeconfig(), &arguments).success();
    assert!(output.contains("1  bound"), "{output}");
    let pod = ["get", "pod", "web", "-n", "shop", "-o", "jsonpath={.spec.nodeName} {.status.phase}"];
    assert_eq!(cluster.kubectl(&pod).unwrap(), "node-1 Running");
}

#[test]
fn a_cluster_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let node = "{apiVersion: v1, kind: Node, metadata: {name: real}, status: {nodeInfo: {kubeletVersion: v1.36.4, \
        architecture: '', bootID: '', containerRuntimeVersion: '', kernelVersion: '', kubeProxyVersion: '', machineID: '', \
        operatingSystem: '', osImage: '', systemUUID: ''}}}";
    cluster.kubectl_with_input(&["create", "-f", "-"], node).unwrap();
    let error = replay(folder.path(), cluster.kubeconfig(), &[&history]).failure(1);
    assert!(error.contains("node real of") && error.contains("--yes"), "{error}");
    assert_eq!(line_count(&cluster, &["get", "nodes"]), 1);

    // A recording of the same cluster is not replayed into it either.
    cluster.kubectl(&["delete", "node", "real"]).unwrap();
    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    run(
        folder.path(),
        &["record", "--kubeconfig", kubeconfig, "--into", "own.kine", "--duration", "3s", "--no-redact"],
    )
    .success();
    let error = replay(folder.path(), cluster.kubeconfig(), &["own.kine"]).failure(1);
    assert!(error.contains("is the recorded cluster"), "{error}");

    let output = replay(folder.path(), cluster.kubeconfig(), &[&history, "--dry-run"]).success();
    assert!(output.contains("create") && output.contains("Pod"), "{output}");
    assert_eq!(line_count(&cluster, &["get", "nodes"]), 0);
}

#[test]
fn invalid_options_are_rejected_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "record.jsonl", RECORD);
    run(folder.path(), &["import", "record.jsonl", "--into", "record.kine"]).success();
    file(folder.path(), "bad.yaml", "rules: [{kinds: [Pod], match: 'object.', drop: true}]");
    file(folder.path(), "hooks.yml", "preRunHooks: [{command: x}]");
    let long = "x".repeat(64);
    for (arguments, message) in [
        (&["--rules", "bad.yaml"][..], "invalid CEL expression \"object.\""),
        (&["--rules", "none.yaml"], "cannot read the rules file none.yaml"),
        (&["--hooks", "hooks.yml"], "hooks.yml: invalid hooks"),
        (&["--run", &long], "invalid label value"),
        (&["--set", "scheduler.parallelism=2"], "--set cannot be used with --target"),
        (&["--out", "x"], "--out with --target requires --record"),
        (&["--record", "--resume"], "--record cannot be used with --resume"),
        (&["--style", "simkube", "--keep-placement"], "--keep-placement cannot be used with --style simkube"),
        (&["--kinds", "nothings"], "nothings"),
        (&["--duration", "5s", "--from", "2030-01-01"], "outside the history"),
    ] {
        let command = [&["replay", "record.kine", "--target", "none"], arguments].concat();
        let error = run(folder.path(), &command).failure(1);
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let error = run(folder.path(), &["replay", "record.kine", "--target", "none.kubeconfig"]).failure(1);
    assert!(error.contains("none.kubeconfig"), "{error}");
    for flag in ["--record", "--yes", "--resume", "--dry-run"] {
        let error = run(folder.path(), &["replay", "record.kine", flag]).failure(1);
        assert!(error.contains(&format!("{flag} requires --target")), "{error}");
    }
    let chosen = ["replay", "record.kine", "--target", "none", "--dry-run", "--kinds", "nodes"];
    let output = run(folder.path(), &chosen).success();
    assert!(output.contains("\nNode ") && !output.contains("\nPod "), "{output}");
    assert!(output.contains("kind not selected"), "{output}");
    let rules = run(folder.path(), &["replay", "--show-rules"]).success();
    assert!(rules.contains("spec.nodeName") && rules.contains("the target's scheduler decides"), "{rules}");
}

#[test]
fn another_object_of_the_same_name_is_left_alone() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let line = |second: u32, event: &str, labels: &str| {
        format!(
            r#"{{"time":"2026-11-15T10:00:{second:02}Z","event":"{event}","resource":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web","namespace":"default","uid":"w","labels":{labels}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}"#
        ) + "\n"
    };
    let text = line(0, "Add", "{}") + &line(20, "Update", r#"{"a":"b"}"#) + &line(21, "Delete", "{}");
    file(folder.path(), "record.jsonl", &text);
    run(folder.path(), &["import", "record.jsonl", "--into", "web.kine"]).success();
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &["web.kine", "--start-paused"]);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let get = |what: &str| cluster.kubectl(&["get", "pod", "web", "-o", what]).unwrap_or_default();
    let of_run = |command: &str| {
        run(folder.path(), &["replay", command, "--target", cluster.kubeconfig().to_str().unwrap()]).success()
    };
    wait("the run is paused", || of_run("runs").contains("paused"));
    of_run("resume");
    wait("the pod exists", || !get("name").is_empty());
    of_run("pause");
    wait("the run is paused again", || of_run("runs").contains("paused"));
    cluster.kubectl(&["delete", "pod", "web", "--force"]).unwrap();
    cluster.kubectl(&["run", "web", "--image=theirs"]).unwrap();
    of_run("resume");
    let output = program_output(playing.wait_with_output().unwrap()).success();
    assert!(output.contains("not created by this replay"), "{output}");
    assert_eq!(get("jsonpath={.spec.containers[0].image} {.metadata.labels.a}"), "theirs ");
}

#[test]
fn a_rejected_object_is_reported_and_the_rest_continues() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let bad = r#"{"time":"2026-11-15T10:00:01Z","event":"Add","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"BAD_","namespace":"shop","uid":"b"},"spec":{"containers":[]}}}
"#;
    let unknown = r#"{"time":"2026-11-15T10:00:01Z","event":"Add","resource":{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"t","namespace":"shop","uid":"t"}}}
"#;
    file(folder.path(), "record.jsonl", &format!("{RECORD}{bad}{unknown}"));
    run(folder.path(), &["import", "record.jsonl", "--into", "record.kine"]).success();
    let output = replay(folder.path(), cluster.kubeconfig(), &["record.kine", "--speed", "max"]);
    assert_eq!(output.code, 1, "{}{}", output.out, output.err);
    assert!(output.out.contains("create Pod: 422") && output.out.contains("BAD_"), "{}", output.out);
    assert!(output.out.contains("kind not served by the target"), "{}", output.out);
    assert_eq!(objects::server_objects(cluster.client(), "pods").len(), 1);
}

#[test]
fn kinds_that_a_recording_defines_are_created_before_their_objects() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let line = |uid: &str, resource: &str| {
        let time = "2026-11-15T10:00:00Z";
        format!(r#"{{"time":"{time}","event":"Add","resource":{}}}"#, resource.replace("UID", uid)) + "\n"
    };
    let definition = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boxes.x.io","uid":"UID"},"spec":{"group":"x.io","scope":"Namespaced","names":{"plural":"boxes","singular":"box","kind":"Box","listKind":"BoxList"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}"#;
    let owner = r#"{"apiVersion":"x.io/v1","kind":"Box","metadata":{"name":"outer","namespace":"shop","uid":"UID"},"spec":{"a":1}}"#;
    let owned = r#"{"apiVersion":"x.io/v1","kind":"Box","metadata":{"name":"inner","namespace":"shop","uid":"UID","ownerReferences":[{"apiVersion":"x.io/v1","kind":"Box","name":"outer","uid":"outer"}]}}"#;
    let text = line("inner", owned) + &line("outer", owner) + &line("definition", definition);
    file(folder.path(), "record.jsonl", &text);
    run(folder.path(), &["import", "record.jsonl", "--into", "boxes.kine"]).success();
    replay(folder.path(), cluster.kubeconfig(), &["boxes.kine", "--speed", "max"]).success();
    let get = |what: &str| cluster.kubectl(&["get", "boxes", "-n", "shop", "-o", what]).unwrap();
    let outer = "jsonpath={.items[?(@.metadata.name=='outer')].metadata.uid}";
    let owner = "jsonpath={.items[?(@.metadata.name=='inner')].metadata.ownerReferences[0].uid}";
    assert!(!get(outer).is_empty());
    assert_eq!(get(outer), get(owner));
}
