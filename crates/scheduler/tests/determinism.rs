//! Determinism: the same input gives the same decisions, byte for byte, also with objects applied in another order
//! where the order must not matter, and with other uids.

use std::fmt::Write;

use model::{Moment, What};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use scheduler::{Decision, Scheduler, Settings};
use serde_json::{Value, json};
use testobjects::random_cluster::RandomCluster;
use testobjects::{PodBuilder, node, object, pod};

const NOW: Moment = Moment::from_nanos(0);
const WRITES: &str = "a string takes whatever is written to it";

/// A cluster: objects whose order must not matter, nodes in order, and assigned and pending pods.
struct Snapshot {
    unordered: Vec<Value>,
    nodes: Vec<Value>,
    assigned: Vec<Value>,
    pending: Vec<Value>,
}

#[test]
fn the_same_events_give_the_same_decisions() {
    for seed in 1..=10 {
        assert_eq!(decision_log(seed), decision_log(seed), "seed {seed}");
    }
}

#[test]
fn the_order_of_unordered_objects_does_not_matter() {
    for seed in 1..=10 {
        let right = Snapshot::new(seed, "").with_priorities().decisions();
        for shuffle in 1..=5 {
            let mut other = Snapshot::new(seed, "").with_priorities();
            let mut chance = Pcg64::seed_from_u64(shuffle);
            other.unordered.shuffle(&mut chance);
            other.pending.shuffle(&mut chance);
            assert_eq!(other.decisions(), right, "seed {seed}, shuffled by {shuffle}");
        }
    }
}

#[test]
fn assigned_pods_may_be_applied_in_any_order() {
    for seed in 1..=10 {
        let right = Snapshot::new(seed, "").decisions();
        for shuffle in 1..=5 {
            let mut other = Snapshot::new(seed, "");
            other.assigned.shuffle(&mut Pcg64::seed_from_u64(shuffle));
            assert_eq!(other.decisions(), right, "seed {seed}, shuffled by {shuffle}");
        }
    }
}

#[test]
fn reasons_list_resources_in_a_fixed_order() {
    let with = |name: &str, resources: &[&str]| {
        resources.iter().fold(pod(name), |pod, resource| pod.request(resource, "1"))
    };
    let node = node("n").allocatable("pods", "9").added();
    let pods = [
        with("a", &["example.com/a"]),
        with("b", &["example.com/b"]),
        with("p", &["example.com/a", "example.com/b", "example.com/c"]),
    ]
    .map(PodBuilder::added);
    let answer = |order: [usize; 3]| {
        let mut scheduler = Scheduler::new(Settings::default());
        order.into_iter().for_each(|index| scheduler.apply(NOW, &pods[index]));
        scheduler.apply(NOW, &node);
        format!("{:?}", scheduler.explain(NOW, "default", "p"))
    };
    assert_eq!(answer([1, 0, 2]), answer([0, 1, 2]));
    assert_eq!(answer([2, 1, 0]), answer([0, 1, 2]));
}

#[test]
fn uids_do_not_matter() {
    for seed in 1..=10 {
        let answers = |uid| Snapshot::new(seed, uid).with_priorities().decisions();
        assert_eq!(answers("another-"), answers(""), "seed {seed}");
    }
}

#[test]
fn explain_changes_no_later_decision() {
    for seed in 1..=10 {
        let snapshot = Snapshot::new(seed, "").with_priorities();
        let (mut explaining, mut plain) = (snapshot.scheduler(), snapshot.scheduler());
        for pod in &snapshot.pending {
            for other in &snapshot.pending {
                explaining.explain(NOW, text(other, "namespace"), text(other, "name"));
            }
            let (namespace, name) = (text(pod, "namespace"), text(pod, "name"));
            assert_eq!(
                explaining.attempt(NOW, namespace, name),
                plain.attempt(NOW, namespace, name),
                "seed {seed}"
            );
        }
    }
}

/// All explanations and decisions over a random cluster's events.
fn decision_log(seed: u64) -> String {
    let mut cluster = RandomCluster::new(seed);
    let mut scheduler = Scheduler::new(Settings::default());
    let mut log = String::new();
    cluster.initial_changes(8).iter().for_each(|change| scheduler.apply(NOW, change));
    for _ in 0..80 {
        scheduler.apply(NOW, &cluster.next_change());
        let Some((namespace, name)) = cluster.pick_pending_pod() else { continue };
        writeln!(log, "{:?}", scheduler.explain(NOW, &namespace, &name)).expect(WRITES);
        let decision = scheduler.attempt(NOW, &namespace, &name);
        writeln!(log, "{decision:?}").expect(WRITES);
        match decision {
            Some(Decision::Scheduled(placement)) => cluster.mark_placed(&namespace, &name, &placement.node),
            _ => cluster
                .mark_unschedulable(&namespace, &name)
                .iter()
                .for_each(|change| scheduler.apply(NOW, change)),
        }
    }
    log
}

