//! A made-up cluster in which things happen: nodes come, change and go, pods come, are bound by others, change and go,
//! and so do namespaces, services and replica sets. The same seed is the same story.

mod nodes;
mod pods;

use model::What;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

pub use crate::object;

/// The namespaces that pods are in; the last does not exist.
pub const NAMESPACES: [&str; 4] = ["default", "team-a", "team-b", "nowhere"];
const APPS: [&str; 3] = ["a", "b", "c"];

/// A made-up cluster.
#[derive(Debug)]
pub struct Town {
    /// Decides what happens.
    pub dice: Dice,
    nodes: Vec<Value>,
    /// They may come back.
    gone_nodes: Vec<Value>,
    pods: Vec<Resident>,
    templates: Vec<Value>,
    services: Vec<Value>,
    replica_sets: Vec<Value>,
    /// How many objects have come so far: names are never used twice, but for nodes that come back.
    count: usize,
}

/// Chance.
#[derive(Debug)]
pub struct Dice(Pcg64);

#[derive(Debug)]
struct Resident {
    pod: Value,
    /// Where the scheduler put it, until it is seen there.
    placed: Option<String>,
}

// === impl Town ===

impl Town {
    /// An empty one.
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

    /// How it begins: namespaces and nodes.
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

    /// Something happens.
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

    /// A pod that waits and can be tried, by namespace and name.
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

    /// The scheduler put a pod on a node.
    pub fn placed(&mut self, namespace: &str, name: &str, node: &str) {
        let is = |one: &&mut Resident| {
            one.pod["metadata"]["namespace"] == namespace && one.pod["metadata"]["name"] == name
        };
        self.pods.iter_mut().find(is).expect("it waited").placed = Some(node.to_owned());
    }

    /// No node took a pod: if it was promised one, it is not any more.
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

    /// Labels of pods that are looked for.
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
    /// A number below that of the sides.
    pub fn below(&mut self, sides: usize) -> usize {
        self.0.random_range(0..sides)
    }

    /// True in so many cases of a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of a list.
    pub fn one<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("the test writes texts there").to_owned()
}
