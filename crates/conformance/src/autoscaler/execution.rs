//! Execution of a case with our autoscaler, in closed loop or step by step.

use std::collections::BTreeMap;

use autoscaler::{Autoscaler, CloudProvider};
use model::{Moment, Object};
use simulation::{CloudChange, SimulatedCloud};

use super::case::{AutoscalerCase, TimelineEntry, moment, second};
use super::cluster::CaseCluster;
use super::conversion::{event_text, record_loop};
use super::loop_record::{ClusterEvent, ClusterEventKind, LoopRecord};
use super::recording_cloud::{RecordingCloud, repeat_call};

/// The limit for rounds of background work at one moment. A few are normal; more is a bug.
const MAX_ROUNDS: usize = 100;

/// A case that is being executed.
struct CaseRun<'a> {
    case: &'a AutoscalerCase,
    cluster: CaseCluster,
    cloud: SimulatedCloud,
    now: Moment,
    /// The changes still to come.
    timeline: std::iter::Peekable<std::slice::Iter<'a, TimelineEntry>>,
    /// Cloud calls and Events of background work since the last loop.
    calls: Vec<String>,
    events: Vec<String>,
}

/// Runs the case in closed loop: our decisions change the cluster.
pub(super) fn run_closed_loop(case: &AutoscalerCase) -> Vec<LoopRecord> {
    let mut run = CaseRun::new(case);
    let step = |theirs: &LoopRecord| {
        let until = moment(theirs.at);
        while let Some(next) = run.next_moment(until) {
            run.advance_to(next);
        }
        run.advance_to(until);
        if case.binds_pods {
            run.cluster.bind_all(until, theirs.at);
        }
        let mut ours = run.run_loop();
        ours.before = std::mem::take(&mut run.cluster.events);
        run.advance_to(until);
        if case.interchangeable_nodes { ours.with_group_counts() } else { ours }
    };
    case.expect.iter().map(step).collect()
}

/// Runs the case step by step: the cluster changes as the case says, whatever ours decided. The events of our cloud and
/// our bindings are recorded too.
pub(super) fn run_stepwise(case: &AutoscalerCase) -> Vec<LoopRecord> {
    let mut run = CaseRun::new(case);
    case.expect.iter().map(|theirs| run.run_forced_loop(theirs)).collect()
}

