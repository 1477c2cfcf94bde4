//! The first node by name that passes a pod's filters, without queue, scoring and preemption.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{NodeView, PodView};
use model::What;

use super::filter_snapshot::FilterSnapshot;
use super::ids::NodeId;
use super::node::Node;
use super::pod::Pod;
use super::settings::Settings;

/// A cluster in which pods are matched to nodes by the filters of the first profile.
#[derive(Debug)]
pub struct FirstFit {
    snapshot: FilterSnapshot,
    nodes: BTreeMap<Arc<str>, NodeId>,
}

impl FirstFit {
    /// An empty cluster.
    pub fn new(settings: &Settings) -> FirstFit {
        FirstFit { snapshot: FilterSnapshot::new(settings), nodes: BTreeMap::new() }
    }

    /// Applies an object that was added, modified or deleted. Kinds that filters do not depend on are ignored.
    pub fn apply(&mut self, event: &What) {
        let object = event.object();
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(event, What::Added(_) | What::Modified(_));
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(&PodView::parse(object), present),
            ("", "Node") if present => {
                let spec = Node::new(Arc::new(NodeView::parse(object)), self.snapshot.scalars());
                let name = spec.name.clone();
                let id = self.snapshot.set_node(spec);
                self.nodes.insert(name, id);
            }
            ("", "Node") => {
                if let Some(id) = self.nodes.remove(&*meta.name) {
                    self.snapshot.remove_node(id);
                }
            }
            (group, kind) => drop(self.snapshot.apply(group, kind, object, present)),
        }
    }

    /// Returns the first node by name that passes the filters of a pending pod, or `None` if there is none.
    pub fn find_node(&mut self, namespace: &str, name: &str) -> Option<Arc<str>> {
        let pod = self.snapshot.find_pod(namespace, name)?;
        let nodes = self.nodes.values().copied();
        let node = self.snapshot.run_filters_until_passing_node(pod, None, nodes, |_| true)?;
        Some(self.snapshot.spec(node).name.clone())
    }

    fn apply_pod(&mut self, view: &PodView, present: bool) {
        if let Some(id) = self.snapshot.find_pod(&view.name.namespace, &view.name.name) {
            self.snapshot.remove_pod(id);
        }
        // Finished pods use no resources of their node.
        if !present || view.is_finished() {
            return;
        }
        let mut pod = Pod::new(view, self.snapshot.scalars());
        let node = pod.node_name.take();
        let id = self.snapshot.add_pod(pod);
        if let Some(node) = node {
            self.snapshot.assume_pod_by_node_name(id, &node);
        }
    }
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
    fn the_first_node_by_name_that_passes_the_filters_is_found() {
        let mut fit = FirstFit::new(&Settings::default());
        for node in [node("n3"), node("n2"), node("n1").taint("gpu:NoSchedule")] {
            fit.apply(&node.added());
        }
        for name in ["p", "q"] {
            fit.apply(&pod(name).added());
        }
        assert_eq!(fit.find_node("a", "p").as_deref(), Some("n2"), "n1 has a taint");
        fit.apply(&pod("p").on("n2").modified());
        assert_eq!(fit.find_node("a", "q").as_deref(), Some("n3"), "n2 is full");
        fit.apply(&pod("p").on("n2").deleted());
        assert_eq!(fit.find_node("a", "q").as_deref(), Some("n2"), "it is empty again");
        assert_eq!(fit.find_node("a", "nobody"), None);
    }
}
