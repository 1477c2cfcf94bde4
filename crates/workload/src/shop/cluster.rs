//! The shop's cluster: what is in it, what is about to happen in it, and the record of what happened.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, Moment, Object, Observed, What};

use crate::chance::Chance;
use crate::objects::event::{Event, Regarding, Reporter};
use crate::objects::fixed::Fixed;
use crate::objects::node::Node;
use crate::objects::pod::Pod;
use crate::objects::policy::{Budget, Scaler};
use crate::objects::template::{BACKGROUND, Template};
use crate::objects::workloads::{CronJob, DaemonSet, Deployment, Job, ReplicaSet, StatefulSet};
use crate::objects::{Deletion, Meta, Printed, SECOND};

use super::story::{Beat, Notes, Troubles};

/// A thousandth of a second.
pub(super) const MILLI: i64 = 1_000_000;
/// How long the API server keeps Events.
const EVENT_LIFE: i64 = 3_600 * SECOND;

/// Something due at some moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Due {
    Deployment(usize),
    Set(usize),
    Stateful(usize),
    Daemon(usize),
    Job(usize),
    Expired(usize),
    Budget(usize),
    Scaler(usize),
    Cron(usize),
    Schedule(PodId),
    Seen(PodId),
    Pulled(PodId),
    PullFailed(PodId, u32),
    Ready(PodId),
    Finished(PodId),
    Crash(PodId),
    BackOff(PodId),
    Restart(PodId),
    Stopped(PodId),
    Gone(PodId),
    Evict(PodId),
    Heartbeat(usize),
    Joins(usize, u32),
    NodeReady(usize),
    Drain(usize),
    Scan,
    Forget(u64),
    Record,
    Beat(Beat),
}

/// Pods in the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PodId(pub(super) u32);

/// What made a pod: the place of its controller in the cluster's list of that kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    Set(usize),
    Stateful(usize, i64),
    Daemon(usize),
    Job(usize),
}

/// A pod and what is known of it outside its object.
pub(super) struct Life {
    pub(super) pod: Pod,
    pub(super) maker: Maker,
    /// How often it was refused a place.
    pub(super) refusals: u32,
    /// The autoscaler has said that it adds nodes for it.
    pub(super) promised: bool,
}

/// What is no longer in the cluster keeps its place in the list, so that places can be names.
pub(super) struct Listed<T> {
    pub(super) it: T,
    pub(super) gone: bool,
}

/// The record of what happened.
pub(super) struct Log {
    pub(super) now: Moment,
    pub(super) chance: Chance,
    pub(super) recording: bool,
    pub(super) changes: Vec<Observed>,
    source: Arc<str>,
    revision: u64,
    last_seen: Moment,
}

pub(super) struct Cluster {
    pub(super) log: Log,
    pub(super) fixed: Vec<Fixed>,
    pub(super) nodes: Vec<Listed<NodeLife>>,
    pub(super) deployments: Vec<Listed<Deployment>>,
    /// With the Deployment of each.
    pub(super) sets: Vec<Listed<(ReplicaSet, usize)>>,
    pub(super) stateful: Vec<StatefulSet>,
    pub(super) daemons: Vec<DaemonSet>,
    /// With the CronJob of each.
    pub(super) jobs: Vec<Listed<(Job, Option<usize>)>>,
    pub(super) crons: Vec<CronJob>,
    pub(super) budgets: Vec<Budget>,
    pub(super) scalers: Vec<(Scaler, Vec<(Moment, i64)>)>,
    pub(super) pods: BTreeMap<PodId, Life>,
    pub(super) troubles: Troubles,
    pub(super) notes: Notes,
    /// Machines that the autoscaler has asked for, zone by zone.
    pub(super) booting: [usize; 3],
    pub(super) machines: u32,
    due: BTreeMap<(Moment, u64), Due>,
    waiting: BTreeMap<Due, (Moment, u64)>,
    next_due: u64,
    next_pod: u32,
    events: BTreeMap<u64, Event>,
    said: BTreeMap<(Arc<str>, &'static str, String), u64>,
    next_event: u64,
}

/// A node and what is known of it outside its object.
pub(super) struct NodeLife {
    pub(super) node: Node,
    /// Made by the autoscaler, which may take it away again.
    pub(super) scaled: bool,
    /// Its kubelet does nothing.
    pub(super) silent: bool,
    /// Since when the autoscaler thinks it superfluous.
    pub(super) unneeded: Option<Moment>,
    /// The autoscaler is taking it away.
    pub(super) leaving: bool,
    pub(super) next_address: u8,
}

// === impl Log ===

impl Log {
    fn new(source: &str, seed: u64, now: Moment) -> Log {
        let chance = Chance::new(seed);
        let (revision, last_seen) = (48_206_113, now);
        Log { now, chance, recording: false, changes: Vec::new(), source: source.into(), revision, last_seen }
    }

