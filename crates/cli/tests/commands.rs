//! The commands of the program, run as a user runs them: output, errors and exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{PROGRAM, command, program_output, run};
use serde_json::json;

const EVENTS: &str = r#"{"at":"2026-11-01T14:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1","uid":"n1","creationTimestamp":"2026-11-01T10:00:00Z"},"status":{"conditions":[{"type":"Ready","status":"True"}],"nodeInfo":{"kubeletVersion":"v1.36.4"}}}}
{"at":"2026-11-01T14:00:01Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1","labels":{"app":"web"},"creationTimestamp":"2026-11-01T14:00:01Z"},"spec":{"containers":[{"name":"web","image":"web:1"}]},"status":{"phase":"Pending"}}}
{"at":"2026-11-01T14:00:05Z","type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1","labels":{"app":"web"},"creationTimestamp":"2026-11-01T14:00:01Z"},"spec":{"nodeName":"node-1","containers":[{"name":"web","image":"web:1"}]},"status":{"phase":"Running","containerStatuses":[{"name":"web","ready":true,"restartCount":0,"state":{"running":{}}}]}}}
{"at":"2026-11-01T14:10:00Z","type":"GAP","to":"2026-11-01T14:12:00Z","kinds":["Pod"],"why":"the API server was away"}
{"at":"2026-11-01T14:30:00Z","type":"DELETED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1"}}}
"#;

fn shop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.jsonl"), EVENTS).unwrap();
    run(folder.path(), &["import", "shop.jsonl"]).success();
    folder
}

#[track_caller]
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn get_shows_the_past_as_kubectl_shows_the_present() {
    let shop = shop();
    let get = |arguments: &[&str]| run(shop.path(), &[&["get"], arguments].concat());
    assert_eq!(
        get(&["pods", "-n", "shop", "--at", "14:00:02"]).success(),
        "NAME    READY   STATUS    RESTARTS   AGE\nweb-1   0/1     Pending   0          1s\n"
    );
    assert_eq!(
        get(&["po", "-A", "--at", "2026-11-01T14:05:00Z"]).success(),
        "NAMESPACE   NAME    READY   STATUS    RESTARTS   AGE\nshop        web-1   1/1     Running   0          4m59s\n"
    );
    assert_eq!(get(&["pod/web-1", "-n", "shop", "--at", "-20m", "-o", "name"]).success(), "pod/web-1\n");
    assert_eq!(get(&["po", "-A", "-n", "other", "--at", "-20m", "-o", "name"]).success(), "pod/web-1\n");
    assert_eq!(get(&["nodes", "-o", "name"]).success(), "node/node-1\n");
    let json = get(&["pod", "web-1", "-n", "shop", "--at", "14:00:05", "-o", "json"]).success();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["spec"]["nodeName"], "node-1");
    let yaml = get(&["pods", "-A", "--at", "14:01", "-o", "yaml"]).success();
    assert!(yaml.starts_with("apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n"), "{yaml}");
    for (selector, found) in [("app=web", 1), ("app in (a,web)", 1), ("!app", 0), ("app!=web", 0)] {
        let names = get(&["pods", "-A", "--at", "14:01", "-l", selector, "-o", "name"]).success();
        assert_eq!(names.lines().count(), found, "{selector}");
    }
    let running =
        get(&["pods", "-A", "--at", "14:01", "--field-selector", "status.phase=Running", "-o", "name"]);
    assert_eq!(running.success(), "pod/web-1\n");
}

