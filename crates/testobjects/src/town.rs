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
pub struct Town {
    /// Determines the changes.
    pub dice: Dice,
    nodes: Vec<Value>,
    /// Deleted nodes, which may be created again.
    gone_nodes: Vec<Value>,
    pods: Vec<Resident>,
    templates: Vec<Value>,
    services: Vec<Value>,
    replica_sets: Vec<Value>,
    /// How many objects were created so far: names are never reused, except by nodes that are created again.
    count: usize,
}

/// A seeded random number generator.
#[derive(Debug)]
pub struct Dice(Pcg64);

#[derive(Debug)]
struct Resident {
    pod: Value,
    /// The node chosen by the scheduler, until the binding is observed.
    placed: Option<String>,
}

// === impl Town ===

impl Town {
    /// An empty cluster.
    pub fn new(seed: u64) -> Town {
        Town {
            dice: Dice(Pcg64::seed_from_u64(seed)),
            nodes: Vec::new(),
            gone_nodes: Vec::new(),
            pods: Vec::new(),
            templates: Vec::new(),
            services: Vec::new(),
            replica_sets: Vec::new(),
            count: 0,
        }
    }

    /// The initial changes: namespaces and nodes.
    pub fn opening(&mut self, nodes: usize) -> Vec<What> {
        let named = NAMESPACES.iter().filter(|name| **name != "nowhere");
        let mut story: Vec<What> = Vec::new();
        for name in named {
            story.push(self.namespace(name));
        }
        for _ in 0..nodes {
            story.push(self.new_node());
        }
        story
    }

    /// A random change.
    pub fn event(&mut self) -> What {
        loop {
            let what = match self.dice.below(100) {
                0..4 => Some(self.new_node()),
                4..10 => self.change_node(),
                10..14 => self.lose_node(),
                14..18 => self.return_node(),
                18..60 => Some(self.new_pod()),
                60..70 => self.see_placed(),
                70..76 => self.bind_elsewhere(),
                76..80 => self.begin_to_delete(),
                80..88 => self.lose_pod(),
                88..91 => self.relabel_pod(),
                91 => self.promise_node(),
                92..95 => {
                    let name = *self.dice.one(&NAMESPACES);
                    Some(self.namespace(name))
                }
                95..98 => Some(self.service()),
                _ => Some(self.replica_set()),
            };
            if let Some(what) = what {
                return what;
            }
        }
    }

    /// Picks a pending pod that can be scheduled, by namespace and name.
    pub fn waiting(&mut self) -> Option<(String, String)> {
        let waits = |one: &&Resident| {
            one.placed.is_none()
                && one.pod["spec"]["nodeName"].is_null()
                && one.pod["metadata"]["deletionTimestamp"].is_null()
        };
        let waiting: Vec<&Value> = self.pods.iter().filter(waits).map(|one| &one.pod).collect();
        if waiting.is_empty() {
            return None;
        }
        let metadata = &self.dice.one(&waiting)["metadata"];
        Some((text(&metadata["namespace"]), text(&metadata["name"])))
    }

    /// Records that the scheduler chose a node for a pod.
    pub fn placed(&mut self, namespace: &str, name: &str, node: &str) {
        let is = |one: &&mut Resident| {
            one.pod["metadata"]["namespace"] == namespace && one.pod["metadata"]["name"] == name
        };
        self.pods.iter_mut().find(is).expect("it waited").placed = Some(node.to_owned());
    }

    /// Records that a pod is unschedulable. Returns the change that clears its nomination, if it had one.
    pub fn refused(&mut self, namespace: &str, name: &str) -> Option<What> {
        let is = |one: &&mut Resident| {
            one.pod["metadata"]["namespace"] == namespace && one.pod["metadata"]["name"] == name
        };
        let pod = &mut self.pods.iter_mut().find(is).expect("it waited").pod;
        pod.as_object_mut()?.remove("status")?;
        Some(What::Modified(object(pod)))
    }

    fn number(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    fn namespace(&mut self, name: &str) -> What {
        let labels = json!({"team": self.dice.one(&["red", "blue"]), "kubernetes.io/metadata.name": name});
        let gone = name == "team-b" && self.dice.chance(30);
        let namespace = object(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        );
        if gone { What::Deleted(namespace) } else { What::Modified(namespace) }
    }

    fn service(&mut self) -> What {
        if self.services.len() > 2 || (!self.services.is_empty() && self.dice.chance(30)) {
            let which = self.dice.below(self.services.len());
            return What::Deleted(object(&self.services.swap_remove(which)));
        }
        let selector = match self.dice.below(6) {
            0 => Value::Null,
            1 => json!({}),
            2 => json!({"app": self.dice.one(&APPS), "tier": "x"}),
            _ => json!({"app": self.dice.one(&APPS)}),
        };
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"namespace": self.dice.one(&NAMESPACES), "name": format!("service-{}", self.number())},
            "spec": {"selector": selector}
        });
        self.services.push(service.clone());
        What::Added(object(&service))
    }

    fn replica_set(&mut self) -> What {
        if self.replica_sets.len() > 2 || (!self.replica_sets.is_empty() && self.dice.chance(30)) {
            let which = self.dice.below(self.replica_sets.len());
            return What::Deleted(object(&self.replica_sets.swap_remove(which)));
        }
        let name = format!("set-{}", self.dice.below(4));
        let set = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"namespace": self.dice.one(&NAMESPACES), "name": name},
            "spec": {"selector": self.label_selector()}
        });
        self.replica_sets.retain(|other| other["metadata"] != set["metadata"]);
        self.replica_sets.push(set.clone());
        What::Modified(object(&set))
    }

    /// A random label selector for pods.
    fn label_selector(&mut self) -> Value {
        let app = *self.dice.one(&APPS);
        match self.dice.below(8) {
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

// === impl Dice ===

impl Dice {
    /// A number below `sides`.
    pub fn below(&mut self, sides: usize) -> usize {
        self.0.random_range(0..sides)
    }

    /// True with the given probability in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// An element of a list.
    pub fn one<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("the test writes texts there").to_owned()
}
