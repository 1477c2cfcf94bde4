//! `kinescope serve --config` and `record --config`: many clusters from one process, against real API servers.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use history::{History, Selection};
use model::{Kind, What, Window};
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions, FaultPlan, Proxy};

use crate::common::{PROGRAM, run};
use crate::server::Server;

/// The cluster shared by these tests, stopped with the last of them.
pub(crate) fn cluster() -> Option<Arc<Cluster>> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    let cluster = match shared.upgrade() {
        Some(cluster) => cluster,
        None => match Cluster::start(ClusterOptions::default()).unwrap() {
            Some(cluster) => Arc::new(cluster),
            None => {
                // Written directly: the test runner captures the output of print macros.
                std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
                return None;
            }
        },
    };
    *shared = Arc::downgrade(&cluster);
    Some(cluster)
}

/// Creates pods with these names.
fn create_pods(cluster: &Cluster, namespace: &str, names: impl Iterator<Item = String>) {
    let mut pods = String::new();
    for name in names {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {"containers": [{"name": "a", "image": "a", "env": [{"name": "A", "value": "hush"}]}]},
        });
        writeln!(pods, "{pod}\n---").unwrap();
    }
    cluster.kubectl_with_input(&["create", "-f", "-"], &pods).unwrap();
}

/// Waits until the condition holds, with a long timeout.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(120), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The state of a recording; null if none has this name.
pub(crate) fn recording(server: &Server, name: &str) -> Value {
    let all = server.get("/api/v1/recordings").json();
    let found = all["recordings"].as_array().unwrap().iter().find(|recording| recording["name"] == name);
    found.cloned().unwrap_or_default()
}

fn of_kind(recording: &Value, kind: &str, field: &str) -> Value {
    let kinds = recording["kinds"].as_array().cloned().unwrap_or_default();
    kinds.iter().find(|found| found["kind"] == kind).map(|found| found[field].clone()).unwrap_or_default()
}

/// The names of the pods in a namespace at the history's end.
fn recorded_pods(path: &Path, namespace: &str) -> Vec<String> {
    let history = History::open(path).unwrap();
    let pods = Selection {
        kinds: Some(vec![Kind::new("", "Pod")]),
        namespace: Some(namespace.to_owned()),
        ..Selection::default()
    };
    let end = history.span().unwrap().unwrap().1;
    let mut names = Vec::new();
    history.for_each_at(end, &pods, |version| names.push(version.key.name.to_string())).unwrap();
    names.sort();
    names
}

