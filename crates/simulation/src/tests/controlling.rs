//! Controllers in a cluster: what is given are workloads, and pods come of them.

use controllers::{Controller, OwnerName, Words};
use serde_json::{Value, json};

use super::*;
use crate::{Memory, Remembered};

/// Every pod was recorded under the name of its owner and a number, and ran for three seconds.
#[derive(Debug, Default)]
struct Recorded {
    asked: Vec<String>,
}

impl Memory for Recorded {
    fn recall(&mut self, _: &Object, owners: &[OwnerName]) -> Option<Remembered> {
        let chain: Vec<String> =
            owners.iter().map(|owner| format!("{} {}", owner.kind, owner.name)).collect();
        self.asked.push(chain.join(", "));
        let number = self.asked.len();
        let name = format!("{}-{number}", owners[0].name);
        Some(Remembered {
            demand: Some(DemandId(number as u64)),
            lives: vec![Life { name: name.into(), ..Life::default() }],
            runs: Some(Runs { lasting: Duration::from_secs(3), fails: false }),
        })
    }
}

/// Knows how long pods ran, and no pod.
#[derive(Debug)]
struct Forgetful;

impl Memory for Forgetful {
    fn recall(&mut self, _: &Object, _: &[OwnerName]) -> Option<Remembered> {
        Some(Remembered::default())
    }
}

fn template(image: &str, policy: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"restartPolicy": policy,
        "schedulerName": "default-scheduler",
        "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": "100m"}}}]}})
}

fn deployment(replicas: u32, image: &str) -> Object {
    object(&json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "uid": "web-uid", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(image, "Always")}}))
}

/// What came and went, but for what only changed.
fn comings_and_goings(notes: &Notes, kind: &str) -> Vec<(i64, &'static str, String)> {
    let of_kind = notes.changes.iter().filter(|(_, what)| what.object().meta().kind == kind);
    let told = of_kind
        .map(|(at, what)| (at.nanos() / 1_000_000, what.word(), what.object().meta().name.to_string()));
    told.filter(|(_, word, _)| *word != "MODIFIED").collect()
}

#[test]
fn a_deployment_rolls_and_its_pods_follow() {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-abc", "namespace": "shop", "labels": {"pod-template-hash": "abc"}},
        "spec": {"template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
            "spec": template("one", "Always")["spec"]}}});
    let words: Words = controllers::word_of(&object(&set)).into_iter().collect();
    let mut run = cluster(None).with_controllers(&Controller::ALL, Some(words), None);
    add(&mut run, 0, node("n1", &json!([])));
    add(&mut run, 1_000, deployment(2, "one"));
    run.advance(at(10_000));
    // Controllers take 40 ms to notice; the ReplicaSet is called as recorded.
    assert_eq!(comings_and_goings(run.observer(), "ReplicaSet"), [(1_040, "ADDED", "web-abc".to_owned())]);
    let made = comings_and_goings(run.observer(), "Pod");
    assert!(
        made.len() == 2
            && made
                .iter()
                .all(|(at, word, name)| (*at, *word) == (1_040, "ADDED") && name.starts_with("web-abc-")),
        "{made:?}"
    );

    give(&mut run, 10_000, Given::Object(What::Modified(deployment(2, "two"))));
    run.advance(at(30_000));
    let after = &comings_and_goings(run.observer(), "Pod")[2..];
    let words: Vec<&str> = after.iter().map(|(_, word, _)| *word).collect();
    // One more at a time, and an old one goes when the new one runs.
    assert_eq!(words, ["ADDED", "ADDED", "DELETED", "DELETED"], "{after:?}");
    let status = run
        .observer()
        .changes
        .iter()
        .rev()
        .find(|(_, what)| what.object().meta().kind == "Deployment")
        .unwrap();
    let status = status.1.object().value().unwrap()["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["availableReplicas"]), (&json!(2), &json!(2)));

    // What belongs to it goes with it.
    give(&mut run, 30_000, Given::Object(What::Deleted(deployment(2, "two"))));
    run.advance(at(40_000));
    let sets = comings_and_goings(run.observer(), "ReplicaSet");
    assert_eq!(sets.iter().filter(|(_, word, _)| *word == "DELETED").count(), 2, "{sets:?}");
    let gone = comings_and_goings(run.observer(), "Pod")
        .into_iter()
        .filter(|(_, word, _)| *word == "DELETED")
        .count();
    assert_eq!(gone, 4);
}

