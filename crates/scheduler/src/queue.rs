//! The scheduling queue in virtual time: which pod is next, and what brings back those that were refused.
//!
//! Pods that came or failed at the same moment go in that order. The original has a clock of nanoseconds there, and
//! walks its pool of refused pods in no order at all; here nothing depends on that walk, as a pod keeps its turn when it
//! is moved.

mod drive;
mod hints;
mod informer;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use model::{Moment, NamespacedName};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::events::{Event, Extras, Sort, Things};
use super::ids::PodId;
use super::plugin::Plugin;
use super::plugins::scheduling_gates;
use super::pod::Pod;
use super::rules::Rules;
use super::settings::{Settings, Version};
use super::world::World;
pub use drive::Attempted;

/// A pod that waits to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The pod.
    pub pod: NamespacedName,
    /// Where it waits.
    pub place: Place,
    /// How often it was tried.
    pub attempts: u64,
}

/// Where a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is tried as soon as it is its turn.
    Active,
    /// It failed and waits out this moment. One that was refused may be tried earlier if nobody else waits.
    Backoff {
        /// The last second of its wait.
        until: Moment,
    },
    /// It was refused and waits for something to change.
    Unschedulable {
        /// By whom, sorted.
        plugins: Vec<Plugin>,
    },
    /// It is kept out of the queue.
    Gated {
        /// By whom.
        by: Plugin,
    },
}

/// All pods that wait.
#[derive(Debug)]
pub(super) struct Queue {
    timing: Timing,
    turns: u64,
    entries: FxHashMap<PodId, Entry>,
    active: BTreeSet<(Turn, PodId)>,
    /// By the end of the wait: those that were refused.
    backoff: BTreeSet<(Moment, Turn, PodId)>,
    /// By the end of the wait: those whose cycle failed. They are never tried earlier.
    errors: BTreeSet<(Moment, Turn, PodId)>,
    /// Those refused, by each of the plugins that refused them. So an event that nobody waits for costs nothing.
    refused: BTreeMap<Plugin, BTreeSet<PodId>>,
    /// Those refused, by the moment they were put there.
    since: BTreeSet<(Moment, PodId)>,
    /// Whether victims are deleted while the scheduler goes on.
    preempts_aside: bool,
    /// Those whose victims are being deleted.
    preempting: BTreeSet<PodId>,
    things: Things,
}

/// What is known of a pod that waits, or is being bound.
#[derive(Debug)]
struct Entry {
    state: State,
    turn: Turn,
    attempts: u64,
    refusals: u32,
    errors: u32,
    /// The end of the wait after the last failure; `None` if there is no wait.
    until: Option<Moment>,
    rejectors: SmallVec<[Plugin; 2]>,
    extras: Extras,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    Backoff,
    Errors,
    Refused,
    /// Kept back by its gates: nothing but a change of the pod itself helps, so it is in nobody's way.
    Gated(Plugin),
    /// On its way to a node.
    Binding,
}

/// Who goes first: the higher priority, then the one that waits longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    priority: Reverse<i32>,
    at: Moment,
    /// Between those of one moment.
    number: u64,
}

/// How long pods wait.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// In nanoseconds.
    initial: i64,
    /// In nanoseconds; zero for no wait at all.
    most: i64,
    /// Waits end with whole seconds, and may be cut short if nobody else waits.
    pops_from_backoff: bool,
}

/// What decisions about the queue depend on.
#[derive(Clone, Copy)]
struct Known<'a> {
    world: &'a World,
    profiles: &'a [Rules],
}

const SECOND: i64 = 1_000_000_000;
/// How often refused pods are looked through for those that waited too long, in nanoseconds.
const FLUSH_EVERY: i64 = 30 * SECOND;
/// How long a refused pod waits for something to change, in nanoseconds.
const PATIENCE: i64 = 300 * SECOND;

// === impl Queue ===

impl Queue {
    pub(super) fn new(settings: &Settings) -> Queue {
        Queue {
            timing: Timing::new(settings),
            turns: 0,
            entries: FxHashMap::default(),
            active: BTreeSet::new(),
            backoff: BTreeSet::new(),
            errors: BTreeSet::new(),
            refused: BTreeMap::new(),
            since: BTreeSet::new(),
            preempts_aside: settings.version >= Version::V1_33,
            preempting: BTreeSet::new(),
            things: Things::default(),
        }
    }