/// As `kubectl get` shows them, whose API server has the same Events in two groups.
#[test]
fn events_are_shown_as_those_of_the_group_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    for (file, api_version, regarding) in
        [("new", "events.k8s.io/v1", "regarding"), ("core", "v1", "involvedObject")]
    {
        let mut event = json!({
            "apiVersion": api_version, "kind": "Event", "type": "Normal", "reason": "Scheduled",
            "metadata": {"name": "web-1.1", "namespace": "shop", "uid": "e1", "creationTimestamp": "2026-11-01T14:00:02Z"},
        });
        event[regarding] = json!({"kind": "Pod", "name": "web-1", "namespace": "shop"});
        let change = json!({"at": "2026-11-01T14:00:02Z", "type": "ADDED", "object": event});
        let lines = EVENTS.lines().take(2).chain([&*change.to_string()]).collect::<Vec<_>>().join("\n");
        std::fs::write(folder.path().join(format!("{file}.jsonl")), lines).unwrap();
        run(folder.path(), &["import", &format!("{file}.jsonl")]).success();
        let history = format!("{file}.kine");
        let get = |arguments: &[&str]| {
            run(folder.path(), &[&["get", "-n", "shop", "--history", &history], arguments].concat())
        };
        let names = get(&["pods,events", "-o", "name"]).success();
        assert_eq!(names, "pod/web-1\nevent/web-1.1\n", "{file}");
        let table = get(&["pods,ev", "--no-headers"]).success();
        let first_cells: Vec<&str> =
            table.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(first_cells[0], "pod/web-1");
        assert!(table.contains("pod/web-1"), "{table}");
        // What is printed can be asked for.
        let again: Vec<&str> = names.lines().collect();
        assert_eq!(get(&[&again[..], &["-o", "name"]].concat()).success(), names, "{file}");
        for asked in ["events.events.k8s.io", "events.v1.events.k8s.io"] {
            let names = get(&[asked, "-o", "name"]).success();
            assert_eq!(names, "event.events.k8s.io/web-1.1\n", "{file}");
            assert_eq!(get(&[names.trim_end(), "-o", "name"]).success(), names, "{file}");
        }
        let error = get(&["event", "web-9"]).failure(1);
        assert!(error.starts_with("error: events \"web-9\" not found at "), "{error}");
    }
}

#[test]
fn get_reports_missing_objects() {
    let shop = shop();
    let empty = run(shop.path(), &["get", "pods", "-n", "shop"]);
    assert_eq!((empty.code, empty.err.as_str()), (0, "No resources found in shop namespace.\n"));
    let error = run(shop.path(), &["get", "pod", "web-9", "-n", "shop"]).failure(1);
    assert_eq!(error, "error: pods \"web-9\" not found at 2026-11-01T14:30:00Z\n");
    let error = run(shop.path(), &["get", "wombats"]).failure(1);
    assert!(error.contains("unknown resource type \"wombats\"; the history has: nodes, pods"), "{error}");
    let error = run(shop.path(), &["get", "pods", "-l", "a=b=c"]).failure(1);
    assert!(error.starts_with("error: "), "{error}");
    let error = run(shop.path(), &["get", "pods", "--at", "teatime"]).failure(1);
    assert!(error.contains("invalid time \"teatime\": expected 2026-11-01T14:03Z"), "{error}");
    run(shop.path(), &["get", "pods", "-o", "xml"]).failure(2);
}

#[test]
fn a_gap_is_reported_by_every_command_that_reads_its_time() {
    let shop = shop();
    let inside = run(shop.path(), &["get", "pods", "-A", "--at", "14:11"]);
    assert!(inside.err.contains("may have been missed: the API server was away"), "{}", inside.err);
    let outside = run(shop.path(), &["get", "pods", "-A", "--at", "14:12"]);
    assert_eq!(outside.err, "");
    assert!(run(shop.path(), &["log", "pod/web-1", "-n", "shop"]).err.contains("may have been missed"));
    assert!(run(shop.path(), &["info"]).success().contains("the API server was away"));
}

