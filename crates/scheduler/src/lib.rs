//! kube-scheduler's scheduling cycle, preemption and scheduling queue, in virtual time.
//!
//! Nothing here reads a clock, a file or a socket, and no result depends on unseeded randomness or on the iteration
//! order of a hash table: the same events, settings and seed give the same decisions, byte for byte.

mod cache;
mod config;
mod cycle;
mod cycle_state;
mod decision;
mod events;
mod filter_cache;
pub mod filter_snapshot;
mod first_fit;
mod framework;
pub mod ids;
mod message;
pub mod node;
mod nominator;
mod plugin;
mod plugins;
pub mod pod;
mod post_filter;
mod pre_filter_state;
mod preemption;
mod queue;
mod score;
mod settings;
mod status;
mod storage;
mod volume_filter;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{InformerEvent, NodeEvent, PodEvent};
use model::{Kind, Moment, NamespacedName, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

use cache::{ClusterCache, RelatedObjectKind};
use cycle::{CycleOutcome, RetainedState};
use cycle_state::CycleState;
use framework::Framework;
use ids::{NodeId, PodId};
use nominator::Nominator;
use plugins::scheduling_gates;
use post_filter::{NominationChange, PostFilterOptions, post_filter};
use pre_filter_state::PreFilterStateCache;
use preemption::DryRunCache;
use queue::SchedulingQueue;
use storage::{StorageKind, VolumeReservation};

pub use config::BadConfiguration;
pub use decision::{
    Decision, EvaluatedNode, Explanation, NodeVerdict, PluginScore, RecordedNodeOutcome, Rejection,
    ScheduleResult, VolumeChange,
};
pub use first_fit::FirstFit;
pub use plugin::Plugin;
pub use queue::{QueueState, QueuedPodInfo, SchedulingAttempt};
pub use settings::{
    AddedAffinity, BadVersion, DefaultPreemptionArgs, DefaultSpreadConstraint, InterPodAffinityArgs,
    NodeResourcesFitArgs, Profile, ScoringStrategy, Settings, SpreadDefaults, Version,
};
pub use status::{Code, Reasons, Status};
pub use storage::PodVolumes;
pub use volume_filter::{PodClaims, VolumeFilter};

/// The kinds, by group and kind, whose objects filters and scores depend on. [`Scheduler::apply`] also passes events of
/// ResourceClaims and ResourceSlices to the queueing hints.
pub const KINDS: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("", "Service"),
    ("", "ReplicationController"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("policy", "PodDisruptionBudget"),
    ("resource.k8s.io", "DeviceClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("", "Node"),
    ("", "Pod"),
];

/// A scheduler with its cluster cache and scheduling queue. Informer events are handled in `queue/event_handlers.rs`, the
/// scheduling loop is in `queue/scheduling_loop.rs`.
#[derive(Debug)]
pub struct Scheduler {
    profiles: Vec<Framework>,
    cache: ClusterCache,
    nominator: Nominator,
    pre_filter_states: PreFilterStateCache,
    retained: RetainedState,
    dry_run_cache: DryRunCache,
    rng: Pcg64,
    queue: SchedulingQueue,
    /// Volume reservations of pods that are being bound.
    reservations: BTreeMap<PodId, VolumeReservation>,
    /// The recorded node of a pod, preferred among nodes of equal score.
    recorded_nodes: FxHashMap<PodId, Arc<str>>,
    clears_nominations: bool,
}

impl Scheduler {
    /// A scheduler with an empty cache.
    pub fn new(settings: Settings) -> Scheduler {
        let mut cache = ClusterCache::default();
        let frameworks =
            settings.profiles.iter().map(|profile| Framework::new(&settings, profile, &mut cache.scalars));
        let profiles = frameworks.collect();
        cache.keep_scalars_of_profiles();
        Scheduler {
            profiles,
            rng: Pcg64::seed_from_u64(settings.seed),
            queue: SchedulingQueue::new(&settings),
            reservations: BTreeMap::new(),
            recorded_nodes: FxHashMap::default(),
            nominator: Nominator::default(),
            pre_filter_states: PreFilterStateCache::default(),
            retained: RetainedState::default(),
            dry_run_cache: DryRunCache::default(),
            clears_nominations: true,
            cache,
        }
    }

    /// Handles an informer event: an object was added, modified or deleted. Kinds that do not affect scheduling are
    /// ignored.
    ///
    /// New pods enter the queue, and unschedulable pods are requeued if a queueing hint says that the event may help.
    /// Time advances first, as by [`Scheduler::advance`].
    pub fn apply(&mut self, now: Moment, event: &What) {
        let object = event.object();
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(event, What::Added(_) | What::Modified(_));
        match (group, &*meta.kind) {
            ("", "Pod") => match event {
                What::Added(_) | What::Modified(_) => self.apply_pod(now, &PodEvent::of_pod(event)),
                What::Deleted(object) => {
                    self.advance(now);
                    self.remove_pod_of_object(now, &meta, object);
                }
            },
            ("", "Node") => self.apply_node(now, &NodeEvent::of_node(event)),
            (group, kind) => {
                self.advance(now);
                if let Some(kind) = StorageKind::of(&Kind::new(group, kind)) {
                    self.apply_storage(kind, object, present);
                }
                if let Some(kind) = RelatedObjectKind::of(group, kind)
                    && self.cache.related_objects.apply(kind, object, present)
                {
                    self.cache.invalidate_pre_filter_states();
                    if kind == RelatedObjectKind::DeviceClass {
                        // NodeResourcesFit depends on which extended resources a DeviceClass backs.
                        self.retained.filter_cache.clear();
                    }
                }
                self.apply_tracked_object(now, group, kind, object, present);
            }
        }
    }

    /// Handles an informer event of a pod.
    pub fn apply_pod(&mut self, now: Moment, event: &PodEvent) {
        self.advance(now);
        match event {
            InformerEvent::Added(pod) | InformerEvent::Modified(pod) => self.set_pod(now, pod),
            InformerEvent::Deleted(pod) => self.remove_pod_by_name(now, pod),
        }
    }

    /// Handles an informer event of a node.
    pub fn apply_node(&mut self, now: Moment, event: &NodeEvent) {
        self.advance(now);
        match event {
            InformerEvent::Added(node) | InformerEvent::Modified(node) => self.set_node(now, node),
            InformerEvent::Deleted(node) => self.remove_node(now, &node.name),
        }
    }

    /// Returns every node's verdict and scores for a pod, and the decision that the scheduler would make now. It
    /// updates the snapshot as a scheduling cycle does; beyond that it changes no state.
    ///
    /// Returns `None` if there is no such pod.
    pub fn explain(&mut self, now: Moment, namespace: &str, name: &str) -> Option<Explanation> {
        let id = self.cache.find_pod(namespace, name)?;
        let pod = self.cache.pod(id).name.clone();
        let mut explanation = Explanation {
            pod,
            pre_filter_status: None,
            pre_filter_node_names: None,
            filters: Vec::new(),
            nodes: Vec::new(),
            decision: Decision::Skipped(String::new()),
        };
        let (start, rng) = (self.retained.next_start_node_index, self.rng.clone());
        match self.profile_for(id) {
            Err(decision) => explanation.decision = *decision,
            Ok(profile) => {
                self.update_snapshot();
                let pre_filter_state =
                    self.pre_filter_states.get_or_compute(&mut self.cache, &self.profiles[profile], id);
                let mut cycle_state = CycleState::new(
                    &self.cache,
                    &self.profiles[profile],
                    &self.nominator,
                    id,
                    &pre_filter_state,
                );
                let evaluation = cycle::evaluate_all_nodes(&mut cycle_state, &mut self.retained);
                explanation.filters = cycle_state.running_filters();
                drop(cycle_state);
                // If scoring fails there is no evaluation of the nodes. A single feasible node is chosen without
                // scoring.
                if let Ok(evaluation) = evaluation {
                    explanation.pre_filter_status = evaluation.pre_filter_status;
                    explanation.pre_filter_node_names = evaluation.node_names;
                    explanation.nodes = evaluation.nodes;
                }
                explanation.decision = self.decide(now, id, profile).0;
            }
        }
        (self.retained.next_start_node_index, self.rng) = (start, rng);
        Some(explanation)
    }

    /// Runs one scheduling cycle for a pod regardless of its place in the queue: the pod is assumed on its node or
    /// nominated to one, as in kube-scheduler. Victims are returned; they are removed from the cache when their
    /// deletion is applied.
    ///
    /// Returns `None` if there is no such pod.
    pub fn attempt(&mut self, now: Moment, namespace: &str, name: &str) -> Option<Decision> {
        let id = self.cache.find_pod(namespace, name)?;
        let profile = match self.profile_for(id) {
            Err(decision) => return Some(*decision),
            Ok(profile) => profile,
        };
        let (decision, effect) = self.decide(now, id, profile);
        if let CycleEffect::Assume(..) = effect {
            self.queue.mark_in_flight(id);
        }
        self.apply_effect(now, id, effect);
        Some(decision)
    }

    /// Prefers this node for a pending pod if it is among the nodes with the highest score. It stands for the recorded
    /// outcome of kube-scheduler's random choice.
    pub fn prefer_recorded_node(&mut self, namespace: &str, name: &str, node: &Arc<str>) {
        if let Some(id) = self.cache.find_pod(namespace, name) {
            self.recorded_nodes.insert(id, node.clone());
        }
    }

    /// Advances `next_start_node_index` by so many nodes, as after a scheduling cycle that was not run here.
    pub fn rotate_start_node(&mut self, by: usize) {
        self.cache.nodes.update_snapshot();
        let nodes = self.cache.nodes.order().len().max(1);
        self.retained.next_start_node_index = (self.retained.next_start_node_index + by % nodes) % nodes;
    }

    /// Sets whether preemption clears the nominations of lower-priority pods to the same node; it does by default.
    pub fn set_clears_nominations(&mut self, clears: bool) {
        self.clears_nominations = clears;
    }

    /// Disables all caches: every verdict is computed by the plugins. Slow, with the same results.
    pub fn disable_caches(&mut self) {
        self.retained.caches_disabled = true;
    }

    fn apply_storage(&mut self, kind: StorageKind, object: &Object, present: bool) {
        if present {
            // An unreadable object is kept as such: pods that use it are rejected with its error.
            let _ = self.cache.storage.apply(kind, object);
        } else {
            let meta = object.meta();
            self.cache.storage.remove(kind, &Arc::from(&*meta.namespace), &Arc::from(&*meta.name));
        }
    }

    /// Returns the index of the pod's profile, or the decision that skips the pod.
    fn profile_for(&self, id: PodId) -> Result<usize, Box<Decision>> {
        let pod = self.cache.pod(id);
        let name = &pod.spec.scheduler_name;
        let Some(profile) =
            self.profiles.iter().position(|framework| framework.profile.scheduler_name == *name)
        else {
            return Err(Box::new(Decision::Skipped(format!("no profile for schedulerName {name:?}"))));
        };
        if self.cache.node_of(id).is_some() {
            return Err(Box::new(Decision::Skipped("placed already".to_owned())));
        }
        if self.profiles[profile].profile.pre_enqueue.contains(&Plugin::SchedulingGates) {
            scheduling_gates::pre_enqueue(pod).map_err(|status| Box::new(Decision::Gated(status)))?;
        }
        if pod.terminating {
            let NamespacedName { namespace, name } = &pod.name;
            let reason = format!("skip schedule deleting pod: {namespace}/{name}");
            return Err(Box::new(Decision::Skipped(reason)));
        }
        Ok(profile)
    }

    /// Updates the snapshot, as at the start of every scheduling cycle.
    fn update_snapshot(&mut self) {
        self.cache.nodes.update_snapshot();
        self.cache.free_unused_scalars();
        if self.retained.caches_disabled {
            self.retained.filter_cache.clear();
            self.dry_run_cache.clear();
            self.pre_filter_states.clear();
            self.cache.drop_counts();
        }
    }

    /// Runs a scheduling cycle, and returns the decision and its effect on the scheduler's state.
    fn decide(&mut self, now: Moment, id: PodId, profile: usize) -> (Decision, CycleEffect) {
        self.update_snapshot();
        let nodes = self.cache.nodes.order().len();
        if nodes == 0 {
            let mut rejection = Rejection::new(message::NO_NODES.to_owned(), Vec::new());
            let pod = self.cache.pod(id);
            rejection.cleared_nominations.extend(pod.nominated_node.as_ref().map(|_| pod.name.clone()));
            return (Decision::Unschedulable(rejection), CycleEffect::Nomination(NominationChange::Cleared));
        }
        let pre_filter_state =
            self.pre_filter_states.get_or_compute(&mut self.cache, &self.profiles[profile], id);
        let mut cycle_state =
            CycleState::new(&self.cache, &self.profiles[profile], &self.nominator, id, &pre_filter_state);
        let rng = &mut self.rng;
        let recorded_name = self.recorded_nodes.get(&id);
        let recorded_id = recorded_name.and_then(|node| self.cache.nodes.by_name(node));
        let missing_outcome =
            recorded_name.filter(|_| recorded_id.is_none()).map(|_| RecordedNodeOutcome::NoSuchNode);
        let mut choose_among_equals = |count| rng.random_range(0..count);
        let diagnosis = match cycle::schedule_pod(
            &mut cycle_state,
            &mut self.retained,
            recorded_id,
            &mut choose_among_equals,
        ) {
            CycleOutcome::Scheduled { node, evaluated_nodes, feasible_nodes, tied_nodes, recorded_node } => {
                let reservation = match cycle_state.reserve(node) {
                    Err(status) => return failed_cycle(status.message()),
                    Ok(reservation) => reservation,
                };
                let placement = ScheduleResult {
                    node: self.cache.nodes.name(node).clone(),
                    volume_changes: reservation.as_ref().map(VolumeReservation::changes).unwrap_or_default(),
                    evaluated_nodes,
                    feasible_nodes,
                    tied_nodes,
                    recorded_node: recorded_node.or(missing_outcome),
                };
                return (Decision::Scheduled(placement), CycleEffect::Assume(node, reservation));
            }
            CycleOutcome::Error(error) => return failed_cycle(error),
            CycleOutcome::Unschedulable(diagnosis) => diagnosis,
        };
        let message = diagnosis.message(nodes, &self.retained.filter_cache);
        let mut rejection = Rejection::new(message, diagnosis.unschedulable_plugins.clone());
        let options = PostFilterOptions {
            now: now.nanos(),
            node_offset: &mut |nodes| rng.random_range(0..nodes),
            clears_nominations: self.clears_nominations,
        };
        let (filter_cache, dry_run_cache) = (&mut self.retained.filter_cache, &mut self.dry_run_cache);
        let nomination =
            post_filter(&cycle_state, &diagnosis, filter_cache, dry_run_cache, options, &mut rejection);
        if nomination == NominationChange::Cleared && cycle_state.pod.nominated_node.is_some() {
            rejection.cleared_nominations.push(cycle_state.pod.name.clone());
        }
        self.retained.reuse(diagnosis);
        (Decision::Unschedulable(rejection), CycleEffect::Nomination(nomination))
    }
}

/// A cycle that failed with an error; the pod's nomination is cleared.
fn failed_cycle(error: String) -> (Decision, CycleEffect) {
    (Decision::Failed(error), CycleEffect::Nomination(NominationChange::Cleared))
}

/// The effect of a decision on the cache and the nominator.
enum CycleEffect {
    Assume(NodeId, Option<VolumeReservation>),
    Nomination(NominationChange),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_kind_is_applied() {
        for (group, kind) in KINDS {
            let is_read = StorageKind::of(&Kind::new(group, kind)).is_some()
                || RelatedObjectKind::of(group, kind).is_some()
                || (group.is_empty() && ["Node", "Pod"].contains(kind));
            assert!(is_read, "{group} {kind}");
        }
    }
}
