//! The demands of a run, with what was recorded of their pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NamespacedName;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

use super::pod::PodStage;
use super::pods::PodTable;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::input::{ParsedDemand, PodDemand, PodIncarnation};
use crate::pod_template::PodTemplate;
use crate::requests::Requests;

/// The demands of a run.
#[derive(Debug)]
pub(crate) struct DemandTable {
    demands: BTreeMap<DemandId, DemandState>,
    /// By withdrawn demand: the demand that it was withdrawn for.
    substitutes: FxHashMap<DemandId, DemandId>,
    /// The number of demands that the run made itself.
    internal_count: u64,
    /// Seeds names and uids.
    seed: u64,
}

/// A demand and its progress.
#[derive(Debug)]
pub(crate) struct DemandState {
    pub(crate) demand: PodDemand,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) requests: Requests,
    /// The number of pods created for it.
    pub(crate) pods_created: u32,
    /// The number of them that exist.
    pub(crate) pods_existing: u32,
    /// It is withdrawn, or its pod has finished.
    pub(crate) is_finished: bool,
    /// Whether its pod is deleted when it finishes.
    pub(crate) delete_when_finished: bool,
    /// Demands that wait until it is finished.
    pub(crate) successors: Vec<DemandId>,
}

const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// How many generated names the API server tries before it gives up on a free one.
const MAX_NAME_ATTEMPTS: usize = 8;

impl DemandTable {
    pub(crate) fn new(seed: u64) -> DemandTable {
        DemandTable { demands: BTreeMap::new(), substitutes: FxHashMap::default(), internal_count: 0, seed }
    }

    /// A number for a demand that the run makes itself.
    pub(crate) fn next_internal_id(&mut self) -> DemandId {
        self.internal_count += 1;
        // Counted from the end; the numbers of input demands are counted from the beginning.
        DemandId(u64::MAX - self.internal_count)
    }

    pub(crate) fn insert(&mut self, parsed_demand: ParsedDemand) {
        let ParsedDemand { demand, template, requests } = parsed_demand;
        let state = DemandState {
            template,
            requests,
            pods_created: 0,
            pods_existing: 0,
            is_finished: false,
            delete_when_finished: false,
            successors: Vec::new(),
            demand,
        };
        self.demands.insert(state.demand.id, state);
    }

    pub(crate) fn remove(&mut self, id: DemandId) {
        self.demands.remove(&id);
    }

    pub(crate) fn get(&self, id: DemandId) -> Option<&DemandState> {
        self.demands.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: DemandId) -> Option<&mut DemandState> {
        self.demands.get_mut(&id)
    }

    /// A demand that is not finished.
    pub(crate) fn get_unfinished(&self, id: DemandId) -> Option<&DemandState> {
        self.get(id).filter(|state| !state.is_finished)
    }

    /// The same, mutable.
    pub(crate) fn get_unfinished_mut(&mut self, id: DemandId) -> Option<&mut DemandState> {
        self.get_mut(id).filter(|state| !state.is_finished)
    }

    /// The pod as recorded, if there is one.
    pub(crate) fn recorded_incarnation(&self, id: PodId) -> Option<&PodIncarnation> {
        self.get(id.demand)?.demand.incarnations.get(id.incarnation as usize)
    }

    /// The name and uid of a demand's next pod: as recorded, or generated, with a name that is free.
    pub(crate) fn next_name(&self, state: &DemandState, pods: &PodTable) -> (NamespacedName, Arc<str>) {
        let id = PodId { demand: state.demand.id, incarnation: state.pods_created };
        let named = |name| NamespacedName { namespace: state.template.view.name.namespace.clone(), name };
        let is_taken = |name: &Arc<str>| pods.id_of(&named(name.clone())).is_some();
        let (name, uid) = name_and_uid(state, id, self.seed, is_taken);
        (named(name), uid)
    }

    /// Returns the demand to withdraw in place of this one. If its pod has a node and another pod of its ReplicaSet has
    /// none, that is the other pod's demand, as for a ReplicaSet the pod furthest from Running is removed. Later inputs
    /// for the withdrawn demand then apply to this one.
    pub(crate) fn select_for_withdrawal(&mut self, mut demand: DemandId, pods: &PodTable) -> DemandId {
        // No more inputs follow for the demands passed here: each was withdrawn before.
        while let Some(substitute) = self.substitutes.remove(&demand) {
            demand = substitute;
        }
        let withdrawn = self.furthest_from_running(demand, pods);
        if withdrawn != demand {
            self.substitutes.insert(withdrawn, demand);
        }
        withdrawn
    }

    /// The demand itself, or the one in whose place it was withdrawn.
    pub(crate) fn resolve_substitute(&self, mut demand: DemandId) -> DemandId {
        while let Some(substitute) = self.substitutes.get(&demand) {
            demand = *substitute;
        }
        demand
    }

    /// A demand; or, if its pod has a node, the demand of its ReplicaSet's newest pod without one.
    fn furthest_from_running(&self, demand: DemandId, pods: &PodTable) -> DemandId {
        let state = self.get_unfinished(demand);
        let Some(set) = state.and_then(|state| state.demand.replica_set.as_ref()) else { return demand };
        let is_placed =
            pods.of_demand(demand).any(|(_, pod)| pod.stage == PodStage::Bound && !pod.is_terminating());
        if !is_placed {
            return demand;
        }
        let mut waiting = pods
            .unassigned_of_set(set)
            .filter(|(id, pod)| !pod.is_terminating() && self.get_unfinished(id.demand).is_some());
        waiting.next().map_or(demand, |(newest, _)| newest.demand)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.demands.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn has_no_substitutes(&self) -> bool {
        self.substitutes.is_empty()
    }
}

fn name_and_uid(
    state: &DemandState,
    id: PodId,
    seed: u64,
    is_taken: impl Fn(&Arc<str>) -> bool,
) -> (Arc<str>, Arc<str>) {
    let recorded = state.demand.incarnations.get(id.incarnation as usize);
    let mut rng = Pcg64::seed_from_u64(
        seed ^ id.demand.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id.incarnation),
    );
    let name = match (recorded, &state.template.generate_name) {
        (Some(incarnation), _) => incarnation.name.clone(),
        (None, None) => state.template.view.name.name.clone(),
        (None, Some(prefix)) => {
            let mut draw = || -> Arc<str> {
                let letters =
                    (0..5).map(|_| char::from(NAME_LETTERS[rng.random_range(0..NAME_LETTERS.len())]));
                format!("{prefix}{}", letters.collect::<String>()).into()
            };
            let mut name = draw();
            for _ in 1..MAX_NAME_ATTEMPTS {
                if !is_taken(&name) {
                    break;
                }
                name = draw();
            }
            name
        }
    };
    let uid = match recorded.map(|incarnation| &incarnation.uid).filter(|uid| !uid.is_empty()) {
        Some(uid) => uid.clone(),
        None => {
            let (a, b) = (rng.random::<u64>(), rng.random::<u64>());
            let (a1, a2, a3) = (a >> 32, (a >> 16) & 0xffff, a & 0xfff);
            format!("{a1:08x}-{a2:04x}-4{a3:03x}-a{:03x}-{:012x}", b >> 52, b & 0xffff_ffff_ffff).into()
        }
    };
    (name, uid)
}