#[test]
fn log_shows_each_version_and_what_changed() {
    let shop = shop();
    let log = run(shop.path(), &["log", "pod/web-1", "-n", "shop"]).success();
    assert!(
        log.contains("2026-11-01T14:00:05Z  MODIFIED  +4s  change 3\n    + spec.nodeName: \"node-1\"\n"),
        "{log}"
    );
    assert!(log.contains("    - status.phase: \"Pending\"\n    + status.phase: \"Running\"\n"), "{log}");
    assert!(log.contains("2026-11-01T14:30:00Z  DELETED"), "{log}");
    let only =
        run(shop.path(), &["log", "pod", "web-1", "-n", "shop", "--fields", "spec.nodeName", "-o", "json"])
            .success();
    let lines: Vec<serde_json::Value> =
        only.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{only}");
    assert_eq!(lines[0]["changed"][0]["after"], "node-1");
    let error = run(shop.path(), &["log", "pod/never", "-n", "shop"]).failure(1);
    assert!(error.ends_with("error: pods \"never\" not found in the history (namespace shop)\n"), "{error}");
}

#[test]
fn diff_exits_as_diff_does() {
    let shop = shop();
    let differs = run(shop.path(), &["diff", "14:00:02", "14:00:06"]);
    assert_eq!(differs.code, 1);
    assert!(differs.out.contains("  ~ shop/web-1\n      + spec.nodeName: \"node-1\"\n"), "{}", differs.out);
    assert_eq!(run(shop.path(), &["diff", "14:01", "14:02"]).success(), "no differences\n");
    assert_eq!(run(shop.path(), &["diff", "start", "end", "-o", "name"]).out, "");
    run(shop.path(), &["diff", "14:01", "noon"]).failure(2);
    run(shop.path(), &["diff", "14:01", "14:02", "--history", "none.kine"]).failure(2);
}

#[test]
fn export_and_import_lose_nothing() {
    let shop = shop();
    run(shop.path(), &["export", "--format", "jsonl", "--out", "out.jsonl.gz"]).success();
    run(shop.path(), &["import", "out.jsonl.gz", "--into", "again.kine"]).success();
    let export = |history: &str| run(shop.path(), &["export", history, "--format", "jsonl"]).success();
    assert_eq!(export("shop.kine"), export("again.kine"));
    let manifests = run(shop.path(), &["export", "shop.kine", "--format", "manifests", "--at", "14:01"]);
    assert!(manifests.err.contains("skipped: 2 changes not in the state at 2026-11-01T14:01:00Z, 1 gap"));
    std::fs::write(shop.path().join("then.yaml"), manifests.success()).unwrap();
    let output = run(shop.path(), &["import", "then.yaml"]).success();
    assert!(output.contains("2 changes written to then.kine"), "{output}");
    let info = run(shop.path(), &["info", "then.kine"]).success();
    assert!(info.contains("times inferred"), "{info}");
    assert!(info.contains("2026-11-01T14:00:01Z to 2026-11-01T14:00:01Z"), "{info}");
}