    /// A new pod. Says whether it is tried as soon as it is its turn.
    fn add(&mut self, now: Moment, id: PodId, extras: Extras, known: Known<'_>) -> bool {
        let turn = self.turn(now, known.world.pod(id));
        let entry = Entry {
            state: State::Active,
            turn,
            attempts: 0,
            refusals: 0,
            errors: 0,
            until: None,
            rejectors: SmallVec::new(),
            extras,
        };
        self.entries.insert(id, entry);
        self.put_back(now, id, known);
        self.entries[&id].state == State::Active
    }

    /// A pod waits no more.
    fn remove(&mut self, id: PodId) {
        self.take_out(id);
        self.entries.remove(&id);
        self.preempting.remove(&id);
    }

    /// A pod that waits changed in these ways.
    fn update(&mut self, now: Moment, id: PodId, changes: &[Event<'_>], extras: Extras, known: Known<'_>) {
        let priority = Reverse(known.world.pod(id).priority());
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let state = entry.state;
        entry.extras = extras;
        match state {
            State::Active | State::Backoff | State::Errors if entry.turn.priority != priority => {
                self.take_out(id);
                self.change(id, |entry| entry.turn.priority = priority);
                self.put_in(id, state);
            }
            State::Active | State::Backoff | State::Errors | State::Binding => {}
            State::Refused | State::Gated(_) => {
                self.change(id, |entry| entry.turn.priority = priority);
                for change in changes {
                    if hints::is_helped_at_all(known, id, &self.entries[&id], change) {
                        self.take_out(id);
                        self.put_back(now, id, known);
                    }
                    if !matches!(self.entries[&id].state, State::Refused | State::Gated(_)) {
                        return;
                    }
                }
            }
        }
    }

    /// Something happened: refused pods that it may help wait no more, if they are such pods.
    fn happened(&mut self, now: Moment, event: &Event<'_>, such: impl Fn(&Pod) -> bool, known: Known<'_>) {
        let mut helped: Vec<PodId> = Vec::new();
        for (plugin, pods) in &self.refused {
            if plugin.asks(event.sort) {
                let is_helped = |id: &&PodId| {
                    let entry = &self.entries[*id];
                    such(known.world.pod(**id))
                        && entry.hears(event)
                        && hints::is_helped(*plugin, known, **id, entry, event)
                };
                helped.extend(pods.iter().filter(is_helped));
            }
        }
        helped.sort_unstable();
        helped.dedup();
        for id in helped {
            self.take_out(id);
            self.put_back(now, id, known);
        }
    }

    /// Whether any pod waits for something to change.
    fn is_anyone_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Whether a pod waits that one of these plugins refused.
    fn is_awaited(&self, plugins: &[Plugin]) -> bool {
        plugins.iter().any(|plugin| self.refused.contains_key(plugin))
    }

    /// The next pod to try. It waits no more, and is taken to be on its way to a node.
    fn pop(&mut self) -> Option<PodId> {
        let early = || self.backoff.first().filter(|_| self.timing.pops_from_backoff).map(|(.., id)| *id);
        let id = self.active.first().map(|(_, id)| *id).or_else(early)?;
        self.bind(id);
        self.change(id, |entry| entry.attempts += 1);
        Some(id)
    }

    /// A pod is on its way to a node, and waits no more.
    pub(super) fn bind(&mut self, id: PodId) {
        self.take_out(id);
        self.put_in(id, State::Binding);
    }

    /// A pod's cycle failed: it was refused by these plugins, or by none if something broke.
    fn fail(&mut self, now: Moment, id: PodId, rejectors: &[Plugin], known: Known<'_>) {
        let turn = self.turn(now, known.world.pod(id));
        let timing = self.timing;
        self.take_out(id);
        self.change(id, |entry| {
            entry.turn = turn;
            entry.rejectors = rejectors.into();
            if rejectors.is_empty() {
                entry.errors = entry.errors.saturating_add(1);
            } else {
                entry.refusals = entry.refusals.saturating_add(1);
                entry.errors = 0;
            }
            entry.until = timing.until(now, if entry.errors > 0 { entry.errors } else { entry.refusals });
        });
        if rejectors.is_empty() {
            self.put_back(now, id, known);
        } else {
            self.put_in(id, State::Refused);
        }
    }

    /// When time alone moves a pod next.
    fn next_tick(&self) -> Option<Moment> {
        let second_after = |until: Moment| Moment::from_nanos(next_multiple(until.nanos(), SECOND));
        let ends = [self.backoff.first(), self.errors.first()].into_iter().flatten();
        let ends = ends.map(|(until, ..)| second_after(*until));
        let flush = self.since.first().map(|(since, _)| flush_of(*since));
        ends.chain(flush).min().filter(|tick| *tick != Moment::MAX)
    }

    /// Time alone moves pods at this moment.
    fn tick(&mut self, tick: Moment, known: Known<'_>) {
        for errors in [false, true] {
            let waiting = if errors { &self.errors } else { &self.backoff };
            let done = waiting.iter().take_while(|(until, ..)| *until < tick).map(|(.., id)| *id);
            for id in done.collect::<Vec<PodId>>() {
                self.take_out(id);
                if self.timing.pops_from_backoff {
                    self.put_in(id, State::Active);
                } else {
                    self.put_back(tick, id, known);
                }
            }
        }
        if tick.nanos().rem_euclid(FLUSH_EVERY) == 0 {
            let late = self.since.iter().take_while(|(since, _)| flush_of(*since) <= tick).map(|(_, id)| *id);
            for id in late.collect::<Vec<PodId>>() {
                self.take_out(id);
                self.put_back(tick, id, known);
            }
        }
    }

    fn is_binding(&self, id: PodId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.state == State::Binding)
    }

