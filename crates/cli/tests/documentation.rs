//! Tests that run the commands of the documentation and compare their output with what it shows.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

mod common;
#[path = "serve/server.rs"]
#[allow(dead_code, reason = "these tests use parts of it")]
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::PROGRAM;
use serde_json::{Value, json};
use server::Server;

/// A command line of a document, and the output that the document shows.
struct Example {
    line: usize,
    command: String,
    output: String,
}

#[test]
fn the_commands_of_the_readme_print_what_it_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let examples = examples(&text);
    assert!(examples.len() > 10, "the README has too few examples");
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(PROGRAM).parent().unwrap();
    let path = std::env::join_paths([PathBuf::from(program), "/usr/bin".into(), "/bin".into()]).unwrap();
    // `export` applies to the lines below.
    let mut before = String::new();
    for example in examples {
        if example.command.starts_with("export ") {
            before += &format!("{}; ", example.command);
            continue;
        }
        let script = format!("{{ {before}{}; }} 2>&1", example.command);
        let output = Command::new("sh")
            .args(["-c", &script])
            .current_dir(folder.path())
            .env_clear()
            .envs([("TZ", "UTC"), ("NO_COLOR", "1")])
            .env("HOME", folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output, example.output, "README.md, line {}: {}", example.line, example.command);
    }
}

/// The commands that need a cluster, run against a real one; their output depends on the cluster and is not compared.
#[test]
fn the_commands_about_a_cluster_work() {
    let Some(cluster) = testcluster::Cluster::start(testcluster::ClusterOptions::default()).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"a"}]}}"#;
    cluster.kubectl_with_input(&["create", "-f", "-"], pod).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let block = text.split_once("```sh cluster\n").expect("the README shows recording").1;
    let commands: Vec<&str> = block.split_once("```").unwrap().0.lines().collect();
    assert!(commands.len() >= 4);
    let folder = tempfile::tempdir().unwrap();
    for command in commands {
        let command = command.split('#').next().unwrap().trim();
        let arguments: Vec<&str> = command.strip_prefix("kinescope ").unwrap().split_whitespace().collect();
        let output = common::command(folder.path())
            .args(arguments)
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()
            .unwrap();
        let output = common::program_output(output);
        assert_eq!(output.code, 0, "{command}: {}{}", output.out, output.err);
        if command.contains(" get ") {
            assert!(output.out.contains("web "), "{}", output.out);
        }
    }
    let record = std::fs::read_to_string(folder.path().join("record.jsonl")).unwrap();
    assert!(record.lines().any(|line| line.contains(r#""kind":"Pod""#)), "{record}");
}

/// The Stages of the README, and what it says of them.
#[test]
fn the_stages_of_the_readme_do_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("README.md")).unwrap();
    let stages = text.split_once("```yaml\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stages.yaml"), stages).unwrap();
    let server = Server::of(common::command(folder.path()).args([
        "cluster",
        "--insecure",
        "--clock",
        "virtual",
        "--nodes",
        "10",
        "--load",
        "stages.yaml",
        "--scheduling-annotations",
    ]));
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    });
    assert_eq!(server.post(pods, &pod).code, 201);
    let pod_after = |seconds: u64| -> Value {
        let advanced = server.post("/kinescope/v1/cluster/advance", &json!({"seconds": seconds}));
        assert_eq!(advanced.code, 200);
        serde_json::from_slice(&server.get(&format!("{pods}/web-0")).body).unwrap()
    };
    let pod = pod_after(59);
    assert_eq!(pod["status"]["phase"], "Running");
    let verdicts = &pod["metadata"]["annotations"]["kube-scheduler-simulator.sigs.k8s.io/filter-result"];
    let verdicts: Value = serde_json::from_str(verdicts.as_str().unwrap()).unwrap();
    assert_eq!(verdicts.as_object().unwrap().len(), 10);
    assert_eq!(pod_after(2)["status"]["phase"], "Failed");
}

fn examples(text: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            examples.push(Example { line: index + 1, command: command.to_owned(), output: String::new() });
        } else if inside {
            let last = examples.last_mut().expect("output follows a command");
            last.output += line;
            last.output.push('\n');
        }
    }
    examples
}
