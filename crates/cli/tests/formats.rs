//! Round trips through the formats of other systems: exported from one history and imported into another.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::path::Path;

use common::run;

fn demo_history() -> tempfile::TempDir {
    common::demo_history("day.kine")
}

/// Exports the demo's history to a file and imports it again. Returns the export's diagnostics.
#[track_caller]
fn export_and_import(folder: &Path, export: &[&str], file: &str) -> String {
    let output = run(folder, &[&["export", "day.kine", "--out", file, "--format"], export].concat());
    let diagnostics = output.err.clone();
    output.success();
    run(folder, &["import", file, "--into", "back.kine"]).success();
    run(folder, &["doctor", "back.kine"]).success();
    diagnostics
}

/// Checks that both histories show the same objects.
#[track_caller]
fn assert_same_objects(folder: &Path, kinds: &str, at: &str, columns: &[&str]) {
    let get = |history: &str| {
        let columns = [&["get", kinds, "-A", "--at", at, "--history", history], columns].concat();
        run(folder, &columns).success()
    };
    let day = get("day.kine");
    assert!(day.lines().count() > 3, "{day}");
    assert_eq!(get("back.kine"), day, "{kinds} at {at}");
}

const MOMENTS: [&str; 3] = ["2026-11-02T09:30:00Z", "2026-11-02T14:04:30Z", "2026-11-02T14:20:00Z"];

#[test]
fn a_recording_of_kube_scheduler_simulator() {
    let day = demo_history();
    let diagnostics =
        export_and_import(day.path(), &["sched-record", "--utc-offset", "+09:00"], "record.jsonl");
    assert!(
        diagnostics.contains("skipped: ") && diagnostics.contains(" changes of Deployment"),
        "{diagnostics}"
    );
    for at in MOMENTS {
        assert_same_objects(day.path(), "pods,nodes,pvc,priorityclasses", at, &["-o", "json"]);
    }
    let again = run(
        day.path(),
        &[
            "export",
            "back.kine",
            "--format",
            "sched-record",
            "--utc-offset",
            "+09:00",
            "--out",
            "again.jsonl",
        ],
    );
    again.success();
    let read = |name: &str| std::fs::read(day.path().join(name)).unwrap();
    assert!(read("record.jsonl") == read("again.jsonl"));
    assert!(read("record.jsonl").starts_with(b"{\"time\":\"2026-11-02T1"));
}

#[test]
fn snapshots_of_kube_scheduler_simulator_and_kai() {
    for (format, file) in
        [("kss-snapshot", "export.json"), ("kss-snapshot", "export.yml"), ("kai-snapshot", "snapshot.zip")]
    {
        for at in MOMENTS {
            let day = demo_history();
            let diagnostics = export_and_import(day.path(), &[format, "--at", at], file);
            assert!(diagnostics.contains("changes not in the state at"), "{diagnostics}");
            let phase = if format == "kai-snapshot" { "status.phase=Running" } else { "" };
            assert_same_objects(day.path(), "pods", at, &["-o", "yaml", "--field-selector", phase]);
            assert_same_objects(day.path(), "nodes", at, &["-o", "yaml"]);
        }
    }
}

#[test]
fn a_recording_and_a_snapshot_of_kwok() {
    let day = demo_history();
    run(day.path(), &["export", "day.kine", "--format", "kwok", "--out", "recording.yaml.gz"]).success();
    // A KWOK recording has no absolute time of its beginning.
    let beginning = run(day.path(), &["info", "day.kine", "-o", "json"]).success();
    let beginning: serde_json::Value = serde_json::from_str(&beginning).unwrap();
    let beginning = beginning["sources"][0]["from"].as_str().unwrap().to_owned();
    run(day.path(), &["import", "recording.yaml.gz", "--into", "back.kine", "--at", &beginning]).success();
    for at in MOMENTS {
        assert_same_objects(day.path(), "pods,nodes,deployments,jobs", at, &["-o", "wide"]);
    }
    std::fs::remove_file(day.path().join("back.kine")).unwrap();
    let at = MOMENTS[1];
    export_and_import(day.path(), &["kwok", "--at", at], "snapshot.yaml");
    assert_same_objects(day.path(), "pods,nodes,deployments", at, &["-o", "name"]);
}

