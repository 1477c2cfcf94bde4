//! Execution of a case with our autoscaler, in closed loop or step by step.

use std::collections::BTreeMap;

use autoscaler::{Autoscaler, CloudProvider};
use model::{Moment, Object};
use simulation::{CloudChange, SimulatedCloud};

use super::case::{Case, Moved, moment, second};
use super::recorder::{Recorder, ask};
use super::step::{Happened, Kind, Step};
use super::told::{event, told};
use super::world::World;

/// The limit for rounds of background work at one moment. A few are normal; more is a bug.
const ROUNDS: usize = 100;

/// A case that is being executed.
struct Game<'a> {
    case: &'a Case,
    world: World,
    cloud: SimulatedCloud,
    now: Moment,
    /// The changes still to come.
    timeline: std::iter::Peekable<std::slice::Iter<'a, Moved>>,
    /// Cloud calls and Events of background work since the last loop.
    calls: Vec<String>,
    events: Vec<String>,
}

/// Runs the case in closed loop: our decisions change the cluster.
pub(super) fn closed(case: &Case) -> Vec<Step> {
    let mut game = Game::new(case);
    let step = |theirs: &Step| {
        let until = moment(theirs.at);
        while let Some(next) = game.next(until) {
            game.pass(next);
        }
        game.pass(until);
        if case.binds {
            game.world.bind_all(until, theirs.at);
        }
        let mut ours = game.decide();
        ours.before = std::mem::take(&mut game.world.happened);
        game.pass(until);
        if case.loose { ours.loosen() } else { ours }
    };
    case.expect.iter().map(step).collect()
}

/// Runs the case step by step: the cluster changes as the case says, whatever ours decided. The events of our cloud and
/// our bindings are recorded too.
pub(super) fn stepwise(case: &Case) -> Vec<Step> {
    let mut game = Game::new(case);
    case.expect.iter().map(|theirs| game.forced(theirs)).collect()
}

