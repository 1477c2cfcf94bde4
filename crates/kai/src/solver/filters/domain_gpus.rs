//! Whether the domains of required topology levels would have enough GPUs for the subgroups that require them.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::greedy_match::all_match;
use crate::cluster::ids::{NodeId, PodId, PodInfoId};
use crate::session::Session;
use crate::solver::scenario::Scenario;

/// The GPUs that domains would have.
#[derive(Debug)]
pub(super) struct DomainGpus {
    levels: BTreeMap<RequiredLevel, LevelGpus>,
    known: FxHashSet<PodId>,
    /// How many further victims were looked at.
    seen_victims: usize,
}

/// A topology and a level of it.
type RequiredLevel = (Arc<str>, Arc<str>);

/// The GPUs of the domains of a level, by the value of the level's label.
#[derive(Debug, Default)]
struct LevelGpus {
    /// What the subgroups request, the most first.
    demands: Vec<f64>,
    domains: BTreeMap<Arc<str>, f64>,
}

impl DomainGpus {
    /// The check of a job with subgroups that require a level.
    pub(super) fn new(session: &Session, scenario: &Scenario) -> Option<DomainGpus> {
        let cluster = &session.cluster;
        let tree = &cluster.job(scenario.preemptor).tree;
        let mut levels: BTreeMap<RequiredLevel, LevelGpus> = BTreeMap::new();
        for (index, set) in tree.sets.iter().enumerate() {
            let required = set.constraint.as_ref().filter(|constraint| !constraint.required_level.is_empty());
            let Some(constraint) = required else { continue };
            let pod_sets = tree.descendant_pod_sets(index);
            let infos = pod_sets.iter().flat_map(|pod_set| tree.pod_sets[*pod_set].infos());
            let demand: f64 = infos.map(|info| cluster.pod_of(info).gpu.quota()).sum();
            let level = (constraint.topology.clone(), constraint.required_level.clone());
            levels.entry(level).or_default().demands.push(demand);
        }
        if levels.is_empty() {
            return None;
        }
        for ((_, label), level) in &mut levels {
            level.demands.sort_unstable_by(|left, right| right.total_cmp(left));
            for node in &cluster.nodes {
                if let Some(value) = node.view.labels.get_shared(label).filter(|value| !value.is_empty()) {
                    let gpus = level.domains.entry(value.clone()).or_default();
                    *gpus += node.idle_or_releasing_gpus();
                }
            }
        }
        let mut filter = DomainGpus { levels, known: FxHashSet::default(), seen_victims: 0 };
        for &info in &scenario.recorded_infos {
            filter.add_victim(session, info);
        }
        Some(filter)
    }

    /// Whether every subgroup finds a domain.
    pub(super) fn is_valid(&mut self, session: &Session, scenario: &Scenario) -> bool {
        for &info in &scenario.potential[self.seen_victims..] {
            self.add_victim(session, info);
        }
        self.seen_victims = scenario.potential.len();
        self.levels.values().all(|level| {
            let mut capacities: Vec<f64> = level.domains.values().copied().collect();
            capacities.sort_unstable_by(|left, right| right.total_cmp(left));
            all_match(&level.demands, &capacities)
        })
    }

    /// Adds what a victim frees, unless it was there before.
    fn add_victim(&mut self, session: &Session, info: PodInfoId) {
        let info = session.cluster.info(info);
        let Some(node): Option<NodeId> = info.node.known() else { return };
        if !self.known.insert(info.pod) {
            return;
        }
        let labels = &session.cluster.node(node).view.labels;
        for ((_, label), level) in &mut self.levels {
            if let Some(gpus) = labels.get(label).and_then(|value| level.domains.get_mut(value)) {
                *gpus += info.accepted_gpu.quota();
            }
        }
    }
}
