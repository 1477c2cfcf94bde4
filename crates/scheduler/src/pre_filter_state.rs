//! PreFilter and PreScore state of a pod that depends on other objects, computed once and shared by all pods with the
//! same spec and labels.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::cache::{ClusterCache, DomainCountsId};
use super::framework::Framework;
use super::ids::PodId;
use super::plugin::Plugin;
use super::plugins::{inter_pod_affinity, pod_topology_spread};
use super::pod::Controller;

/// The PreFilter state of PodTopologySpread and InterPodAffinity, including the part of PreScore. Pods with
/// the same spec, labels and controller share it across cycles. The volume plugins keep their state in
/// [`CycleState`](crate::cycle_state::CycleState).
#[derive(Clone, Debug, Default)]
pub(super) struct PreFilterState {
    pub hard_constraints: pod_topology_spread::HardConstraints,
    pub soft_constraints: pod_topology_spread::SoftConstraints,
    pub affinity: inter_pod_affinity::AffinityState,
}

/// States computed in this and earlier cycles, valid for one generation of the cluster cache. A state is also
/// invalid once one of its counts has been evicted.
#[derive(Debug, Default)]
pub(super) struct PreFilterStateCache {
    states: FxHashMap<StateKey, CachedState>,
    generation: (u64, u64),
}

#[derive(Debug)]
struct CachedState {
    state: Arc<PreFilterState>,
    /// The counts it refers to, with their serials. The state is invalid once one of them has been evicted.
    counts: SmallVec<[(DomainCountsId, u64); 4]>,
}

/// The serials of spec and labels, and the controller whose selector counts.
type StateKey = ((u64, u64), Option<Controller>);

/// The maximum number of states is the number of label sets of pods, between these limits. Each takes about a kilobyte.
const MAX_STATES: (usize, usize) = (1 << 12, 1 << 15);

// === impl PreFilterState ===

impl PreFilterState {
    fn counts(&self) -> impl Iterator<Item = DomainCountsId> {
        self.hard_constraints.counts().chain(self.soft_constraints.counts()).chain(self.affinity.counts())
    }
}

// === impl PreFilterStateCache ===

impl PreFilterStateCache {
    pub(super) fn get_or_compute(
        &mut self,
        cache: &mut ClusterCache,
        framework: &Framework,
        pod: PodId,
    ) -> Arc<PreFilterState> {
        cache.evict_unused_counts();
        let max_states = cache.label_set_count().clamp(MAX_STATES.0, MAX_STATES.1);
        if self.generation != cache.pre_filter_generation() || self.states.len() >= max_states {
            self.clear();
            self.generation = cache.pre_filter_generation();
        }
        let key = (cache.pre_filter_key(pod), cache.pod(pod).controller.clone());
        if let Some(CachedState { state, counts }) = self.states.get(&key)
            && cache.mark_counts_used(counts)
        {
            return state.clone();
        }
        let state = Arc::new(compute(cache, framework, pod));
        let counts = state.counts().map(|id| (id, cache.counts_serial(id))).collect();
        self.states.insert(key, CachedState { state: state.clone(), counts });
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
