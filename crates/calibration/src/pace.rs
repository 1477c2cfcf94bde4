//! How long things took, as a history shows it.

mod objects;
mod samples;
mod scheduler;
#[cfg(test)]
mod tests;

use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::loop_told;
use model::{Moment, What};
use rustc_hash::FxHashMap;
use simulation::pace::{Pace, Step};

use crate::seen::{Disruption, Owner, OwnerKind, Phase, PodSeen, Seen};
use objects::{EventJson, NodeJson};
use samples::Samples;
use scheduler::{SchedulerLoop, Writes};

/// A pace that is being measured, change by change. What is remembered follows the cluster, not the history.
///
/// Times are those of the changes; of the scheduler's Events they are its own. Where the two clocks are seconds apart,
/// what needs both is not measured.
#[derive(Debug)]
pub struct MeasurePace {
    samples: Samples,
    scheduler: SchedulerLoop,
    /// By uid.
    pods: FxHashMap<Arc<str>, Pod>,
    /// Pods that are gone, and since when. They are still known until all is told of them.
    departed: VecDeque<(Moment, Arc<str>)>,
    /// Nodes that are new, by name: since when, and the DaemonSets that have got a pod there.
    nodes: BTreeMap<String, (Moment, BTreeSet<Arc<str>>)>,
    /// DaemonSets by uid: since when they have pods, and how many.
    daemon_sets: BTreeMap<Arc<str>, (Moment, usize)>,
    /// Nodes that are gone, by name: since when.
    gone: BTreeMap<String, Moment>,
    /// By a controller's uid: when it could know of pods whose successors have not come.
    awaited: BTreeMap<Arc<str>, VecDeque<Moment>>,
    /// The last loop of the autoscaler that was told of.
    last_loop: Option<Moment>,
    next_sweep: Moment,
}

/// What is remembered of a pod.
#[derive(Debug)]
struct Pod {
    /// When it was first seen.
    since: Moment,
    /// It was made at that moment.
    is_new: bool,
    owner: Option<Owner>,
    refused: bool,
    writes: Writes,
    /// The last refusal, or the last victim after it.
    decided: Option<Moment>,
    node: Option<Arc<str>>,
    /// When it was seen to get its node.
    bound: Option<Moment>,
    ran: bool,
    succeeded: bool,
    disruption: Option<Disruption>,
    leaving: Leaving,
}

#[derive(Clone, Copy, Debug)]
enum Leaving {
    No,
    /// It was marked for deletion then.
    Since(Moment, Step),
    /// It was when it was first seen.
    Before,
}

/// How far a history may lag behind what it tells of for that to count: how old what is new may be, as times of
/// creation are whole seconds, and how late Events come.
const PATIENCE: Duration = Duration::from_secs(3);

/// A pod that comes later is nobody's successor.
const SUCCEEDS_WITHIN: Duration = Duration::from_secs(10);

/// A DaemonSet's pod that comes later does not come because of the node.
const FOLLOWS_NODE_WITHIN: Duration = Duration::from_secs(60);

/// So long a node is remembered whose pods are not collected.
const COLLECTED_WITHIN: Duration = Duration::from_secs(600);

/// A loop that seems to take longer began by another clock.
const LONGEST_LOOP: Duration = Duration::from_secs(60);

// === impl MeasurePace ===

impl MeasurePace {
    /// Nothing seen yet. Of many measurements some are kept by chance; the seed is for that.
    pub fn new(seed: u64) -> MeasurePace {
        MeasurePace {
            samples: Samples::new(seed),
            scheduler: SchedulerLoop::default(),
            pods: FxHashMap::default(),
            departed: VecDeque::new(),
            nodes: BTreeMap::new(),
            daemon_sets: BTreeMap::new(),
            gone: BTreeMap::new(),
            awaited: BTreeMap::new(),
            last_loop: None,
            next_sweep: Moment::MIN,
        }
    }