#[test]
fn a_trace_of_simkube() {
    let day = demo_history();
    std::fs::write(
        day.path().join("tracer.yml"),
        "trackedObjects: {apps/v1.Deployment: {trackLifecycle: true}, v1.ConfigMap: {}}",
    )
    .unwrap();
    let export = ["sktrace", "--from", MOMENTS[0], "--tracer-config", "tracer.yml"];
    let output = export_and_import(day.path(), &export, "day.sktrace");
    assert!(output.contains("warning: tracer.yml: ") && output.contains("ConfigMap"), "{output}");
    assert!(output.contains(" changes of only status or metadata"), "{output}");
    for at in MOMENTS {
        assert_same_objects(day.path(), "deployments", at, &["-o", "name"]);
    }
    // An imported trace keeps its tracer configuration.
    let again = ["export", "back.kine", "--format", "sktrace", "--out", "again.sktrace"];
    run(day.path(), &again).success();
    let read = |name: &str| std::fs::read(day.path().join(name)).unwrap();
    assert!(read("day.sktrace").starts_with(b"\x85\xa7version\x02"));
    run(day.path(), &["import", "again.sktrace", "--into", "twice.kine"]).success();
    let excluded = ["sktrace", "--exclude-namespaces", "web,shop", "--exclude-labels", "app=checkout"];
    let output = run(
        day.path(),
        &[&["export", "day.kine", "--out", "less.sktrace", "--format"], &excluded[..]].concat(),
    );
    assert!(output.err.contains(" changes in excluded namespaces"), "{}", output.err);
}

#[test]
fn a_scaling_history_of_gardener() {
    let day = demo_history();
    let diagnostics = export_and_import(day.path(), &["scaling-history"], "day.db");
    assert!(diagnostics.contains(" changes that do not affect the row's hash"), "{diagnostics}");
    for at in &MOMENTS[1..] {
        assert_same_objects(day.path(), "nodes,priorityclasses", at, &["-o", "name"]);
    }
    run(day.path(), &["export", "back.kine", "--format", "scaling-history", "--out", "again.db"]).success();
}

#[test]
fn unsupported_options_are_reported() {
    let day = demo_history();
    let check_error = |arguments: &[&str], message: &str| {
        let error = run(day.path(), &[&["export", "day.kine"], arguments].concat()).failure(1);
        assert!(error.contains(message), "{error}");
    };
    check_error(&["--format", "kai-snapshot", "--from", "14:00"], "kai-snapshot holds one moment: use --at");
    check_error(
        &["--format", "sched-record", "--at", "14:00"],
        "sched-record holds a time range: use --from",
    );
    check_error(&["--format", "kwok", "--partition", "a=b"], "--partition requires --format kai-snapshot");
    check_error(&["--format", "kai-snapshot", "--partition", "a b=c"], "invalid partition \"a b=c\"");
    check_error(&["--format", "sched-record", "--utc-offset", "9"], "invalid UTC offset \"9\": expected Z");
    check_error(&["--format", "sktrace", "--kinds", "pods"], "--kinds cannot be used with sktrace");
    check_error(&["--format", "sktrace", "-l", "app=web"], "use --exclude-labels");
    check_error(
        &["--format", "sktrace", "--from", "14:00", "--changes-only"],
        "--changes-only cannot be used",
    );
    check_error(
        &["--format", "kai-snapshot", "--anonymize", "--partition", "a=b"],
        "cannot be used with --anonymize",
    );
    check_error(&["--format", "jsonl", "--out", "day.kine"], "day.kine is the history itself");
    check_error(&["--format", "scaling-history"], "a database cannot be written to standard output");
}

#[test]
fn formats_that_need_a_file_can_be_piped_too() {
    use std::io::Write;
    use std::process::Stdio;
    let day = demo_history();
    for (format, file) in
        [("sktrace", "a.sktrace"), ("kai-snapshot", "a.zip"), ("scaling-history", "a.db"), ("kwok", "a.yaml")]
    {
        run(day.path(), &["export", "day.kine", "--format", format, "--out", file]).success();
        let bytes = std::fs::read(day.path().join(file)).unwrap();
        // `-` is standard input even if a file has this name.
        std::fs::write(day.path().join("-"), "{}").unwrap();
        let into = format!("{format}.kine");
        let mut import = common::command(day.path());
        import.args(["import", "-", "--source", "piped", "--into", &into]);
        let mut import =
            import.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        import.stdin.take().unwrap().write_all(&bytes).unwrap();
        common::program_output(import.wait_with_output().unwrap()).success();
    }
}

