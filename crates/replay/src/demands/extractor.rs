//! Extraction of demands from a recording: the pods that belong to one demand, and how each incarnation ended.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use calibration::observed::{Disruption, ObservedChange, Owner, OwnerKind, ParsedPod, PodPhase};
use controllers::Controller;
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::{
    ContainerExit, DemandAnnotation, DemandId, ObservedDuration, PodIncarnation, RecreatePolicy,
};

use super::controller_pods::ControllerPods;
use super::owners::{self, AwaitedPod, OwnerTracker};
use super::store::DemandWriter;
use super::{
    DemandAction, DemandTotals, EvictionKind, ObservedIncarnation, RecordedDemand, RecordedDemands, objects,
};
use calibration::REPLAY_SETTINGS;

/// Extracts the demands of a recording, change by change.
pub struct DemandExtractor<'a> {
    store: DemandWriter,
    totals: DemandTotals,
    controller_pods: ControllerPods,
    unexplained: BTreeMap<&'static str, u64>,
    /// Demands that may still change.
    open_demands: FxHashMap<DemandId, OpenDemand>,
    owners: OwnerTracker,
    /// Existing pods, by uid, or by name where they have none.
    pods: FxHashMap<Arc<str>, TrackedPod>,
    nodes: BTreeMap<Arc<str>, TrackedNode>,
    /// Pods with a `Preempted` Event, by uid, and when it was observed.
    preempted: FxHashMap<Arc<str>, Moment>,
    /// The recording is of a replay, in which durations were drawn per pod, independently of other pods.
    is_replay: bool,
    /// When the last unschedulable pod was observed.
    last_unschedulable: Option<Moment>,
    from: Moment,
    /// Whether an autoscaler of the replay drains nodes; otherwise the drains of the recorded one are input.
    autoscaler_runs: bool,
    /// Returns the class of a node.
    class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    /// Initial pods that no longer count for their owner.
    ended_initial_pods: Vec<Arc<str>>,
    has_started: bool,
}

/// A demand that may still change: it has a pod, or its owner will recreate one.
#[derive(Debug)]
struct OpenDemand {
    recorded: RecordedDemand,
    /// The number of its pods that exist.
    pod_count: u32,
    /// Its owner is expected to recreate its pod.
    is_awaited: bool,
}

#[derive(Debug)]
struct TrackedPod {
    demand: DemandId,
    /// The index of this incarnation.
    incarnation: usize,
    is_initial: bool,
    owner: Option<Owner>,
    /// Counts as one of its owner's pods.
    counts_for_owner: bool,
    disruption: Option<EvictionKind>,
    /// It ended without being deleted.
    finished: bool,
    ended: bool,
    node: Option<Arc<str>>,
    /// When its containers were observed to run.
    started: Option<Moment>,
    revision: Option<Arc<str>>,
    /// The demand that its annotation names, in a recording of a replay.
    demand_annotation: Option<DemandAnnotation>,
    withdrawn: bool,
}

#[derive(Debug)]
struct TrackedNode {
    /// The autoscaler is removing the node.
    is_being_removed: bool,
    class: Option<Arc<str>>,
}

// === impl DemandExtractor ===

