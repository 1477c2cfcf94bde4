//! Tests that control characters from histories and servers do not reach the terminal.

use std::path::Path;

use serde_json::json;
use tempfile::TempDir;

use crate::common::{ProgramOutput, run};
use crate::{fake_server, kubeconfig};

/// Sets the terminal's title, returns to the beginning of the line, clears the screen, and reverses the direction of
/// text.
const HOSTILE: &str = "x\u{1b}]0;pwned\u{7}\r\u{9b}2J\u{7f}\u{202e}y";
const SHOWN: &str = "x^[]0;pwned^G\\r<U+009B>2J^?<U+202E>y";

/// A history with control characters in every string that allows them.
fn history() -> TempDir {
    let at = |minute: u32, event_type: &str, object: serde_json::Value| json!({"at": format!("2026-11-01T10:{minute:02}:00Z"), "type": event_type, "source": HOSTILE, "object": object});
    let pod = |version: u32, reason: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "namespace": "shop", "uid": "p", "resourceVersion": version.to_string(),
                "labels": {"a": HOSTILE}, "annotations": {"a\nforged": reason}},
            "spec": {"containers": [{"name": "a", "image": HOSTILE}], "schedulerName": HOSTILE},
            "status": {"phase": HOSTILE, "reason": reason, "message": HOSTILE,
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": HOSTILE, "message": HOSTILE}]},
        })
    };
    let lines = [
        at(
            0,
            "ADDED",
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "uid": "n",
            "resourceVersion": "1", "labels": {"a": HOSTILE}}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"},
            "nodeInfo": {"kubeletVersion": HOSTILE, "osImage": HOSTILE}}}),
        ),
        at(1, "ADDED", pod(2, "a")),
        at(2, "MODIFIED", pod(3, HOSTILE)),
        at(
            3,
            "ADDED",
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "event",
            "namespace": "shop", "uid": "e", "resourceVersion": "4"}, "reason": HOSTILE, "note": HOSTILE, "type": "Warning",
            "reportingController": HOSTILE, "eventTime": "2026-11-01T10:03:00.000000Z",
            "regarding": {"kind": "Pod", "name": "web", "namespace": "shop", "uid": "p"}}),
        ),
        json!({"at": "2026-11-01T10:04:00Z", "type": "GAP", "to": null, "source": HOSTILE, "kinds": [], "why": HOSTILE}),
        at(5, "MODIFIED", pod(6, "b")),
    ];
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("h.jsonl"), lines.join("\n")).unwrap();
    check_run(folder.path(), &["import", "h.jsonl", "--into", "h.kine"]);
    folder
}

/// Checks that the output contains no control characters.
#[track_caller]
fn check(output: &ProgramOutput, what: &str) {
    for text in [&output.out, &output.err] {
        let is_control = |c: char| c.is_control() && c != '\n' || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!text.contains(is_control), "{what}: {text:?}");
    }
}

#[track_caller]
fn check_run(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    let output = run(folder, arguments);
    check(&output, &format!("{arguments:?}"));
    output
}

#[test]
fn no_text_of_a_history_controls_the_terminal() {
    let folder = history();
    let folder = folder.path();
    let pod = "pod/web";
    let (start, end) = ("2026-11-01T10:00Z", "2026-11-01T10:05Z");
    let shown: [&[&str]; 12] = [
        &["get", "pods", "-A", "--show-labels"],
        &["get", "pods", "-A", "-o", "wide"],
        &["get", "pods", "-A", "-o", "name"],
        &["get", "nodes", "-o", "wide"],
        &["get", "events", "-A"],
        &["log", pod, "-n", "shop", "--full"],
        &["diff", start, end],
        &["diff", start, end, "-o", "name"],
        &["info"],
        &["explain", pod, "-n", "shop"],
        &["get", "pods", HOSTILE, "-n", HOSTILE],
        &["get", "pods", "-A", "--source", "y\u{1b}[2J"],
    ];
    for arguments in shown {
        let output = check_run(folder, arguments);
        let all = format!("{}{}", output.out, output.err);
        let is_escaped =
            all.contains("^[]0;pwned^G") || all.contains("^[[2J") || all.contains("\\u001b]0;pwned");
        assert!(is_escaped, "{arguments:?} should print an escaped control character: {all}");
        // A line break in a text does not begin a new line.
        assert!(!all.lines().any(|line| line.starts_with("forged")), "{arguments:?}: {all}");
    }
    let table = run(folder, &["get", "pods", "-A", "--at", "2026-11-01T10:03Z"]).success();
    assert!(table.contains("^[]0;pwned^G"), "{table}");
    // JSON and YAML have escapes of their own, so that data keeps its meaning.
    for format in ["json", "yaml"] {
        let output = run(folder, &["get", "pods", "-A", "-o", format]);
        assert!(
            !output.out.contains(|c: char| c.is_ascii_control() && c != '\n' && c != '\u{7f}'),
            "{}",
            output.out
        );
    }
}

#[test]
fn no_text_of_a_server_controls_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": HOSTILE});
    let server = fake_server("403 Forbidden", &status.to_string());
    std::fs::write(folder.path().join("config"), kubeconfig(&server)).unwrap();
    let output = check_run(folder.path(), &["record", "--kubeconfig", "config", "--into", "h.kine"]);
    assert!(output.err.contains(SHOWN), "{}", output.err);
    // Responses that are not an API server's are shown as well.
    let server = fake_server("500 Internal Server Error", HOSTILE);
    std::fs::write(folder.path().join("config"), kubeconfig(&server)).unwrap();
    let output = check_run(folder.path(), &["record", "--kubeconfig", "config", "--into", "h.kine"]);
    assert!(output.err.contains(SHOWN), "{}", output.err);
}