fn existing_pods(cluster: &Cluster, namespace: &str) -> Vec<String> {
    let names =
        ["get", "pods", "-n", namespace, "-o=jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}"];
    let mut names: Vec<String> = cluster.kubectl(&names).unwrap().lines().map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn twenty_clusters_are_recorded_in_parallel() {
    let Some(cluster) = cluster() else { return };
    cluster.kubectl(&["create", "namespace", "twenty"]).unwrap();
    create_pods(&cluster, "twenty", (0..5).map(|number| format!("early-{number}")));
    let folder = tempfile::tempdir().unwrap();
    let mut proxies: Vec<Proxy> =
        (0..20).map(|_| Proxy::start(&cluster, FaultPlan::default()).unwrap()).collect();
    for (number, proxy) in proxies.iter().enumerate() {
        std::fs::copy(proxy.kubeconfig(), folder.path().join(format!("c{number}.yaml"))).unwrap();
    }
    let assign = |numbers: std::ops::Range<usize>| {
        let of = |number| json!({"name": format!("c{number}"), "kubeconfig": format!("c{number}.yaml")});
        let clusters: Vec<Value> = numbers.map(of).collect();
        let config = json!({
            "folder": "films", "kinds": ["pods", "namespaces"], "namespaces": ["twenty"], "clusters": clusters,
        });
        // Replaced atomically, as an editor or a ConfigMap mount does.
        std::fs::write(folder.path().join("next"), config.to_string()).unwrap();
        std::fs::rename(folder.path().join("next"), folder.path().join("clusters.yaml")).unwrap();
    };
    assign(0..20);
    let server = Server::start(folder.path(), &["--config", "clusters.yaml"]);
    let pods_of = |name: &str| of_kind(&recording(&server, name), "Pod", "objects");
    for number in 0..20 {
        until("all clusters are recorded", || pods_of(&format!("c{number}")) == 5);
    }

    // One cluster becomes unreachable and one is removed; the others are not affected.
    proxies.truncate(19);
    assign(1..20);
    until("one recording is removed", || recording(&server, "c0").is_null());
    create_pods(&cluster, "twenty", (0..5).map(|number| format!("late-{number}")));
    let changes_of = |name: &str| of_kind(&recording(&server, name), "Pod", "changes");
    for number in 1..19 {
        until("the other recordings continue", || changes_of(&format!("c{number}")) == 10);
    }
    until("the unreachable cluster is reported as waiting", || {
        let pods = of_kind(&recording(&server, "c19"), "Pod", "state");
        pods == "waiting"
    });
    assert_eq!(changes_of("c19"), 5);

    let metrics = server.get("/metrics").text();
    for line in [
        "kinescope_recorder_recording{cluster=\"c7\"} 1",
        "kinescope_recorder_changes_total{cluster=\"c7\",kind=\"Pod\"} 10",
        "kinescope_recorder_watching{cluster=\"c7\",kind=\"Pod\"} 1",
        "kinescope_recorder_watching{cluster=\"c19\",kind=\"Pod\"} 0",
        "kinescope_recorder_queue{cluster=\"c7\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.contains("kinescope_recorder_lag_seconds{cluster=\"c7\"}"));
    assert!(!metrics.contains("cluster=\"c0\""));
    let page = server.get("/").text();
    assert!(page.contains("c7</a><br><small>recording</small>"), "{page}");

    // An invalid file changes nothing until it is valid again.
    std::fs::write(folder.path().join("clusters.yaml"), "clusters: [{name: c1, colour: red}]").unwrap();
    create_pods(&cluster, "twenty", ["last".to_owned()].into_iter());
    until("recording continues as before", || changes_of("c7") == 11);

    let mut server = server;
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
    let existing = existing_pods(&cluster, "twenty");
    for number in 1..19 {
        let path = folder.path().join(format!("films/c{number}.kine"));
        assert_eq!(recorded_pods(&path, "twenty"), existing);
        let history = History::open(&path).unwrap();
        assert_eq!(history.gaps().unwrap(), []);
        let beside = |end: &str| folder.path().join(format!("films/c{number}.kine{end}"));
        assert!(!beside("-wal").exists() && !beside(".lock").exists());
        for version in history.between(Window::ALL, &Selection::default()).unwrap() {
            assert!(!version.unwrap().what.object().as_str().contains("hush"));
        }
    }
    assert_eq!(recorded_pods(&folder.path().join("films/c0.kine"), "twenty").len(), 5);
}

#[test]
fn a_shoot_is_recorded_with_its_control_plane() {
    let Some(cluster) = cluster() else { return };
    let machines = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "machinedeployments.machine.sapcloud.io"},
        "spec": {
            "group": "machine.sapcloud.io", "scope": "Namespaced",
            "names": {"plural": "machinedeployments", "kind": "MachineDeployment"},
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    cluster.kubectl_with_input(&["create", "-f", "-"], &machines.to_string()).unwrap();
    let wait = ["wait", "--for=condition=Established", "crd/machinedeployments.machine.sapcloud.io"];
    cluster.kubectl(&wait).unwrap();
    for namespace in ["shoot--dev--web", "shoot--dev--other", "in-shoot"] {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    }
    let machine = |namespace: &str| {
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
            "metadata": {"name": "pool-a", "namespace": namespace},
            "spec": {
                "replicas": 1,
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "template": {"spec": {
                    "class": {"name": "c"},
                    "nodeTemplate": {"metadata": {"labels": {"worker.gardener.cloud/pool": "a"}}},
                }},
            },
        })
    };
    for namespace in ["shoot--dev--web", "shoot--dev--other"] {
        cluster.kubectl_with_input(&["create", "-f", "-"], &machine(namespace).to_string()).unwrap();
        for name in ["cluster-autoscaler", "etcd"] {
            cluster.kubectl(&["create", "deployment", name, "--image=a", "-n", namespace]).unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    // The same server twice: the shoot itself does not include its control namespace.
    std::fs::copy(cluster.kubeconfig(), folder.path().join("live_dev_web.yaml")).unwrap();
    std::fs::copy(cluster.kubeconfig(), folder.path().join("seed-live_dev_web.yaml")).unwrap();
    std::fs::write(folder.path().join("clusters.csv"), "# landscape, project, shoot\nlive, dev, web\n")
        .unwrap();
    let kubeconfigs = "{landscape}_{project}_{shoot}.yaml";
    let seeds = format!("seed-{kubeconfigs}");
    let arguments =
        ["--config", "clusters.csv", "--kubeconfigs", kubeconfigs, "--control-kubeconfigs", &seeds];
    let mut server = Server::start(folder.path(), &arguments);
    let name = "live_dev_web";
    let built_in = live::default_resources().into_iter().map(|(kind, _)| kind);
    let built_in: Vec<String> =
        built_in.filter(|kind| kubernetes::kinds::of(kind).is_some()).map(|kind| kind.to_string()).collect();
    until("shoot and control plane are recorded", || {
        let recording = recording(&server, name);
        let count = |kind: &str| of_kind(&recording, kind, "changes").as_u64().unwrap_or(0);
        count("MachineDeployment.machine.sapcloud.io") >= 2
            && count("Deployment.apps") >= 4
            && count("Namespace") >= 3
            // A kind that the first run did not list would be a gap in the second.
            && built_in.iter().all(|kind| of_kind(&recording, kind, "state") == "watching")
    });
    let list = server.get("/api/db").text();
    assert_eq!(list, "live_dev_web.db\n");
    let database = folder.path().join("got.db");
    std::fs::write(&database, server.get("/api/db/live_dev_web.db").success()).unwrap();
    let database = rusqlite::Connection::open(database).unwrap();
    let rows: Vec<(String, String)> = database
        .prepare("SELECT Name, Namespace FROM mcd_info ORDER BY 2")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(rows.contains(&("pool-a".to_owned(), "shoot--dev--web".to_owned())), "{rows:?}");

    // After a restart no object of either plane counts as deleted, and none is recorded twice.
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
    let path = folder.path().join("live_dev_web.kine");
    let controlled = Selection { namespace: Some("shoot--dev--web".to_owned()), ..Selection::default() };
    let recorded_changes = || -> Vec<_> {
        let history = History::open(&path).unwrap();
        history.between(Window::ALL, &controlled).unwrap().map(Result::unwrap).collect()
    };
    let before = recorded_changes();
    let mut server = Server::start(folder.path(), &arguments);
    until("both are recorded again", || {
        let recording = recording(&server, name);
        of_kind(&recording, "MachineDeployment.machine.sapcloud.io", "state") == "watching"
            && of_kind(&recording, "Deployment.apps", "state") == "watching"
    });
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
    let history = History::open(&path).unwrap();
    assert_eq!(history.gaps().unwrap(), []);
    assert!(!before.iter().any(|change| matches!(change.what, What::Deleted(_))));
    assert_eq!(recorded_changes(), before);
}

#[test]
fn a_tracer_configuration_selects_what_is_recorded_and_exported() {
    let Some(cluster) = cluster() else { return };
    cluster.kubectl(&["create", "namespace", "traced"]).unwrap();
    cluster.kubectl(&["create", "serviceaccount", "somebody", "-n", "traced"]).unwrap();
    cluster.kubectl(&["create", "deployment", "web", "--image=a", "-n", "traced"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tracer = "trackedObjects:\n  apps/v1.Deployment: {}\n  v1.ServiceAccount: {}\n";
    std::fs::write(folder.path().join("tracer.yml"), tracer).unwrap();
    std::fs::create_dir(folder.path().join(".kube")).unwrap();
    std::fs::copy(cluster.kubeconfig(), folder.path().join(".kube/config")).unwrap();
    let server = Server::start(folder.path(), &["--config", "tracer.yml"]);
    until("the tracked objects are recorded", || {
        let recording = recording(&server, "cluster");
        of_kind(&recording, "ServiceAccount", "changes").as_u64().unwrap_or(0) > 0
            && of_kind(&recording, "Deployment.apps", "changes").as_u64().unwrap_or(0) > 0
    });
    let request = json!({
        "start_ts": 0, "end_ts": 4_000_000_000_u64, "export_path": "file:///x",
        "filters": {"excluded_namespaces": ["kube-system"], "excluded_labels": []},
    });
    std::fs::write(folder.path().join("got.sktrace"), server.post("/export", &request).success()).unwrap();
    run(folder.path(), &["import", "got.sktrace", "--into", "got.kine"]).success();
    let got =
        run(folder.path(), &["get", "serviceaccounts,deployments", "-A", "-o=name", "--history=got.kine"]);
    let got = got.success();
    assert!(got.contains("serviceaccount/somebody") && got.contains("deployment.apps/web"), "{got}");
}

#[test]
fn invalid_configurations_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    for (text, why) in [
        ("folder: x", "has no clusters"),
        ("clusters: 7", "clusters: not a list"),
        ("clusters: [{}]", "clusters[0]: missing field `name`"),
        ("clusters: [{name: a, colour: red}]", "a: unknown field `colour`"),
        ("colour: red\nclusters: []", "unknown key \"colour\""),
        ("clusters: [{name: a}, {name: a}]", "duplicate cluster name a"),
        ("clusters: [{name: ../a}]", "invalid cluster name \"../a\""),
        ("clusters: [{name: a, retention: {age: soon}}]", "retention.age: invalid duration \"soon\""),
        (
            "clusters: [{name: a, retention: {size: 1 elephant}}]",
            "retention.size: invalid size \"1 elephant\"",
        ),
        ("clusters: [{name: a, everything: true}]", "everything requires redact: false"),
        ("clusters: [{name: a, trackedObjects: {Pod: {}}}]", "invalid format for gvk"),
        ("clusters: [{name: a, schedulerConfig: nowhere}]", "cannot read nowhere"),
        ("clusters: [", "config.yaml"),
    ] {
        std::fs::write(folder.path().join("config.yaml"), text).unwrap();
        let output = run(folder.path(), &["record", "--config", "config.yaml"]).failure(1);
        assert!(output.contains(why), "{text}: {output}");
    }
    let missing = run(folder.path(), &["record", "--config", "nowhere.yaml"]).failure(1);
    assert!(missing.contains("cannot read nowhere.yaml"), "{missing}");
    std::fs::write(folder.path().join("clusters.csv"), "live,dev\n").unwrap();
    let columns = ["record", "--config", "clusters.csv", "--kubeconfigs", "x"];
    let columns = run(folder.path(), &columns).failure(1);
    assert!(columns.contains("line 1: expected three columns"), "{columns}");
    let pattern = run(folder.path(), &["record", "--config", "clusters.csv"]).failure(1);
    assert!(pattern.contains("--kubeconfigs"), "{pattern}");
}

/// A recorder whose files are limited to this many kilobytes.
fn limited(cluster: &Cluster, folder: &Path, kilobytes: u32, arguments: &[&str]) -> Child {
    Command::new("bash")
        .args(["-c", "trap '' XFSZ; ulimit -Sf $1; shift; exec \"$@\"", "limited", &kilobytes.to_string()])
        .args([PROGRAM, "record", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn recording_resumes_after_a_full_disk() {
    let Some(cluster) = cluster() else { return };
    cluster.kubectl(&["create", "namespace", "full"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut child = limited(&cluster, folder.path(), 400, &["--kinds=pods", "-n=full", "--into=full.kine"]);
    let (sender, output) = std::sync::mpsc::channel();
    let errors = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || errors.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    // Create pods until the disk is full.
    let mut rounds = 0..500;
    let paused = loop {
        match output.try_recv() {
            Ok(line) => break line,
            Err(_) => {
                let round = rounds.next().expect("the disk is full before 500 rounds");
                create_pods(&cluster, "full", (0..20).map(|number| format!("p-{round}-{number}")));
            }
        }
    };
    assert!(paused.starts_with("warning: recording is paused until writing succeeds"), "{paused}");
    create_pods(&cluster, "full", ["meanwhile".to_owned()].into_iter());
    let unlimited = ["--fsize=unlimited:", "--pid", &child.id().to_string()].map(str::to_owned);
    assert!(Command::new("prlimit").args(unlimited).status().unwrap().success());
    let resumed = output.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(resumed, "warning: recording resumed");
    let (path, existing) = (folder.path().join("full.kine"), existing_pods(&cluster, "full"));
    until("all pods are recorded", || recorded_pods(&path, "full") == existing);
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(history::doctor(&path).unwrap().is_clean());
    let history = History::open(&path).unwrap();
    let gaps = history.gaps().unwrap();
    assert!(
        gaps.iter().any(|gap| gap.why.starts_with("the history could not be written: ") && gap.from < gap.to),
        "{gaps:?}"
    );
    // Nothing was recorded twice.
    let pods = Selection { kinds: Some(vec![Kind::new("", "Pod")]), ..Selection::default() };
    let mut versions: Vec<String> = history
        .between(Window::ALL, &pods)
        .unwrap()
        .map(|change| change.unwrap().what.object().meta().resource_version.unwrap().into_owned())
        .collect();
    let count = versions.len();
    versions.sort();
    versions.dedup();
    assert_eq!((versions.len(), count), (existing.len(), existing.len()));
}

#[test]
fn retention_limits_a_recording() {
    let Some(cluster) = cluster() else { return };
    cluster.kubectl(&["create", "namespace", "short"]).unwrap();
    create_pods(&cluster, "short", (0..3).map(|number| format!("p-{number}")));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("clusters.yaml"),
        json!({
            "retention": {"age": "3s"},
            "clusters": [{"name": "a", "kubeconfig": cluster.kubeconfig(), "kinds": ["pods"], "namespaces": ["short"]}],
        })
        .to_string(),
    )
    .unwrap();
    let server = Server::start(folder.path(), &["--config", "clusters.yaml"]);
    let pruned = || server.get("/api/v1/histories/a").json()["prunedTo"].clone();
    until("the pods are recorded", || of_kind(&recording(&server, "a"), "Pod", "objects") == 3);
    let mut number = 0;
    until("older changes are pruned", || {
        number += 1;
        let label = format!("number={number}");
        cluster.kubectl(&["label", "pod", "p-0", &label, "--overwrite", "-n=short"]).unwrap();
        !pruned().is_null()
    });
    // Recording continues afterwards, and the current state is complete.
    create_pods(&cluster, "short", ["p-3".to_owned()].into_iter());
    let path = folder.path().join("a.kine");
    until("recording continues", || recorded_pods(&path, "short").len() == 4);
    assert_eq!(History::open(&path).unwrap().gaps().unwrap(), []);
}