#[test]
fn an_export_of_a_window_begins_with_the_state_then() {
    let shop = shop();
    let lines = |more: &[&str]| {
        let arguments =
            [&["export", "--format", "jsonl", "--from", "14:00:04", "--to", "14:00:05"], more].concat();
        run(shop.path(), &arguments).success().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = lines(&[]);
    assert_eq!(whole.len(), 3);
    assert!(
        whole[0].starts_with(r#"{"at":"2026-11-01T14:00:04Z","source":"shop","type":"ADDED""#),
        "{}",
        whole[0]
    );
    assert_eq!(lines(&["--changes-only"]).len(), 1);
    assert_eq!(lines(&["--kinds", "nodes"]).len(), 1);
    assert_eq!(lines(&["-l", "app=web"]).len(), 2);
}

#[test]
fn an_anonymized_export_contains_no_name() {
    let shop = shop();
    let export_with = |flag: &str| {
        let arguments = ["export", "--format", "jsonl", flag, "--key", "my.key"];
        run(shop.path(), &arguments).success()
    };
    let export = || export_with("--anonymize");
    let one = export();
    assert!(!one.contains("web") && !one.contains("shop") && one.contains("Pending"), "{one}");
    assert_eq!(one, export(), "the same key gives the same names");
    assert_eq!(one, export_with("--anonymise"), "the earlier spelling is still accepted");
    let help = run(shop.path(), &["export", "--help"]).success();
    assert!(help.contains("--anonymize") && !help.contains("--anonymise"), "{help}");
    std::fs::remove_file(shop.path().join("my.key")).unwrap();
    assert_ne!(one, export(), "another key gives other names");
}

#[test]
fn strip_hides_environment_values_by_a_key_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let pod = |env: &str| {
        format!(
            r#"{{"at":1,"type":"ADDED","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{env}","managedFields":[]}},"spec":{{"containers":[{{"name":"c","env":[{{"name":"PASSWORD","value":"{env}"}}]}}]}}}}}}"#
        )
    };
    std::fs::write(folder.path().join("a.jsonl"), format!("{}\n", pod("hunter2"))).unwrap();
    run(folder.path(), &["import", "a.jsonl", "--strip"]).success();
    let shown = run(folder.path(), &["get", "pods", "-A", "-o", "json", "--history", "a.kine"]).success();
    assert!(shown.contains("redacted:") && !shown.contains("\"value\": \"hunter2\""), "{shown}");
    assert!(folder.path().join(".local/share/kinescope/redact.key").exists());
    run(folder.path(), &["import", "a.jsonl", "--strip", "--no-redact", "--into", "b.kine"]).success();
    let shown = run(folder.path(), &["get", "pods", "-A", "-o", "json", "--history", "b.kine"]).success();
    assert!(shown.contains("\"value\": \"hunter2\"") && !shown.contains("managedFields"), "{shown}");
}

#[test]
fn the_history_is_found_or_must_be_named() {
    let shop = shop();
    assert!(run(shop.path(), &["info"]).success().starts_with("shop.kine\n"));
    std::fs::copy(shop.path().join("shop.kine"), shop.path().join("other.kine")).unwrap();
    let error = run(shop.path(), &["info"]).failure(1);
    assert!(
        error.contains("several .kine files in the current directory (other.kine, shop.kine)"),
        "{error}"
    );
    let chosen = command(shop.path()).env("KINESCOPE_HISTORY", "other.kine").arg("info").output().unwrap();
    assert!(program_output(chosen).success().starts_with("other.kine\n"));
    let empty = tempfile::tempdir().unwrap();
    let error = run(empty.path(), &["info"]).failure(1);
    assert!(error.contains("no .kine file in the current directory"), "{error}");
    let error = run(empty.path(), &["info", "none.kine"]).failure(1);
    assert_eq!(error, "error: history none.kine not found\n");
}

#[test]
fn a_folder_of_manifests_is_one_moment_of_one_source() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("shop/b.yaml", "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: web\n");
    write(
        "shop/a/pods.json",
        r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p","namespace":"web","creationTimestamp":"2026-11-01T10:00:00Z"}}]}"#,
    );
    write("shop/notes.txt", "not a manifest");
    run(folder.path(), &["import", "shop"]).success();
    let info = run(folder.path(), &["info"]).success();
    assert!(info.contains("source shop\n  2026-11-01T10:00:00Z to 2026-11-01T10:00:00Z"), "{info}");
    assert_eq!(
        run(folder.path(), &["get", "ns,pods", "-A", "-o", "name"]).success(),
        "namespace/web\npod/p\n"
    );
    let error = run(folder.path(), &["import", "shop.kine", "--into", "again.kine"]).failure(1);
    assert_eq!(error, "error: shop.kine is already a history: pass it with --history\n");
}