    /// A new object's metadata, created now.
    pub(super) fn meta(&mut self, group: &str, kind: &str, namespace: &str, name: &str) -> Meta {
        let uid = self.chance.uid();
        let mut meta = Meta::new(&self.source, Kind::new(group, kind), namespace, name, uid);
        meta.created = self.now;
        meta
    }

    /// Gives the object its next version and tells whoever watches.
    pub(super) fn publish(&mut self, what: fn(Object) -> What, object: &mut impl Printed) {
        // Leases and other things that nobody records use up versions too.
        self.revision += self.chance.between(1..=3).unsigned_abs();
        object.meta_mut().version = self.revision;
        if self.recording {
            self.print(what, object);
        }
    }

    fn print(&mut self, what: fn(Object) -> What, object: &impl Printed) {
        let mut json = String::with_capacity(6 * 1024);
        object.write(&mut json);
        let pause = self.chance.between(80_000..=900_000);
        self.last_seen = self.now.max(self.last_seen.plus_nanos(pause));
        self.changes.push(Observed {
            seen: self.last_seen,
            key: object.meta().key.clone(),
            what: what(Object::trusted(json)),
            inferred: false,
        });
    }

    /// A random time between two numbers of milliseconds.
    pub(super) fn millis(&mut self, from: i64, to: i64) -> i64 {
        self.chance.between(from * MILLI..=to * MILLI)
    }
}

// === impl Life ===

impl Life {
    /// Someone waits for it.
    pub(super) fn matters(&self) -> bool {
        self.pod.template.outline.class != BACKGROUND
    }
}

// === impl Listed ===

impl<T> Listed<T> {
    pub(super) fn new(it: T) -> Listed<T> {
        Listed { it, gone: false }
    }
}

// === impl Cluster ===

impl Cluster {
    pub(super) fn new(source: &str, seed: u64, now: Moment) -> Cluster {
        Cluster {
            log: Log::new(source, seed, now),
            fixed: Vec::new(),
            nodes: Vec::new(),
            deployments: Vec::new(),
            sets: Vec::new(),
            stateful: Vec::new(),
            daemons: Vec::new(),
            jobs: Vec::new(),
            crons: Vec::new(),
            budgets: Vec::new(),
            scalers: Vec::new(),
            pods: BTreeMap::new(),
            troubles: Troubles::default(),
            notes: Notes::default(),
            booting: [0; 3],
            machines: 0,
            due: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_due: 0,
            next_pod: 0,
            events: BTreeMap::new(),
            said: BTreeMap::new(),
            next_event: 0,
        }
    }