impl<'a> DemandExtractor<'a> {
    /// Creates an extractor for a window that begins at `from`. If `scales` is set, the autoscaler of the replay drains
    /// nodes; if not, the drains of the recorded one are input. The actions of `controllers` are decided by the replay
    /// too. `class_of` returns the class of a node.
    pub fn new(
        from: Moment,
        scales: bool,
        controllers: &[Controller],
        class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    ) -> io::Result<DemandExtractor<'a>> {
        Ok(DemandExtractor {
            store: DemandWriter::new()?,
            totals: DemandTotals::default(),
            controller_pods: ControllerPods::new(controllers),
            unexplained: BTreeMap::new(),
            open_demands: FxHashMap::default(),
            owners: OwnerTracker::default(),
            pods: FxHashMap::default(),
            nodes: BTreeMap::new(),
            preempted: FxHashMap::default(),
            is_replay: false,
            last_unschedulable: None,
            from,
            autoscaler_runs: scales,
            class_of,
            ended_initial_pods: Vec::new(),
            has_started: false,
        })
    }

    /// Takes an object that exists when the window begins.
    pub(crate) fn observe_initial(&mut self, change: &ObservedChange) -> io::Result<()> {
        self.observe_object(self.from, change)
    }

    /// Takes a change within the window.
    pub(crate) fn observe(&mut self, at: Moment, change: &ObservedChange) -> io::Result<()> {
        if !std::mem::replace(&mut self.has_started, true) {
            // Owners lack pods only once all initial pods have been observed.
            for uid in std::mem::take(&mut self.ended_initial_pods) {
                self.stop_counting(self.from, &uid);
            }
        }
        self.observe_object(at, change)
    }

    fn observe_object(&mut self, at: Moment, change: &ObservedChange) -> io::Result<()> {
        let ObservedChange { key, what, pod } = change;
        self.controller_pods.observe(change);
        match (&*key.kind.group, &*key.kind.kind) {
            ("", "Pod") => match pod {
                Some(pod) => self.observe_pod(at, what, pod)?,
                None => *self.unexplained.entry("pods that cannot be understood").or_default() += 1,
            },
            ("", "Node") => self.observe_node(at, &key.name, what),
            (_, "Event") => self.observe_event(at, what),
            (_, REPLAY_SETTINGS) => self.is_replay = true,
            (group, kind) => {
                let Some(kind) = OwnerKind::of(kind).filter(|_| owners::OWNER_API_GROUPS.contains(&group))
                else {
                    return Ok(());
                };
                for vacancy in self.owners.observe(kind, what, self.is_replay) {
                    self.withdraw(vacancy.demand, vacancy.since, at);
                    self.store_if_complete(vacancy.demand)?;
                }
            }
        }
        Ok(())
    }

    fn observe_node(&mut self, at: Moment, name: &Arc<str>, what: &What) {
        match what {
            What::Deleted(_) => {
                self.nodes.remove(name);
                for open in self.pods.values().filter(|open| open.node.as_ref() == Some(name)) {
                    let cause = open_demand(&mut self.open_demands, open.demand);
                    let leaving = cause.observed[open.incarnation].deletion_began;
                    cause.incarnations[open.incarnation].deletion_duration =
                        leaving.map(|leaving| ObservedDuration::longer_than(between(leaving, at)));
                }
            }
            What::Added(node) | What::Modified(node) => {
                let seen = TrackedNode {
                    is_being_removed: objects::is_being_removed(node),
                    class: (self.class_of)(node),
                };
                self.nodes.insert(name.clone(), seen);
            }
        }
    }

    fn observe_event(&mut self, at: Moment, what: &What) {
        if let Some(uid) = objects::preempted_pod_uid(what.object()) {
            if let Some(open) = self.pods.get_mut(&*uid) {
                open.disruption.get_or_insert(EvictionKind::Preempted);
                let cause = open_demand(&mut self.open_demands, open.demand);
                let seen = &mut cause.observed[open.incarnation];
                if seen.eviction == Some(EvictionKind::External) {
                    // Until now its deletion was attributed to a user.
                    seen.eviction = Some(EvictionKind::Preempted);
                    let left = seen.deletion_began;
                    cause.actions.retain(|(when, act)| (Some(*when), *act) != (left, DemandAction::Deleted));
                }
            }
            self.preempted.insert(uid, at);
            // Events arrive shortly before or after the changes that they report: old ones are useless.
            if self.preempted.len() > 10_000 {
                self.preempted.retain(|_, told| at.nanos_since(*told) < 600_000_000_000);
            }
        }
    }

    fn observe_pod(&mut self, at: Moment, what: &What, seen: &ParsedPod) -> io::Result<()> {
        let gone = matches!(what, What::Deleted(_));
        if !self.pods.contains_key(&seen.uid) {
            if gone {
                // It was created and deleted in a gap.
                *self.unexplained.entry("pods of which only the end was seen").or_default() += 1;
                return Ok(());
            }
            self.pod_appeared(at, seen, what.object())?;
        }
        self.update_pod(at, seen);
        if gone {
            self.pod_deleted(at, &seen.uid)?;
        }
        Ok(())
    }

    /// A pod appeared: a new demand, or another incarnation of one.
    fn pod_appeared(&mut self, at: Moment, seen: &ParsedPod, pod: &Object) -> io::Result<()> {
        let owner = seen.owner.clone();
        let is_made = self.controller_pods.creates(pod);
        let vacancy = owner.as_ref().filter(|_| !is_made);
        let mark = seen.demand_annotation.filter(|_| self.is_replay);
        // A StatefulSet reuses pod names.
        let slot = owner.as_ref().filter(|owner| owner.kind == OwnerKind::StatefulSet).map(|_| &*seen.name);
        let vacancy = vacancy.and_then(|owner| self.owners.take_awaited(owner, slot, mark));
        let next = DemandId(self.totals.demands);
        // A StatefulSet waits until the previous pod of that name is deleted.
        let could_know = vacancy.as_ref().map(|vacancy| vacancy.predecessor_deleted.unwrap_or(vacancy.since));
        let (demand, after) = match vacancy {
            // A pod of another template is another demand: the previous one was no longer wanted.
            Some(AwaitedPod { demand, is_replacement: true, revision: hash, since, .. })
                if hash != seen.revision && mark.is_none() =>
            {
                self.withdraw(demand, since, at);
                self.store_if_complete(demand)?;
                (next, None)
            }
            Some(AwaitedPod { demand, is_replacement: true, .. }) => (demand, None),
            Some(AwaitedPod { demand, is_replacement: false, .. }) => (next, Some(demand)),
            None => (next, None),
        };
        self.store.append_incarnation(demand, demand == next)?;
        if self.has_started {
            self.controller_pods.add_pod(pod, demand);
        }
        self.totals.demands += u64::from(demand == next);
        let growing = self.open_demands.entry(demand).or_insert_with(|| OpenDemand {
            recorded: RecordedDemand {
                incarnations: Vec::new(),
                observed: Vec::new(),
                not_recreated_for: None,
                exit: None,
                after,
                recreate: owner
                    .as_ref()
                    .map_or(RecreatePolicy::Never, |owner| owners::recreate_policy(owner.kind)),
                actions: Vec::new(),
            },
            pod_count: 0,
            is_awaited: false,
        });
        (growing.pod_count, growing.is_awaited) = (growing.pod_count + 1, false);
        let cause = &mut growing.recorded;
        let life = cause.incarnations.len();
        cause.incarnations.push(PodIncarnation {
            name: seen.name.clone(),
            uid: seen.uid.clone(),
            recreate_duration: could_know.map(|since| ObservedDuration::exactly(between(since, at))),
            ..PodIncarnation::default()
        });
        let came = if self.has_started { at } else { seen.created.map_or(at, |created| created.min(at)) };
        cause.observed.push(ObservedIncarnation {
            created: came,
            bound_at: None,
            node_class: None,
            deletion_began: None,
            eviction: None,
        });
        if let Some(owner) = &owner {
            self.owners.pod_added(owner);
        }
        let disruption = self.preempted.contains_key(&seen.uid).then_some(EvictionKind::Preempted);
        let open = TrackedPod {
            demand,
            incarnation: life,
            is_initial: !self.has_started,
            counts_for_owner: true,
            owner,
            disruption,
            finished: false,
            ended: false,
            node: None,
            started: None,
            revision: seen.revision.clone(),
            demand_annotation: mark,
            withdrawn: false,
        };
        self.pods.insert(seen.uid.clone(), open);
        Ok(())
    }

    /// Updates the state of a pod from one version of it.
    fn update_pod(&mut self, at: Moment, seen: &ParsedPod) {
        let Some(open) = self.pods.get_mut(&seen.uid) else { return };
        let cause = open_demand(&mut self.open_demands, open.demand);
        let (known, life) =
            (&mut cause.incarnations[open.incarnation], &mut cause.observed[open.incarnation]);
        if let (Some(node), None) = (&seen.node, life.bound_at) {
            life.bound_at = Some(at);
            life.node_class = self.nodes.get(node).and_then(|node| node.class.clone());
            known.node = Some(node.clone());
            // A pod that was created after the last unschedulable one had none to wait for.
            let had_to_wait = !self.is_replay
                && !seen.has_other_scheduler
                && self.last_unschedulable.is_some_and(|refused| refused >= life.created);
            known.bind_duration = (!had_to_wait && !open.is_initial)
                .then(|| ObservedDuration::exactly(between(life.created, at)));
            open.node = Some(node.clone());
        }
        if seen.not_scheduled.is_some() && self.has_started {
            self.last_unschedulable = Some(at);
        }
        if seen.started.is_some() && open.started.is_none() {
            // An observed start is exact to the millisecond; for pods of the initial list only whole seconds are known.
            let started = if self.has_started { at } else { seen.started.unwrap_or(at) };
            open.started = Some(started);
            if self.has_started && !open.is_initial || life.bound_at.is_some_and(|bound| bound < started) {
                known.start_duration =
                    life.bound_at.map(|bound| ObservedDuration::exactly(between(bound, started)));
            }
        }
        let lost = match seen.disruption {
            Some(Disruption::Preempted) => Some(EvictionKind::Preempted),
            Some(Disruption::Evicted) => {
                let node = open.node.as_ref().and_then(|node| self.nodes.get(node));
                let going = node.is_some_and(|node| node.is_being_removed);
                Some(if going { EvictionKind::ScaledDown } else { EvictionKind::External })
            }
            Some(Disruption::TaintEvicted) => Some(EvictionKind::TaintEvicted),
            Some(Disruption::GarbageCollected) => Some(EvictionKind::NodeDeleted),
            Some(Disruption::TerminatedByKubelet) => Some(EvictionKind::External),
            Some(Disruption::Other) | None => None,
        };
        open.disruption = open.disruption.or(lost);
        if seen.is_finished() && !std::mem::replace(&mut open.ended, true) {
            let is_stopped = seen.is_terminating || life.deletion_began.is_some();
            open.finished = !is_stopped;
            // A pod that is being deleted, or whose node was lost, did not end by itself.
            if open.disruption.is_none() && !is_stopped {
                let lasting = between(open.started.unwrap_or(at), at);
                cause.exit = Some(ContainerExit { after: lasting, fails: seen.phase == PodPhase::Failed });
            }
        }
        let is_withdrawn = seen.withdrawn && !std::mem::replace(&mut open.withdrawn, true);
        if seen.is_terminating && life.deletion_began.is_none() {
            life.deletion_began = Some(at);
            set_unfinished_start(known, life.bound_at, open.started, at);
        }
        let over = open.finished || life.deletion_began.is_some();
        if is_withdrawn && !open.counts_for_owner && !open.finished && self.has_started {
            // It was evicted before, and is not recreated.
            cause.actions.push((at, DemandAction::Withdrawn));
            if let Some(owner) = &open.owner {
                self.owners.forget_awaited(owner, open.demand);
            }
            if let Some(growing) = self.open_demands.get_mut(&open.demand) {
                growing.is_awaited = false;
            }
        }
        if over && std::mem::take(&mut open.counts_for_owner) {
            if self.has_started {
                self.stop_counting(at, &seen.uid);
            } else {
                self.ended_initial_pods.push(seen.uid.clone());
            }
        }
    }

    /// A pod no longer counts for its owner: it ended, or is being deleted.
    fn stop_counting(&mut self, at: Moment, uid: &Arc<str>) {
        let Some(open) = self.pods.get(uid) else { return };
        let demand = open.demand;
        let Some(growing) = self.open_demands.get_mut(&demand) else { return };
        let cause = &mut growing.recorded;
        let (known, life) = (&cause.incarnations[open.incarnation], &mut cause.observed[open.incarnation]);
        let node_gone = open.node.as_ref().is_some_and(|node| !self.nodes.contains_key(node));
        let ended_by_itself = open.finished && open.disruption.is_none();
        let lost = match open.disruption {
            Some(EvictionKind::ScaledDown) if !self.autoscaler_runs => Some(EvictionKind::External),
            lost => lost,
        };
        let Some(owner) = &open.owner else {
            match lost {
                Some(EvictionKind::External) | None if !ended_by_itself => {
                    cause.actions.push((at, DemandAction::Withdrawn))
                }
                lost => life.eviction = lost,
            }
            return;
        };
        if owner.kind == OwnerKind::DaemonSet {
            // DaemonSet pods follow nodes: an evicted one is not recreated elsewhere.
            match lost {
                Some(lost) => life.eviction = Some(lost),
                None if !ended_by_itself => cause.actions.push((at, DemandAction::Withdrawn)),
                None => {}
            }
            self.owners.pod_removed(owner, None);
            return;
        }
        if ended_by_itself {
            // Its Job may create the next one.
            self.owners.pod_removed(
                owner,
                Some(AwaitedPod {
                    demand,
                    is_replacement: false,
                    since: at,
                    predecessor_deleted: None,
                    pod_name: None,
                    revision: None,
                    demand_annotation: open.demand_annotation,
                }),
            );
            return;
        }
        // A replay marks such pods; elsewhere it follows from the number of pods that the owner wants.
        let is_withdrawn =
            if self.is_replay { open.withdrawn } else { self.owners.explains_deletion(owner, &known.name) };
        let lost = match lost {
            Some(lost) => lost,
            None if is_withdrawn => {
                cause.actions.push((at, DemandAction::Withdrawn));
                self.owners.pod_removed(owner, None);
                return;
            }
            // A replay marks pods that were lost with their node.
            None if node_gone && !self.is_replay => EvictionKind::NodeDeleted,
            None => EvictionKind::External,
        };
        life.eviction = Some(lost);
        if lost == EvictionKind::External {
            cause.actions.push((at, DemandAction::Deleted));
        }
        let slot = Some(known.name.clone());
        let (hash, mark) = (open.revision.clone(), open.demand_annotation);
        let vacancy = AwaitedPod {
            demand,
            is_replacement: true,
            since: at,
            predecessor_deleted: None,
            pod_name: slot,
            revision: hash,
            demand_annotation: mark,
        };
        growing.is_awaited |= self.owners.pod_removed(owner, Some(vacancy));
    }

    fn pod_deleted(&mut self, at: Moment, uid: &Arc<str>) -> io::Result<()> {
        let Some(open) = self.pods.get_mut(uid) else { return Ok(()) };
        let (demand, life, finished) = (open.demand, open.incarnation, open.finished);
        let cause = open_demand(&mut self.open_demands, demand);
        let (known, seen) = (&mut cause.incarnations[life], &mut cause.observed[life]);
        let left = seen.deletion_began.unwrap_or(at);
        if seen.deletion_began.is_none() {
            seen.deletion_began = Some(at);
            set_unfinished_start(known, seen.bound_at, open.started, at);
        }
        // A pod terminates only on a node that exists. In a replay, pods that have ended by themselves are deleted as
        // if their node existed.
        let is_there = open.node.as_ref().is_some_and(|node| self.nodes.contains_key(node));
        if seen.bound_at.is_some() && (is_there || self.is_replay && finished) {
            known.deletion_duration = Some(ObservedDuration::exactly(between(left, at)));
        }
        if let Some(owner) = &open.owner {
            self.owners.pod_deleted(owner, &known.name, at);
        }
        if std::mem::take(&mut open.counts_for_owner) {
            self.stop_counting(at, uid);
        } else if finished && seen.eviction.is_none() {
            cause.actions.push((left, DemandAction::CleanedUp));
        }
        self.pods.remove(uid);
        if let Some(growing) = self.open_demands.get_mut(&demand) {
            growing.pod_count -= 1;
        }
        self.store_if_complete(demand)?;
        for vacancy in self.owners.forget_idle() {
            if let Some(growing) = self.open_demands.get_mut(&vacancy.demand) {
                growing.is_awaited = false;
            }
            self.store_if_complete(vacancy.demand)?;
        }
        Ok(())
    }

    /// Marks a demand as withdrawn whose pod was deleted at `since`: that deletion, attributed to a user until now, was
    /// its owner's.
    fn withdraw(&mut self, demand: DemandId, since: Moment, at: Moment) {
        let Some(growing) = self.open_demands.get_mut(&demand) else { return };
        growing.is_awaited = false;
        let cause = &mut growing.recorded;
        match cause.actions.iter_mut().find(|act| **act == (since, DemandAction::Deleted)) {
            Some((_, act)) => {
                *act = DemandAction::Withdrawn;
                if let Some(seen) =
                    cause.observed.iter_mut().rev().find(|seen| seen.deletion_began == Some(since))
                {
                    seen.eviction = None;
                }
            }
            None => {
                cause.not_recreated_for = Some(between(since, at));
                cause.actions.push((at, DemandAction::Withdrawn));
            }
        }
    }

    /// Stores a demand if it can get no further incarnation or action.
    fn store_if_complete(&mut self, demand: DemandId) -> io::Result<()> {
        match self.open_demands.get(&demand) {
            Some(OpenDemand { pod_count: 0, is_awaited: false, .. }) => self.store_demand(demand),
            Some(_) | None => Ok(()),
        }
    }

    fn store_demand(&mut self, demand: DemandId) -> io::Result<()> {
        let Some(OpenDemand { recorded: mut cause, .. }) = self.open_demands.remove(&demand) else {
            return Ok(());
        };
        cause.actions.sort_unstable();
        cause.actions.dedup();
        for seen in &cause.observed {
            self.totals.bound += u64::from(seen.bound_after(self.from).is_some());
            if let Some(lost) = seen.eviction {
                *self.totals.evictions.entry(lost).or_default() += 1;
            }
        }
        self.store.put(demand, &cause)
    }

    /// Returns all demands, as observed until a moment.
    pub fn finish(mut self, until: Moment) -> io::Result<RecordedDemands> {
        for open in self.pods.values() {
            let cause = open_demand(&mut self.open_demands, open.demand);
            let (known, seen) =
                (&mut cause.incarnations[open.incarnation], &cause.observed[open.incarnation]);
            match seen.deletion_began {
                None => set_unfinished_start(known, seen.bound_at, open.started, until),
                Some(leaving) if known.deletion_duration.is_none() => {
                    known.deletion_duration = Some(ObservedDuration::longer_than(between(leaving, until)));
                }
                Some(_) => {}
            }
        }
        for vacancy in self.owners.awaited_pods().filter(|vacancy| vacancy.is_replacement) {
            let could_know = vacancy.predecessor_deleted.unwrap_or(vacancy.since);
            if let Some(growing) = self.open_demands.get_mut(&vacancy.demand) {
                growing.recorded.not_recreated_for = Some(between(could_know, until));
            }
        }
        let mut growing: Vec<DemandId> = self.open_demands.keys().copied().collect();
        growing.sort_unstable();
        for demand in growing {
            self.store_demand(demand)?;
        }
        let stored = self.store.finish()?;
        Ok(RecordedDemands {
            stored,
            totals: self.totals,
            controller_pods: self.controller_pods,
            unexplained: self.unexplained,
        })
    }
}

/// The record of a demand that has a pod.
fn open_demand(growing: &mut FxHashMap<DemandId, OpenDemand>, demand: DemandId) -> &mut RecordedDemand {
    &mut growing.get_mut(&demand).expect("a demand grows while a pod of it is there").recorded
}

/// A pod makes no further progress: the start that was not observed takes longer than the time until `at`.
fn set_unfinished_start(
    incarnation: &mut PodIncarnation,
    bound: Option<Moment>,
    started: Option<Moment>,
    at: Moment,
) {
    if let (Some(bound), None) = (bound, started) {
        incarnation.start_duration = Some(ObservedDuration::longer_than(between(bound, at)));
    }
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos_since(from)).unwrap_or(0))
}