    /// A change of a Pod, a Node, an Event or a ConfigMap; others tell nothing. Changes come in order.
    pub fn see(&mut self, at: Moment, seen: &Seen) {
        let what = &seen.what;
        let object = what.object();
        match &*seen.key.kind.kind {
            "Pod" => {
                if let Some(pod) = &seen.pod {
                    self.pod(at, what, pod);
                }
            }
            "Node" => {
                if let Ok(json) = object.view::<NodeJson>() {
                    self.node(at, what, json);
                }
            }
            "Event" if !matches!(what, What::Deleted(_)) => {
                if let Ok(json) = object.view::<EventJson>() {
                    self.scheduler.event(at, json);
                }
            }
            "ConfigMap" => {
                if let Some(began) = loop_told(object) {
                    self.looped(at, what, began);
                }
            }
            _ => {}
        }
        let told = earlier(at, PATIENCE);
        self.scheduler.settle(told, &mut self.pods, &mut self.samples);
        while let Some((_, uid)) = self.departed.front().filter(|(gone, _)| *gone <= told) {
            self.pods.remove(uid);
            self.departed.pop_front();
        }
        if at >= self.next_sweep {
            self.next_sweep = later(at, FOLLOWS_NODE_WITHIN);
            self.nodes.retain(|_, (since, _)| between(*since, at) <= FOLLOWS_NODE_WITHIN);
            self.gone.retain(|_, since| between(*since, at) <= COLLECTED_WITHIN);
            let is_awaited = |lost: &Moment| between(*lost, at) <= SUCCEEDS_WITHIN;
            self.awaited.retain(|_, lost| lost.back().is_some_and(is_awaited));
        }
    }

    /// How long each step took; those that were not seen take as long as usual.
    pub fn finish(mut self) -> Pace {
        self.scheduler.settle(Moment::MAX, &mut self.pods, &mut self.samples);
        self.samples.into_pace()
    }

    /// A loop has told its status. One that is only found in a list was told at some time before.
    fn looped(&mut self, at: Moment, what: &What, began: Moment) {
        let is_new = self.last_loop.replace(began) != Some(began);
        let took = u64::try_from(at.nanos_since(began)).ok().map(Duration::from_nanos);
        if let Some(took) = took.filter(|took| *took <= LONGEST_LOOP)
            && is_new
            && matches!(what, What::Modified(_))
        {
            self.samples.add(Step::Loop, began, took);
        }
    }

    fn node(&mut self, at: Moment, what: &What, node: NodeJson) {
        let name = node.metadata.name;
        match what {
            What::Added(_) => {
                self.gone.remove(&name);
                if is_new(node.metadata.creation_timestamp, at) {
                    self.nodes.insert(name, (at, BTreeSet::new()));
                }
            }
            What::Modified(_) => {}
            What::Deleted(_) => {
                self.nodes.remove(&name);
                self.gone.insert(name, at);
            }
        }
    }

    fn pod(&mut self, at: Moment, what: &What, seen: &PodSeen) {
        if !seen.has_uid {
            return;
        }
        match self.pods.get_mut(&seen.uid) {
            None => {
                let pod = Pod::first(at, what, seen);
                if let Some(owner) = &pod.owner {
                    self.owned(at, owner, pod.is_new);
                }
                self.pods.insert(seen.uid.clone(), pod);
            }
            Some(pod) => {
                let was_bound = pod.node.is_some();
                let lost = pod.advance(at, seen, &mut self.samples);
                if !was_bound && pod.node.is_some() {
                    if pod.is_new && !pod.refused {
                        self.scheduler.bound(pod.since, at);
                    }
                    self.daemon(&seen.uid);
                }
                if let Some(owner) = lost {
                    self.awaited.entry(owner).or_default().push_back(at);
                }
            }
        }
        if matches!(what, What::Deleted(_)) {
            self.pod_is_gone(at, &seen.uid);
        }
    }

    /// A controller has another pod. If it is new, it is the successor of the first that was lost.
    fn owned(&mut self, at: Moment, owner: &Owner, is_new: bool) {
        let step = match owner.kind {
            OwnerKind::ReplicaSet | OwnerKind::StatefulSet => Step::Again,
            OwnerKind::Job => Step::NextOfJob,
            OwnerKind::DaemonSet => {
                self.daemon_sets.entry(owner.uid.clone()).or_insert((at, 0)).1 += 1;
                return;
            }
        };
        if is_new && let Some(awaited) = self.awaited.get_mut(&owner.uid) {
            while let Some(lost) = awaited.pop_front() {
                if between(lost, at) <= SUCCEEDS_WITHIN {
                    self.samples.add(step, lost, between(lost, at));
                    break;
                }
            }
        }
    }

