//! Latencies, measured from a history.

mod samples;
mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::loop_start_from_config_map;
use kubernetes::objects::{NodeView, Phase};
use model::{Moment, What};
use rustc_hash::FxHashMap;
use simulation::latency::{Latencies, LatencyKind};

use crate::observed::{Disruption, ObservedChange, Owner, OwnerKind, ParsedPod};
use samples::LatencySamples;
use scheduler::{SchedulerLoopMeter, StatusWrites};

/// Measures latencies, change by change. Its memory use follows the size of the cluster, not the length of the history.
///
/// Times are those of the changes, but the scheduler's own for its Events. Where the two clocks differ by seconds, no
/// latency that needs both is measured.
#[derive(Debug)]
pub struct LatencyMeter {
    samples: LatencySamples,
    scheduler: SchedulerLoopMeter,
    /// By uid.
    pods: FxHashMap<Arc<str>, MeasuredPod>,
    /// Deleted pods, and when they were deleted. They are kept until late Events about them have arrived.
    deleted_pods: VecDeque<(Moment, Arc<str>)>,
    /// New nodes by name: when they registered, and the DaemonSets that have a pod there.
    new_nodes: BTreeMap<Arc<str>, (Moment, BTreeSet<Arc<str>>)>,
    /// DaemonSets by uid: when their first pod was observed, and how many pods they have.
    daemon_sets: BTreeMap<Arc<str>, (Moment, usize)>,
    /// Deleted nodes by name, and when they were deleted.
    deleted_nodes: BTreeMap<Arc<str>, Moment>,
    /// By a controller's uid: when it could observe the loss of pods that it has not replaced yet.
    awaited: BTreeMap<Arc<str>, VecDeque<Moment>>,
    /// The last observed loop of the autoscaler.
    last_loop: Option<Moment>,
    next_sweep: Moment,
}

/// The state of a pod.
#[derive(Debug)]
struct MeasuredPod {
    /// When it was first observed.
    since: Moment,
    /// It was created at that moment.
    is_new: bool,
    owner: Option<Owner>,
    was_unschedulable: bool,
    writes: StatusWrites,
    /// When it was last unschedulable, or when its last victim after that was preempted.
    decided: Option<Moment>,
    node: Option<Arc<str>>,
    /// When its binding was observed.
    bound: Option<Moment>,
    has_run: bool,
    has_succeeded: bool,
    disruption: Option<Disruption>,
    deletion: ObservedDeletion,
}

#[derive(Clone, Copy, Debug)]
enum ObservedDeletion {
    NotDeleting,
    /// Its deletion began then; the kind of latency that follows.
    Since(Moment, LatencyKind),
    /// It was being deleted when first observed.
    BeforeFirstSeen,
}

/// The maximum time from an Event to its observation; also the maximum age of an object that counts as new,
/// because creation timestamps are whole seconds.
const MAX_EVENT_LAG: Duration = Duration::from_secs(3);

/// A pod that is created later is no replacement.
const MAX_REPLACEMENT_DELAY: Duration = Duration::from_secs(10);

/// A DaemonSet pod that is created later is not due to the new node.
const MAX_DAEMON_DELAY: Duration = Duration::from_secs(60);

/// How long a deleted node is remembered for pod garbage collection.
const MAX_GC_DELAY: Duration = Duration::from_secs(600);

/// The maximum duration of a loop; a longer one is due to a clock difference.
const MAX_LOOP_DURATION: Duration = Duration::from_secs(60);

// === impl LatencyMeter ===

impl LatencyMeter {
    /// Creates an empty meter. The seed is for the random choice of samples.
    pub fn new(seed: u64) -> LatencyMeter {
        LatencyMeter {
            samples: LatencySamples::new(seed),
            scheduler: SchedulerLoopMeter::default(),
            pods: FxHashMap::default(),
            deleted_pods: VecDeque::new(),
            new_nodes: BTreeMap::new(),
            daemon_sets: BTreeMap::new(),
            deleted_nodes: BTreeMap::new(),
            awaited: BTreeMap::new(),
            last_loop: None,
            next_sweep: Moment::MIN,
        }
    }

    /// Takes a change; those of Pods, Nodes, Events and ConfigMaps matter. Changes must come in order.
    pub fn observe(&mut self, at: Moment, change: &ObservedChange) {
        let what = &change.what;
        let object = what.object();
        match &*change.key.kind.kind {
            "Pod" => {
                if let Some(pod) = &change.pod {
                    self.observe_pod(at, what, pod);
                }
            }
            "Node" => {
                if let Some(node) = &change.node {
                    self.observe_node(at, what, node);
                }
            }
            "Event" if !matches!(what, What::Deleted(_)) => {
                if let Some(event) = &change.event {
                    self.scheduler.observe_event(at, event);
                }
            }
            "ConfigMap" => {
                if let Some(began) = loop_start_from_config_map(object) {
                    self.loop_ended(at, what, began);
                }
            }
            _ => {}
        }
        let cutoff = earlier(at, MAX_EVENT_LAG);
        self.scheduler.measure_until(cutoff, &mut self.pods, &mut self.samples);
        while let Some((_, uid)) = self.deleted_pods.front().filter(|(deleted_at, _)| *deleted_at <= cutoff) {
            self.pods.remove(uid);
            self.deleted_pods.pop_front();
        }
        if at >= self.next_sweep {
            self.next_sweep = later(at, MAX_DAEMON_DELAY);
            self.new_nodes.retain(|_, (since, _)| between(*since, at) <= MAX_DAEMON_DELAY);
            self.deleted_nodes.retain(|_, since| between(*since, at) <= MAX_GC_DELAY);
            let is_awaited = |lost_at: &Moment| between(*lost_at, at) <= MAX_REPLACEMENT_DELAY;
            self.awaited.retain(|_, lost_at| lost_at.back().is_some_and(is_awaited));
        }
    }