#[test]
fn importing_twice_fails_and_later_changes_are_appended() {
    let shop = shop();
    let error = run(shop.path(), &["import", "shop.jsonl"]).failure(1);
    assert!(
        error.contains("source \"shop\" is already in the history up to 2026-11-01T14:30:00Z"),
        "{error}"
    );
    let later = EVENTS.replace("2026-11-01T", "2026-11-02T");
    std::fs::write(shop.path().join("later.jsonl"), later).unwrap();
    let output =
        run(shop.path(), &["import", "later.jsonl", "--into", "shop.kine", "--source", "shop"]).success();
    assert!(output.contains("4 changes appended to shop.kine"), "{output}");
    let output =
        run(shop.path(), &["import", "later.jsonl", "--into", "shop.kine", "--source", "west"]).success();
    assert!(output.contains("4 changes appended"), "{output}");
    let error = run(shop.path(), &["get", "pods", "-A"]).failure(1);
    assert!(error.contains("several sources; set --source to one of: shop, west"), "{error}");
    run(shop.path(), &["doctor"]).success();
}

#[test]
fn a_failed_import_leaves_nothing_and_says_where_it_failed() {
    let check = |name: &str, bytes: &[u8], message: &str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let error = run(folder.path(), &["import", name, "--into", "h.kine"]).failure(1);
        assert!(error.contains(message), "{name}: {error}");
        assert_eq!(files(folder.path()), [name], "{error}");
    };
    let line = |number: usize| EVENTS.lines().nth(number - 1).unwrap();
    check("cut.jsonl", &EVENTS.as_bytes()[..EVENTS.len() - 20], "cut.jsonl, line 5: not an event: EOF");
    check("word.jsonl", line(1).replace("ADDED", "BORN").as_bytes(), "unknown type \"BORN\": expected ADDED");
    check("field.jsonl", line(1).replace("\"object\"", "\"objekt\"").as_bytes(), "unknown field `objekt`");
    check("time.jsonl", line(1).replace("14:00:00Z", "25:00:00Z").as_bytes(), "expected a time such as");
    check(
        "far.jsonl",
        line(1).replace("\"2026-11-01T14:00:00Z\",\"type", "9223372036854775807,\"type").as_bytes(),
        "after the year 2262",
    );
    check("name.jsonl", line(1).replace("node-1", "../etc").as_bytes(), "is not a valid name");
    check("escape.jsonl", line(1).replace("node-1", "\\u001b[31m").as_bytes(), "is not a valid name");
    check(
        "twice.jsonl",
        line(1).replace("\"name\"", "\"name\":\"a\",\"name\"").as_bytes(),
        "duplicate field `name`",
    );
    check("huge.jsonl", line(1).replace("\"n1\"", "1e999").as_bytes(), "out of range");
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check("deep.jsonl", line(1).replace("\"n1\"", &deep).as_bytes(), "nested deeper than");
    check(
        "utf8.jsonl",
        &[line(1).as_bytes(), b"\n{\"at\":\"\xff\"}\n"].concat(),
        "utf8.jsonl, line 2: byte 7 is not UTF-8",
    );
    check("gap.jsonl", line(4).replace("\"to\":\"2026", "\"to\":\"2025").as_bytes(), "before its start at");
    check("nothing.bin", b"\x00\x01\x02", "unrecognized format; pass --format");
    check("empty.jsonl", b"", "unrecognized format; pass --format");
    check("odd.yaml", b"apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", "odd.yaml, line 4");
    check(
        "part.yaml",
        b"apiVersion: v1\nkind: Pod\n",
        "part.yaml, line 1: not a manifest: metadata is missing",
    );
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let whole = gzip(EVENTS.repeat(50).as_bytes());
    check("cut.jsonl.gz", &whole[..whole.len() - 9], "cannot read cut.jsonl.gz");
}