#[test]
fn a_job_runs_its_pods_as_long_as_they_were_recorded_and_counts_them() {
    let mut memory = Recorded::default();
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, Some(&mut memory));
    add(&mut run, 0, node("n1", &json!([])));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "shop", "uid": "sum-uid", "generation": 1},
        "spec": {"parallelism": 1, "completions": 2, "selector": {"matchLabels": {"job": "sum"}},
            "template": template("one", "Never")}});
    add(&mut run, 1_000, object(&job));
    run.advance(at(60_000));
    // Bound after 20 ms, started after 500, over after 3 s; the next is made a second after the end, and 40 ms.
    let told = |at, word, phase: &str| (at, word, phase.to_owned());
    let first = run.observer().life("sum-1");
    assert_eq!(first[..2], [told(1_040, "ADDED", "Pending"), told(1_060, "MODIFIED", "Pending")]);
    assert!(first.contains(&told(4_560, "MODIFIED", "Succeeded")), "{first:?}");
    assert_eq!(run.observer().life("sum-2")[0].1, "ADDED");
    let job =
        run.observer().changes.iter().rev().find(|(_, what)| what.object().meta().kind == "Job").unwrap();
    let status = job.1.object().value().unwrap()["status"].clone();
    assert_eq!((&status["succeeded"], status["completionTime"].is_string()), (&json!(2), true), "{status}");
    let last =
        run.observer().changes.iter().rev().find(|(_, what)| what.object().meta().kind == "Pod").unwrap();
    let finalizers = &last.1.object().value().unwrap()["metadata"]["finalizers"];
    assert!(finalizers.as_array().is_none_or(Vec::is_empty), "{finalizers}");
    drop(run);
    assert_eq!(memory.asked, ["Job sum", "Job sum"]);
}

#[test]
fn a_daemon_set_follows_nodes_and_a_lost_pod_is_made_again() {
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, None);
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "shop", "uid": "log-uid", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("one", "Always")}});
    add(&mut run, 0, object(&set));
    add(&mut run, 1_000, node("n1", &json!([])));
    run.advance(at(5_000));
    let made = comings_and_goings(run.observer(), "Pod");
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(
        run.observer().said().iter().any(|(_, said)| said.ends_with("on n1")),
        "{:?}",
        run.observer().said()
    );
    // A node that is gone takes its pod with it; when it returns there is another.
    give(&mut run, 6_000, Given::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(70_000));
    add(&mut run, 70_000, node("n1", &json!([])));
    run.advance(at(80_000));
    let words: Vec<&str> =
        comings_and_goings(run.observer(), "Pod").into_iter().map(|(_, word, _)| word).collect();
    assert_eq!(words, ["ADDED", "DELETED", "ADDED"]);
}

#[test]
fn a_stateful_sets_pod_has_its_name_again_when_it_is_gone() {
    let mut memory = Forgetful;
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, Some(&mut memory));
    add(&mut run, 0, node("n1", &json!([])));
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "uid": "db-uid", "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("one", "Always")}});
    add(&mut run, 1_000, object(&set));
    run.advance(at(5_000));
    let mut smaller = set.clone();
    smaller["spec"]["replicas"] = 0.into();
    give(&mut run, 5_000, Given::Object(What::Modified(object(&smaller))));
    give(&mut run, 5_100, Given::Object(What::Modified(object(&set))));
    run.advance(at(20_000));
    // Its deletion began after 40 ms and took 700; another 40 later it is made again.
    let told = |at, word: &'static str| (at, word, "db-0".to_owned());
    assert_eq!(
        comings_and_goings(run.observer(), "Pod"),
        [told(1_040, "ADDED"), told(5_740, "DELETED"), told(5_780, "ADDED")]
    );
}

#[test]
fn what_controllers_wrote_stays_when_somebody_writes_the_rest() {
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, None);
    add(&mut run, 0, node("n1", &json!([])));
    add(&mut run, 0, deployment(2, "one"));
    run.advance(at(5_000));
    let count = run.observer().changes.len();
    let mut recorded = deployment(2, "one").value().unwrap();
    recorded["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    recorded["status"] = json!({"replicas": 77});
    give(&mut run, 5_000, Given::Object(What::Modified(object(&recorded))));
    run.advance(at(6_000));
    assert_eq!(run.observer().changes.len(), count, "a status that was recorded is nobody's will");
}