    /// Returns the latencies; those that were not observed have their defaults.
    pub fn finish(mut self) -> Latencies {
        self.scheduler.measure_until(Moment::MAX, &mut self.pods, &mut self.samples);
        self.samples.into_latencies()
    }

    /// A loop wrote its status. For a status from an initial list the time of the write is unknown.
    fn loop_ended(&mut self, at: Moment, what: &What, began: Moment) {
        let is_new = self.last_loop.replace(began) != Some(began);
        let duration = u64::try_from(at.nanos_since(began)).ok().map(Duration::from_nanos);
        if let Some(duration) = duration.filter(|duration| *duration <= MAX_LOOP_DURATION)
            && is_new
            && matches!(what, What::Modified(_))
        {
            self.samples.add(LatencyKind::AutoscalerLoop, began, duration);
        }
    }

    fn observe_node(&mut self, at: Moment, what: &What, node: &NodeView) {
        match what {
            What::Added(_) => {
                self.deleted_nodes.remove(&node.name);
                if is_new(node.creation_timestamp, at) {
                    self.new_nodes.insert(node.name.clone(), (at, BTreeSet::new()));
                }
            }
            What::Modified(_) => {}
            What::Deleted(_) => {
                self.new_nodes.remove(&node.name);
                self.deleted_nodes.insert(node.name.clone(), at);
            }
        }
    }

    fn observe_pod(&mut self, at: Moment, what: &What, parsed: &ParsedPod) {
        if !parsed.has_uid {
            return;
        }
        match self.pods.get_mut(&parsed.uid) {
            None => {
                let pod = MeasuredPod::new(at, what, parsed);
                if let Some(owner) = &pod.owner {
                    self.pod_of_controller(at, owner, pod.is_new);
                }
                self.pods.insert(parsed.uid.clone(), pod);
            }
            Some(pod) => {
                let was_bound = pod.node.is_some();
                let losing_owner = pod.observe(at, parsed, &mut self.samples);
                if !was_bound && pod.node.is_some() {
                    if pod.is_new && !pod.was_unschedulable {
                        self.scheduler.pod_bound(pod.since, at);
                    }
                    self.measure_daemon(&parsed.uid);
                }
                if let Some(owner) = losing_owner {
                    self.awaited.entry(owner).or_default().push_back(at);
                }
            }
        }
        if matches!(what, What::Deleted(_)) {
            self.pod_deleted(at, &parsed.uid);
        }
    }

    /// A controller has another pod. A new one replaces the first lost pod.
    fn pod_of_controller(&mut self, at: Moment, owner: &Owner, is_new: bool) {
        let latency_kind = match owner.kind {
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => LatencyKind::PodRecreation,
            OwnerKind::Job => LatencyKind::NextJobPod,
            OwnerKind::DaemonSet => {
                self.daemon_sets.entry(owner.uid.clone()).or_insert((at, 0)).1 += 1;
                return;
            }
        };
        if is_new && let Some(awaited) = self.awaited.get_mut(&owner.uid) {
            while let Some(lost_at) = awaited.pop_front() {
                if between(lost_at, at) <= MAX_REPLACEMENT_DELAY {
                    self.samples.add(latency_kind, lost_at, between(lost_at, at));
                    break;
                }
            }
        }
    }

    /// A pod was bound. The first pod of an older DaemonSet on a new node is due to the node.
    fn measure_daemon(&mut self, uid: &str) {
        if let Some(MeasuredPod { since, is_new: true, owner: Some(owner), node: Some(node), .. }) =
            self.pods.get(uid)
            && let Some((had_pods, _)) = self.daemon_sets.get(&owner.uid)
            && let Some((registered, daemons)) = self.new_nodes.get_mut(&**node)
            && daemons.insert(owner.uid.clone())
            && had_pods < registered
            && between(*registered, *since) <= MAX_DAEMON_DELAY
        {
            self.samples.add(LatencyKind::DaemonPodCreation, *registered, between(*registered, *since));
        }
    }