impl<'a> CaseRun<'a> {
    fn new(case: &'a AutoscalerCase) -> CaseRun<'a> {
        // Half a second before the first loop may run.
        let start = moment(0).plus_nanos(-500_000_000);
        let autoscaler = Autoscaler::new(case.settings.clone(), start);
        let mut run = CaseRun {
            case,
            cluster: CaseCluster::new(autoscaler, &case.objects),
            cloud: case.cloud.clone(),
            now: start,
            timeline: case.timeline.iter().peekable(),
            calls: Vec::new(),
            events: Vec::new(),
        };
        run.run_background();
        run
    }

    /// The next moment before `before` at which anything is due.
    fn next_moment(&mut self, before: Moment) -> Option<Moment> {
        let timeline = self.timeline.peek().map(|entry| moment(entry.at));
        let wakes = [Some(self.cluster.autoscaler.next_wake()), self.cloud.next_wake(), timeline];
        let is_due = |wake: &Moment| self.now < *wake && *wake < before;
        wakes.into_iter().flatten().filter(is_due).min()
    }

    /// Advances to a moment and does everything due there except a loop.
    fn advance_to(&mut self, now: Moment) {
        self.now = now;
        self.apply_cloud_changes();
        self.apply_timeline(true);
        for _ in 0..MAX_ROUNDS {
            let was_busy = self.run_background();
            if !self.apply_cloud_changes() && !was_busy {
                break;
            }
        }
    }

    /// Applies the changes of the cloud. Returns whether there were any.
    fn apply_cloud_changes(&mut self) -> bool {
        let changes = self.cloud.advance(self.now);
        let has_changes = !changes.is_empty();
        for change in changes {
            match change {
                CloudChange::Registered { node, .. } => {
                    let (at, what) = registration(&node);
                    self.cluster.register(&node, at);
                    self.cluster.record(second(at), what, node.meta().name.to_string(), String::new());
                }
                CloudChange::Ready { node, at } => {
                    self.cluster.mark_ready(&node, at);
                    self.cluster.record(
                        second(at),
                        ClusterEventKind::NodeReady,
                        node.to_string(),
                        String::new(),
                    );
                }
                CloudChange::Deleted { node } => {
                    self.cluster.remove_node(&node);
                    let at = second(self.now);
                    self.cluster.record(at, ClusterEventKind::NodeDeleted, node.to_string(), String::new());
                }
            }
        }
        has_changes
    }

    /// Applies the timeline's changes that are due. Deletions of pods are recorded if `is_recorded`.
    fn apply_timeline(&mut self, is_recorded: bool) {
        let now = self.now;
        while let Some(entry) = self.timeline.next_if(|entry| moment(entry.at) <= now) {
            for object in &entry.create {
                self.cluster.create(object);
            }
            for node in &entry.update {
                self.cluster.update_node(node);
            }
            for pod in &entry.delete {
                if self.cluster.remove_pod(pod).is_some() && is_recorded {
                    let name = format!("{}/{}", pod.0, pod.1);
                    self.cluster.record(entry.at, ClusterEventKind::PodDeleted, String::new(), name);
                }
            }
        }
    }

    /// Runs the autoscaler's background work. Returns whether it did anything.
    fn run_background(&mut self) -> bool {
        self.run_background_work(true)
    }

    /// Runs the autoscaler's background work, with or without carrying out its evictions.
    fn run_background_work(&mut self, evicts: bool) -> bool {
        let (now, at) = (self.now, second(self.now));
        let mut cloud = RecordingCloud::new(&mut self.cloud);
        let result = self.cluster.autoscaler.background(now, &mut cloud);
        let calls = cloud.calls;
        self.cluster.apply_actions(&result.actions, evicts, now, at);
        self.events.extend(result.events.iter().filter_map(event_text));
        let was_busy = !calls.is_empty() || !result.actions.is_empty();
        self.calls.extend(calls.into_iter().map(|call| format!("{at} {call}")));
        was_busy
    }

    /// Runs a loop. The record includes the background work since the last one.
    fn run_loop(&mut self) -> LoopRecord {
        let now = self.now;
        let mut cloud = RecordingCloud::new(&mut self.cloud);
        let result = self.cluster.autoscaler.run_once(now, &mut cloud);
        let calls = cloud.calls;
        let mut record = record_loop(&result, &|pod| self.cluster.owner_name(pod));
        self.cluster.apply_actions(&result.actions, false, now, second(now));
        record.calls = calls;
        record.async_calls = std::mem::take(&mut self.calls);
        record.events.splice(0..0, std::mem::take(&mut self.events));
        record.soft_taint = self.cluster.soft_tainted();
        record.to_be_deleted = self.cluster.hard_tainted();
        record
    }

    // Step by step.

    /// Runs a loop after the recorded events, and makes the cluster and the cloud equal to the recorded ones after it.
    fn run_forced_loop(&mut self, theirs: &LoopRecord) -> LoopRecord {
        let until = moment(theirs.at);
        let start = self.cloud.clone();
        let mut before: Vec<ClusterEvent> = Vec::new();
        let recorded_times: Vec<Moment> = theirs.before.iter().map(|one| moment(one.at)).collect();
        // Deletions made by the last loop itself.
        if recorded_times.contains(&self.now) {
            self.advance_forced(self.now, theirs, &mut before);
        }
        loop {
            let recorded = recorded_times.iter().copied().filter(|at| self.now < *at && *at < until).min();
            let next = self.next_moment(until).into_iter().chain(recorded).min().unwrap_or(until);
            self.advance_forced(next, theirs, &mut before);
            if next == until {
                break;
            }
        }
        if sorted(&self.calls) != sorted(&theirs.async_calls) {
            self.cloud = start;
            for call in &theirs.async_calls {
                let Some((at, call)) = call.split_once(' ') else { continue };
                let at = moment(at.parse().unwrap_or(theirs.at));
                self.cloud.advance(at);
                repeat_call(&mut self.cloud, at, call);
            }
            self.cloud.advance(until);
        }
        before.extend(self.bind_as_recorded(theirs));
        let cloud_before = self.cloud.clone();
        let mut ours = self.run_loop();
        ours.before = before;
        if sorted(&ours.calls) != sorted(&theirs.calls) {
            self.cloud = cloud_after_calls(&cloud_before, until, theirs);
        }
        self.cluster.force_taints(&theirs.soft_taint, &theirs.to_be_deleted, until);
        ours
    }

    /// Advances to a moment with the events that the case has. The events of our cloud are appended to `before`, as are
    /// those that no cloud causes.
    fn advance_forced(&mut self, now: Moment, theirs: &LoopRecord, before: &mut Vec<ClusterEvent>) {
        self.now = now;
        let at = second(now);
        let mut registered: BTreeMap<String, Object> = BTreeMap::new();
        for change in self.cloud.advance(now) {
            let (what, node) = match change {
                CloudChange::Registered { node, .. } => {
                    let (_, what) = registration(&node);
                    let name = node.meta().name.to_string();
                    registered.insert(name.clone(), node);
                    (what, name)
                }
                CloudChange::Ready { node, .. } => (ClusterEventKind::NodeReady, node.to_string()),
                CloudChange::Deleted { .. } => continue,
            };
            before.push(ClusterEvent { at, what, node, pod: String::new() });
        }
        let recorded = |kind: ClusterEventKind| {
            theirs.before.iter().filter(move |one| moment(one.at) == now && one.what == kind)
        };
        for one in recorded(ClusterEventKind::NodeRegistered).chain(recorded(ClusterEventKind::NodeReady)) {
            match registered.get(&one.node) {
                _ if self.cluster.has_node(&one.node) => self.cluster.mark_ready(&one.node, now),
                Some(node) => self.cluster.register(node, now),
                None => {}
            }
        }
        self.apply_timeline(false);
        // Only once: an autoscaler that evicts a pod again assumes that the first eviction was rejected.
        self.run_background_work(false);
        for one in recorded(ClusterEventKind::PodEvicted) {
            let Some(pod) = self.cluster.remove_pod(&pod_key(&one.pod)) else { continue };
            if recorded(ClusterEventKind::PodCreated).any(|new| new.pod == format!("{}-r", one.pod)) {
                self.cluster.recreate(&pod_key(&one.pod), pod, now);
            }
        }
        self.run_forced_background();
        for one in recorded(ClusterEventKind::NodeDeleted) {
            self.cluster.remove_node(&one.node);
        }
        self.run_forced_background();
        let is_caused_elsewhere = |one: &&ClusterEvent| {
            use ClusterEventKind::{NodeDeleted, PodCreated, PodDeleted, PodEvicted};
            moment(one.at) == now && matches!(one.what, PodDeleted | PodEvicted | PodCreated | NodeDeleted)
        };
        before.extend(theirs.before.iter().filter(is_caused_elsewhere).cloned());
    }

    fn run_forced_background(&mut self) {
        for _ in 0..MAX_ROUNDS {
            if !self.run_background_work(false) {
                break;
            }
        }
    }

    /// Binds pods as the case says. Returns the bindings that ours would have made.
    fn bind_as_recorded(&mut self, theirs: &LoopRecord) -> Vec<ClusterEvent> {
        let is_bound = |one: &&ClusterEvent| one.what == ClusterEventKind::PodBound;
        let wanted: Vec<ClusterEvent> = theirs.before.iter().filter(is_bound).cloned().collect();
        if self.case.binds_pods {
            self.cluster.bind_all(self.now, theirs.at);
        }
        let ours = std::mem::take(&mut self.cluster.events);
        for one in ours.iter().filter(|one| !wanted.contains(one)) {
            self.cluster.unbind(&pod_key(&one.pod));
        }
        for one in wanted.iter().filter(|one| !ours.contains(one)) {
            self.cluster.bind(&pod_key(&one.pod), &one.node, self.now);
        }
        ours
    }
}

/// The time at which a new node registered, and whether it was ready then.
fn registration(node: &Object) -> (Moment, ClusterEventKind) {
    let value = node.value().unwrap_or_default();
    let created = value["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    let is_ready = value["status"]["conditions"][0]["status"] == "True";
    (
        created.unwrap_or_default(),
        if is_ready { ClusterEventKind::NodeReady } else { ClusterEventKind::NodeRegistered },
    )
}

/// The cloud after the calls of a real loop. The case does not record their order.
fn cloud_after_calls(cloud: &SimulatedCloud, now: Moment, theirs: &LoopRecord) -> SimulatedCloud {
    let (deletes, others): (Vec<&String>, Vec<&String>) =
        theirs.calls.iter().partition(|call| call.starts_with("delete"));
    let orders = [deletes.iter().chain(&others), others.iter().chain(&deletes)];
    let outcomes = orders.map(|calls| {
        let mut cloud = cloud.clone();
        calls.for_each(|call| repeat_call(&mut cloud, now, call));
        cloud
    });
    let has_recorded_targets = |cloud: &SimulatedCloud| {
        cloud.groups().iter().enumerate().all(|(index, group)| {
            let target = cloud.target_size(autoscaler::GroupId(index as u32));
            theirs.targets.get(&*group.name) == Some(&target)
        })
    };
    let [first, second] = outcomes;
    if has_recorded_targets(&first) || !has_recorded_targets(&second) { first } else { second }
}

fn pod_key(pod: &str) -> (String, String) {
    let (namespace, name) = pod.split_once('/').unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

fn sorted(calls: &[String]) -> Vec<&String> {
    let mut calls: Vec<&String> = calls.iter().collect();
    calls.sort();
    calls
}
