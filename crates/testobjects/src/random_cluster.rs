//! A randomly changing cluster: nodes, pods, namespaces, services and replica sets are created, changed and deleted,
//! and some pods are bound externally. The same seed gives the same changes.

mod nodes;
mod pods;

use model::What;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

pub use crate::object;

/// The namespaces of pods; the last does not exist.
pub const NAMESPACES: [&str; 4] = ["default", "team-a", "team-b", "nowhere"];
const APPS: [&str; 3] = ["a", "b", "c"];

/// A randomly changing cluster.
#[derive(Debug)]
pub struct RandomCluster {
    /// Determines the changes.
    pub rng: TestRng,
    nodes: Vec<Value>,
    /// Deleted nodes, which may be created again.
    deleted_nodes: Vec<Value>,
    pods: Vec<PodEntry>,
    templates: Vec<Value>,
    services: Vec<Value>,
    replica_sets: Vec<Value>,
    /// How many objects were created so far: names are never reused, except by nodes that are created again.
    created_count: usize,
}

/// A seeded random number generator.
#[derive(Debug)]
pub struct TestRng(Pcg64);

#[derive(Debug)]
struct PodEntry {
    pod: Value,
    /// The node chosen by the scheduler, until the binding is observed.
    placed_on: Option<String>,
}

// === impl RandomCluster ===

impl RandomCluster {
    /// An empty cluster.
    pub fn new(seed: u64) -> RandomCluster {
        RandomCluster {
            rng: TestRng(Pcg64::seed_from_u64(seed)),
            nodes: Vec::new(),
            deleted_nodes: Vec::new(),
            pods: Vec::new(),
            templates: Vec::new(),
            services: Vec::new(),
            replica_sets: Vec::new(),
            created_count: 0,
        }
    }

    /// The initial changes: namespaces and nodes.
    pub fn initial_changes(&mut self, nodes: usize) -> Vec<What> {
        let named = NAMESPACES.iter().filter(|name| **name != "nowhere");
        let mut changes: Vec<What> = Vec::new();
        for name in named {
            changes.push(self.change_namespace(name));
        }
        for _ in 0..nodes {
            changes.push(self.new_node());
        }
        changes
    }

    /// A random change.
    pub fn next_change(&mut self) -> What {
        loop {
            let what = match self.rng.below(100) {
                0..4 => Some(self.new_node()),
                4..10 => self.change_node(),
                10..14 => self.delete_node(),
                14..18 => self.recreate_node(),
                18..60 => Some(self.new_pod()),
                60..70 => self.observe_binding(),
                70..76 => self.bind_externally(),
                76..80 => self.start_deletion(),
                80..88 => self.delete_pod(),
                88..91 => self.relabel_pod(),
                91 => self.nominate_node(),
                92..95 => {
                    let name = *self.rng.choose(&NAMESPACES);
                    Some(self.change_namespace(name))
                }
                95..98 => Some(self.change_service()),
                _ => Some(self.change_replica_set()),
            };
            if let Some(what) = what {
                return what;
            }
        }
    }

    /// Picks a pending pod that can be scheduled, by namespace and name.
    pub fn pick_pending_pod(&mut self) -> Option<(String, String)> {
        let waits = |one: &&PodEntry| {
            one.placed_on.is_none()
                && one.pod["spec"]["nodeName"].is_null()
                && one.pod["metadata"]["deletionTimestamp"].is_null()
        };
        let waiting: Vec<&Value> = self.pods.iter().filter(waits).map(|one| &one.pod).collect();
        if waiting.is_empty() {
            return None;
        }
        let metadata = &self.rng.choose(&waiting)["metadata"];
        Some((text(&metadata["namespace"]), text(&metadata["name"])))
    }

    /// Records that the scheduler chose a node for a pod.
    pub fn mark_placed(&mut self, namespace: &str, name: &str, node: &str) {
        let is = |one: &&mut PodEntry| {
            one.pod["metadata"]["namespace"] == namespace && one.pod["metadata"]["name"] == name
        };
        self.pods.iter_mut().find(is).expect("the pod is in the cluster").placed_on = Some(node.to_owned());
    }

    /// Records that a pod is unschedulable. Returns the change that clears its nomination, if it had one.
    pub fn mark_unschedulable(&mut self, namespace: &str, name: &str) -> Option<What> {
        let is = |one: &&mut PodEntry| {
            one.pod["metadata"]["namespace"] == namespace && one.pod["metadata"]["name"] == name
        };
        let pod = &mut self.pods.iter_mut().find(is).expect("the pod is in the cluster").pod;
        pod.as_object_mut()?.remove("status")?;
        Some(What::Modified(object(pod)))
    }

    fn next_number(&mut self) -> usize {
        self.created_count += 1;
        self.created_count
    }

    fn change_namespace(&mut self, name: &str) -> What {
        let labels = json!({"team": self.rng.choose(&["red", "blue"]), "kubernetes.io/metadata.name": name});
        let gone = name == "team-b" && self.rng.chance(30);
        let namespace = object(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        );
        if gone { What::Deleted(namespace) } else { What::Modified(namespace) }
    }

    fn change_service(&mut self) -> What {
        if self.services.len() > 2 || (!self.services.is_empty() && self.rng.chance(30)) {
            let which = self.rng.below(self.services.len());
            return What::Deleted(object(&self.services.swap_remove(which)));
        }
        let selector = match self.rng.below(6) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!({"app": self.rng.choose(&APPS), "tier": "x"}),
            _ => json!({"app": self.rng.choose(&APPS)}),
        };
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": self.rng.choose(&NAMESPACES), "name": format!("service-{}", self.next_number())},
            "spec": {"selector": selector}
        });
        self.services.push(service.clone());
        What::Added(object(&service))
    }

    fn change_replica_set(&mut self) -> What {
        if self.replica_sets.len() > 2 || (!self.replica_sets.is_empty() && self.rng.chance(30)) {
            let which = self.rng.below(self.replica_sets.len());
            return What::Deleted(object(&self.replica_sets.swap_remove(which)));
        }
        let name = format!("set-{}", self.rng.below(4));
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": self.rng.choose(&NAMESPACES), "name": name},
            "spec": {"selector": self.label_selector()}
        });
        self.replica_sets.retain(|other| other["metadata"] != set["metadata"]);
        self.replica_sets.push(set.clone());
        What::Modified(object(&set))
    }

    /// A random label selector for pods.
    fn label_selector(&mut self) -> Value {
        let app = *self.rng.choose(&APPS);
        match self.rng.below(8) {
            0 => json!({}),
            1 => json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}),
            2 => json!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}),
            3 => json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}),
            4 => {
                json!({"matchLabels": {"app": app}, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]})
            }
            _ => json!({"matchLabels": {"app": app}}),
        }
    }
}

// === impl TestRng ===

impl TestRng {
    /// A number below `sides`.
    pub fn below(&mut self, sides: usize) -> usize {
        self.0.random_range(0..sides)
    }

    /// True with the given probability in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// An element of a list.
    pub fn choose<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("the value is a string").to_owned()
}
