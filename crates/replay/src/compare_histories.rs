//! The comparison of two histories: a recording, and that of the live cluster into which it was replayed.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use kubernetes::owners::OwnerIndex;
use model::{Change, Kind, Moment, What};
use simulation::DemandId;

use crate::compare::{EvictionFidelity, Fidelity, PlacementFidelity};
use crate::demands::{EvictionKind, ObservedIncarnation, RecordedDemands};
use crate::metrics::ReplayMetrics;

/// Matches pods of the replay with recorded ones: by annotation, or else by their order among the pods of one owner.
#[derive(Debug)]
pub struct Counterparts {
    annotations: CounterpartAnnotations,
    recorded: PodsByOwner,
    replayed: PodsByOwner,
    /// Pods of the replay whose annotation names the recorded pod: its uid by theirs.
    annotated_uids: HashMap<Arc<str>, Arc<str>>,
}

/// The annotations by which pods of a replay name their recorded counterparts.
#[derive(Clone, Copy, Debug)]
pub struct CounterpartAnnotations {
    /// The uid of the recorded pod.
    pub uid: &'static str,
    /// The recorded owner, as `Kind namespace/name`.
    pub owner: &'static str,
}

/// The pods of one of the two histories, by owner.
#[derive(Debug, Default)]
struct PodsByOwner {
    owners: OwnerIndex,
    /// The pods of each owner, in order of creation.
    pods: HashMap<String, Vec<Arc<str>>>,
    positions: HashMap<Arc<str>, (String, usize)>,
}

/// The compared properties of a pod.
struct PodOutcome {
    bound: Option<Moment>,
    node: Option<Arc<str>>,
    class: Option<Arc<str>>,
    eviction: Option<EvictionKind>,
}

// === impl Counterparts ===

impl Counterparts {
    /// Creates an empty matching.
    pub fn new(marks: CounterpartAnnotations) -> Counterparts {
        Counterparts {
            annotations: marks,
            recorded: PodsByOwner::default(),
            replayed: PodsByOwner::default(),
            annotated_uids: HashMap::new(),
        }
    }

    /// Takes a change of the recording.
    pub fn add_recorded(&mut self, change: &Change) {
        self.recorded.observe(change, None);
    }

    /// Takes a change of the replay.
    pub fn add_replayed(&mut self, change: &Change) {
        let object = change.what.object();
        let mut owner = None;
        if is_pod(&change.key.kind) {
            let pod = object.value().unwrap_or_default();
            let told = |name: &str| pod["metadata"]["annotations"].get(name)?.as_str();
            if let (Some(uid), Some(old)) = (object.meta().uid, told(self.annotations.uid)) {
                self.annotated_uids.insert((*uid).into(), old.into());
            }
            owner = told(self.annotations.owner).map(str::to_owned);
        }
        self.replayed.observe(change, owner);
    }

    /// Returns the recorded counterpart of a pod of the replay.
    fn counterpart_of(&self, uid: &Arc<str>) -> Option<&Arc<str>> {
        self.annotated_uids.get(uid).or_else(|| {
            let (owner, place) = self.replayed.positions.get(uid)?;
            self.recorded.pods.get(owner)?.get(*place)
        })
    }

    /// Compares the two in a window that begins at `from`.
    pub fn compare(
        &self,
        from: Moment,
        (recorded, was): (&RecordedDemands, &ReplayMetrics),
        (replayed, is): (&RecordedDemands, &ReplayMetrics),
    ) -> io::Result<Fidelity> {
        let mut fates: HashMap<Arc<str>, PodOutcome> = HashMap::new();
        for_each_pod(recorded, from, |uid, fate| drop(fates.insert(uid, fate)))?;
        let lost = fates.values().filter(|fate| fate.is_evicted()).count() as u64;
        let bound = fates.values().filter(|fate| fate.bound.is_some()).count() as u64;
        let mut placements =
            PlacementFidelity { recorded: bound, not_bound: bound, ..PlacementFidelity::default() };
        let mut evictions =
            EvictionFidelity { recorded: lost, not_evicted: lost, ..EvictionFidelity::default() };
        for_each_pod(replayed, from, |uid, fate| {
            let recorded = self.counterpart_of(&uid).and_then(|old| fates.get(old));
            if let Some(at) = fate.bound {
                match recorded.and_then(|recorded| Some((recorded, recorded.bound?))) {
                    None => placements.not_recorded += 1,
                    Some((recorded, then)) => {
                        let is_same = recorded.node == fate.node;
                        let is_alike = recorded.class.is_some() && recorded.class == fate.class;
                        placements.count_binding(at.nanos_since(then).abs(), is_same, is_alike);
                    }
                }
            }
            if fate.is_evicted() {
                evictions.count_eviction(recorded.and_then(|recorded| recorded.eviction), fate.eviction);
            }
        })?;
        Ok(Fidelity { placements, evictions, waits: is.compare_waits(was) })
    }
}

/// Calls `each` for every pod.
fn for_each_pod(
    demands: &RecordedDemands,
    from: Moment,
    mut each: impl FnMut(Arc<str>, PodOutcome),
) -> io::Result<()> {
    for demand in 0..demands.totals.demands {
        let cause = demands.get(DemandId(demand))?;
        for (life, seen) in cause.incarnations.into_iter().zip(cause.observed) {
            each(life.uid, PodOutcome::of(&seen, life.node, from));
        }
    }
    Ok(())
}

fn is_pod(kind: &Kind) -> bool {
    *kind == Kind::new("", "Pod")
}

// === impl PodsByOwner ===

impl PodsByOwner {
    fn observe(&mut self, change: &Change, owner: Option<String>) {
        if !is_pod(&change.key.kind) {
            return self.owners.apply(&change.key, &change.what);
        }
        let object = change.what.object();
        let Some(uid) = object.meta().uid else { return };
        if matches!(change.what, What::Deleted(_)) || self.positions.contains_key(&*uid) {
            return;
        }
        let owner = owner.unwrap_or_else(|| {
            let above = self.owners.transitive_owners(object);
            let (kind, name) = above.last().map_or_else(
                || (change.key.kind.clone(), change.key.name.to_string()),
                |owner| (owner.kind(), owner.name.clone()),
            );
            format!("{kind} {}/{name}", change.key.namespace)
        });
        let uid: Arc<str> = (*uid).into();
        let pods = self.pods.entry(owner.clone()).or_default();
        self.positions.insert(uid.clone(), (owner, pods.len()));
        pods.push(uid);
    }
}

// === impl PodOutcome ===

impl PodOutcome {
    fn of(seen: &ObservedIncarnation, node: Option<Arc<str>>, from: Moment) -> PodOutcome {
        PodOutcome {
            bound: seen.bound_after(from),
            node,
            class: seen.node_class.clone(),
            eviction: seen.eviction,
        }
    }

    fn is_evicted(&self) -> bool {
        self.eviction.is_some_and(|lost| lost != EvictionKind::External)
    }
}