impl<'a> Game<'a> {
    fn new(case: &'a Case) -> Game<'a> {
        // Half a second before the first loop may run.
        let start = moment(0).plus_nanos(-500_000_000);
        let autoscaler = Autoscaler::new(case.settings.clone(), start);
        let mut game = Game {
            case,
            world: World::new(autoscaler, &case.objects),
            cloud: case.cloud.clone(),
            now: start,
            timeline: case.timeline.iter().peekable(),
            calls: Vec::new(),
            events: Vec::new(),
        };
        game.background();
        game
    }

    /// The next moment before `before` at which something happens.
    fn next(&mut self, before: Moment) -> Option<Moment> {
        let script = self.timeline.peek().map(|moved| moment(moved.at));
        let wakes = [Some(self.world.autoscaler.next_wake()), self.cloud.next_wake(), script];
        let to_come = |wake: &Moment| self.now < *wake && *wake < before;
        wakes.into_iter().flatten().filter(to_come).min()
    }

    /// Advances to a moment and does everything due there except a loop.
    fn pass(&mut self, now: Moment) {
        self.now = now;
        self.cloud_changes();
        self.script(true);
        for _ in 0..ROUNDS {
            let was_busy = self.background();
            if !self.cloud_changes() && !was_busy {
                break;
            }
        }
    }

    /// Applies the changes of the cloud. Returns whether there were any.
    fn cloud_changes(&mut self) -> bool {
        let changes = self.cloud.advance(self.now);
        let happened = !changes.is_empty();
        for change in changes {
            match change {
                CloudChange::Registered { node, .. } => {
                    let (at, what) = registration(&node);
                    self.world.register(&node, at);
                    self.world.note(second(at), what, node.meta().name.to_string(), String::new());
                }
                CloudChange::Ready { node, at } => {
                    self.world.ready(&node, at);
                    self.world.note(second(at), Kind::NodeReady, node.to_string(), String::new());
                }
                CloudChange::Deleted { node } => {
                    self.world.remove_node(&node);
                    let at = second(self.now);
                    self.world.note(at, Kind::NodeDeleted, node.to_string(), String::new());
                }
            }
        }
        happened
    }

    /// Applies the timeline's changes that are due.
    fn script(&mut self, is_noted: bool) {
        let now = self.now;
        while let Some(moved) = self.timeline.next_if(|moved| moment(moved.at) <= now) {
            for object in &moved.create {
                self.world.create(object);
            }
            for node in &moved.update {
                self.world.update_node(node);
            }
            for pod in &moved.delete {
                if self.world.remove_pod(pod).is_some() && is_noted {
                    let name = format!("{}/{}", pod.0, pod.1);
                    self.world.note(moved.at, Kind::PodDeleted, String::new(), name);
                }
            }
        }
    }

    /// Runs the autoscaler's background work. Returns whether it did anything.
    fn background(&mut self) -> bool {
        self.work(true)
    }

    /// Runs the autoscaler's background work, with or without carrying out its evictions.
    fn work(&mut self, evicts: bool) -> bool {
        let (now, at) = (self.now, second(self.now));
        let mut cloud = Recorder::of(&mut self.cloud);
        let done = self.world.autoscaler.background(now, &mut cloud);
        let calls = cloud.calls;
        self.world.act(&done.actions, evicts, now, at);
        self.events.extend(done.events.iter().filter_map(event));
        let was_busy = !calls.is_empty() || !done.actions.is_empty();
        self.calls.extend(calls.into_iter().map(|call| format!("{at} {call}")));
        was_busy
    }

    /// Runs a loop. The record includes the background work since the last one.
    fn decide(&mut self) -> Step {
        let now = self.now;
        let mut cloud = Recorder::of(&mut self.cloud);
        let done = self.world.autoscaler.run_once(now, &mut cloud);
        let calls = cloud.calls;
        let mut step = told(&done, &|pod| self.world.counted_as(pod));
        self.world.act(&done.actions, false, now, second(now));
        step.calls = calls;
        step.async_calls = std::mem::take(&mut self.calls);
        step.events.splice(0..0, std::mem::take(&mut self.events));
        step.soft_taint = self.world.soft_tainted();
        step.to_be_deleted = self.world.hard_tainted();
        step
    }

    // Step by step.

    fn forced(&mut self, theirs: &Step) -> Step {
        let until = moment(theirs.at);
        let start = self.cloud.clone();
        let mut before: Vec<Happened> = Vec::new();
        let told_there: Vec<Moment> = theirs.before.iter().map(|one| moment(one.at)).collect();
        // Deletions made by the last loop itself.
        if told_there.contains(&self.now) {
            self.forced_pass(self.now, theirs, &mut before);
        }
        loop {
            let script = told_there.iter().copied().filter(|at| self.now < *at && *at < until).min();
            let next = self.next(until).into_iter().chain(script).min().unwrap_or(until);
            self.forced_pass(next, theirs, &mut before);
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
                ask(&mut self.cloud, at, call);
            }
            self.cloud.advance(until);
        }
        before.extend(self.forced_binding(theirs));
        let as_it_was = self.cloud.clone();
        let mut ours = self.decide();
        ours.before = before;
        if sorted(&ours.calls) != sorted(&theirs.calls) {
            self.cloud = repeated(&as_it_was, until, theirs);
        }
        self.world.force_taints(&theirs.soft_taint, &theirs.to_be_deleted, until);
        ours
    }