#[test]
fn a_missing_folder_is_named_by_every_command_that_writes_a_history() {
    let shop = shop();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}], "users": [{"name": "u", "user": {}}],
    });
    std::fs::write(shop.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let expected = "cannot write films/2026/h.kine: there is no folder films/2026; create it, or name a file in another one";
    for arguments in [
        &["import", "shop.jsonl", "--into", "films/2026/h.kine"][..],
        &["record", "--kubeconfig", "kubeconfig", "--no-redact", "--into", "films/2026/h.kine"],
        &["cluster", "--record", "films/2026/h.kine"],
        &["doctor", "shop.kine", "--salvage", "films/2026/h.kine"],
    ] {
        let error = run(shop.path(), arguments).failure(1);
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
    // A file is no folder.
    let error = run(shop.path(), &["import", "shop.jsonl", "--into", "shop.jsonl/h.kine"]).failure(1);
    assert!(error.contains("there is no folder shop.jsonl;"), "{error}");
    assert_eq!(files(shop.path()), ["kubeconfig", "shop.jsonl", "shop.kine"]);
}

#[test]
fn another_process_may_read_but_not_write() {
    let shop = shop();
    let path = shop.path().join("shop.kine");
    let writer = history::Writer::open(&path).unwrap();
    run(shop.path(), &["info"]).success();
    let error = run(shop.path(), &["prune", "--before", "14:10"]).failure(1);
    assert!(
        error.contains(&format!("in use by another process (process {})", std::process::id())),
        "{error}"
    );
    writer.close().unwrap();
    run(shop.path(), &["prune", "--before", "14:10"]).success();
}

#[test]
fn pruning_keeps_the_state_as_the_beginning() {
    let shop = shop();
    let output = run(shop.path(), &["prune", "--before", "14:05"]).success();
    assert!(output.contains("now begins at 2026-11-01T14:05:00Z\n3 of 4 changes kept"), "{output}");
    let error = run(shop.path(), &["get", "pods", "-A", "--at", "14:01"]).failure(1);
    assert!(error.contains("before the start of the history, 2026-11-01T14:05:00Z"), "{error}");
    assert!(run(shop.path(), &["get", "pods", "-A", "--at", "14:05"]).success().contains("web-1"));
    let error = run(shop.path(), &["prune", "--before", "2027-01-01"]).failure(1);
    assert!(error.contains("after the end of the history"), "{error}");
    let error = run(shop.path(), &["prune", "--before", "2020-01-01"]).failure(1);
    assert!(error.contains("nothing to delete before 2020-01-01T00:00:00Z"), "{error}");
}

#[test]
fn damage_is_found_and_the_rest_is_saved() {
    let folder = common::demo_history("shop.kine");
    run(folder.path(), &["doctor", "shop.kine"]).success();
    let mut bytes = std::fs::read(folder.path().join("shop.kine")).unwrap();
    // Without its first page the file cannot be opened.
    bytes[..4096].fill(0);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(folder.path().join("broken.kine"), bytes).unwrap();
    run(folder.path(), &["doctor", "broken.kine"]).failure(1);
    let output =
        run(folder.path(), &["doctor", "broken.kine", "--salvage", "saved.kine", "-o", "json"]).success();
    let output: serde_json::Value = serde_json::from_str(&output).unwrap();
    let (saved, lost) = (output["changes"].as_i64().unwrap(), output["lost"].as_i64().unwrap());
    assert!(saved > 40_000 && lost <= 512, "{output}");
    assert!(run(folder.path(), &["doctor", "saved.kine"]).success().starts_with("no damage found"));
    if lost > 0 {
        assert!(
            run(folder.path(), &["info", "saved.kine"])
                .success()
                .contains("lost because the file was damaged")
        );
    }
    let error = run(folder.path(), &["doctor", "broken.kine", "--salvage", "saved.kine"]).failure(1);
    assert_eq!(error, "error: saved.kine already exists\n");
}

#[test]
fn files_that_are_no_histories_get_specific_errors() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    write("text.kine", b"just some text that goes on for a while, longer than a header of SQLite would be .........................");
    write("empty.kine", b"");
    let sqlite = rusqlite::Connection::open(folder.path().join("other.kine")).unwrap();
    sqlite.execute_batch("CREATE TABLE t (a); PRAGMA user_version = 7;").unwrap();
    let sqlite = rusqlite::Connection::open(folder.path().join("newer.kine")).unwrap();
    sqlite
        .execute_batch("CREATE TABLE t (a); PRAGMA application_id = 0x4b494e45; PRAGMA user_version = 99;")
        .unwrap();
    let hostile = rusqlite::Connection::open(folder.path().join("hostile.kine")).unwrap();
    hostile
        .execute_batch(
            "CREATE VIEW source AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r;
             PRAGMA application_id = 0x4b494e45; PRAGMA user_version = 1;",
        )
        .unwrap();
    for (name, message) in [
        ("text.kine", "is not a Kinescope history: not an SQLite file"),
        ("empty.kine", "is not a Kinescope history: it is empty"),
        ("other.kine", "is not a Kinescope history: SQLite file of another program"),
        ("newer.kine", "has file version 99, supported are versions up to"),
        ("hostile.kine", "is not a Kinescope history: table "),
    ] {
        for command in ["info", "doctor"] {
            let error = run(folder.path(), &[command, name]).failure(1);
            assert!(error.contains(message), "{error}");
        }
    }
    let error = run(folder.path(), &["info", "."]).failure(1);
    assert_eq!(error, "error: . is not a Kinescope history: it is a folder, not a file\n");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = String::new();
    for number in 0..3_000 {
        let noise: String =
            (0..200).map(|step| char::from(b'a' + ((number * 7919 + step * step * 31) % 26) as u8)).collect();
        lines += &format!(
            "{{\"at\":{number},\"type\":\"ADDED\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p{number}\"}},\"x\":\"{noise}\"}}}}\n"
        );
    }
    std::fs::write(folder.path().join("many.jsonl"), lines).unwrap();
    // A file size limit of the shell stands in for a full disk: at most 100 blocks of 512 or 1,024 bytes.
    let script = format!("trap '' XFSZ; ulimit -f 100; exec {PROGRAM} import many.jsonl");
    let output = Command::new("sh").arg("-c").arg(script).current_dir(folder.path()).output().unwrap();
    let error = program_output(output).failure(1);
    assert!(error.starts_with("error: cannot "), "{error}");
    assert_eq!(files(folder.path()), ["many.jsonl"]);
}

