//! A cluster in virtual time: discrete events on one clock.
//!
//! What is [`Given`] happens whatever is decided; the scheduler and the autoscaler decide the rest, and whoever listens
//! is told. The same things given, the same settings and the same seed give the same run, byte for byte.

mod agenda;
mod autoscaling;
mod body;
mod cloud;
mod controlling;
mod ending;
mod events;
mod given;
mod nodes;
pub mod pace;
mod pods;
mod scheduling;
mod settling;
mod taints;
#[cfg(test)]
mod tests;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::taints::Taint;
use kubernetes::time::after;
use model::{Moment, NamespacedName, Object, What};
use rustc_hash::FxHashMap;
use scheduler::Scheduler;

use crate::pace::{Pace, Pacer, Step};
use agenda::{Agenda, Due};
use autoscaling::Scaler;
use controlling::Control;
use pods::{DemandState, Pod};

pub use body::WITHDRAWN;
pub use cloud::{CloudChange, SimulatedCloud, made_for, made_ready};
pub use controlling::{Memory, Remembered};
pub use given::{Again, Asked, BadGiven, Begun, Demand, DemandId, DemandMark, Given, Life, Runs, Took};
pub use told::{Audience, Decided, LostTo, PodId, Takes};

/// How a cluster in virtual time is set.
#[derive(Debug)]
pub struct Setup {
    /// When it begins.
    pub start: Moment,
    /// Its scheduler.
    pub scheduler: scheduler::Settings,
    /// Its autoscaler, if it has one.
    pub autoscaler: Option<AutoscalerSetup>,
    /// How long things take.
    pub pace: Pace,
    /// Decides between measured delays, and makes names and uids.
    pub seed: u64,
}

/// An autoscaler and its cloud.
#[derive(Debug)]
pub struct AutoscalerSetup {
    /// How it is set.
    pub settings: autoscaler::Settings,
    /// The cloud, which adopts the nodes that are given.
    pub cloud: SimulatedCloud,
    /// Its first loop is due a scan interval later.
    pub start: Moment,
}

/// A cluster in virtual time.
#[derive(Debug)]
pub struct Run<'m> {
    now: Moment,
    /// Before this nothing is decided: all that is there at the first moment is what was given.
    begins: Moment,
    scheduler: Scheduler,
    /// Until when the scheduler is busy with its last decision.
    busy_until: Moment,
    /// Whether a pod may be ready to be tried.
    may_try: bool,
    /// When a pod was last refused, in other words than before, that the autoscaler may be able to help.
    news: Moment,
    scaler: Option<Scaler>,
    control: Option<Control<'m>>,
    pacer: Pacer,
    seed: u64,
    agenda: Agenda,
    demands: BTreeMap<DemandId, DemandState>,
    /// For demands that were given up in another's place: that other one.
    instead: FxHashMap<DemandId, DemandId>,
    pods: BTreeMap<PodId, Pod>,
    /// Those that no node was found for.
    waiting: BTreeSet<PodId>,
    names: FxHashMap<NamespacedName, PodId>,
    nodes: BTreeMap<Arc<str>, Object>,
    /// The taints that drive pods out, of nodes that have any.
    driving: BTreeMap<Arc<str>, Vec<Taint>>,
    /// How many demands nobody gave.
    own_demands: u64,
    /// Pods by the node they are on, or on their way to.
    on_node: BTreeMap<Arc<str>, BTreeSet<PodId>>,
    /// Nodes that are gone, whose pods are still there.
    gone_nodes: BTreeSet<Arc<str>>,
    events: u64,
}

