//! Extraction of demands from a recording: the pods that belong to one demand, and how each incarnation ended.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use calibration::observed::{Disruption, ObservedChange, Owner, OwnerKind, ParsedPod};
use controllers::Controller;
use kubernetes::objects::{EventView, NodeView, Phase};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::{
    ContainerExit, DemandAnnotation, DemandId, ObservedDuration, PodIncarnation, RecreatePolicy,
};

use super::awaited_pods::AwaitedPod;
use super::controller_pods::ControllerPods;
use super::owners::{self, OwnerTracker};
use super::pods_by_node::PodsByNode;
use super::preempted_pods::PreemptedPods;
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
    pods_by_node: PodsByNode,
    nodes: BTreeMap<Arc<str>, TrackedNode>,
    /// Pods with a `Preempted` Event.
    preempted: PreemptedPods,
    /// The recording was written by a replay: pods have demand annotations.
    recording_is_replay: bool,
    /// When the last unschedulable pod was observed.
    last_unschedulable: Option<Moment>,
    from: Moment,
    /// Whether an autoscaler of the replay drains nodes; otherwise the drains of the recorded one are input.
    replay_has_autoscaler: bool,
    /// Returns the class of a node.
    class_of: &'a dyn Fn(&NodeView) -> Option<Arc<str>>,
    /// Initial pods that no longer count for their owner.
    ended_initial_pods: Vec<Arc<str>>,
    window_began: bool,
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
    /// How it is being evicted, by its DisruptionTarget condition or a `Preempted` Event.
    eviction: Option<EvictionKind>,
    /// It reached a final phase without being deleted.
    completed: bool,
    /// Its phase is Succeeded or Failed.
    reached_final_phase: bool,
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
    /// Creates an extractor for a window that begins at `from`. If `replay_has_autoscaler`, the replay's autoscaler drains nodes;
    /// if not, the drains of the recorded one are input. The actions of `controllers` are decided by the replay
    /// too. `class_of` returns the class of a node.
    pub fn new(
        from: Moment,
        replay_has_autoscaler: bool,
        controllers: &[Controller],
        class_of: &'a dyn Fn(&NodeView) -> Option<Arc<str>>,
    ) -> io::Result<DemandExtractor<'a>> {
        Ok(DemandExtractor {
            store: DemandWriter::new()?,
            totals: DemandTotals::default(),
            controller_pods: ControllerPods::new(controllers),
            unexplained: BTreeMap::new(),
            open_demands: FxHashMap::default(),
            owners: OwnerTracker::default(),
            pods: FxHashMap::default(),
            pods_by_node: PodsByNode::default(),
            nodes: BTreeMap::new(),
            preempted: PreemptedPods::default(),
            recording_is_replay: false,
            last_unschedulable: None,
            from,
            replay_has_autoscaler,
            class_of,
            ended_initial_pods: Vec::new(),
            window_began: false,
        })
    }

    /// Takes an object that exists when the window begins.
    pub(crate) fn observe_initial(&mut self, change: &ObservedChange) -> io::Result<()> {
        self.observe_object(self.from, change)
    }

    /// Takes a change within the window.
    pub(crate) fn observe(&mut self, at: Moment, change: &ObservedChange) -> io::Result<()> {
        if !std::mem::replace(&mut self.window_began, true) {
            // Owners lack pods only once all initial pods have been observed.
            for uid in std::mem::take(&mut self.ended_initial_pods) {
                self.classify_pod_end(self.from, &uid)?;
            }
        }
        self.observe_object(at, change)
    }

    fn observe_object(&mut self, at: Moment, change: &ObservedChange) -> io::Result<()> {
        let ObservedChange { key, what, pod, node, event } = change;
        self.controller_pods.observe(change)?;
        match (&*key.kind.group, &*key.kind.kind) {
            ("", "Pod") => match pod {
                Some(pod) => self.observe_pod(at, what, pod)?,
                None => *self.unexplained.entry("pods that could not be parsed").or_default() += 1,
            },
            ("", "Node") => self.observe_node(at, &key.name, what, node.as_ref()),
            (_, "Event") => event.iter().for_each(|event| self.observe_event(at, event)),
            (_, REPLAY_SETTINGS) => self.recording_is_replay = true,
            (group, kind) => {
                let Some(kind) = OwnerKind::of(kind).filter(|_| owners::OWNER_API_GROUPS.contains(&group))
                else {
                    return Ok(());
                };
                for awaited in self.owners.observe(kind, what, self.recording_is_replay)? {
                    self.withdraw(awaited.demand, awaited.since, at);
                    self.store_if_complete(awaited.demand)?;
                }
            }
        }
        Ok(())
    }

    fn observe_node(&mut self, at: Moment, name: &Arc<str>, what: &What, node: Option<&NodeView>) {
        match what {
            What::Deleted(_) => {
                self.nodes.remove(name);
                for tracked in self.pods_by_node.of_node(name).filter_map(|uid| self.pods.get(uid)) {
                    let recorded = open_demand(&mut self.open_demands, tracked.demand);
                    let deletion_began = recorded.observed[tracked.incarnation].deletion_began;
                    recorded.incarnations[tracked.incarnation].deletion_duration = deletion_began
                        .map(|deletion_began| ObservedDuration::longer_than(between(deletion_began, at)));
                }
            }
            What::Added(_) | What::Modified(_) => {
                let Some(node) = node else { return };
                let tracked_node = TrackedNode {
                    is_being_removed: objects::is_being_removed(node),
                    class: (self.class_of)(node),
                };
                self.nodes.insert(name.clone(), tracked_node);
            }
        }
    }

    fn observe_event(&mut self, at: Moment, event: &EventView) {
        if let Some(uid) = objects::preempted_pod_uid(event) {
            if let Some(tracked) = self.pods.get_mut(&*uid) {
                tracked.eviction.get_or_insert(EvictionKind::Preempted);
                let recorded = open_demand(&mut self.open_demands, tracked.demand);
                let observed = &mut recorded.observed[tracked.incarnation];
                if observed.eviction.is_some_and(EvictionKind::is_input) {
                    // Until now its deletion was attributed to a user.
                    observed.eviction = Some(EvictionKind::Preempted);
                    let deletion_began = observed.deletion_began;
                    recorded.actions.retain(|(action_at, action)| {
                        (Some(*action_at), *action) != (deletion_began, DemandAction::Deleted)
                    });
                }
            }
            self.preempted.insert(uid, at);
        }
    }

    fn observe_pod(&mut self, at: Moment, what: &What, parsed: &ParsedPod) -> io::Result<()> {
        let is_deleted = matches!(what, What::Deleted(_));
        if !self.pods.contains_key(&parsed.uid) {
            if is_deleted {
                // It was created and deleted in a gap.
                *self.unexplained.entry("pods of which only the deletion was recorded").or_default() += 1;
                return Ok(());
            }
            self.pod_appeared(at, parsed, what.object())?;
        }
        self.update_pod(at, parsed)?;
        if is_deleted {
            self.pod_deleted(at, &parsed.uid)?;
        }
        Ok(())
    }

    /// A pod appeared: a new demand, or another incarnation of one.
    fn pod_appeared(&mut self, at: Moment, parsed: &ParsedPod, pod: &Object) -> io::Result<()> {
        let owner = parsed.owner.clone();
        let controller_owner = self.controller_pods.owner_of(pod);
        let is_controller_pod = match &controller_owner {
            Some(owner) => self.controller_pods.is_recorded(owner)?,
            None => false,
        };
        let awaited = owner.as_ref().filter(|_| !is_controller_pod);
        let demand_annotation = parsed.demand_annotation.filter(|_| self.recording_is_replay);
        // A StatefulSet reuses pod names.
        let pod_name =
            owner.as_ref().filter(|owner| owner.kind == OwnerKind::StatefulSet).map(|_| &*parsed.name);
        let awaited = match awaited {
            Some(owner) => self.owners.take_awaited(owner, pod_name, demand_annotation)?,
            None => None,
        };
        let next = DemandId(self.totals.demands);
        // A StatefulSet waits until the previous pod of that name is deleted.
        let recreatable_since =
            awaited.as_ref().map(|awaited| awaited.predecessor_deleted.unwrap_or(awaited.since));
        let (demand, after) = match awaited {
            // A pod of another template is another demand: the previous one was no longer wanted.
            Some(AwaitedPod { demand, is_replacement: true, revision, since, .. })
                if revision != parsed.revision && demand_annotation.is_none() =>
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
        if let Some(owner) = controller_owner.filter(|_| self.window_began && demand == next) {
            self.controller_pods.push_pod(&owner, demand)?;
        }
        self.totals.demands += u64::from(demand == next);
        let demand_entry = self.open_demands.entry(demand).or_insert_with(|| OpenDemand {
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
        (demand_entry.pod_count, demand_entry.is_awaited) = (demand_entry.pod_count + 1, false);
        let recorded = &mut demand_entry.recorded;
        let index = recorded.incarnations.len();
        recorded.incarnations.push(PodIncarnation {
            name: parsed.name.clone(),
            uid: parsed.uid.clone(),
            recreate_duration: recreatable_since.map(|since| ObservedDuration::exactly(between(since, at))),
            ..PodIncarnation::default()
        });
        let created_at =
            if self.window_began { at } else { parsed.created.map_or(at, |created| created.min(at)) };
        recorded.observed.push(ObservedIncarnation {
            created: created_at,
            bound_at: None,
            node_class: None,
            deletion_began: None,
            eviction: None,
        });
        if let Some(owner) = &owner {
            self.owners.pod_added(owner)?;
        }
        let eviction = self.preempted.contains(&parsed.uid).then_some(EvictionKind::Preempted);
        let tracked = TrackedPod {
            demand,
            incarnation: index,
            is_initial: !self.window_began,
            counts_for_owner: true,
            owner,
            eviction,
            completed: false,
            reached_final_phase: false,
            node: None,
            started: None,
            revision: parsed.revision.clone(),
            demand_annotation,
            withdrawn: false,
        };
        self.pods.insert(parsed.uid.clone(), tracked);
        Ok(())
    }

    /// Updates the state of a pod from one version of it.
    fn update_pod(&mut self, at: Moment, parsed: &ParsedPod) -> io::Result<()> {
        let Some(tracked) = self.pods.get_mut(&parsed.uid) else { return Ok(()) };
        let recorded = open_demand(&mut self.open_demands, tracked.demand);
        let (incarnation, observed) =
            (&mut recorded.incarnations[tracked.incarnation], &mut recorded.observed[tracked.incarnation]);
        if let (Some(node), None) = (&parsed.node, observed.bound_at) {
            observed.bound_at = Some(at);
            observed.node_class = self.nodes.get(node).and_then(|node| node.class.clone());
            incarnation.node = Some(node.clone());
            // A pod created after the last unschedulable one was observed did not wait behind it. A replay
            // draws durations per pod, independently of other pods.
            let had_to_wait = !self.recording_is_replay
                && !parsed.has_other_scheduler
                && self
                    .last_unschedulable
                    .is_some_and(|unschedulable_at| unschedulable_at >= observed.created);
            incarnation.bind_duration = (!had_to_wait && !tracked.is_initial)
                .then(|| ObservedDuration::exactly(between(observed.created, at)));
            tracked.node = Some(node.clone());
            self.pods_by_node.insert(node, &parsed.uid);
        }
        if parsed.not_scheduled.is_some() && self.window_began {
            self.last_unschedulable = Some(at);
        }
        if parsed.started.is_some() && tracked.started.is_none() {
            // An observed start is exact to the millisecond; for pods of the initial list only whole seconds are known.
            let started = if self.window_began { at } else { parsed.started.unwrap_or(at) };
            tracked.started = Some(started);
            if self.window_began && !tracked.is_initial
                || observed.bound_at.is_some_and(|bound| bound < started)
            {
                incarnation.start_duration =
                    observed.bound_at.map(|bound| ObservedDuration::exactly(between(bound, started)));
            }
        }
        let eviction = match parsed.disruption {
            Some(Disruption::Preempted) => Some(EvictionKind::Preempted),
            Some(Disruption::Evicted) => {
                let node = tracked.node.as_ref().and_then(|node| self.nodes.get(node));
                let is_being_removed = node.is_some_and(|node| node.is_being_removed);
                Some(if is_being_removed { EvictionKind::ScaledDown } else { EvictionKind::External })
            }
            Some(Disruption::TaintEvicted) => Some(EvictionKind::TaintEvicted),
            Some(Disruption::GarbageCollected) => Some(EvictionKind::NodeDeleted),
            Some(Disruption::TerminatedByKubelet) => Some(EvictionKind::External),
            Some(Disruption::Other) | None => None,
        };
        tracked.eviction = tracked.eviction.or(eviction);
        if parsed.is_finished() && !std::mem::replace(&mut tracked.reached_final_phase, true) {
            let was_deleted = parsed.is_terminating || observed.deletion_began.is_some();
            tracked.completed = !was_deleted;
            // A pod that is being deleted, or whose node was lost, did not end by itself.
            if tracked.eviction.is_none() && !was_deleted {
                let run_duration = between(tracked.started.unwrap_or(at), at);
                recorded.exit =
                    Some(ContainerExit { after: run_duration, fails: parsed.phase == Phase::Failed });
            }
        }
        let is_withdrawn = parsed.withdrawn && !std::mem::replace(&mut tracked.withdrawn, true);
        if parsed.is_terminating && observed.deletion_began.is_none() {
            observed.deletion_began = Some(at);
            set_unfinished_start(incarnation, observed.bound_at, tracked.started, at);
        }
        let has_ended = tracked.completed || observed.deletion_began.is_some();
        if is_withdrawn && !tracked.counts_for_owner && !tracked.completed && self.window_began {
            // It was evicted before, and is not recreated.
            recorded.actions.push((at, DemandAction::Withdrawn));
            if let Some(owner) = &tracked.owner {
                self.owners.forget_awaited(owner, tracked.demand)?;
            }
            if let Some(demand_entry) = self.open_demands.get_mut(&tracked.demand) {
                demand_entry.is_awaited = false;
            }
        }
        if has_ended && std::mem::take(&mut tracked.counts_for_owner) {
            if self.window_began {
                self.classify_pod_end(at, &parsed.uid)?;
            } else {
                self.ended_initial_pods.push(parsed.uid.clone());
            }
        }
        Ok(())
    }

    /// Decides why a pod ended, or is being deleted, and what its owner does next.
    fn classify_pod_end(&mut self, at: Moment, uid: &Arc<str>) -> io::Result<()> {
        let Some(tracked) = self.pods.get(uid) else { return Ok(()) };
        let demand = tracked.demand;
        let Some(demand_entry) = self.open_demands.get_mut(&demand) else { return Ok(()) };
        let recorded = &mut demand_entry.recorded;
        let (incarnation, observed) =
            (&recorded.incarnations[tracked.incarnation], &mut recorded.observed[tracked.incarnation]);
        let node_gone = tracked.node.as_ref().is_some_and(|node| !self.nodes.contains_key(node));
        let ended_by_itself = tracked.completed && tracked.eviction.is_none();
        let eviction = match tracked.eviction {
            Some(EvictionKind::ScaledDown) if !self.replay_has_autoscaler => Some(EvictionKind::External),
            other => other,
        };
        let Some(owner) = &tracked.owner else {
            match eviction {
                Some(EvictionKind::External) | None if !ended_by_itself => {
                    recorded.actions.push((at, DemandAction::Withdrawn))
                }
                eviction => observed.eviction = eviction,
            }
            return Ok(());
        };
        if owner.kind == OwnerKind::DaemonSet {
            // DaemonSet pods follow nodes: an evicted one is not recreated elsewhere.
            match eviction {
                Some(eviction) => observed.eviction = Some(eviction),
                None if !ended_by_itself => recorded.actions.push((at, DemandAction::Withdrawn)),
                None => {}
            }
            self.owners.pod_removed(owner, None)?;
            return Ok(());
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
                    demand_annotation: tracked.demand_annotation,
                }),
            )?;
            return Ok(());
        }
        // A replay marks withdrawn pods. In other recordings, compare with the owner's desired number.
        let is_withdrawn = if self.recording_is_replay {
            tracked.withdrawn
        } else {
            self.owners.explains_deletion(owner, &incarnation.name)
        };
        let eviction = match eviction {
            Some(eviction) => eviction,
            None if is_withdrawn => {
                recorded.actions.push((at, DemandAction::Withdrawn));
                self.owners.pod_removed(owner, None)?;
                return Ok(());
            }
            // A replay marks pods that were lost with their node.
            None if node_gone && !self.recording_is_replay => EvictionKind::NodeDeleted,
            None => EvictionKind::External,
        };
        observed.eviction = Some(eviction);
        if eviction.is_input() {
            recorded.actions.push((at, DemandAction::Deleted));
        }
        let pod_name = Some(incarnation.name.clone());
        let (revision, demand_annotation) = (tracked.revision.clone(), tracked.demand_annotation);
        let awaited = AwaitedPod {
            demand,
            is_replacement: true,
            since: at,
            predecessor_deleted: None,
            pod_name,
            revision,
            demand_annotation,
        };
        demand_entry.is_awaited |= self.owners.pod_removed(owner, Some(awaited))?;
        Ok(())
    }

    fn pod_deleted(&mut self, at: Moment, uid: &Arc<str>) -> io::Result<()> {
        let Some(tracked) = self.pods.get_mut(uid) else { return Ok(()) };
        let (demand, index, finished) = (tracked.demand, tracked.incarnation, tracked.completed);
        let recorded = open_demand(&mut self.open_demands, demand);
        let (incarnation, observed) = (&mut recorded.incarnations[index], &mut recorded.observed[index]);
        let deletion_began = observed.deletion_began.unwrap_or(at);
        if observed.deletion_began.is_none() {
            observed.deletion_began = Some(at);
            set_unfinished_start(incarnation, observed.bound_at, tracked.started, at);
        }
        // A pod terminates only on a node that exists. In a replay, pods that have ended by themselves are deleted as
        // if their node existed.
        let node_exists = tracked.node.as_ref().is_some_and(|node| self.nodes.contains_key(node));
        if observed.bound_at.is_some() && (node_exists || self.recording_is_replay && finished) {
            incarnation.deletion_duration = Some(ObservedDuration::exactly(between(deletion_began, at)));
        }
        if let Some(owner) = &tracked.owner {
            self.owners.pod_deleted(owner, &incarnation.name, at)?;
        }
        if std::mem::take(&mut tracked.counts_for_owner) {
            self.classify_pod_end(at, uid)?;
        } else if finished && observed.eviction.is_none() {
            recorded.actions.push((deletion_began, DemandAction::CleanedUp));
        }
        if let Some(TrackedPod { node: Some(node), .. }) = self.pods.remove(uid) {
            self.pods_by_node.remove(&node, uid);
        }
        if let Some(demand_entry) = self.open_demands.get_mut(&demand) {
            demand_entry.pod_count -= 1;
        }
        self.store_if_complete(demand)?;
        for awaited in self.owners.forget_idle() {
            if let Some(demand_entry) = self.open_demands.get_mut(&awaited.demand) {
                demand_entry.is_awaited = false;
            }
            self.store_if_complete(awaited.demand)?;
        }
        Ok(())
    }

    /// Marks a demand as withdrawn whose pod was deleted at `since`: that deletion, attributed to a user until now, was
    /// its owner's.
    fn withdraw(&mut self, demand: DemandId, since: Moment, at: Moment) {
        let Some(demand_entry) = self.open_demands.get_mut(&demand) else { return };
        demand_entry.is_awaited = false;
        let recorded = &mut demand_entry.recorded;
        match recorded.actions.iter_mut().find(|action| **action == (since, DemandAction::Deleted)) {
            Some((_, action)) => {
                *action = DemandAction::Withdrawn;
                if let Some(observed) =
                    recorded.observed.iter_mut().rev().find(|observed| observed.deletion_began == Some(since))
                {
                    observed.eviction = None;
                }
            }
            None => {
                recorded.not_recreated_for = Some(between(since, at));
                recorded.actions.push((at, DemandAction::Withdrawn));
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
        let Some(OpenDemand { mut recorded, .. }) = self.open_demands.remove(&demand) else {
            return Ok(());
        };
        recorded.actions.sort_unstable();
        recorded.actions.dedup();
        for observed in &recorded.observed {
            self.totals.bound += u64::from(observed.bound_after(self.from).is_some());
            if let Some(eviction) = observed.eviction {
                *self.totals.evictions.entry(eviction).or_default() += 1;
            }
        }
        self.store.put(demand, &recorded)
    }

    /// Returns all demands, as observed until a moment.
    pub fn finish(mut self, until: Moment) -> io::Result<RecordedDemands> {
        for tracked in self.pods.values() {
            let recorded = open_demand(&mut self.open_demands, tracked.demand);
            let (incarnation, observed) =
                (&mut recorded.incarnations[tracked.incarnation], &recorded.observed[tracked.incarnation]);
            match observed.deletion_began {
                None => set_unfinished_start(incarnation, observed.bound_at, tracked.started, until),
                Some(deletion_began) if incarnation.deletion_duration.is_none() => {
                    incarnation.deletion_duration =
                        Some(ObservedDuration::longer_than(between(deletion_began, until)));
                }
                Some(_) => {}
            }
        }
        for awaited in self.owners.awaited_replacements() {
            let recreatable_since = awaited.predecessor_deleted.unwrap_or(awaited.since);
            if let Some(unstored) = self.open_demands.get_mut(&awaited.demand) {
                unstored.recorded.not_recreated_for = Some(between(recreatable_since, until));
            }
        }
        let mut unstored: Vec<DemandId> = self.open_demands.keys().copied().collect();
        unstored.sort_unstable();
        for demand in unstored {
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
fn open_demand(open_demands: &mut FxHashMap<DemandId, OpenDemand>, demand: DemandId) -> &mut RecordedDemand {
    &mut open_demands.get_mut(&demand).expect("the demand of an open pod is open").recorded
}

/// Sets a lower bound for the start duration of a bound pod that had not started by `at`.
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