#[cfg(unix)]
#[test]
fn an_import_that_is_interrupted_while_it_waits_leaves_nothing() {
    // A process started by `nohup`, and its children, ignore SIGHUP.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("1");
    let handles_hangup = u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0;
    for signal in ["-INT", "-TERM", "-HUP"].into_iter().filter(|signal| *signal != "-HUP" || handles_hangup) {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(folder.path())
            .args(["import", "-", "--into", "new.kine"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(EVENTS.as_bytes()).unwrap();
        let part = format!("new.kine.{}.part", child.id());
        while !files(folder.path()).contains(&part) {
            assert!(child.try_wait().unwrap().is_none(), "the import has ended early");
        }
        // The pipe stays open without further data.
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        drop(pipe);
        assert!(files(folder.path()).is_empty(), "{signal}: {:?}", files(folder.path()));
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let shop = shop();
    let mut child = command(shop.path())
        .args(["export", "--format", "jsonl"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = program_output(child.wait_with_output().unwrap());
    assert_eq!((output.code, output.err.contains("error")), (0, false), "{}", output.err);
}

#[test]
fn every_command_explains_itself_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), &["--help"]).success();
    for command in [
        "record",
        "import",
        "export",
        "info",
        "get",
        "log",
        "diff",
        "explain",
        "replay",
        "doctor",
        "prune",
        "serve",
        "demo",
        "completion",
        "man",
    ] {
        assert!(help.contains(&format!("  {command} ")), "{help}");
        assert!(run(folder.path(), &[command, "--help"]).success().contains("Examples:\n  "), "{command}");
    }
    assert!(run(folder.path(), &["man"]).success().starts_with(".ie"));
    run(folder.path(), &["man", "pages"]).success();
    assert!(files(&folder.path().join("pages")).contains(&"kinescope-get.1".to_owned()));
}

#[test]
fn the_shell_completes_kinds_namespaces_and_names_of_the_history() {
    let shop = shop();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(run(shop.path(), &["completion", shell]).success().contains("kinescope"), "{shell}");
    }
    run(shop.path(), &["completion", "tcsh"]).failure(1);
    let complete = |words: &[&str]| {
        let output = command(shop.path()).env("COMPLETE", "fish").arg("--").args(words).output().unwrap();
        program_output(output).success()
    };
    assert!(complete(&["kinescope", "get", "po"]).lines().any(|line| line == "pods"));
    assert!(complete(&["kinescope", "get", "pods", "-n", "sh"]).lines().any(|line| line == "shop"));
    assert!(complete(&["kinescope", "get", "pods", "we"]).lines().any(|line| line == "web-1"));
    assert!(complete(&["kinescope", "log", "pod/we"]).lines().any(|line| line == "pod/web-1"));
    assert!(complete(&["kinescope", "history", "pod", "we"]).lines().any(|line| line == "web-1"));
    assert!(complete(&["kinescope", "why", "pod/we"]).lines().any(|line| line == "pod/web-1"));
}

#[test]
fn why_and_history_are_aliases_of_explain_and_log() {
    let shop = shop();
    let help = run(shop.path(), &["--help"]).success();
    for (alias, command) in [("why", "explain"), ("history", "log")] {
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(&format!("[alias: {alias}]")), "{help}");
        let arguments = |word| [word, "pod/web-1", "-n", "shop", "-o", "json"];
        let by_alias = run(shop.path(), &arguments(alias)).success();
        assert_eq!(by_alias, run(shop.path(), &arguments(command)).success(), "{alias}");
    }
}