    fn turn(&mut self, now: Moment, pod: &Pod) -> Turn {
        self.turns += 1;
        Turn { priority: Reverse(pod.priority()), at: now, number: self.turns }
    }

    /// A pod that is nowhere is worth another try: now, or after its wait. Unless somebody keeps it back.
    fn put_back(&mut self, now: Moment, id: PodId, known: Known<'_>) {
        let entry = &self.entries[&id];
        let waits = self.timing.waits(entry.until, now);
        let state = match (waits, entry.rejectors.is_empty()) {
            (false, _) => State::Active,
            (true, false) => State::Backoff,
            (true, true) => State::Errors,
        };
        let is_asked = !waits || self.timing.pops_from_backoff;
        let Some(plugin) = self.kept_back(id, known).filter(|_| is_asked) else {
            self.put_in(id, state);
            return;
        };
        self.change(id, |entry| {
            if let Err(place) = entry.rejectors.binary_search(&plugin) {
                entry.rejectors.insert(place, plugin);
            }
        });
        // Who waits for its victims is helped when they are gone, as others may be.
        let is_gated = plugin == Plugin::SchedulingGates;
        self.put_in(id, if is_gated { State::Gated(plugin) } else { State::Refused });
    }

    /// Who keeps a pod out of the queue. Of the plugins that may, these are simulated.
    fn kept_back(&self, id: PodId, known: Known<'_>) -> Option<Plugin> {
        let pod = known.world.pod(id);
        let asked = &known.rules(pod)?.profile.pre_enqueue;
        let keeps = |plugin: &Plugin| match plugin {
            Plugin::SchedulingGates => scheduling_gates::pre_enqueue(pod).is_err(),
            Plugin::DefaultPreemption => self.preempting.contains(&id),
            // Devices are not simulated: pods that want some are refused when they are tried.
            Plugin::DynamicResources => false,
            Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::VolumeBinding
            | Plugin::VolumeZone
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => false,
        };
        asked.iter().copied().find(keeps)
    }