// === impl Snapshot ===

impl Snapshot {
    /// The state of a random cluster after some events; every uid begins with `uid`.
    fn new(seed: u64, uid: &str) -> Snapshot {
        let mut cluster = RandomCluster::new(seed);
        let mut objects: Vec<Value> = Vec::new();
        let initial = cluster.initial_changes(8);
        for step in 0..60 {
            let change = if step < initial.len() { initial[step].clone() } else { cluster.next_change() };
            let object = change.object().value().expect("an object is JSON");
            objects.retain(|other| object_id(other) != object_id(&object));
            if !matches!(change, What::Deleted(_)) {
                objects.push(object);
            }
        }
        let mut snapshot =
            Snapshot { unordered: storage(), nodes: Vec::new(), assigned: Vec::new(), pending: Vec::new() };
        objects.extend((0..2).map(pod_with_volume));
        for mut object in objects {
            object["metadata"]["uid"] = json!(format!("{uid}{}", text(&object, "name")));
            let list = match object["kind"].as_str() {
                Some("Node") => &mut snapshot.nodes,
                Some("Pod") if object["spec"]["nodeName"].is_null() => &mut snapshot.pending,
                Some("Pod") => &mut snapshot.assigned,
                _ => &mut snapshot.unordered,
            };
            list.push(object);
        }
        snapshot
    }

    /// Gives pending pods priorities, so that they may preempt.
    fn with_priorities(mut self) -> Snapshot {
        for pod in &mut self.pending {
            pod["spec"]["priority"] = json!(text(pod, "name").len() % 3);
        }
        self
    }

    fn scheduler(&self) -> Scheduler {
        let mut scheduler = Scheduler::new(Settings::default());
        for json in self.unordered.iter().chain(&self.nodes).chain(&self.assigned).chain(&self.pending) {
            scheduler.apply(NOW, &What::Added(object(json)));
        }
        scheduler
    }

    /// The explanations and decisions of all pending pods, by name.
    fn decisions(&self) -> String {
        let mut scheduler = self.scheduler();
        let mut log = String::new();
        let mut pods: Vec<_> =
            self.pending.iter().map(|pod| (text(pod, "namespace"), text(pod, "name"))).collect();
        pods.sort();
        for (namespace, name) in pods {
            writeln!(log, "{:?}", scheduler.explain(NOW, namespace, name)).expect(WRITES);
            writeln!(log, "{:?}", scheduler.attempt(NOW, namespace, name)).expect(WRITES);
        }
        let happened = ["Scheduled(", "Rejected", "Bind {"].iter().all(|word| log.contains(word));
        assert!(happened, "too little happened");
        log
    }
}

fn pod_with_volume(index: usize) -> Value {
    let claim = json!({"claimName": format!("claim-{index}")});
    pod(&format!("keeper-{index}"))
        .set("spec.tolerations", json!([{"operator": "Exists"}]))
        .set("spec.volumes", json!([{"name": "v", "persistentVolumeClaim": claim}]))
        .json()
}

/// Volumes, claims, a class and budgets.
fn storage() -> Vec<Value> {
    let volume = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": format!("volume-{index}")},
            "spec": {"capacity": {"storage": format!("{}Gi", index + 1)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "slow"},
            "status": {"phase": "Available"},
        })
    };
    let budget = |index: usize| {
        json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"namespace": "default", "name": format!("budget-{index}")},
            "spec": {"selector": {"matchLabels": {"app": "a"}}}, "status": {"disruptionsAllowed": index},
        })
    };
    let claim = |index: usize| {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "default", "name": format!("claim-{index}")},
            "spec": {"storageClassName": "slow", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
        })
    };
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "slow"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer",
    });
    (0..5).map(volume).chain((0..2).map(budget)).chain((0..2).map(claim)).chain([class]).collect()
}

fn object_id(json: &Value) -> (String, String, String) {
    let namespace = json["metadata"]["namespace"].as_str().unwrap_or_default();
    (json["kind"].to_string(), namespace.to_owned(), text(json, "name").to_owned())
}

fn text<'a>(json: &'a Value, field: &str) -> &'a str {
    json["metadata"][field].as_str().expect("the value is a string")
}