impl<'m> Run<'m> {
    /// A cluster without nodes and pods, in which nobody makes pods but those who are given.
    pub fn new(setup: Setup) -> Run<'m> {
        Run {
            now: setup.start,
            begins: setup.start.plus_nanos(1),
            scheduler: Scheduler::new(setup.scheduler),
            busy_until: setup.start,
            may_try: false,
            news: setup.start,
            scaler: setup.autoscaler.map(Scaler::new),
            control: None,
            pacer: Pacer::new(setup.pace, setup.seed),
            seed: setup.seed,
            agenda: Agenda::default(),
            demands: BTreeMap::new(),
            instead: FxHashMap::default(),
            pods: BTreeMap::new(),
            waiting: BTreeSet::new(),
            names: FxHashMap::default(),
            nodes: BTreeMap::new(),
            driving: BTreeMap::new(),
            own_demands: 0,
            on_node: BTreeMap::new(),
            gone_nodes: BTreeSet::new(),
            events: 0,
        }
    }
}

impl Run<'_> {
    /// What time it is.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Lets everything happen that happens before a moment.
    pub fn advance(&mut self, until: Moment, audience: &mut dyn Audience) {
        while let Some(next) = self.next().filter(|next| *next < until) {
            self.now = self.now.max(next);
            self.step(audience);
        }
        self.now = self.now.max(until);
    }

    /// Something happens at this moment that nobody decided. Whatever is due before it must have happened.
    pub fn give(&mut self, at: Moment, given: Given, audience: &mut dyn Audience) -> Result<(), BadGiven> {
        self.now = self.now.max(at);
        self.may_try = true;
        match given {
            Given::Object(what) => self.give_object(what, audience),
            Given::Asked(asked) => self.ask(*asked, audience),
            Given::Withdrawn(demand) => self.give_up(demand, audience),
            Given::CleanedUp(demand) => self.clean_up(self.stands_for(demand), audience),
            Given::Deleted(demand) => self.delete_given(self.stands_for(demand), audience),
            Given::Changed(demand, pod) => return self.change(demand, &pod, audience),
        }
        Ok(())
    }

    /// When something happens next, if nothing is given.
    fn next(&self) -> Option<Moment> {
        let scheduler = if self.may_try {
            Some(self.busy_until)
        } else {
            self.scheduler.next_wake(self.now).map(|wake| wake.max(self.busy_until))
        };
        let scaler = self.scaler.as_ref().map(Scaler::next);
        let next = [scheduler, scaler, self.next_work(), self.agenda.next()].into_iter().flatten().min();
        next.map(|next| next.max(self.now).max(self.begins))
    }

    /// One thing that is due now: what was begun ends first, then the scheduler decides, then the autoscaler.
    fn step(&mut self, audience: &mut dyn Audience) {
        if let Some(due) = self.agenda.take(self.now) {
            self.may_try = true;
            self.carry_out(due, audience);
        } else if self.next_work().is_some_and(|next| next <= self.now) {
            self.may_try = true;
            self.work(audience);
        } else if self.busy_until > self.now || !self.try_one(audience) {
            self.scale(audience);
        }
    }

    fn carry_out(&mut self, due: Due, audience: &mut dyn Audience) {
        match due {
            Due::Ask(demand) => self.make(demand, audience),
            Due::Bind(pod) => self.bind(pod, audience),
            Due::Start(pod) => self.start(pod, audience),
            Due::End(pod) => self.end(pod, audience),
            Due::Lose(pod, to) => self.lose(pod, to, audience),
            Due::Preempted(pod) => self.has_preempted(pod),
            Due::LoseToTaint(pod, at) => self.lose_to_taint(pod, at, audience),
            Due::Go(pod) => self.go(pod, audience),
            Due::Collect(node) => self.collect(&node, audience),
            Due::Work => self.work(audience),
        }
    }

    /// Tells everybody of an object. Those who decide hear only what matters to them.
    fn tell(&mut self, what: What, audience: &mut dyn Audience) {
        self.scheduler.apply(self.now, &what);
        if let Some(scaler) = &mut self.scaler {
            scaler.autoscaler.apply(&what);
        }
        self.show(what, audience);
    }

    /// Tells those who look at objects.
    fn show(&mut self, what: What, audience: &mut dyn Audience) {
        self.tell_controllers(&what);
        if audience.wants_changes() {
            audience.changed(self.now, what);
        }
    }

    /// When a step is over that begins now.
    fn over(&mut self, step: Step) -> Moment {
        after(self.now, self.pacer.draw(step, self.now))
    }
}
