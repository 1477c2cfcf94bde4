//! The estimator's reference implementation: new nodes in the snapshot, on which each pod is tried.

use kubernetes::well_known::HOSTNAME;
use rustc_hash::FxHashSet;
use scheduler::ids::NodeId;

use super::super::super::settings::Version;
use super::super::super::snapshot::ClusterSnapshot;
use super::super::super::templates::TemplateNodeInfo;
use super::super::equivalence_groups::PodEquivalenceGroup;
use super::NewNodes;

/// New nodes in the snapshot.
pub(super) struct SimulatedNodes<'a> {
    snapshot: &'a mut ClusterSnapshot,
    template: &'a TemplateNodeInfo,
    groups: &'a [PodEquivalenceGroup],
    version: Version,
    new: FxHashSet<NodeId>,
    last: Option<NodeId>,
    /// Nodes with pods. An existing node is counted too if the retry on other nodes scheduled a pod there.
    with_pods: FxHashSet<NodeId>,
    /// Whether the last pod failed on the last node because of a topology spread constraint.
    failed_topology_spread: bool,
}

const TOPOLOGY_SPREAD_REASON: &str = "node(s) didn't match pod topology spread constraints";

impl<'a> SimulatedNodes<'a> {
    /// The caller has to revert the changes to the snapshot.
    pub(super) fn new(
        snapshot: &'a mut ClusterSnapshot,
        template: &'a TemplateNodeInfo,
        groups: &'a [PodEquivalenceGroup],
        version: Version,
    ) -> SimulatedNodes<'a> {
        SimulatedNodes {
            snapshot,
            template,
            groups,
            version,
            new: FxHashSet::default(),
            last: None,
            with_pods: FxHashSet::default(),
            failed_topology_spread: false,
        }
    }
}

impl NewNodes for SimulatedNodes<'_> {
    fn schedule_on_existing(&mut self, group: usize) -> usize {
        if self.new.is_empty() {
            return 0;
        }
        let pods = &self.groups[group].pods;
        for (scheduled_count, pod) in pods.iter().enumerate() {
            match self.snapshot.schedule_on_any_node_matching(*pod, |id| self.new.contains(&id)) {
                Some(node) => drop(self.with_pods.insert(node)),
                None => return scheduled_count,
            }
        }
        pods.len()
    }

    fn add_node(&mut self) {
        let copy = self.template.copy(&format!("e-{}", self.new.len()));
        let id = self.snapshot.add_node(copy.node, &copy.pods);
        self.new.insert(id);
        self.last = Some(id);
    }

    fn last_has_pods(&self) -> Option<bool> {
        self.last.map(|last| self.with_pods.contains(&last))
    }

    fn schedule_on_last(&mut self, group: usize, from: usize) -> usize {
        let Some(last) = self.last else { return 0 };
        let pods = &self.groups[group].pods[from..];
        for (scheduled_count, pod) in pods.iter().enumerate() {
            if let Err(scheduling_error) = self.snapshot.schedule(*pod, last) {
                self.failed_topology_spread =
                    scheduling_error.reasons.iter().any(|reason| reason == TOPOLOGY_SPREAD_REASON);
                return scheduled_count;
            }
            self.with_pods.insert(last);
        }
        pods.len()
    }

    fn schedule_on_other(&mut self, group: usize, pod: usize) -> bool {
        let id = self.groups[group].pods[pod];
        let is_by_host = || {
            self.snapshot
                .filter_snapshot
                .pod(id)
                .spec
                .spread_constraints
                .iter()
                .any(|spread| &*spread.topology_key == HOSTNAME)
        };
        if self.version < Version::V1_33 || !self.failed_topology_spread || !is_by_host() {
            return false;
        }
        let last = self.last;
        let matching_node = self.snapshot.schedule_on_any_node_matching(id, |node| Some(node) != last);
        matching_node.is_some_and(|node| {
            self.with_pods.insert(node);
            true
        })
    }

    fn nodes_with_pods(&self) -> i64 {
        self.with_pods.len() as i64
    }
}
