//! Controllers in a run: workloads are the input, and the controllers create their pods.

use controllers::{Controller, TemplateHashes};
use kubernetes::objects::PodView;
use model::ObjectRef;
use serde_json::{Value, json};

use super::*;
use crate::{PodRecord, RecordedPodSource};

/// Every pod was recorded under the name of its owner and a number, and ran for three seconds.
#[derive(Debug, Default)]
struct NumberedRecords {
    owner_chains: Vec<String>,
}

impl RecordedPodSource for NumberedRecords {
    fn next_record(&mut self, _: &PodView, owners: &[ObjectRef]) -> Option<PodRecord> {
        let chain: Vec<String> =
            owners.iter().map(|owner| format!("{} {}", owner.kind.kind, owner.name)).collect();
        self.owner_chains.push(chain.join(", "));
        let number = self.owner_chains.len();
        let name = format!("{}-{number}", owners[0].name);
        Some(PodRecord {
            demand: Some(DemandId(number as u64)),
            incarnations: vec![PodIncarnation { name: name.into(), ..PodIncarnation::default() }],
            exit: Some(ContainerExit { after: Duration::from_secs(3), fails: false }),
        })
    }
}

/// Returns a record without pods.
#[derive(Debug)]
struct EmptyRecords;

impl RecordedPodSource for EmptyRecords {
    fn next_record(&mut self, _: &PodView, _: &[ObjectRef]) -> Option<PodRecord> {
        Some(PodRecord::default())
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

/// The additions and deletions of a kind.
fn additions_and_deletions(observer: &CollectingObserver, kind: &str) -> Vec<(i64, &'static str, String)> {
    let of_kind = observer.changes.iter().filter(|(_, what)| what.object().meta().kind == kind);
    let changes = of_kind
        .map(|(at, what)| (at.nanos() / 1_000_000, what.event_type(), what.object().meta().name.to_string()));
    changes.filter(|(_, verb, _)| *verb != "MODIFIED").collect()
}

#[test]
fn a_deployment_rolls_out_and_its_pods_follow() {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-abc", "namespace": "shop", "labels": {"pod-template-hash": "abc"}},
        "spec": {"template": {"metadata": {"labels": {"app": "web", "pod-template-hash": "abc"}},
            "spec": template("one", "Always")["spec"]}}});
    let hashes: TemplateHashes = controllers::template_hash_of(&object(&set)).into_iter().collect();
    let mut run = cluster(None).with_controllers(&Controller::ALL, Some(hashes), None);
    add(&mut run, 0, node("n1", &json!([])));
    add(&mut run, 1_000, deployment(2, "one"));
    run.advance(at(10_000));
    // Controllers sync after 40 ms; the ReplicaSet has its recorded name.
    assert_eq!(
        additions_and_deletions(run.observer(), "ReplicaSet"),
        [(1_040, "ADDED", "web-abc".to_owned())]
    );
    let created = additions_and_deletions(run.observer(), "Pod");
    assert!(
        created.len() == 2
            && created
                .iter()
                .all(|(at, verb, name)| (*at, *verb) == (1_040, "ADDED") && name.starts_with("web-abc-")),
        "{created:?}"
    );

    apply_input(&mut run, 10_000, Input::Object(What::Modified(deployment(2, "two"))));
    run.advance(at(30_000));
    let after = &additions_and_deletions(run.observer(), "Pod")[2..];
    let verbs: Vec<&str> = after.iter().map(|(_, verb, _)| *verb).collect();
    // One pod of surge at a time; an old pod is deleted when the new one runs.
    assert_eq!(verbs, ["ADDED", "ADDED", "DELETED", "DELETED"], "{after:?}");
    let status = run
        .observer()
        .changes
        .iter()
        .rev()
        .find(|(_, what)| what.object().meta().kind == "Deployment")
        .unwrap();
    let status = status.1.object().value().unwrap()["status"].clone();
    assert_eq!((&status["updatedReplicas"], &status["availableReplicas"]), (&json!(2), &json!(2)));

    // Its dependents are deleted with it.
    apply_input(&mut run, 30_000, Input::Object(What::Deleted(deployment(2, "two"))));
    run.advance(at(40_000));
    let sets = additions_and_deletions(run.observer(), "ReplicaSet");
    assert_eq!(sets.iter().filter(|(_, verb, _)| *verb == "DELETED").count(), 2, "{sets:?}");
    let deleted = additions_and_deletions(run.observer(), "Pod")
        .into_iter()
        .filter(|(_, verb, _)| *verb == "DELETED")
        .count();
    assert_eq!(deleted, 4);
}

