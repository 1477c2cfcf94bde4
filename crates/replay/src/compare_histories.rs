//! The comparison of two histories: a recording, and that of the live cluster into which it was replayed.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use kubernetes::owners::OwnerIndex;
use model::{Change, Kind, Moment, What};
use simulation::DemandId;

use crate::compare::{EvictionFidelity, Fidelity, PlacementFidelity};
use crate::demands::{EvictionKind, ObservedIncarnation, RecordedDemands};
use crate::metrics::ClusterMetrics;

/// Matches pods of a live replay with recorded ones: by annotation, or else by their order among the pods of
/// one owner. Only live replays use it: in virtual time, pods are matched by their demand and incarnation.
#[derive(Debug)]
pub struct PodMatcher {
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

// === impl PodMatcher ===

impl PodMatcher {
    /// Creates a matcher without pods.
    pub fn new(annotations: CounterpartAnnotations) -> PodMatcher {
        PodMatcher {
            annotations,
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
            let annotation = |name: &str| pod["metadata"]["annotations"].get(name)?.as_str();
            if let (Some(uid), Some(recorded_uid)) = (object.meta().uid, annotation(self.annotations.uid)) {
                self.annotated_uids.insert((*uid).into(), recorded_uid.into());
            }
            owner = annotation(self.annotations.owner).map(str::to_owned);
        }
        self.replayed.observe(change, owner);
    }

    /// Returns the recorded counterpart of a pod of the replay.
    fn counterpart_of(&self, uid: &Arc<str>) -> Option<&Arc<str>> {
        self.annotated_uids.get(uid).or_else(|| {
            let (owner, position) = self.replayed.positions.get(uid)?;
            self.recorded.pods.get(owner)?.get(*position)
        })
    }

    /// The pods of the replay whose counterparts were bound when the window began. A live replay creates them at its
    /// beginning, and the target binds them anew: there is no recorded binding to compare with.
    pub fn initial_pods(&self, from: Moment, recorded: &RecordedDemands) -> io::Result<HashSet<Arc<str>>> {
        let mut bound: HashSet<Arc<str>> = HashSet::new();
        for_each_pod(recorded, |uid, observed, _| {
            if observed.bound_at.is_some_and(|at| at <= from) {
                bound.insert(uid);
            }
        })?;
        let replayed = self.replayed.positions.keys();
        let is_initial = |uid: &&Arc<str>| self.counterpart_of(uid).is_some_and(|uid| bound.contains(uid));
        Ok(replayed.filter(is_initial).cloned().collect())
    }

    /// Compares the two in a window that begins at `from`, without the [initial pods](PodMatcher::initial_pods).
    pub fn compare(
        &self,
        from: Moment,
        initial_pods: &HashSet<Arc<str>>,
        (recorded, recorded_metrics): (&RecordedDemands, &ClusterMetrics),
        (replayed, replayed_metrics): (&RecordedDemands, &ClusterMetrics),
    ) -> io::Result<Fidelity> {
        let mut outcomes: HashMap<Arc<str>, PodOutcome> = HashMap::new();
        for_each_pod(recorded, |uid, observed, node| {
            outcomes.insert(uid, PodOutcome::of(&observed, node, from));
        })?;
        let evicted_count = outcomes.values().filter(|outcome| outcome.is_evicted()).count() as u64;
        let bound = outcomes.values().filter(|outcome| outcome.bound.is_some()).count() as u64;
        let mut placements =
            PlacementFidelity { recorded: bound, not_bound: bound, ..PlacementFidelity::default() };
        let mut evictions = EvictionFidelity {
            recorded: evicted_count,
            not_evicted: evicted_count,
            ..EvictionFidelity::default()
        };
        for_each_pod(replayed, |uid, observed, node| {
            let outcome = PodOutcome::of(&observed, node, from);
            let recorded = self.counterpart_of(&uid).and_then(|recorded_uid| outcomes.get(recorded_uid));
            if let Some(at) = outcome.bound.filter(|_| !initial_pods.contains(&uid)) {
                match recorded.and_then(|recorded| Some((recorded, recorded.bound?))) {
                    None => placements.not_recorded += 1,
                    Some((recorded, recorded_at)) => {
                        let is_same = recorded.node == outcome.node;
                        let is_same_class = recorded.class.is_some() && recorded.class == outcome.class;
                        placements.count_binding(at.nanos_since(recorded_at).abs(), is_same, is_same_class);
                    }
                }
            }
            if outcome.is_evicted() {
                evictions.count_eviction(recorded.and_then(|recorded| recorded.eviction), outcome.eviction);
            }
        })?;
        let pending_times = replayed_metrics.compare_pending_times(recorded_metrics);
        Ok(Fidelity { placements, evictions, pending_times })
    }
}

/// Calls `each` with the uid of every pod, what was observed of it, and its node.
fn for_each_pod(
    demands: &RecordedDemands,
    mut each: impl FnMut(Arc<str>, ObservedIncarnation, Option<Arc<str>>),
) -> io::Result<()> {
    for demand in 0..demands.totals.demands {
        let recorded = demands.get(DemandId(demand))?;
        for (incarnation, observed) in recorded.incarnations.into_iter().zip(recorded.observed) {
            each(incarnation.uid, observed, incarnation.node);
        }
    }
    Ok(())
}

fn is_pod(kind: &Kind) -> bool {
    kind.is("", "Pod")
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
            let ancestors = self.owners.transitive_owners(object);
            let (kind, name) = ancestors.last().map_or_else(
                || (change.key.kind.clone(), change.key.name.to_string()),
                |owner| (owner.kind(), owner.name.to_string()),
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
    fn of(observed: &ObservedIncarnation, node: Option<Arc<str>>, from: Moment) -> PodOutcome {
        PodOutcome {
            bound: observed.bound_after(from),
            node,
            class: observed.node_class.clone(),
            eviction: observed.eviction,
        }
    }

    fn is_evicted(&self) -> bool {
        self.eviction.is_some_and(|kind| !kind.is_input())
    }
}