    fn pod_deleted(&mut self, at: Moment, uid: &str) {
        let Some((uid, pod)) = self.pods.get_key_value(uid) else { return };
        self.deleted_pods.push_back((at, uid.clone()));
        let node_gone = pod.node.as_ref().and_then(|node| self.deleted_nodes.get(&**node));
        match (node_gone, pod.deletion) {
            (Some(since), _) => {
                if pod.disruption == Some(Disruption::GarbageCollected) {
                    self.samples.add(LatencyKind::PodGc, *since, between(*since, at));
                }
            }
            // A deletion without a deletion timestamp before: the termination on the node was missed.
            (None, ObservedDeletion::Since(since, LatencyKind::PodDeletion)) if since == at => {}
            (None, ObservedDeletion::Since(since, latency_kind)) => {
                self.samples.add(latency_kind, since, between(since, at))
            }
            (None, ObservedDeletion::NotDeleting | ObservedDeletion::BeforeFirstSeen) => {}
        }
        match &pod.owner {
            Some(Owner { kind: OwnerKind::StatefulSet, uid }) if pod.is_disrupted() => {
                self.awaited.entry(uid.clone()).or_default().push_back(at);
            }
            Some(Owner { kind: OwnerKind::DaemonSet, uid }) => {
                if let Entry::Occupied(mut entry) = self.daemon_sets.entry(uid.clone()) {
                    entry.get_mut().1 -= 1;
                    if entry.get().1 == 0 {
                        entry.remove();
                    }
                }
            }
            _ => {}
        }
    }
}

// === impl MeasuredPod ===

impl MeasuredPod {
    /// A new entry for a pod: steps that it has already passed are not measured.
    fn new(at: Moment, what: &What, parsed: &ParsedPod) -> MeasuredPod {
        let mut pod = MeasuredPod {
            since: at,
            is_new: matches!(what, What::Added(_)) && is_new(parsed.created, at),
            owner: parsed.owner.clone(),
            was_unschedulable: false,
            writes: StatusWrites::default(),
            decided: None,
            node: parsed.node.clone(),
            bound: None,
            has_run: parsed.phase != Phase::Pending,
            has_succeeded: parsed.phase == Phase::Succeeded,
            disruption: parsed.disruption,
            deletion: if parsed.is_terminating {
                ObservedDeletion::BeforeFirstSeen
            } else {
                ObservedDeletion::NotDeleting
            },
        };
        pod.observe_condition(at, parsed);
        pod
    }

    /// Takes another version. Returns the controller if that must create a replacement now.
    fn observe(&mut self, at: Moment, parsed: &ParsedPod, samples: &mut LatencySamples) -> Option<Arc<str>> {
        let mut losing_owner = None;
        self.observe_condition(at, parsed);
        if self.node.is_none() && parsed.node.is_some() {
            self.node = parsed.node.clone();
            self.bound = Some(at);
        }
        if !self.has_run && (parsed.phase == Phase::Running || parsed.is_finished()) {
            self.has_run = true;
            if let Some(bound) = self.bound.filter(|_| parsed.phase == Phase::Running) {
                samples.add(LatencyKind::PodStart, bound, between(bound, at));
            }
        }
        if !self.has_succeeded && parsed.phase == Phase::Succeeded {
            self.has_succeeded = true;
            losing_owner = self.owner.as_ref().filter(|owner| owner.kind == OwnerKind::Job);
        }
        self.disruption = parsed.disruption;
        if matches!(self.deletion, ObservedDeletion::NotDeleting) && parsed.is_terminating {
            let is_immediate = self.node.is_none() || parsed.is_finished() || parsed.grace_seconds == Some(0);
            self.deletion = ObservedDeletion::Since(
                at,
                if is_immediate { LatencyKind::ForcedPodDeletion } else { LatencyKind::PodDeletion },
            );
            if self.is_disrupted() {
                losing_owner = self.owner.as_ref().filter(|owner| owner.kind == OwnerKind::ReplicaSet);
            }
        }
        losing_owner.map(|owner| owner.uid.clone())
    }

    /// Takes the PodScheduled condition. A gated pod was not tried.
    fn observe_condition(&mut self, at: Moment, parsed: &ParsedPod) {
        if let Some(condition) = parsed.not_scheduled.as_ref().filter(|condition| !condition.is_gated) {
            self.was_unschedulable = true;
            let message = condition.message.as_deref().unwrap_or_default();
            self.writes.observe(at, message, parsed.nominated_node.as_deref().unwrap_or_default());
        }
    }

    /// Whether it is disrupted, on a node that exists.
    fn is_disrupted(&self) -> bool {
        self.disruption.is_some_and(|disruption| disruption != Disruption::GarbageCollected)
    }
}

fn is_new(created: Option<Moment>, at: Moment) -> bool {
    created.is_some_and(|created| between(created, at) <= MAX_EVENT_LAG)
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos_since(from)).unwrap_or(0))
}

fn later(moment: Moment, span: Duration) -> Moment {
    moment.plus_nanos(span.as_nanos() as i64)
}

fn earlier(moment: Moment, span: Duration) -> Moment {
    moment.plus_nanos(-(span.as_nanos() as i64))
}