    /// Lets everything happen that is due before `end`.
    pub(super) fn run(&mut self, end: Moment) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 >= end {
                break;
            }
            let ((at, _), due) = entry.remove_entry();
            self.waiting.remove(&due);
            self.log.now = at;
            self.happen(due);
        }
        self.log.now = end;
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Deployment(index) => self.sync_deployment(index),
            Due::Set(index) => self.sync_set(index),
            Due::Stateful(index) => self.sync_stateful(index),
            Due::Daemon(index) => self.sync_daemon(index),
            Due::Job(index) => self.sync_job(index),
            Due::Expired(index) => self.delete_job(index),
            Due::Budget(index) => self.sync_budget(index),
            Due::Scaler(index) => self.sync_scaler(index),
            Due::Cron(index) => self.fire(index),
            Due::Schedule(pod) => self.schedule(pod),
            Due::Seen(pod) => self.seen(pod),
            Due::Pulled(pod) => self.pulled(pod),
            Due::PullFailed(pod, times) => self.pull_failed(pod, times),
            Due::Ready(pod) => self.ready(pod),
            Due::Finished(pod) => self.finished(pod),
            Due::Crash(pod) => self.crash(pod),
            Due::BackOff(pod) => self.back_off(pod),
            Due::Restart(pod) => self.restart(pod),
            Due::Stopped(pod) => self.stopped(pod),
            Due::Gone(pod) => self.gone(pod),
            Due::Evict(pod) => self.evict_for_taint(pod),
            Due::Heartbeat(node) => self.heartbeat(node),
            Due::Joins(zone, _) => self.node_joins(zone),
            Due::NodeReady(node) => self.node_ready(node),
            Due::Drain(node) => self.drain(node),
            Due::Scan => self.scan(),
            Due::Forget(event) => self.forget(event),
            Due::Record => self.start_recording(),
            Due::Beat(beat) => self.play(beat),
        }
    }

    /// Lets something happen after so many nanoseconds.
    pub(super) fn after(&mut self, nanos: i64, due: Due) {
        self.at(self.log.now.plus_nanos(nanos), due);
    }

    /// Lets something happen at a moment, or before if it was due before.
    pub(super) fn at(&mut self, moment: Moment, due: Due) {
        if let Some(earlier) = self.waiting.get(&due) {
            if earlier.0 <= moment {
                return;
            }
            self.due.remove(earlier);
        }
        let place = (moment, self.next_due);
        self.next_due += 1;
        self.due.insert(place, due);
        self.waiting.insert(due, place);
    }

    /// Lets a controller look again, as soon as its informers have caught up.
    pub(super) fn soon(&mut self, due: Due) {
        let nanos = self.log.millis(8, 60);
        self.after(nanos, due);
    }

    /// The first list of a recorder: everything there is, kind by kind, as it stands.
    fn start_recording(&mut self) {
        self.log.recording = true;
        let log = &mut self.log;
        for object in &self.fixed {
            log.print(What::Added, object);
        }
        for listed in self.nodes.iter().filter(|listed| !listed.gone) {
            log.print(What::Added, &listed.it.node);
        }
        for listed in self.deployments.iter().filter(|listed| !listed.gone) {
            log.print(What::Added, &listed.it);
        }
        for listed in self.sets.iter().filter(|listed| !listed.gone) {
            log.print(What::Added, &listed.it.0);
        }
        for object in &self.stateful {
            log.print(What::Added, object);
        }
        for object in &self.daemons {
            log.print(What::Added, object);
        }
        for object in &self.crons {
            log.print(What::Added, object);
        }
        for listed in self.jobs.iter().filter(|listed| !listed.gone) {
            log.print(What::Added, &listed.it.0);
        }
        for life in self.pods.values() {
            log.print(What::Added, &life.pod);
        }
        for object in &self.budgets {
            log.print(What::Added, object);
        }
        for (object, _) in &self.scalers {
            log.print(What::Added, object);
        }
        for object in self.events.values() {
            log.print(What::Added, object);
        }
    }

    /// Makes a pod and lets the scheduler know. `finish` completes what differs by controller.
    pub(super) fn make_pod(
        &mut self,
        name: &str,
        maker: Maker,
        template: &Arc<Template>,
        labels: String,
        finish: impl FnOnce(&mut Pod),
    ) {
        let id = PodId(self.next_pod);
        self.next_pod += 1;
        let meta = self.log.meta("", "Pod", &template.outline.namespace, name);
        let token = self.log.chance.suffix(5);
        let mut pod = Pod::new(meta, template.clone(), labels, token);
        finish(&mut pod);
        self.log.publish(What::Added, &mut pod);
        self.pods.insert(id, Life { pod, maker, refusals: 0, promised: false });
        self.soon(Due::Schedule(id));
        self.touched(id);
    }

    /// Tells that a pod changed, and its controllers.
    pub(super) fn changed(&mut self, id: PodId) {
        let Some(life) = self.pods.get_mut(&id) else { return };
        self.log.publish(What::Modified, &mut life.pod);
        self.touched(id);
    }

    /// Lets the controllers of a pod look at it.
    pub(super) fn touched(&mut self, id: PodId) {
        let Some(life) = self.pods.get(&id) else { return };
        let due = match life.maker {
            Maker::Set(index) => Due::Set(index),
            Maker::Stateful(index, _) => Due::Stateful(index),
            Maker::Daemon(index) => Due::Daemon(index),
            Maker::Job(index) => Due::Job(index),
        };
        let app = life.pod.template.outline.app.clone();
        let budget = self.budgets.iter().position(|budget| budget.app == app);
        self.soon(due);
        if let Some(budget) = budget {
            self.soon(Due::Budget(budget));
        }
    }

    /// Deletes a pod as the API server does: at once if no kubelet has to be asked.
    pub(super) fn delete_pod(&mut self, id: PodId) {
        let Some(life) = self.pods.get_mut(&id) else { return };
        let pod = &mut life.pod;
        if pod.is_deleting() {
            return;
        }
        let Some(node) = pod.node.clone().filter(|_| !pod.is_finished()) else {
            self.remove_pod(id);
            return;
        };
        let grace = 30;
        pod.meta.deletion = Some(Deletion { deadline: self.log.now.plus_nanos(grace * SECOND), grace });
        pod.meta.generation += 1;
        self.changed(id);
        let silent = self.node(&node).is_none_or(|index| self.nodes[index].it.silent);
        if !silent {
            self.kill(id);
        }
    }

    /// A pod is gone for good.
    pub(super) fn remove_pod(&mut self, id: PodId) {
        self.touched(id);
        let Some(mut life) = self.pods.remove(&id) else { return };
        self.log.publish(What::Deleted, &mut life.pod);
        self.notes.ended(&life);
        if let Some(node) = &life.pod.node {
            self.wake(Some(node));
        }
    }

    /// The place of the node of that name, if it is there.
    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|listed| !listed.gone && &*listed.it.node.meta.key.name == name)
    }

    /// Pods that hold resources of the node of that name.
    pub(super) fn pods_on(&self, name: &str) -> impl Iterator<Item = (PodId, &Life)> {
        self.pods
            .iter()
            .filter(move |(_, life)| life.pod.node.as_deref() == Some(name) && !life.pod.is_finished())
            .map(|(id, life)| (*id, life))
    }

    /// A controller's pods that are neither finished nor on their way out, oldest first.
    pub(super) fn active(&self, of: impl Fn(Maker) -> bool) -> Vec<PodId> {
        self.pods
            .iter()
            .filter(|(_, life)| of(life.maker) && !life.pod.is_deleting() && !life.pod.is_finished())
            .map(|(id, _)| *id)
            .collect()
    }

    /// Whether a pod that matters is refused a place just now.
    pub(super) fn is_short(&self) -> bool {
        self.pods.values().any(|life| life.refusals > 0 && life.pod.node.is_none() && life.matters())
    }

    /// Something is said about an object. Saying the same again counts up the first Event.
    pub(super) fn say(
        &mut self,
        by: Reporter,
        warning: bool,
        reason: &'static str,
        regarding: Regarding,
        note: impl Into<String>,
    ) {
        let note = note.into();
        let said = (regarding.uid.clone(), reason, note.clone());
        if let Some(event) = self.said.get(&said).and_then(|id| self.events.get_mut(id)) {
            event.count += 1;
            event.last = self.log.now;
            self.log.publish(What::Modified, event);
            return;
        }
        let id = self.next_event;
        self.next_event += 1;
        let name = format!("{}.{:x}", regarding.name, self.log.now.nanos() + id as i64);
        // What belongs to no namespace is spoken of in the default one.
        let namespace = if regarding.namespace.is_empty() { "default" } else { &*regarding.namespace };
        let mut meta = self.log.meta("events.k8s.io", "Event", namespace, &name);
        meta.generation = 0;
        let last = self.log.now;
        let mut event = Event { meta, by, warning, reason, regarding, note, last, count: 1 };
        self.log.publish(What::Added, &mut event);
        self.events.insert(id, event);
        self.said.insert(said, id);
        self.after(EVENT_LIFE, Due::Forget(id));
    }

    fn forget(&mut self, id: u64) {
        let Some(mut event) = self.events.remove(&id) else { return };
        self.said.remove(&(event.regarding.uid.clone(), event.reason, event.note.clone()));
        self.log.publish(What::Deleted, &mut event);
    }

    /// Something is said about a pod.
    pub(super) fn say_of_pod(
        &mut self,
        id: PodId,
        by: Reporter,
        warning: bool,
        reason: &'static str,
        note: impl Into<String>,
    ) {
        let Some(life) = self.pods.get(&id) else { return };
        let mut regarding = Regarding::of(&life.pod.meta, "v1");
        if matches!(by, Reporter::Kubelet { .. }) {
            regarding.container = Some(life.pod.template.outline.app.clone());
        }
        self.say(by, warning, reason, regarding, note);
    }
}