    /// Advances to a moment with the events that the case has. The events of our cloud are appended to `before`, as are
    /// those that no cloud causes.
    fn forced_pass(&mut self, now: Moment, theirs: &Step, before: &mut Vec<Happened>) {
        self.now = now;
        let at = second(now);
        let mut made: BTreeMap<String, Object> = BTreeMap::new();
        for change in self.cloud.advance(now) {
            let (what, node) = match change {
                CloudChange::Registered { node, .. } => {
                    let (_, what) = registration(&node);
                    let name = node.meta().name.to_string();
                    made.insert(name.clone(), node);
                    (what, name)
                }
                CloudChange::Ready { node, .. } => (Kind::NodeReady, node.to_string()),
                CloudChange::Deleted { .. } => continue,
            };
            before.push(Happened { at, what, node, pod: String::new() });
        }
        let happens =
            |kind: Kind| theirs.before.iter().filter(move |one| moment(one.at) == now && one.what == kind);
        for one in happens(Kind::NodeRegistered).chain(happens(Kind::NodeReady)) {
            match made.get(&one.node) {
                _ if self.world.has_node(&one.node) => self.world.ready(&one.node, now),
                Some(node) => self.world.register(node, now),
                None => {}
            }
        }
        self.script(false);
        // Only once: an autoscaler that evicts a pod again takes the first eviction as refused.
        self.work(false);
        for one in happens(Kind::PodEvicted) {
            let Some(pod) = self.world.remove_pod(&key(&one.pod)) else { continue };
            if happens(Kind::PodCreated).any(|new| new.pod == format!("{}-r", one.pod)) {
                self.world.recreate(&key(&one.pod), pod, now);
            }
        }
        self.forced_work();
        for one in happens(Kind::NodeDeleted) {
            self.world.remove_node(&one.node);
        }
        self.forced_work();
        let is_given = |one: &&Happened| {
            use Kind::{NodeDeleted, PodCreated, PodDeleted, PodEvicted};
            moment(one.at) == now && matches!(one.what, PodDeleted | PodEvicted | PodCreated | NodeDeleted)
        };
        before.extend(theirs.before.iter().filter(is_given).cloned());
    }

    fn forced_work(&mut self) {
        for _ in 0..ROUNDS {
            if !self.work(false) {
                break;
            }
        }
    }

    /// Binds pods as the case says. Returns the bindings that ours would have made.
    fn forced_binding(&mut self, theirs: &Step) -> Vec<Happened> {
        let is_bound = |one: &&Happened| one.what == Kind::PodBound;
        let wanted: Vec<Happened> = theirs.before.iter().filter(is_bound).cloned().collect();
        if self.case.binds {
            self.world.bind_all(self.now, theirs.at);
        }
        let ours = std::mem::take(&mut self.world.happened);
        for one in ours.iter().filter(|one| !wanted.contains(one)) {
            self.world.unbind(&key(&one.pod));
        }
        for one in wanted.iter().filter(|one| !ours.contains(one)) {
            self.world.bind(&key(&one.pod), &one.node, self.now);
        }
        ours
    }
}

/// The time at which a new node registered, and whether it was ready then.
fn registration(node: &Object) -> (Moment, Kind) {
    let value = node.value().unwrap_or_default();
    let created = value["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    let is_ready = value["status"]["conditions"][0]["status"] == "True";
    (created.unwrap_or_default(), if is_ready { Kind::NodeReady } else { Kind::NodeRegistered })
}

/// The cloud after the calls of a real loop. The case does not record their order.
fn repeated(cloud: &SimulatedCloud, now: Moment, theirs: &Step) -> SimulatedCloud {
    let (deletes, others): (Vec<&String>, Vec<&String>) =
        theirs.calls.iter().partition(|call| call.starts_with("delete"));
    let orders = [deletes.iter().chain(&others), others.iter().chain(&deletes)];
    let outcomes = orders.map(|calls| {
        let mut cloud = cloud.clone();
        calls.for_each(|call| ask(&mut cloud, now, call));
        cloud
    });
    let is_right = |cloud: &SimulatedCloud| {
        cloud.groups().iter().enumerate().all(|(index, group)| {
            let target = cloud.target_size(autoscaler::GroupId(index as u32));
            theirs.targets.get(&*group.name) == Some(&target)
        })
    };
    let [first, second] = outcomes;
    if is_right(&first) || !is_right(&second) { first } else { second }
}

fn key(pod: &str) -> (String, String) {
    let (namespace, name) = pod.split_once('/').unwrap_or_default();
    (namespace.to_owned(), name.to_owned())
}

fn sorted(calls: &[String]) -> Vec<&String> {
    let mut calls: Vec<&String> = calls.iter().collect();
    calls.sort();
    calls
}
