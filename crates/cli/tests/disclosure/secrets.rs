//! Tests of Secrets in imported histories, and of the commands that show, export or serve them.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::common::run;
use crate::server::Server;

/// The values of a Secret, in its data and in the annotation of `kubectl apply`.
const VALUES: [&str; 3] = ["aHVudGVyMg", "c3dvcmRmaXNo", "hunter2"];

/// A history with a Secret, which changes once.
fn history() -> TempDir {
    let secret = |at: &str, event_type: &str, version: u32, value: &str| {
        format!(
            r#"{{"at":"2026-11-01T10:{at}Z","type":"{event_type}","object":{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"db","namespace":"shop","uid":"s","resourceVersion":"{version}","annotations":{{"kubectl.kubernetes.io/last-applied-configuration":"{{hunter2}}"}}}},"type":"Opaque","data":{{"password":"{value}"}}}}}}"#
        )
    };
    let lines = [
        r#"{"at":"2026-11-01T10:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop","uid":"n","resourceVersion":"1"}}}"#.to_owned(),
        r#"{"at":"2026-11-01T10:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"p","resourceVersion":"2"},"spec":{"containers":[{"name":"a","image":"b"}]}}}"#.to_owned(),
        r#"{"at":"2026-11-01T10:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"one","uid":"o","resourceVersion":"2"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}}"#.to_owned(),
        secret("01:00", "ADDED", 3, VALUES[0]),
        secret("02:00", "MODIFIED", 4, VALUES[1]),
    ];
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("h.jsonl"), lines.join("\n") + "\n").unwrap();
    run(folder.path(), &["import", "h.jsonl"]).success();
    folder
}

/// Whether the bytes contain any of the values.
fn holds_values(bytes: &[u8]) -> bool {
    VALUES.iter().any(|value| bytes.windows(value.len()).any(|part| part == value.as_bytes()))
}

fn mode(file: &Path) -> u32 {
    std::fs::metadata(file).unwrap().permissions().mode() & 0o777
}

#[test]
fn every_export_leaves_secrets_out_and_says_so() {
    let folder = history();
    let folder = folder.path();
    std::fs::write(
        folder.join("tracer.yaml"),
        "trackedObjects: {v1.Pod: {}, v1.Secret: {podSpecTemplatePaths: [/spec]}}\n",
    )
    .unwrap();
    let formats: [(&str, &str, &[&str]); 9] = [
        ("jsonl", "2 changes of Secrets", &[]),
        ("jsonl", "2 changes of Secrets", &["--kinds", "secrets"]),
        ("manifests", "1 Secret", &[]),
        ("sched-record", "2 changes of Secrets", &["--kinds", "pods,secrets"]),
        ("kss-snapshot", "1 Secret", &[]),
        ("sktrace", "2 changes of Secrets", &["--tracer-config", "tracer.yaml"]),
        ("scaling-history", "2 changes of Secrets", &[]),
        ("kai-snapshot", "1 Secret", &[]),
        ("kwok", "2 changes of Secrets", &[]),
    ];
    for (index, (format, words, options)) in formats.into_iter().enumerate() {
        let (file, back) = (format!("out{index}"), format!("back{index}.kine"));
        let export = ["export", "h.kine", "--format", format, "--out", &file];
        let output = run(folder, &[&export[..], options].concat());
        let expected = format!("{words} (use --with-secrets to include them)");
        assert!(output.err.contains(&expected), "{format}: {} should say {expected:?}", output.err);
        output.success();
        assert!(!holds_values(&std::fs::read(folder.join(&file)).unwrap()), "{format}");
        // Nor in its compressed parts.
        let import = ["import", &file, "--format", format, "--into", &back, "--at", "2026-11-01T10:00Z"];
        if run(folder, &import).code == 0 {
            let out = run(folder, &["export", &back, "--format", "jsonl", "--with-secrets"]).success();
            assert!(!holds_values(out.as_bytes()), "{format}");
        }
    }
    let output = run(folder, &["export", "h.kine", "--format", "jsonl"]);
    assert!(output.err.contains("2 changes of Secrets"), "{}", output.err);
    assert!(!holds_values(output.success().as_bytes()));
}

