//! Freeing of topology keys and resource names that nothing uses any more. Their number exceeds the number in
//! use at the last sweep by at most half of it, or by a small constant.

use kubernetes::amounts::{ResourceAmounts, ScalarResourceId};
use rustc_hash::FxHashSet;

use super::{CachedPod, ClusterCache};

/// Unused scalar resources are freed when the number added since the last sweep exceeds this or half of those
/// kept, whichever is larger.
const MIN_ADDED_SCALARS: usize = 256;

impl ClusterCache {
    /// Frees topology keys that neither an affinity term of a pod nor counts in use depend on, if many were added.
    pub(super) fn free_unused_topology_keys(&mut self) {
        if !self.topology.has_grown() {
            return;
        }
        self.pod_counts.sweep();
        self.topology.retain_keys(self.affinity_terms.topology_keys().chain(self.pod_counts.topology_keys()));
        // `PreFilterState`s refer to keys.
        self.invalidations += 1;
    }

    /// Frees names of scalar resources that neither a pod, a node nor a profile uses, if many were added.
    pub(crate) fn free_unused_scalars(&mut self) {
        let limit = self.kept_scalars + (self.kept_scalars / 2).max(MIN_ADDED_SCALARS);
        if self.scalars.len() <= limit {
            return;
        }
        let mut used: FxHashSet<ScalarResourceId> = self.profile_scalars.iter().copied().collect();
        let mut mark = |amounts: &ResourceAmounts| used.extend(amounts.scalars.iter().map(|(id, _)| *id));
        for CachedPod { pod, .. } in self.pods.iter().flatten() {
            let spec = &pod.spec;
            mark(&spec.requests);
            mark(&spec.non_zero_requests);
            mark(&spec.balanced_requests);
            mark(&pod.usage.requested);
        }
        self.nodes.present().for_each(|(_, spec)| mark(&spec.allocatable));
        self.nodes.drop_unused_scalars(|id| used.contains(&id));
        self.scalars.retain(|id| used.contains(&id));
        self.kept_scalars = self.scalars.len();
    }

    /// Keeps all names of scalar resources known so far: a profile uses them.
    pub(crate) fn keep_scalars_of_profiles(&mut self) {
        self.profile_scalars = self.scalars.ids().collect();
    }
}
