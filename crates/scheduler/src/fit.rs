//! Where a pod would fit: the filters alone, without queue, scores and making room.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::read::view;
use model::{Object, What};
use serde::Deserialize;

use super::ids::NodeId;
use super::node::NodeSpec;
use super::pod::Pod;
use super::settings::Settings;
use super::trial::Trial;

/// A cluster that is asked which nodes' filters a pod passes, by the rules of the first profile.
#[derive(Debug)]
pub struct Fit {
    trial: Trial,
    nodes: BTreeMap<Arc<str>, NodeId>,
}

#[derive(Deserialize)]
struct PhaseJson {
    #[serde(default)]
    status: StatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusJson {
    phase: Option<String>,
}

impl Fit {
    /// A cluster without nodes and pods.
    pub fn new(settings: &Settings) -> Fit {
        Fit { trial: Trial::new(settings), nodes: BTreeMap::new() }
    }

    /// An object came, changed or went. Kinds that mean nothing to filters are ignored.
    pub fn apply(&mut self, what: &What) {
        let object = what.object();
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(what, What::Added(_) | What::Modified(_));
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(object, present),
            ("", "Node") if present => {
                let spec = NodeSpec::read(object, self.trial.scalars());
                let name = spec.name.clone();
                let id = self.trial.set_node(spec);
                self.nodes.insert(name, id);
            }
            ("", "Node") => {
                if let Some(id) = self.nodes.remove(&*meta.name) {
                    self.trial.remove_node(id);
                }
            }
            (group, kind) => drop(self.trial.apply(group, kind, object, present)),
        }
    }

    /// The first node by name that takes a pod, which must be known and on no node.
    pub fn first(&mut self, namespace: &str, name: &str) -> Option<Arc<str>> {
        let pod = self.trial.find_pod(namespace, name)?;
        let node = self.trial.first(pod, self.nodes.values().copied(), |_| true)?;
        Some(self.trial.spec(node).name.clone())
    }

    fn apply_pod(&mut self, object: &Object, present: bool) {
        let meta = object.meta();
        if let Some(id) = self.trial.find_pod(&meta.namespace, &meta.name) {
            self.trial.remove_pod(id);
        }
        if !present || is_finished(object) {
            return;
        }
        let mut pod = Pod::read(object, self.trial.scalars());
        let node = pod.node_name.take();
        let id = self.trial.add_pod(pod);
        if let Some(node) = node {
            self.trial.place_by_name(id, &node);
        }
    }
}

/// What has ended takes nothing of its node.
fn is_finished(pod: &Object) -> bool {
    let phase = view::<PhaseJson>(pod).ok().and_then(|json| json.status.phase);
    matches!(phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use testobjects::{NodeBuilder, PodBuilder};

    use super::*;

    fn node(name: &str) -> NodeBuilder {
        testobjects::node(name).allocatable("cpu", "1").allocatable("pods", "10")
    }

    fn pod(name: &str) -> PodBuilder {
        testobjects::pod(name).namespace("a").request("cpu", "1")
    }

    #[test]
    fn a_pod_goes_to_the_first_node_by_name_that_takes_it() {
        let mut fit = Fit::new(&Settings::default());
        for node in [node("n3"), node("n2"), node("n1").taint("gpu:NoSchedule")] {
            fit.apply(&node.added());
        }
        for name in ["p", "q"] {
            fit.apply(&pod(name).added());
        }
        assert_eq!(fit.first("a", "p").as_deref(), Some("n2"), "n1 keeps it away");
        fit.apply(&pod("p").on("n2").modified());
        assert_eq!(fit.first("a", "q").as_deref(), Some("n3"), "n2 is full");
        fit.apply(&pod("p").on("n2").deleted());
        assert_eq!(fit.first("a", "q").as_deref(), Some("n2"), "it is empty again");
        assert_eq!(fit.first("a", "nobody"), None);
    }
}