#[test]
fn a_stripped_import_keeps_no_secrets() {
    let folder = history();
    let folder = folder.path();
    let key = ["--redact-key", "key"];
    let import = [&["import", "h.jsonl", "--strip", "--into", "strict.kine"][..], &key].concat();
    let output = run(folder, &import).success();
    assert!(output.contains("2 changes of Secrets skipped"), "{output}");
    let export = ["export", "strict.kine", "--format", "jsonl", "--with-secrets"];
    let kept = run(folder, &export).success();
    assert!(kept.contains(r#""kind":"Pod""#) && !holds_values(kept.as_bytes()), "{kept}");
}

#[test]
fn a_replay_writes_no_secrets() {
    let folder = history();
    let folder = folder.path();
    run(folder, &["replay", "h.kine", "--out", "played"]).success();
    let export = ["export", "played/replay.kine", "--format", "jsonl", "--with-secrets"];
    let played = run(folder, &export).success();
    assert!(played.contains(r#""kind":"Pod""#) && !holds_values(played.as_bytes()), "{played}");
}

#[test]
fn exported_secrets_are_readable_by_the_owner_only() {
    let folder = history();
    let folder = folder.path();
    File::create(folder.join("usual")).unwrap();
    let usual = mode(&folder.join("usual"));
    for (format, options) in
        [("jsonl", &[][..]), ("manifests", &[]), ("sched-record", &["--kinds", "secrets"]), ("kwok", &[])]
    {
        let export = ["export", "h.kine", "--format", format, "--out", "out"];
        run(folder, &[&export[..], options].concat()).success();
        assert_eq!(mode(&folder.join("out")), usual, "{format}");
        let output = run(folder, &[&export[..], options, &["--with-secrets"]].concat());
        assert!(!output.err.contains("--with-secrets"), "{}", output.err);
        output.success();
        assert!(holds_values(&std::fs::read(folder.join("out")).unwrap()), "{format}");
        assert_eq!(mode(&folder.join("out")), 0o600, "{format}");
        std::fs::remove_file(folder.join("out")).unwrap();
    }
    // An anonymized export never contains them.
    run(folder, &["export", "h.kine", "--format", "jsonl", "--with-secrets", "--anonymize"]).failure(2);
}

#[test]
fn an_import_keeps_secrets_and_get_shows_them_if_named() {
    let folder = history();
    let folder = folder.path();
    let all = run(folder, &["export", "h.kine", "--format", "jsonl", "--with-secrets"]).success();
    let line = |text: &str| text.lines().filter(|line| line.contains("Secret")).count();
    assert_eq!(line(&all), 2);
    assert!(run(folder, &["get", "secret/db", "-n", "shop", "-o", "yaml"]).success().contains(VALUES[1]));
    let table = run(folder, &["get", "secrets", "-A"]).success();
    assert!(table.contains("db") && !holds_values(table.as_bytes()), "{table}");
}

#[test]
fn changes_of_secrets_are_masked_as_kubectl_masks_them() {
    let folder = history();
    let folder = folder.path();
    for (arguments, expected) in [
        (&["diff", "2026-11-01T10:01Z", "2026-11-01T10:02Z"][..], "*** (before)\" → \"*** (after)"),
        (&["diff", "2026-11-01T10:01Z", "2026-11-01T10:02Z", "secrets", "-o", "json"], "*** (after)"),
        (&["log", "secret/db", "-n", "shop"], "*** (after)"),
        (&["log", "secret/db", "-n", "shop", "--full"], "***"),
        (&["log", "secret/db", "-n", "shop", "-o", "json"], "***"),
    ] {
        let output = run(folder, arguments);
        assert!(
            output.out.contains("password") && output.out.contains(expected),
            "{arguments:?}: {}",
            output.out
        );
        assert!(!holds_values(output.out.as_bytes()), "{arguments:?}: {}", output.out);
    }
}

#[test]
fn a_server_serves_secrets_only_in_downloads_of_the_whole_history() {
    let folder = history();
    let server = Server::start(folder.path(), &[]);
    let of_history = |rest: &str| format!("/api/v1/histories/h/{rest}");
    let window = serde_json::json!({
        "start_ts": 1_793_527_200, "end_ts": 1_793_530_800, "export_path": "file:///t",
        "filters": {"excluded_namespaces": [], "excluded_labels": []},
    });
    for body in [
        server.get(&of_history("objects")).success(),
        server.get(&of_history("changes")).success(),
        server.get(&of_history("changes?name=db")).success(),
        server.get("/get-snapshot").success(),
        server.get("/api/db/h.db").success(),
        server.post("/export", &window).success(),
    ] {
        assert!(!holds_values(&body), "{}", String::from_utf8_lossy(&body));
    }
    let text = String::from_utf8(server.get(&of_history("objects")).success()).unwrap();
    assert!(text.contains("\"web\""), "{text}");
    for path in ["objects?kind=secrets", "changes?kind=Secret"] {
        let message = server.get(&of_history(path)).failure(400);
        assert!(message.contains("Secrets are not served"), "{message}");
    }
    server.get(&of_history("download")).success();
}
