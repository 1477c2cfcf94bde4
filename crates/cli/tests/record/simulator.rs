//! `--format sched-record`: the same lines that kube-scheduler-simulator's own recorder writes for a busy control
//! plane.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use model::{Moment, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

use crate::common::run;
use crate::recorder::Recorder;
use crate::server::{WatchedEvent, client, now, seed, send, start, watch};

/// The resources that the simulator's recorder watches, in the order in which it starts.
const PATHS: [&str; 7] = [
    "/api/v1/namespaces",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/api/v1/pods",
];

const INITIAL_MANIFESTS: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: gold}, value: 1000, description: "a < b && b > c, \u2028 \u00e9 \"\\ \t"}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/fast}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: fast, hostPath: {path: /tmp}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: shop}
spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-2}, status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {note: "<&>"}}
    spec: {containers: [{name: a, image: a, env: [{name: PASSWORD, value: hunter2}]}]}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_for_the_simulator_has_the_bytes_of_its_own_recorder() {
    let options = ClusterOptions { service_accounts: true, ..ClusterOptions::default() };
    let Some(mut cluster) = start(options) else { return };
    cluster.start_controller_manager().unwrap();
    cluster.start_scheduler(16, &[]).unwrap();
    cluster.start_kwok(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../testcluster/stages.yaml")).unwrap();
    let client = client(&cluster).await;
    create(&cluster, INITIAL_MANIFESTS);
    cluster
        .kubectl(&["-n=shop", "wait", "--for=condition=Available", "deployment/web", "--timeout=60s"])
        .unwrap();
    cluster.check_running().unwrap();

    let mut watches = Vec::new();
    for path in PATHS {
        watches.push(watch(&client, path, "the-end").await);
    }
    let begun = now();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let arguments = ["--format", "sched-record", "--path", "record.jsonl", "--flush-interval", "1s"];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    // Events are flushed soon, and not only at the end.
    recorder.wait("the file has the existing objects", || text(&path).contains(r#""name":"web-"#)).await;
    cluster.kubectl(&["-n=shop", "scale", "deployment/web", "--replicas=6"]).unwrap();
    cluster.kubectl(&["-n=shop", "set", "env", "deployment/web", "A=<b>"]).unwrap();
    let rolled = ["-n=shop", "rollout", "status", "deployment/web", "--timeout=60s"];
    cluster.kubectl(&rolled).unwrap();
    cluster.kubectl(&["delete", "node", "node-2"]).unwrap();
    cluster.kubectl(&["-n=shop", "delete", "deployment/web"]).unwrap();
    recorder
        .wait("a pod's end is in the file", || {
            text(&path).contains(r#""event":"Delete","resource":{"apiVersion":"v1","kind":"Pod""#)
        })
        .await;
    for (path, object) in final_objects() {
        send(&client, "POST", path, &object.to_string()).await;
    }
    let mut seen: Vec<Vec<WatchedEvent>> = Vec::new();
    for watch in watches {
        seen.push(watch.await.unwrap());
    }
    recorder
        .wait("the end is in the file", || text(&path).matches(r#""name":"the-end""#).count() >= PATHS.len())
        .await;
    let output = recorder.stop().await;
    let recorded = text(&path);
    let count = recorded.lines().count();
    assert!(
        output.err.contains(&format!("{count} changes recorded from real to record.jsonl")),
        "{}",
        output.err
    );
    output.success();
    assert!(recorded.ends_with("}\n"));
    check_lines(&recorded, &seen, begun);

    // The program can import it.
    let output = run(folder.path(), &["import", "record.jsonl"]);
    assert_eq!(output.err, "", "{}", output.out);
    output.success();
    let info: Value =
        serde_json::from_str(&run(folder.path(), &["info", "record.kine", "-o", "json"]).success()).unwrap();
    assert_eq!(info["changes"], json!(count));

    check_other_kinds(&cluster, folder.path()).await;
    check_kill(&cluster, folder.path()).await;
}

/// One more object of each kind.
fn final_objects() -> Vec<(&'static str, Value)> {
    let object = |kind: &str, group: &str, more: Value| {
        let mut object = json!({"apiVersion": group, "kind": kind, "metadata": {"name": "the-end"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let size = json!({"storage": "1Gi"});
    let modes = ["ReadWriteOnce"];
    vec![
        (PATHS[0], object("Namespace", "v1", json!({}))),
        (PATHS[1], object("PriorityClass", "scheduling.k8s.io/v1", json!({"value": 5}))),
        (PATHS[2], object("StorageClass", "storage.k8s.io/v1", json!({"provisioner": "example.com/fast"}))),
        (
            "/api/v1/namespaces/shop/persistentvolumeclaims",
            object(
                "PersistentVolumeClaim",
                "v1",
                json!({"spec": {"accessModes": modes, "resources": {"requests": size}}}),
            ),
        ),
        (PATHS[4], object("Node", "v1", json!({}))),
        (
            PATHS[5],
            object(
                "PersistentVolume",
                "v1",
                json!({"spec": {"accessModes": modes, "capacity": size, "hostPath": {"path": "/tmp"}}}),
            ),
        ),
        (
            "/api/v1/namespaces/shop/pods",
            object("Pod", "v1", json!({"spec": {"containers": [{"name": "a", "image": "a"}]}})),
        ),
    ]
}

/// Checks that each line follows from an event by the rules of the simulator's recorder.
fn check_lines(recorded: &str, seen: &[Vec<WatchedEvent>], begun: Moment) {
    let mut lines: Vec<(&str, usize, String)> = Vec::new();
    let mut last = begun;
    for (number, line) in recorded.lines().enumerate() {
        let rest = line.strip_prefix(r#"{"time":""#).unwrap();
        let (time, rest) = rest.split_once('"').unwrap();
        let moment: Moment = time.parse().unwrap();
        assert!(last <= moment && moment <= now(), "{time} after {last}");
        last = moment;
        // Go omits trailing zeros of a fraction, and a fraction of zero.
        let fraction = time.strip_suffix('Z').unwrap().split_once('.').map_or("1", |(_, fraction)| fraction);
        assert!(!fraction.ends_with('0') && fraction.len() <= 9, "{time}");
        let kind = rest.split_once(r#""kind":""#).map(|_| kind_of(line)).unwrap();
        lines.push((PATHS[kind], number, rest.to_owned()));
    }
    let mut end_of_first = 0;
    for (path, seen) in PATHS.iter().zip(seen) {
        let of_kind: Vec<(usize, &str)> = lines
            .iter()
            .filter(|(of, _, _)| of == path)
            .map(|(_, number, rest)| (*number, &**rest))
            .collect();
        // The recorder started its watch some time after the test did.
        let first_events = seen.iter().position(|event| !event.is_initial()).unwrap();
        let fitting = (first_events..seen.len()).find_map(|events| {
            let (existing, expected) = expected(&seen[..events], &seen[events..]);
            let found = of_kind.iter().map(|(_, rest)| *rest).take(expected.len());
            found.eq(expected.iter().map(String::as_str)).then_some(existing)
        });
        let existing = fitting.unwrap_or_else(|| {
            let (_, expected) = expected(&seen[..first_events], &seen[first_events..]);
            let different =
                of_kind.iter().zip(&expected).find(|((_, found), expected)| *found != expected.as_str());
            panic!(
                "{path}: {} lines, {} expected, first different: {different:?}",
                of_kind.len(),
                expected.len()
            );
        });
        // All existing objects of a kind precede those of the next kind.
        assert!(of_kind[0].0 >= end_of_first, "{path} begins at {}, before {end_of_first}", of_kind[0].0);
        assert!(existing > 0, "{path} had nothing at first");
        end_of_first = of_kind[existing - 1].0 + 1;
    }
}

/// The index in [`PATHS`] of a line's kind.
fn kind_of(line: &str) -> usize {
    let value: Value = serde_json::from_str(line).unwrap();
    let kind = format!("{}s", value["resource"]["kind"].as_str().unwrap().to_lowercase())
        .replace("classs", "classes");
    PATHS.iter().position(|path| path.ends_with(&format!("/{kind}"))).unwrap()
}

/// The number of objects that existed after `before`, and the lines for them and for `after`, without their times.
fn expected(before: &[WatchedEvent], after: &[WatchedEvent]) -> (usize, Vec<String>) {
    let mut existing: BTreeMap<(String, String), &Object> = BTreeMap::new();
    for event in before {
        let meta = event.object.meta();
        let name = (meta.namespace.into_owned(), meta.name.into_owned());
        match event.is_delete() {
            true => existing.remove(&name),
            false => existing.insert(name, &event.object),
        };
    }
    let mut lines: Vec<String> = existing.values().map(|object| line("Add", object)).collect();
    for event in after {
        lines.push(match &*event.event_type {
            "ADDED" => line("Add", &event.object),
            "MODIFIED" => line("Update", &event.object),
            _ => {
                let meta = event.object.meta();
                format!(
                    r#","event":"Delete","resource":{{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{}","namespace":"{}"}}}}}}"#,
                    meta.api_version, meta.kind, meta.name, meta.namespace
                )
            }
        });
    }
    (existing.len(), lines)
}

fn line(event: &str, object: &Object) -> String {
    format!(r#","event":"{event}","resource":{}}}"#, as_go(&object.value().unwrap()))
}

/// JSON as Go prints it, for values without fractions.
fn as_go(value: &Value) -> String {
    // Fields are already sorted; the characters that Go escapes in addition occur only in strings.
    let text = value.to_string();
    [('<', "003c"), ('>', "003e"), ('&', "0026"), ('\u{2028}', "2028"), ('\u{2029}', "2029")]
        .into_iter()
        .fold(text, |text, (letter, number)| text.replace(letter, &format!("\\u{number}")))
}

/// Compares the expected lines themselves with Go's output.
#[test]
fn the_expected_lines_are_what_go_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/formats/go_json.jsonl");
    let mut compared = 0;
    for line in text(&path).lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let (Some(given), Some(expected)) = (case["in"].as_str(), case["out"].as_str()) else { continue };
        let Ok(value) = serde_json::from_str::<Value>(given) else { continue };
        let has_fractions = given
            .split('"')
            .step_by(2)
            .any(|outside| outside.contains(['.', 'e', 'E', '-']) || outside.len() > 18);
        if !has_fractions {
            assert_eq!(as_go(&value), expected);
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

/// Checks that kinds unknown to the simulator's recorder are recorded if requested.
async fn check_other_kinds(cluster: &Cluster, folder: &Path) {
    cluster.kubectl(&["-n=shop", "create", "deployment", "late", "--image=a"]).unwrap();
    let arguments =
        ["--format", "sched-record", "--path", "kinds.jsonl", "--kinds", "deploy,ns", "--duration", "2"];
    let output = Recorder::start(folder, cluster.kubeconfig(), &arguments).end().await;
    let recorded = text(&folder.join("kinds.jsonl"));
    let count = recorded.lines().count();
    assert!(
        output.err.contains(&format!("{count} changes recorded from real to kinds.jsonl")),
        "{}",
        output.err
    );
    assert!(
        recorded.contains(r#""kind":"Deployment""#) && recorded.contains(r#""kind":"Namespace""#),
        "{recorded}"
    );
    let of_kinds = [r#""kind":"Deployment""#, r#""kind":"Namespace""#];
    assert!(recorded.lines().all(|line| of_kinds.iter().any(|kind| line.contains(kind))), "{recorded}");
    // An existing file is not overwritten.
    let output = Recorder::start(folder, cluster.kubeconfig(), &arguments).end().await;
    assert!(output.failure(1).contains("cannot create kinds.jsonl"));
    assert_eq!(text(&folder.join("kinds.jsonl")), recorded);
}

/// Checks that a killed recorder leaves complete lines, except perhaps the last.
async fn check_kill(cluster: &Cluster, folder: &Path) {
    let mut rng = Pcg64::seed_from_u64(seed());
    for turn in 0..5 {
        let name = format!("killed-{turn}.jsonl");
        let path = folder.join(&name);
        let arguments = ["--format", "sched-record", "--path", &name, "--flush-interval", "1s"];
        let mut recorder = Recorder::start(folder, cluster.kubeconfig(), &arguments);
        let replicas = format!("--replicas={}", 4 + turn % 2);
        cluster.kubectl(&["-n=shop", "scale", "deployment/late", &replicas]).unwrap();
        recorder.wait("something is in the file", || !text(&path).is_empty()).await;
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..200))).await;
        recorder.kill();
        let recorded = text(&path);
        let whole = recorded.rsplit_once('\n').map_or("", |(whole, _)| whole);
        for line in whole.lines() {
            serde_json::from_str::<Value>(line).unwrap();
        }
        let output = run(folder, &["import", &name]);
        let is_cut = !recorded.ends_with('\n');
        assert_eq!(output.err.contains("the last line is truncated"), is_cut, "{}", output.err);
        output.success();
    }
}

fn create(cluster: &Cluster, manifests: &str) {
    cluster.kubectl_with_input(&["create", "-f", "-"], manifests).unwrap();
}

/// The contents of a file, empty if it does not exist.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
