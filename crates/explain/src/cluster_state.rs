//! The state of a cluster at a moment, applied to a scheduler in the order in which a real one would have received it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use history::Selection;
use kubernetes::objects::{NodeEvent, NodeView, PodEvent, PodView};
use model::{Key, Kind, Moment, Object, What, Window};
use query::{AsOf, OpenHistory, objects_as_of};
use scheduler::{KINDS, Scheduler};

/// A scheduler assumes a pod on its node from its decision on; watchers see the binding so much later. With this delay,
/// most decisions in recordings of real schedulers that differed without it agree.
const BINDING_DELAY: i64 = 50_000_000;

/// The objects of a cluster at a moment.
pub struct ClusterState {
    objects: BTreeMap<Key, Object>,
    /// When the nodes were first observed.
    nodes_first_seen: HashMap<Key, Moment>,
}

// === impl ClusterState ===

impl ClusterState {
    /// Reads the cluster as a scheduler knew it just before its decision on the pod `key`.
    pub fn read(
        open_history: &OpenHistory,
        source: &Arc<str>,
        as_of: AsOf,
        key: &Key,
    ) -> anyhow::Result<ClusterState> {
        let kinds = KINDS.iter().map(|(group, kind)| Kind::new(group, kind)).collect();
        let selection =
            Selection { kinds: Some(kinds), source: Some(source.clone()), ..Selection::default() };
        let mut objects = objects_as_of(open_history, &selection, as_of)?;
        if let AsOf::At(at) = as_of {
            let binding_window = Window { from: at.plus_nanos(1), to: at.plus_nanos(BINDING_DELAY) };
            let pods = Selection { kinds: Some(vec![Kind::new("", "Pod")]), ..selection.clone() };
            for change in open_history.history.between(binding_window, &pods)? {
                let change = change?;
                let was_unbound = objects.get(&change.key).is_some_and(is_unbound);
                if let What::Modified(object) = change.what
                    && change.key != *key
                    && was_unbound
                    && !is_unbound(&object)
                {
                    objects.insert(change.key, object);
                }
            }
        }
        let nodes = Selection { kinds: Some(vec![Kind::new("", "Node")]), ..selection };
        let first_seen = open_history.history.first_seen_times(as_of.moment(), &nodes)?;
        Ok(ClusterState { objects, nodes_first_seen: first_seen })
    }

    /// Adds or replaces an object.
    pub fn put(&mut self, key: &Key, object: Object) {
        self.objects.insert(key.clone(), object);
    }

    /// Applies all objects to a scheduler.
    ///
    /// The order decides between nodes, and between pods of a node, that score equally. Nodes are ordered by creation
    /// timestamp, which has whole seconds, and then by when they were first observed. Pods are ordered by the time of
    /// their binding, as far as their conditions show it; pending pods follow.
    pub fn apply_to(&self, scheduler: &mut Scheduler, now: Moment) {
        let mut nodes = Vec::new();
        let mut pods = Vec::new();
        for (key, object) in &self.objects {
            match (&*key.kind.group, &*key.kind.kind) {
                ("", "Node") => {
                    let node = NodeView::parse(object);
                    let order = (node.creation_timestamp, self.nodes_first_seen.get(key).copied());
                    nodes.push((order, Arc::new(node)));
                }
                ("", "Pod") => {
                    let pod = PodView::parse(object);
                    let order = (pod.node_name.is_none(), pod.status.bound_at(), pod.creation_timestamp);
                    pods.push((order, Arc::new(pod)));
                }
                _ => scheduler.apply(now, &What::Added(object.clone())),
            }
        }
        nodes.sort_by_key(|(order, _)| *order);
        pods.sort_by_key(|(order, _)| *order);
        for (_, node) in nodes {
            scheduler.apply_node(now, &NodeEvent::Added(node));
        }
        for (_, pod) in pods {
            scheduler.apply_pod(now, &PodEvent::Added(pod));
        }
    }

    /// Whether no node was observed so far.
    pub fn has_never_had_nodes(&self) -> bool {
        self.nodes_first_seen.is_empty() && self.node_count() == 0
    }

    /// The number of nodes.
    pub fn node_count(&self) -> usize {
        self.objects.keys().filter(|key| key.kind.group.is_empty() && &*key.kind.kind == "Node").count()
    }

    /// The priority of a pod.
    pub fn priority(&self, key: &Key) -> i64 {
        let pod = self.objects.get(key).and_then(|pod| pod.value().ok());
        pod.and_then(|pod| pod["spec"]["priority"].as_i64()).unwrap_or(0)
    }

    /// The schedulerName of a pod.
    pub fn scheduler_name(&self, key: &Key) -> String {
        let pod = self.objects.get(key).and_then(|pod| pod.value().ok());
        let name = pod.and_then(|pod| pod["spec"]["schedulerName"].as_str().map(str::to_owned));
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| "default-scheduler".to_owned())
    }
}

/// Returns when the first node was observed.
pub(crate) fn first_node_seen(
    open_history: &OpenHistory,
    source: &Arc<str>,
) -> anyhow::Result<Option<Moment>> {
    let selection = Selection {
        kinds: Some(vec![Kind::new("", "Node")]),
        source: Some(source.clone()),
        ..Selection::default()
    };
    let first = open_history.history.between(Window::ALL, &selection)?.next().transpose()?;
    Ok(first.map(|change| change.at))
}

/// Whether a pod is not bound yet.
fn is_unbound(pod: &Object) -> bool {
    PodView::parse(pod).node_name.is_none()
}