#[test]
fn a_job_runs_its_pods_as_long_as_they_were_recorded_and_counts_them() {
    let mut recorded_pods = NumberedRecords::default();
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, Some(&mut recorded_pods));
    add(&mut run, 0, node("n1", &json!([])));
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "shop", "uid": "sum-uid", "generation": 1},
        "spec": {"parallelism": 1, "completions": 2, "selector": {"matchLabels": {"job": "sum"}},
            "template": template("one", "Never")}});
    add(&mut run, 1_000, object(&job));
    run.advance(at(60_000));
    // Bound after 20 ms, started after 500, finished after 3 s; the next pod is created a second after that, and 40 ms.
    let change = |at, verb, phase: &str| (at, verb, phase.to_owned());
    let first = run.observer().changes_of_pod("sum-1");
    assert_eq!(first[..2], [change(1_040, "ADDED", "Pending"), change(1_060, "MODIFIED", "Pending")]);
    assert!(first.contains(&change(4_560, "MODIFIED", "Succeeded")), "{first:?}");
    assert_eq!(run.observer().changes_of_pod("sum-2")[0].1, "ADDED");
    let job =
        run.observer().changes.iter().rev().find(|(_, what)| what.object().meta().kind == "Job").unwrap();
    let status = job.1.object().value().unwrap()["status"].clone();
    assert_eq!((&status["succeeded"], status["completionTime"].is_string()), (&json!(2), true), "{status}");
    let last =
        run.observer().changes.iter().rev().find(|(_, what)| what.object().meta().kind == "Pod").unwrap();
    let finalizers = &last.1.object().value().unwrap()["metadata"]["finalizers"];
    assert!(finalizers.as_array().is_none_or(Vec::is_empty), "{finalizers}");
    drop(run);
    assert_eq!(recorded_pods.owner_chains, ["Job sum", "Job sum"]);
}

#[test]
fn a_daemon_set_follows_nodes_and_a_deleted_pod_is_recreated() {
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, None);
    let set = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "shop", "uid": "log-uid", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template("one", "Always")}});
    add(&mut run, 0, object(&set));
    add(&mut run, 1_000, node("n1", &json!([])));
    run.advance(at(5_000));
    let created = additions_and_deletions(run.observer(), "Pod");
    assert_eq!(created.len(), 1, "{created:?}");
    assert!(
        run.observer().decisions_so_far().iter().any(|(_, text)| text.ends_with("on n1")),
        "{:?}",
        run.observer().decisions_so_far()
    );
    // Pod GC deletes the pod of a deleted node; when the node returns there is another pod.
    apply_input(&mut run, 6_000, Input::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(70_000));
    add(&mut run, 70_000, node("n1", &json!([])));
    run.advance(at(80_000));
    let verbs: Vec<&str> =
        additions_and_deletions(run.observer(), "Pod").into_iter().map(|(_, verb, _)| verb).collect();
    assert_eq!(verbs, ["ADDED", "DELETED", "ADDED"]);
}

#[test]
fn a_stateful_set_reuses_a_pods_name_when_the_pod_is_gone() {
    let mut recorded_pods = EmptyRecords;
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, Some(&mut recorded_pods));
    add(&mut run, 0, node("n1", &json!([])));
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "shop", "uid": "db-uid", "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template("one", "Always")}});
    add(&mut run, 1_000, object(&set));
    run.advance(at(5_000));
    let mut smaller = set.clone();
    smaller["spec"]["replicas"] = 0.into();
    apply_input(&mut run, 5_000, Input::Object(What::Modified(object(&smaller))));
    apply_input(&mut run, 5_100, Input::Object(What::Modified(object(&set))));
    run.advance(at(20_000));
    // Its deletion began after 40 ms and took 700; another 40 later it is recreated.
    let change = |at, verb: &'static str| (at, verb, "db-0".to_owned());
    assert_eq!(
        additions_and_deletions(run.observer(), "Pod"),
        [change(1_040, "ADDED"), change(5_740, "DELETED"), change(5_780, "ADDED")]
    );
}

#[test]
fn an_input_does_not_overwrite_the_status_that_controllers_wrote() {
    let mut run = cluster(None).with_controllers(&Controller::ALL, None, None);
    add(&mut run, 0, node("n1", &json!([])));
    add(&mut run, 0, deployment(2, "one"));
    run.advance(at(5_000));
    let count = run.observer().changes.len();
    let mut recorded = deployment(2, "one").value().unwrap();
    recorded["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": "1"});
    recorded["status"] = json!({"replicas": 77});
    apply_input(&mut run, 5_000, Input::Object(What::Modified(object(&recorded))));
    run.advance(at(6_000));
    assert_eq!(run.observer().changes.len(), count, "a recorded status is not part of the input");
}
