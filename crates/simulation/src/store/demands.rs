//! The demands of a run: which pods are wanted, and what was recorded of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NamespacedName;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

use super::pod::Stage;
use super::pods::PodTable;
use crate::given::{Asked, Demand, Life};
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::pod_template::PodTemplate;
use crate::requests::Requests;

/// The demands of a run.
#[derive(Debug)]
pub(crate) struct Demands {
    demands: BTreeMap<DemandId, DemandState>,
    /// For demands that were given up in another's place: that other one.
    instead: FxHashMap<DemandId, DemandId>,
    /// How many demands nobody gave.
    own: u64,
    /// Makes names and uids.
    seed: u64,
}

/// A demand, and how far it has come.
#[derive(Debug)]
pub(crate) struct DemandState {
    pub(crate) demand: Demand,
    pub(crate) body: Arc<PodTemplate>,
    pub(crate) takes: Requests,
    /// How many pods were made for it.
    pub(crate) made: u32,
    /// How many of them are there.
    pub(crate) there: u32,
    /// Nobody wants it any more, or it is done.
    pub(crate) over: bool,
    /// Its pod is deleted when it is done.
    pub(crate) cleaned_up: bool,
    /// Demands that wait for its end.
    pub(crate) waiting: Vec<DemandId>,
}

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// So often the API server makes up a name that is taken before it gives up.
const NAMES_TRIED: usize = 8;

impl Demands {
    pub(crate) fn new(seed: u64) -> Demands {
        Demands { demands: BTreeMap::new(), instead: FxHashMap::default(), own: 0, seed }
    }

    /// A number for a demand that nobody gave.
    pub(crate) fn own_id(&mut self) -> DemandId {
        self.own += 1;
        // Counted from the end: those that are given are counted from the beginning.
        DemandId(u64::MAX - self.own)
    }

    pub(crate) fn insert(&mut self, asked: Asked) {
        let Asked { demand, body, takes } = asked;
        let state = DemandState {
            body,
            takes,
            made: 0,
            there: 0,
            over: false,
            cleaned_up: false,
            waiting: Vec::new(),
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

    /// A demand that is not over.
    pub(crate) fn open(&self, id: DemandId) -> Option<&DemandState> {
        self.get(id).filter(|state| !state.over)
    }

    /// The same, to be changed.
    pub(crate) fn open_mut(&mut self, id: DemandId) -> Option<&mut DemandState> {
        self.get_mut(id).filter(|state| !state.over)
    }

    /// The pod as it was recorded, if there was one.
    pub(crate) fn recorded(&self, id: PodId) -> Option<&Life> {
        self.get(id.demand)?.demand.lives.get(id.life as usize)
    }

    /// The name and uid of the next pod of a demand: as recorded, or made up, with a name that is not taken.
    pub(crate) fn next_name(&self, state: &DemandState, pods: &PodTable) -> (NamespacedName, Arc<str>) {
        let id = PodId { demand: state.demand.id, life: state.made };
        let named = |name| NamespacedName { namespace: state.body.namespace.clone(), name };
        let is_taken = |name: &Arc<str>| pods.find(&named(name.clone())).is_some();
        let (name, uid) = name_and_uid(state, id, self.seed, is_taken);
        (named(name), uid)
    }

    /// The demand to withdraw when this one is. If its pod has a node and that of another of its set has none, that other
    /// one, as for a ReplicaSet the pod furthest from Running is removed; what is done to that one later is done to this
    /// one.
    pub(crate) fn give_up(&mut self, mut demand: DemandId, pods: &PodTable) -> DemandId {
        // Nothing more is said of those that are passed here: each was withdrawn before.
        while let Some(other) = self.instead.remove(&demand) {
            demand = other;
        }
        let goes = self.furthest_from_running(demand, pods);
        if goes != demand {
            self.instead.insert(goes, demand);
        }
        goes
    }

    /// The demand itself, or the one in whose place it was given up.
    pub(crate) fn stands_for(&self, mut demand: DemandId) -> DemandId {
        while let Some(other) = self.instead.get(&demand) {
            demand = *other;
        }
        demand
    }

    /// A demand; or if its pod has a node, the one of its set whose pod came last of those that wait for one.
    fn furthest_from_running(&self, demand: DemandId, pods: &PodTable) -> DemandId {
        let set_of = |demand| self.open(demand)?.demand.set.as_ref();
        let Some(set) = set_of(demand) else { return demand };
        let is_placed = pods.of_demand(demand).any(|(_, pod)| pod.stage == Stage::Bound && !pod.is_leaving());
        if !is_placed {
            return demand;
        }
        let waiting = pods.waiting().filter(|id| set_of(id.demand) == Some(set));
        let waiting = waiting.filter_map(|id| Some((pods.get(id)?, id.demand)));
        let newest = waiting.filter(|(pod, _)| !pod.is_leaving()).map(|(pod, other)| (pod.came, other)).max();
        newest.map_or(demand, |(_, other)| other)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.demands.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn remembers_no_substitute(&self) -> bool {
        self.instead.is_empty()
    }
}

fn name_and_uid(
    state: &DemandState,
    id: PodId,
    seed: u64,
    is_taken: impl Fn(&Arc<str>) -> bool,
) -> (Arc<str>, Arc<str>) {
    let recorded = state.demand.lives.get(id.life as usize);
    let mut dice =
        Pcg64::seed_from_u64(seed ^ id.demand.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id.life));
    let name = match (recorded, &state.body.generate_name) {
        (Some(life), _) => life.name.clone(),
        (None, None) => state.body.name.clone(),
        (None, Some(stem)) => {
            let mut draw = || -> Arc<str> {
                let letters = (0..5).map(|_| char::from(LETTERS[dice.random_range(0..LETTERS.len())]));
                format!("{stem}{}", letters.collect::<String>()).into()
            };
            let mut name = draw();
            for _ in 1..NAMES_TRIED {
                if !is_taken(&name) {
                    break;
                }
                name = draw();
            }
            name
        }
    };
    let uid = match recorded.map(|life| &life.uid).filter(|uid| !uid.is_empty()) {
        Some(uid) => uid.clone(),
        None => {
            let (a, b) = (dice.random::<u64>(), dice.random::<u64>());
            let (a1, a2, a3) = (a >> 32, (a >> 16) & 0xffff, a & 0xfff);
            format!("{a1:08x}-{a2:04x}-4{a3:03x}-a{:03x}-{:012x}", b >> 52, b & 0xffff_ffff_ffff).into()
        }
    };
    (name, uid)
}
