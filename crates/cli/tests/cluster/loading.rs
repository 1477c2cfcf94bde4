//! Manifests that a cluster begins with.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{command, demo_history, run};
use crate::server::Server;

fn start(folder: &Path, arguments: &[&str]) -> Server {
    let mut command = command(folder);
    command.args(["cluster", "--clock", "virtual", "--kubeconfig-out", "c.yaml"]).args(arguments);
    let mut server = Server::of(&mut command);
    assert!(server.next_line().starts_with("try: "));
    // Everything that is due has happened then.
    run(folder, &["cluster", "advance", "1s", "--kubeconfig", "c.yaml"]).success();
    server
}

fn stop(mut server: Server) {
    server.signal("-INT");
    assert!(server.child.wait().unwrap().success());
}

/// The objects of a cluster, and without the resourceVersions that they have there.
fn dump(folder: &Path) -> (String, Vec<String>) {
    let dump = run(folder, &["cluster", "dump", "--kubeconfig", "c.yaml"]).success();
    let is_version = |line: &str| line.starts_with("  resourceVersion: ");
    let lines = dump.lines().filter(|line| !is_version(line)).map(str::to_owned).collect();
    (dump, lines)
}

const OBJECTS: &str = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: shop}
spec:
  priorityClassName: vip
  containers: [{name: c, image: 'busybox:1'}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w, namespace: shop}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: shop}
stringData: {password: x}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: vip}
value: 7
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[test]
fn a_dump_that_is_loaded_is_the_same_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // The objects that others need are in the last file.
    std::fs::create_dir_all(folder.join("objects/first")).unwrap();
    let (pod, others) = OBJECTS.split_once("---").unwrap();
    std::fs::write(folder.join("objects/first/pod.yaml"), pod).unwrap();
    std::fs::write(folder.join("objects/others.yml"), others).unwrap();
    std::fs::write(folder.join("objects/README.md"), "not a manifest").unwrap();
    let server = start(folder, &["--nodes", "2", "--load", "objects"]);
    let (text, expected) = dump(folder);
    stop(server);
    assert!(text.contains("kind: Widget") && text.contains("phase: Running"), "{text}");
    std::fs::write(folder.join("dump.yaml"), &text).unwrap();
    let server = start(folder, &["--load", "dump.yaml"]);
    assert_eq!(dump(folder).1, expected);
    stop(server);
}

#[test]
fn objects_of_a_history_are_loaded_from_standard_input() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    let arguments = ["export", "shop.kine", "--format", "manifests", "--at", "14:20", "--out", "then.yaml"];
    run(folder, &arguments).success();
    let mut command = command(folder);
    command.args(["cluster", "--insecure", "--controllers", "none", "--load", "-"]);
    let server = Server::of(command.stdin(Stdio::from(File::open(folder.join("then.yaml")).unwrap())));
    let at = ["--at", "14:20", "-A", "-o", "json", "--show-managed-fields"];
    for (kind, path) in [("pods", "/api/v1/pods"), ("nodes", "/api/v1/nodes")] {
        let recorded = run(folder, &[&["get", kind], &at[..]].concat()).success();
        let items = |text: &[u8]| -> Vec<Value> {
            let list: Value = serde_json::from_slice(text).unwrap();
            let items = list["items"].as_array().unwrap().iter().cloned();
            items
                .map(|mut item| {
                    item["metadata"]["resourceVersion"] = json!("");
                    item
                })
                .collect()
        };
        let loaded = items(&server.get(path).success());
        assert_eq!(loaded, items(recorded.as_bytes()), "{kind}");
        assert!(!loaded.is_empty());
    }
}

#[test]
fn errors_name_the_option_the_file_and_the_object_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("twice.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}");
    write("lost.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: nowhere}");
    write("broken.yaml", "apiVersion: v1\nkind: {");
    write("node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-0}");
    std::fs::create_dir(folder.join("empty")).unwrap();
    for (arguments, expected) in [
        (&["--load", "twice.yaml"][..], "error: --load: twice.yaml: namespaces \"default\" already exists\n"),
        (
            &["--load", "lost.yaml"],
            "error: --load: lost.yaml: ConfigMap \"c\": namespaces \"nowhere\" not found\n",
        ),
        (&["--load", "broken.yaml"], "error: --load: broken.yaml, line 2: not YAML: "),
        (&["--load", "missing.yaml"], "error: --load: cannot open missing.yaml: "),
        (&["--load", "empty"], "error: --load: no .yaml, .yml or .json files found in empty\n"),
        (&["--load", "node.yaml", "--nodes", "1"], "error: --nodes: nodes \"node-0\" already exists\n"),
    ] {
        let refused = run(folder, &[&["cluster"], arguments].concat()).failure(1);
        assert!(refused.starts_with(expected), "{arguments:?}: {refused}");
    }
}

#[test]
fn unknown_fields_are_named_and_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text = "
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: default, lables: {app: a}}
spec: {priorityClas: vip, containers: [{name: c, image: 'busybox:1', resource: {}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: default}
data: {any: key}
";
    std::fs::write(folder.join("objects.yaml"), text).unwrap();
    let errors = folder.join("errors.txt");
    let mut command = command(folder);
    command.args(["cluster", "--insecure", "--controllers", "none", "--load", "objects.yaml"]);
    let server = Server::of(command.stderr(File::create(&errors).unwrap()));
    let lines = std::fs::read_to_string(errors).unwrap();
    let expected = ["metadata.lables", "spec.containers[0].resource", "spec.priorityClas"]
        .map(|field| format!("warning: --load: objects.yaml: Pod \"a\": unknown field \"{field}\""));
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);
    let pod: Value =
        serde_json::from_slice(&server.get("/api/v1/namespaces/default/pods/a").success()).unwrap();
    assert!(pod["spec"].get("priorityClas").is_none(), "{pod}");
    std::fs::write(folder.join("wrong.yaml"), text.replace("vip", "vip, priority: high")).unwrap();
    drop(server);
    let arguments = ["cluster", "--kubeconfig-out", "other.kubeconfig", "--load", "wrong.yaml"];
    let refused = run(folder, &arguments).failure(1);
    assert!(refused.contains("wrong.yaml: Pod \"a\": ") && refused.contains("spec.priority"), "{refused}");
}