#[test]
fn an_open_gap_is_shown_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let (from, why) = ("2026-11-01T14:10:00Z", "only namespace web recorded");
    let open = format!(r#"{{"at":"{from}","type":"GAP","to":null,"kinds":["Node"],"why":"{why}"}}"#);
    let mut lines: Vec<&str> = EVENTS.lines().collect();
    lines.insert(4, &open);
    std::fs::write(folder.path().join("shop.jsonl"), lines.join("\n") + "\n").unwrap();
    let run = |arguments: &[&str]| run(folder.path(), arguments);
    run(&["import", "shop.jsonl"]).success();

    let info = run(&["info"]).success();
    assert!(info.contains(&format!("  since {from}, Node: {why}\n")), "{info}");
    let json: serde_json::Value = serde_json::from_str(&run(&["info", "-o", "json"]).success()).unwrap();
    let gap = json!({"source": "shop", "kinds": ["Node"], "from": from, "to": null, "why": why});
    assert!(json["gaps"].as_array().unwrap().contains(&gap), "{json}");
    let warning = format!("warning: changes of Node since {from} may have been missed: {why}\n");
    for later in ["14:10", "14:29", "end"] {
        assert_eq!(run(&["get", "nodes", "--at", later]).err, warning, "{later}");
    }
    assert_eq!(run(&["get", "nodes", "--at", "14:09"]).err, "");
    assert_eq!(run(&["log", "node/node-1"]).err, warning);
    assert_eq!(run(&["diff", "14:09", "end", "nodes"]).err, warning);
    // An export keeps the open gap.
    let exported = run(&["export", "--format", "jsonl"]).success();
    assert_eq!(exported.replace(r#""source":"shop","#, ""), lines.join("\n") + "\n");
    assert!(run(&["doctor", "shop.kine"]).success().starts_with("no damage found"));
    // Pruning removes the changes before the gap, but not the gap.
    run(&["prune", "shop.kine", "--before", "14:20"]).success();
    assert_eq!(run(&["get", "nodes"]).err, warning);
}
