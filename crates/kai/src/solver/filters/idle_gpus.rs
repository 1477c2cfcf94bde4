//! Whether nodes would have enough GPUs for each pod: the nodes with most GPUs are looked at, as many as there are pods.

use rustc_hash::FxHashSet;

use super::greedy_match::all_match;
use crate::cluster::ids::{NodeId, PodId, PodInfoId};
use crate::session::Session;
use crate::solver::scenario::Scenario;

/// The GPUs that nodes would have.
#[derive(Debug)]
pub(super) struct IdleGpus {
    /// What the pods request, the most first.
    demands: Vec<f64>,
    /// By node.
    gpus: Vec<f64>,
    /// The nodes with most, the most first.
    largest: Vec<NodeId>,
    recorded: FxHashSet<PodId>,
    potential: FxHashSet<PodId>,
    /// How many further victims were looked at.
    seen_victims: usize,
}

impl IdleGpus {
    pub(super) fn new(session: &Session, scenario: &Scenario) -> IdleGpus {
        let cluster = &session.cluster;
        let requests = scenario.pending.iter().map(|info| cluster.pod_of(*info).gpu.quota());
        let mut demands: Vec<f64> = requests.collect();
        demands.sort_unstable_by(|left, right| right.total_cmp(left));
        let gpus = cluster.nodes.iter().map(|node| node.idle_or_releasing_gpus()).collect();
        let mut filter = IdleGpus {
            demands,
            gpus,
            largest: Vec::new(),
            recorded: FxHashSet::default(),
            potential: FxHashSet::default(),
            seen_victims: 0,
        };
        let mut least = -1.0;
        for node in cluster.node_ids() {
            let is_full = filter.largest.len() >= scenario.pending.len();
            if filter.gpus[node.index()] > least || !is_full {
                filter.insert(node, is_full);
                least = filter.gpus_of_last();
            }
        }
        filter.update(session, &scenario.recorded_infos, true);
        filter.update_potential(session, scenario);
        filter
    }

    /// Whether every pod finds a node.
    pub(super) fn is_valid(&mut self, session: &Session, scenario: &Scenario) -> bool {
        self.update_potential(session, scenario);
        let capacities: Vec<f64> = self.largest.iter().map(|node| self.gpus[node.index()]).collect();
        all_match(&self.demands, &capacities)
    }

    /// Adds the further victims that were added since the last call.
    fn update_potential(&mut self, session: &Session, scenario: &Scenario) {
        self.update(session, &scenario.potential[self.seen_victims..], false);
        self.seen_victims = scenario.potential.len();
    }

    /// Adds what victims free that were not there before.
    fn update(&mut self, session: &Session, infos: &[PodInfoId], is_recorded: bool) {
        // The least of the largest nodes, as before the last one changed.
        let mut least = self.largest.last().copied();
        for &info in infos {
            least = self.add_victim(session, info, is_recorded, least);
        }
    }

    fn add_victim(
        &mut self,
        session: &Session,
        info: PodInfoId,
        is_recorded: bool,
        least: Option<NodeId>,
    ) -> Option<NodeId> {
        let info = session.cluster.info(info);
        let Some(node) = info.node.known() else { return least };
        let known = if is_recorded { &mut self.recorded } else { &mut self.potential };
        if !known.insert(info.pod) {
            return least;
        }
        let least_gpus = least.map_or(0.0, |least| self.gpus[least.index()]);
        self.gpus[node.index()] += info.accepted_gpu.quota();
        if self.gpus[node.index()] <= least_gpus {
            return least;
        }
        self.insert(node, true);
        self.largest.last().copied()
    }

    fn gpus_of_last(&self) -> f64 {
        self.largest.last().map_or(-1.0, |node| self.gpus[node.index()])
    }

    /// Puts a node where it belongs. Another one is dropped for it if the list must not grow.
    fn insert(&mut self, node: NodeId, replaces: bool) {
        let gpus = self.gpus[node.index()];
        let index = self.largest.partition_point(|other| self.gpus[other.index()] > gpus);
        if let Some(present) = self.largest.iter().position(|other| *other == node) {
            if index < present {
                self.largest[index..=present].rotate_right(1);
            }
            return;
        }
        if replaces {
            self.largest.pop();
        }
        self.largest.insert(index.min(self.largest.len()), node);
    }
}