#[test]
fn standard_output_gets_the_same_bytes_as_a_file() {
    let day = demo_history();
    for (format, file) in [("sktrace", "a.sktrace"), ("kai-snapshot", "a.zip"), ("jsonl", "a.jsonl")] {
        run(day.path(), &["export", "day.kine", "--format", format, "--out", file]).success();
        let mut export = common::command(day.path());
        let output = export.args(["export", "day.kine", "--format", format]).output().unwrap();
        assert!(output.stdout == std::fs::read(day.path().join(file)).unwrap(), "{format}");
    }
    // Control characters are kept as well.
    let odd = "{\"at\":1,\"type\":\"ADDED\",\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"c\",\
               \"namespace\":\"d\"},\"data\":{\"x\":\"a\u{7f}\u{9b}31mb\"}}}\n";
    std::fs::write(day.path().join("odd.jsonl"), odd).unwrap();
    run(day.path(), &["import", "odd.jsonl"]).success();
    let json =
        run(day.path(), &["get", "cm", "c", "-n", "d", "--history", "odd.kine", "-o", "json"]).success();
    assert!(json.contains("a\u{7f}\u{9b}31mb"), "{json:?}");
}

#[test]
fn files_of_one_source_come_in_the_order_of_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let line = |second: u32, event_type: &str| {
        format!(
            "{{\"at\":\"2026-11-01T14:00:{second:02}Z\",\"type\":\"{event_type}\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\
             \"metadata\":{{\"name\":\"node-1\",\"labels\":{{\"at\":\"{second}\"}}}}}}}}\n"
        )
    };
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("early.jsonl", &(line(1, "ADDED") + &line(2, "MODIFIED")));
    write("late.jsonl", &(line(3, "MODIFIED") + &line(4, "MODIFIED")));
    write("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n");
    let import = |files: &[&str]| {
        run(folder.path(), &[&["import", "--source", "s", "--into", "h.kine"], files].concat())
    };
    let error = import(&["late.jsonl", "early.jsonl"]).failure(1);
    assert!(
        error.contains("early.jsonl begins at 2026-11-01T14:00:01Z, before the end of the previous file"),
        "{error}"
    );
    let error = import(&["node.yaml", "late.jsonl"]).failure(1);
    assert!(
        error.contains("objects without times cannot be imported together with a recording of s"),
        "{error}"
    );
    import(&["early.jsonl", "late.jsonl"]).success();
    // With changes only, an object that loses its labels is exported once more.
    let lines = run(
        folder.path(),
        &[
            "export",
            "h.kine",
            "--format",
            "jsonl",
            "--from",
            "2026-11-01T14:00:03Z",
            "--changes-only",
            "-l",
            "at=2",
        ],
    );
    let lines = lines.success();
    assert!(lines.contains("\"type\":\"DELETED\"") && lines.lines().count() == 1, "{lines}");
}

#[cfg(unix)]
#[test]
fn pipes_are_written_directly_and_links_are_kept() {
    let day = demo_history();
    let target = day.path().join("target.jsonl");
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, day.path().join("link.jsonl")).unwrap();
    let export = |out: &str| run(day.path(), &["export", "day.kine", "--format", "jsonl", "--out", out]);
    export("link.jsonl").success();
    assert!(day.path().join("link.jsonl").is_symlink());
    assert!(std::fs::metadata(target).unwrap().len() > 1_000_000);
    export("/dev/null").success();
    assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn lines_without_times_get_the_current_time_marked_as_inferred() {
    let folder = tempfile::tempdir().unwrap();
    let line = |source: &str| {
        format!(
            "{{\"type\":\"ADDED\",\"source\":\"{source}\",\"object\":{{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{{\"name\":\"node-1\"}}}}}}\n"
        )
    };
    std::fs::write(folder.path().join("two.jsonl"), line("east") + &line("west")).unwrap();
    run(folder.path(), &["import", "two.jsonl"]).success();
    let info = run(folder.path(), &["info"]).success();
    assert_eq!(info.matches("times inferred").count(), 2, "{info}");
    assert!(!info.contains("1970"), "{info}");
}
