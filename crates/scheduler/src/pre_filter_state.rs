//! PreFilter and PreScore state of a pod that depends on other objects, computed once and shared by all pods with the
//! same spec and labels.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::cache::ClusterCache;
use super::framework::Framework;
use super::ids::PodId;
use super::plugin::Plugin;
use super::plugins::{inter_pod_affinity, pod_topology_spread};
use super::pod::Controller;

/// The PreFilter and PreScore state of PodTopologySpread and InterPodAffinity, which equal pods share. The volume plugins
/// keep theirs in [`CycleState`](crate::cycle_state::CycleState).
#[derive(Clone, Debug, Default)]
pub(super) struct PreFilterState {
    pub hard_constraints: pod_topology_spread::HardConstraints,
    pub soft_constraints: pod_topology_spread::SoftConstraints,
    pub affinity: inter_pod_affinity::AffinityState,
}

/// States computed before, valid for one generation of the cache.
#[derive(Debug, Default)]
pub(super) struct PreFilterStateCache {
    states: FxHashMap<StateKey, Arc<PreFilterState>>,
    generation: (u64, u64),
}

/// The serials of spec and labels, and the controller whose selector counts.
type StateKey = ((u64, u64), Option<Controller>);

const MAX_STATES: usize = 4096;

impl PreFilterStateCache {
    pub(super) fn get_or_compute(
        &mut self,
        cache: &mut ClusterCache,
        framework: &Framework,
        pod: PodId,
    ) -> Arc<PreFilterState> {
        cache.evict_unused_counts();
        if self.generation != cache.pre_filter_generation() || self.states.len() >= MAX_STATES {
            self.clear();
            self.generation = cache.pre_filter_generation();
        }
        let key = (cache.pre_filter_key(pod), cache.pod(pod).controller.clone());
        if let Some(state) = self.states.get(&key) {
            return state.clone();
        }
        let state = Arc::new(compute(cache, framework, pod));
        self.states.insert(key, state.clone());
        state
    }

    pub(super) fn clear(&mut self) {
        self.states.clear();
    }
}

fn compute(cache: &mut ClusterCache, framework: &Framework, id: PodId) -> PreFilterState {
    let pod = cache.pod(id).clone();
    let profile = &framework.profile;
    let mut state = PreFilterState::default();
    if profile.filter.contains(&Plugin::PodTopologySpread) {
        state.hard_constraints = pod_topology_spread::HardConstraints::new(cache, &profile.spread, &pod);
    }
    let is_scored = |plugin: Plugin| profile.score.iter().any(|(other, _)| *other == plugin);
    if is_scored(Plugin::PodTopologySpread) {
        state.soft_constraints = pod_topology_spread::SoftConstraints::new(cache, &profile.spread, &pod);
    }
    state.affinity =
        inter_pod_affinity::AffinityState::new(cache, profile.inter_pod_affinity, framework.version, &pod);
    state
}
