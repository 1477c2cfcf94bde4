//! Tests that recorders and replays reject Secrets, however they are named, before they contact a server.

use std::path::Path;

use crate::common::run;
use crate::kubeconfig;

/// The names by which kubectl finds Secrets.
const SECRET_NAMES: [&str; 7] =
    ["secrets", "secret", "Secret", "SECRETS", "secrets.", "secrets.v1.", "Secret.v1."];

#[track_caller]
fn check(folder: &Path, arguments: &[&str]) {
    let message = run(folder, &[&["record"], arguments].concat()).failure(1);
    let is_rejected = message.starts_with("error: ") && message.contains("Secrets are never recorded");
    assert!(is_rejected, "{arguments:?}: {message}");
    assert!(!folder.join("h.kine").exists() && !folder.join("films").exists(), "{arguments:?}");
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens on this port: a request that is not rejected at once fails with another message.
    std::fs::write(folder.path().join("config"), kubeconfig("http://127.0.0.1:9")).unwrap();
    folder
}

#[test]
fn a_recorder_rejects_every_name_of_secrets() {
    let folder = folder();
    let folder = folder.path();
    for name in SECRET_NAMES {
        for option in ["--kinds", "--also"] {
            check(folder, &["--kubeconfig", "config", "--into", "h.kine", option, name]);
            let pods = format!("pods,{name}");
            check(folder, &["--kubeconfig", "config", "--into", "h.kine", option, &pods]);
            check(
                folder,
                &["--kubeconfig", "config", "--format", "sched-record", "--path", "r.jsonl", option, name],
            );
        }
    }
}

#[test]
fn a_recorder_rejects_every_configuration_that_names_secrets() {
    let folder = folder();
    let folder = folder.path();
    let mut files: Vec<String> = Vec::new();
    for name in SECRET_NAMES {
        for option in ["kinds", "also"] {
            files.push(format!("clusters: [{{name: a, kubeconfig: config, {option}: [pods, {name}]}}]\n"));
            files.push(format!("{option}: [{name}]\nclusters: [{{name: a, kubeconfig: config}}]\n"));
        }
    }
    for name in ["v1.Secret", "/v1.Secret", "v1.secret", "v2.Secret", "example.com/v1.Secret"] {
        files
            .push(format!("clusters: [{{name: a, kubeconfig: config, trackedObjects: {{{name}: {{}}}}}}]\n"));
        files
            .push(format!("trackedObjects: {{{name}: {{}}}}\nclusters: [{{name: a, kubeconfig: config}}]\n"));
        // The configuration of SimKube's tracer.
        files.push(format!("trackedObjects: {{apps/v1.Deployment: {{}}, {name}: {{}}}}\n"));
    }
    for text in files {
        std::fs::write(folder.join("clusters.yaml"), &text).unwrap();
        let message =
            run(folder, &["record", "--config", "clusters.yaml", "--into", "films", "--duration", "1"]);
        assert!(message.err.contains("Secrets are never recorded"), "{text}: {}", message.err);
        let message = message.failure(1);
        assert!(message.starts_with("error: clusters.yaml: "), "{text}: {message}");
    }
}

#[test]
fn a_replay_applies_no_secrets_to_a_target() {
    let folder = folder();
    let folder = folder.path();
    let line = r#"{"at":"2026-11-01T10:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db","namespace":"shop"},"data":{}}}"#;
    std::fs::write(folder.join("h.jsonl"), line).unwrap();
    run(folder, &["import", "h.jsonl"]).success();
    for name in SECRET_NAMES {
        let message =
            run(folder, &["replay", "h.kine", "--target", "config", "--dry-run", "--kinds", name]).failure(1);
        assert!(message.contains("Secrets are never replayed into a target"), "{name}: {message}");
    }
}