    fn put_in(&mut self, id: PodId, state: State) {
        let Queue { entries, active, backoff, errors, refused, since, .. } = self;
        let Some(entry) = entries.get_mut(&id) else { return };
        entry.state = state;
        let until = entry.until.unwrap_or(Moment::MIN);
        match state {
            State::Active => drop(active.insert((entry.turn, id))),
            State::Backoff => drop(backoff.insert((until, entry.turn, id))),
            State::Errors => drop(errors.insert((until, entry.turn, id))),
            State::Refused => {
                since.insert((entry.turn.at, id));
                for plugin in &entry.rejectors {
                    refused.entry(*plugin).or_default().insert(id);
                }
            }
            State::Gated(_) | State::Binding => {}
        }
    }

    fn take_out(&mut self, id: PodId) {
        let Queue { entries, active, backoff, errors, refused, since, .. } = self;
        let Some(entry) = entries.get(&id) else { return };
        let until = entry.until.unwrap_or(Moment::MIN);
        match entry.state {
            State::Active => drop(active.remove(&(entry.turn, id))),
            State::Backoff => drop(backoff.remove(&(until, entry.turn, id))),
            State::Errors => drop(errors.remove(&(until, entry.turn, id))),
            State::Refused => {
                since.remove(&(entry.turn.at, id));
                for plugin in &entry.rejectors {
                    forget(refused, *plugin, id);
                }
            }
            State::Gated(_) | State::Binding => {}
        }
    }

    fn change(&mut self, id: PodId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries.get_mut(&id) {
            change(entry);
        }
    }
}

fn forget(index: &mut BTreeMap<Plugin, BTreeSet<PodId>>, plugin: Plugin, id: PodId) {
    if let Some(pods) = index.get_mut(&plugin) {
        pods.remove(&id);
        if pods.is_empty() {
            index.remove(&plugin);
        }
    }
}

/// When a pod that was refused then has waited too long. The original begins to count when it starts; here it is at
/// whole and half minutes.
fn flush_of(since: Moment) -> Moment {
    Moment::from_nanos(next_multiple(since.plus_nanos(PATIENCE).nanos(), FLUSH_EVERY))
}

/// The next multiple after a number; the greatest of all numbers if there is none.
fn next_multiple(number: i64, of: i64) -> i64 {
    (number.div_euclid(of) + 1).checked_mul(of).unwrap_or(i64::MAX)
}

// === impl Entry ===

impl Entry {
    /// Whether the pod is told of an event: while it is kept back, only of those that the one who does so asks for.
    fn hears(&self, event: &Event<'_>) -> bool {
        event.sort == Sort::PodDeleted || !self.rejectors.contains(&Plugin::DefaultPreemption)
    }
}

// === impl Timing ===

impl Timing {
    fn new(settings: &Settings) -> Timing {
        Timing {
            // Go's product wraps too: absurd seconds give the real scheduler's absurd wait.
            initial: settings.initial_backoff_seconds.wrapping_mul(SECOND),
            most: settings.most_backoff_seconds.wrapping_mul(SECOND),
            pops_from_backoff: settings.version >= Version::V1_33,
        }
    }

    /// The end of the wait after so many failures in a row, the last of them now.
    fn until(self, now: Moment, failures: u32) -> Option<Moment> {
        if self.most == 0 || failures == 0 {
            return None;
        }
        let doublings = (failures - 1).min(63);
        let wait = if self.initial > self.most >> doublings { self.most } else { self.initial << doublings };
        Some(self.aligned(now.plus_nanos(wait)))
    }

    /// Whether a wait is not over yet; it is once its last second is.
    fn waits(self, until: Option<Moment>, now: Moment) -> bool {
        until.is_some_and(|until| until >= self.aligned(now))
    }

    fn aligned(self, moment: Moment) -> Moment {
        if self.pops_from_backoff {
            let seconds = moment.nanos().div_euclid(SECOND);
            // Only the first second that can be expressed has no beginning.
            return Moment::from_nanos(seconds.checked_mul(SECOND).unwrap_or(i64::MIN));
        }
        moment
    }
}

// === impl Known ===

impl<'a> Known<'a> {
    fn rules(self, pod: &Pod) -> Option<&'a Rules> {
        self.profiles.iter().find(|rules| rules.profile.scheduler_name == pod.shape.scheduler_name)
    }
}
