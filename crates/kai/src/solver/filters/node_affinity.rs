//! Whether every pod's node affinity matches a node on which it may be placed, or from which a victim is evicted.

use std::collections::BTreeSet;

use crate::cluster::ids::NodeId;
use crate::cluster::pod::Pod;
use crate::session::Session;
use crate::solver::scenario::Scenario;

/// The nodes on which the pods may be placed.
#[derive(Debug)]
pub(super) struct NodeAffinityFilter {
    nodes: BTreeSet<NodeId>,
}

impl NodeAffinityFilter {
    /// The check of a job that has pods with node affinity.
    pub(super) fn new(
        session: &Session,
        scenario: &Scenario,
        feasible: &BTreeSet<NodeId>,
    ) -> Option<NodeAffinityFilter> {
        let has_affinity =
            scenario.pending.iter().any(|info| has_required_affinity(session.cluster.pod_of(*info)));
        has_affinity.then(|| NodeAffinityFilter { nodes: feasible.clone() })
    }

    pub(super) fn is_valid(&mut self, session: &Session, scenario: &Scenario) -> bool {
        let cluster = &session.cluster;
        let victims = scenario.potential.iter().chain(&scenario.recorded_infos);
        self.nodes.extend(victims.filter_map(|info| cluster.info(*info).node.known()));
        let pods = scenario.pending.iter().map(|info| cluster.pod_of(*info));
        pods.filter(|pod| has_required_affinity(pod)).all(|pod| {
            let required = &pod.spec.required_node_affinity;
            let matches = |node: NodeId| {
                let node = cluster.node(node);
                required.selects(node.name(), &node.view.labels)
            };
            // If the affinity names nodes, these are looked at, feasible or not, as in the original.
            match required.affinity.as_ref().and_then(|affinity| affinity.names()) {
                Some(names) => cluster
                    .node_ids()
                    .any(|node| names.contains(&**cluster.node(node).name()) && matches(node)),
                None => self.nodes.iter().any(|node| matches(*node)),
            }
        })
    }
}

fn has_required_affinity(pod: &Pod) -> bool {
    !pod.spec.required_node_affinity.is_none()
}
