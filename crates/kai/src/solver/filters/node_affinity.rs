//! Whether every pod's node affinity matches a node on which it may be placed, or from which a victim is evicted.

use crate::cluster::ids::{NodeId, PodInfoId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::pod::Pod;
use crate::session::Session;
use crate::solver::scenario::Scenario;

/// The nodes on which the pods may be placed.
#[derive(Debug)]
pub(super) struct NodeAffinityFilter {
    nodes: NodeSet,
    /// Pods whose affinity matches none of these nodes.
    unmatched: Vec<PodInfoId>,
    /// How many further victims were looked at.
    seen_victims: usize,
}

impl NodeAffinityFilter {
    /// The check of a job that has pods with node affinity.
    pub(super) fn new(
        session: &Session,
        scenario: &Scenario,
        feasible: &NodeSet,
    ) -> Option<NodeAffinityFilter> {
        let cluster = &session.cluster;
        let pods = scenario.pending.iter().copied();
        let with_affinity: Vec<PodInfoId> =
            pods.filter(|info| has_required_affinity(cluster.pod_of(*info))).collect();
        if with_affinity.is_empty() {
            return None;
        }
        let mut nodes = feasible.clone();
        nodes.extend(scenario.recorded_infos.iter().filter_map(|info| cluster.info(*info).node.known()));
        let is_unmatched = |info: &PodInfoId| match named_nodes(session, *info) {
            // If the affinity names nodes, these are looked at, feasible or not, as in the original.
            Some(mut named) => !named.any(|node| matches(session, *info, node)),
            None => !nodes.iter().any(|node| matches(session, *info, node)),
        };
        let unmatched = with_affinity.into_iter().filter(is_unmatched).collect();
        Some(NodeAffinityFilter { nodes, unmatched, seen_victims: 0 })
    }

    /// Whether every pod finds a node, with those of the victims that were added since the last call.
    pub(super) fn is_valid(&mut self, session: &Session, scenario: &Scenario) -> bool {
        for info in &scenario.potential[self.seen_victims..] {
            if let Some(node) = session.cluster.info(*info).node.known()
                && self.nodes.insert(node)
            {
                self.unmatched
                    .retain(|pod| named_nodes(session, *pod).is_some() || !matches(session, *pod, node));
            }
        }
        self.seen_victims = scenario.potential.len();
        self.unmatched.is_empty()
    }
}

fn has_required_affinity(pod: &Pod) -> bool {
    !pod.spec.required_node_affinity.is_none()
}

fn matches(session: &Session, pod: PodInfoId, node: NodeId) -> bool {
    let node = session.cluster.node(node);
    session.cluster.pod_of(pod).spec.required_node_affinity.selects(node.name(), &node.view.labels)
}

/// The nodes that a pod's affinity names; `None` if it names none.
fn named_nodes(session: &Session, pod: PodInfoId) -> Option<impl Iterator<Item = NodeId>> {
    let cluster = &session.cluster;
    let names = cluster.pod_of(pod).spec.required_node_affinity.affinity.as_ref()?.names()?;
    Some(cluster.node_ids().filter(move |node| names.contains(&**cluster.node(*node).name())))
}
