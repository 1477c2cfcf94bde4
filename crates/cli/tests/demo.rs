//! `kinescope demo`: the walkthrough's commands print what it shows, and its comments are true.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;
#[path = "serve/server.rs"]
#[allow(dead_code, reason = "these tests use parts of it")]
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{PROGRAM, command, run};
use serde_json::Value;
use server::Server;

/// A command of the walkthrough, and the lines of its output that the walkthrough shows.
#[derive(Default)]
struct WalkthroughStep {
    command: String,
    shown: Vec<String>,
}

fn steps(walk: &str) -> Vec<WalkthroughStep> {
    let mut steps: Vec<WalkthroughStep> = Vec::new();
    let mut is_output = false;
    for line in walk.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(WalkthroughStep { command: command.to_owned(), shown: Vec::new() });
            is_output = true;
        } else if line.starts_with("# ") {
            is_output = false;
        } else if is_output && !line.is_empty() && !line.starts_with("[… ") {
            steps.last_mut().unwrap().shown.push(line.to_owned());
        }
    }
    steps
}

/// The output of a shell for a line, run after the lines before it.
fn shell_output(folder: &Path, before: &str, line: &str) -> String {
    let program = PathBuf::from(Path::new(PROGRAM).parent().unwrap());
    let path = std::env::join_paths([program, "/usr/bin".into(), "/bin".into()]).unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{before}{line}")])
        .current_dir(folder)
        .env_clear()
        .envs([("TZ", "UTC"), ("NO_COLOR", "1")])
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn report(folder: &Path, name: &str) -> Value {
    let path = folder.join("kinescope-demo").join(name).join("report.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[track_caller]
fn metric(report: &Value, path: &str) -> f64 {
    report.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} of {report}"))
}

/// Checks the walkthrough's comments against the output shown and the reports of its replays.
#[track_caller]
fn check_comments(folder: &Path, walk: &str) {
    let steps = steps(walk);
    let outputs_of = |command: &str| -> Vec<String> {
        let with = steps.iter().filter(|step| step.command.contains(command));
        with.map(|step| step.shown.join("\n")).collect()
    };
    let explained = outputs_of(" explain ");
    assert!(explained[0].contains("didn't match Pod's node affinity/selector"), "{}", explained[0]);
    assert!(outputs_of(" log ")[0].contains(r#": "nmve""#), "{walk}");
    for words in [" nodes are available: ", " Insufficient cpu.", "general: max node group size reached"] {
        assert!(explained[1].contains(words), "{}", explained[1]);
    }
    let waiting = outputs_of(" get pods ");
    assert!(waiting[0].contains("storefront-") && waiting[0].contains("recommendations-"), "{walk}");
    assert!(!waiting[1].contains("storefront-"), "{walk}");

    let [as_it_was, more_nodes, given_back] =
        ["unchanged", "more-nodes", "faster-scale-down"].map(|name| report(folder, name));
    let placed = |what: &str| metric(&as_it_was, &format!("/fidelity/placements/{what}"));
    let (same_node, same_class, all) = (placed("sameNode"), placed("sameClass"), placed("recorded"));
    // The cluster has about eighty nodes.
    assert!(same_node / all > 0.25, "{same_node} of {all}");
    assert!((same_node + same_class) / all > 0.8, "{same_node} and {same_class} of {all}");
    assert!(metric(&as_it_was, "/scaling/nodes/share") < 0.02);
    let waiting = |report: &Value, side: &str| metric(report, &format!("/{side}/waiting"));
    for report in [&more_nodes, &given_back] {
        let (was, is) = (waiting(report, "recorded"), waiting(report, "replayed"));
        assert!(is < 0.6 * was, "{was} pods waited, and then {is}");
    }
    let nodes = |report: &Value| metric(report, "/replayed/nodes");
    assert!(nodes(&more_nodes) > metric(&more_nodes, "/recorded/nodes"));
    assert!(nodes(&given_back) < nodes(&more_nodes));
    let evicted = |report: &Value| metric(report, "/replayed/lost/scaledDown");
    assert!(evicted(&given_back) > 1.5 * evicted(&more_nodes));
}

/// The bad moment is served, and the kubeconfig that kubectl is told of is there.
#[track_caller]
fn check_served_moment(folder: &Path, serve: &str, kubectl: &str) {
    let arguments = serve.split('#').next().unwrap().split_whitespace();
    let mut server = Server::of(command(folder).args(arguments));
    assert!(server.first_line.contains("shop.kine at 2026-11-02T14:20:00Z"), "{}", server.first_line);
    let suggested = server.next_line();
    assert!(
        kubectl.trim().starts_with(suggested.trim().trim_start_matches("try: ")),
        "{kubectl}: {suggested}"
    );
    assert!(folder.join("shop.kubeconfig").exists());
}

#[test]
fn the_commands_of_the_walkthrough_print_what_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let walk = run(folder.path(), &["demo"]).success();
    check_comments(folder.path(), &walk);
    assert!(walk.lines().count() < 150, "{walk}");
    let bytes = |name: &str| std::fs::read(folder.path().join("kinescope-demo").join(name)).unwrap();
    let reports = ["unchanged", "more-nodes", "faster-scale-down"].map(|name| format!("{name}/report.json"));
    let first: Vec<Vec<u8>> = reports.iter().map(|name| bytes(name)).collect();
    let mut before = String::new();
    let steps = steps(&walk);
    assert_eq!(steps.len(), 10, "{walk}");
    for step in steps {
        if step.command.starts_with("export ") {
            before = format!("{}; ", step.command);
            continue;
        }
        let output = shell_output(folder.path(), &before, &step.command);
        assert!(!step.shown.is_empty(), "{}", step.command);
        for line in &step.shown {
            assert!(output.lines().any(|other| other == line), "{}: {line}\n{output}", step.command);
        }
    }
    let second: Vec<Vec<u8>> = reports.iter().map(|name| bytes(name)).collect();
    assert!(first == second, "a repeated replay has another result");
    // A second run replaces the first one's files.
    let day = bytes("shop.kine");
    assert_eq!(run(folder.path(), &["demo"]).success(), walk);
    assert!(day == bytes("shop.kine"), "the demo history differs");
    // The commands suggested next, except `record`, which needs a cluster, and `cluster`, which ends with Ctrl-C.
    let next = walk.lines().filter_map(|line| line.strip_prefix("  kinescope "));
    let (next, served): (Vec<&str>, Vec<&str>) =
        next.filter(|line| !line.starts_with("record")).partition(|line| !line.starts_with("cluster"));
    assert_eq!((next.len(), served.len()), (3, 1), "{walk}");
    for line in next {
        assert!(!shell_output(folder.path(), &before, &format!("kinescope {line}")).is_empty(), "{line}");
    }
    check_served_moment(folder.path(), served[0], walk.lines().last().unwrap());
}

#[test]
fn the_walkthrough_does_not_depend_on_the_seed() {
    let folder = tempfile::tempdir().unwrap();
    let walk = run(folder.path(), &["demo", "--seed", "2"]).success();
    check_comments(folder.path(), &walk);
    let output = run(folder.path(), &["demo", "--no-walk", "--folder", "other"]).success();
    assert!(!output.contains('$'), "{output}");
    let day = |of: &str| std::fs::read(folder.path().join(of).join("shop.kine")).unwrap();
    assert!(day("kinescope-demo") != day("other"), "the seed makes no difference");
}

#[test]
fn a_folder_that_cannot_be_created_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = run(folder.path(), &["demo", "--no-walk", "--folder", "file"]).failure(1);
    assert!(error.starts_with("error: cannot create the folder file: "), "{error}");
    std::fs::create_dir_all(folder.path().join("full/shop.kine")).unwrap();
    let error = run(folder.path(), &["demo", "--no-walk", "--folder", "full"]).failure(1);
    assert!(error.starts_with("error: cannot replace full/shop.kine: "), "{error}");
}