    /// A pod has got its node. The first that an older DaemonSet has there came because the node did.
    fn daemon(&mut self, uid: &str) {
        if let Some(Pod { since, is_new: true, owner: Some(owner), node: Some(node), .. }) =
            self.pods.get(uid)
            && let Some((had_pods, _)) = self.daemon_sets.get(&owner.uid)
            && let Some((registered, daemons)) = self.nodes.get_mut(&**node)
            && daemons.insert(owner.uid.clone())
            && had_pods < registered
            && between(*registered, *since) <= FOLLOWS_NODE_WITHIN
        {
            self.samples.add(Step::Daemon, *registered, between(*registered, *since));
        }
    }

    fn pod_is_gone(&mut self, at: Moment, uid: &str) {
        let Some((uid, pod)) = self.pods.get_key_value(uid) else { return };
        self.departed.push_back((at, uid.clone()));
        let node_gone = pod.node.as_ref().and_then(|node| self.gone.get(&**node));
        match (node_gone, pod.leaving) {
            (Some(since), _) => {
                if pod.disruption == Some(Disruption::Collected) {
                    self.samples.add(Step::Collect, *since, between(*since, at));
                }
            }
            // A deletion without the mark before it: the end of a pod on a node was missed.
            (None, Leaving::Since(since, Step::End)) if since == at => {}
            (None, Leaving::Since(since, step)) => self.samples.add(step, since, between(since, at)),
            (None, Leaving::No | Leaving::Before) => {}
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

// === impl Pod ===

impl Pod {
    /// A pod that was not known: what is true of it already is not measured.
    fn first(at: Moment, what: &What, seen: &PodSeen) -> Pod {
        let mut pod = Pod {
            since: at,
            is_new: matches!(what, What::Added(_)) && is_new(seen.created, at),
            owner: seen.owner.clone(),
            refused: false,
            writes: Writes::default(),
            decided: None,
            node: seen.node.clone(),
            bound: None,
            ran: seen.phase != Phase::Pending,
            succeeded: seen.phase == Phase::Succeeded,
            disruption: seen.disruption,
            leaving: if seen.leaving { Leaving::Before } else { Leaving::No },
        };
        pod.refusal(at, seen);
        pod
    }

    /// Another version of it. Answers with its controller if that must make another pod now.
    fn advance(&mut self, at: Moment, seen: &PodSeen, samples: &mut Samples) -> Option<Arc<str>> {
        let mut lost_by = None;
        self.refusal(at, seen);
        if self.node.is_none() && seen.node.is_some() {
            self.node = seen.node.clone();
            self.bound = Some(at);
        }
        if !self.ran && (seen.phase == Phase::Running || seen.is_finished()) {
            self.ran = true;
            if let Some(bound) = self.bound.filter(|_| seen.phase == Phase::Running) {
                samples.add(Step::Start, bound, between(bound, at));
            }
        }
        if !self.succeeded && seen.phase == Phase::Succeeded {
            self.succeeded = true;
            lost_by = self.owner.as_ref().filter(|owner| owner.kind == OwnerKind::Job);
        }
        self.disruption = seen.disruption;
        if matches!(self.leaving, Leaving::No) && seen.leaving {
            let at_once = self.node.is_none() || seen.is_finished() || seen.grace == Some(0);
            self.leaving = Leaving::Since(at, if at_once { Step::Vanish } else { Step::End });
            if self.is_disrupted() {
                lost_by = self.owner.as_ref().filter(|owner| owner.kind == OwnerKind::ReplicaSet);
            }
        }
        lost_by.map(|owner| owner.uid.clone())
    }

    /// Takes note of what the scheduler says. Of one that is gated it says that it was not tried.
    fn refusal(&mut self, at: Moment, seen: &PodSeen) {
        if let Some(refusal) = seen.refusal.as_ref().filter(|refusal| !refusal.is_gated) {
            self.refused = true;
            let message = refusal.message.as_deref().unwrap_or_default();
            self.writes.see(at, message, seen.nominated.as_deref().unwrap_or_default());
        }
    }

    /// Whether something else than its owner ends it, on a node that is there.
    fn is_disrupted(&self) -> bool {
        self.disruption.is_some_and(|by| by != Disruption::Collected)
    }
}

fn is_new(made: Option<Moment>, at: Moment) -> bool {
    made.is_some_and(|made| between(made, at) <= PATIENCE)
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
