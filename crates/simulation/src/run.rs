//! A cluster in virtual time: the loop that lets one thing happen after the other.
//!
//! The files below are one module: what happens to pods in the order of their lives (`creation`, `binding`, `ending`), to nodes,
//! and what is done for the autoscaler and for controllers. They call each other, as one thing leads to another.

mod autoscaling;
mod binding;
mod controlling;
mod creation;
mod ending;
mod informers;
mod nodes;
mod telling;

use std::time::Duration;

use controllers::{Controller, Words};
use kubernetes::time::after;
use model::Moment;

use crate::components::{AutoscalerLoop, ControllerLoop, Memory, SchedulerLoop, TaintEviction};
use crate::given::{Given, Life, Took};
use crate::ids::PodId;
use crate::observer::Observer;
use crate::pace::{Pacer, Step};
use crate::pod_template::BadGiven;
use crate::setup::Setup;
use crate::store::{Demands, NodeTable, ObjectTable, PodTable};
use crate::timeline::{Due, Timeline};
use informers::Informers;

/// A cluster in virtual time: its objects, the components that decide about them, and an observer.
#[derive(Debug)]
pub struct Run<'m, O> {
    timeline: Timeline,
    /// Before this nothing is decided: all that is there at the first moment is what was given.
    begins: Moment,
    seed: u64,
    demands: Demands,
    pods: PodTable,
    nodes: NodeTable,
    objects: ObjectTable,
    taint_eviction: TaintEviction<PodId>,
    informers: Informers<'m, O>,
}

/// FNV-1a: names are told apart by it.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl<'m, O: Observer> Run<'m, O> {
    /// A cluster without nodes and pods, in which nobody makes pods but those who are given.
    pub fn new(setup: Setup, observer: O) -> Run<'m, O> {
        let start = setup.start;
        let scheduler = SchedulerLoop::new(setup.scheduler, start);
        let autoscaler = setup.autoscaler.map(|setup| AutoscalerLoop::new(setup, start));
        Run {
            timeline: Timeline::new(start, Pacer::new(setup.pace, setup.seed)),
            begins: start.plus_nanos(1),
            seed: setup.seed,
            demands: Demands::new(setup.seed),
            pods: PodTable::default(),
            nodes: NodeTable::default(),
            objects: ObjectTable::default(),
            taint_eviction: TaintEviction::default(),
            informers: Informers::new(scheduler, autoscaler, observer),
        }
    }

    /// The same with these controllers. Beside a recording they call ReplicaSets by its words, and memory tells what the
    /// pods that they make were like.
    #[must_use]
    pub fn with_controllers(
        mut self,
        which: &[Controller],
        recorded: Option<Words>,
        memory: Option<&'m mut dyn Memory>,
    ) -> Run<'m, O> {
        self.informers.controllers = Some(ControllerLoop::new(which, self.seed, recorded, memory));
        self
    }

    /// Who is told what happens.
    pub fn observer(&self) -> &O {
        &self.informers.observer
    }

    /// The same, to be told something more.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.informers.observer
    }

    /// Ends the run.
    pub fn into_observer(self) -> O {
        self.informers.observer
    }

    /// What time it is.
    pub fn now(&self) -> Moment {
        self.timeline.now()
    }

    /// Each unsupported controller feature that was requested, with its count.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, u64)> {
        self.informers.controllers.iter().flat_map(ControllerLoop::unsupported)
    }

    /// Whether nothing is kept of pods that are gone.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.demands.is_empty() && self.pods.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn remembers_no_substitute(&self) -> bool {
        self.demands.remembers_no_substitute() && self.pods.waiting().next().is_none()
    }

    #[cfg(test)]
    pub(crate) fn autoscaler_mut(&mut self) -> Option<&mut AutoscalerLoop> {
        self.informers.autoscaler.as_mut()
    }

    /// Lets everything happen that happens before a moment.
    pub fn advance(&mut self, until: Moment) {
        while let Some(next) = self.next().filter(|next| *next < until) {
            self.timeline.advance_to(next);
            self.step();
        }
        self.timeline.advance_to(until);
    }

    /// Something happens at this moment that nobody decided. Whatever is due before it must have happened.
    pub fn give(&mut self, at: Moment, given: Given) -> Result<(), BadGiven> {
        self.timeline.advance_to(at);
        self.informers.scheduler.wake();
        match given {
            Given::Object(what) => self.give_object(what),
            Given::Asked(asked) => self.ask(*asked),
            Given::Withdrawn(demand) => {
                let goes = self.demands.give_up(demand, &self.pods);
                self.withdraw(goes);
            }
            Given::CleanedUp(demand) => self.clean_up(self.demands.stands_for(demand)),
            Given::Deleted(demand) => self.delete_given(self.demands.stands_for(demand)),
            Given::Changed(demand, pod) => return self.change(demand, &pod),
        }
        Ok(())
    }

    /// Lets everything happen until nothing more comes of what was given, or until so long after the last node came.
    /// Says whether the cluster has come to rest.
    pub fn settle(&mut self, patience: Duration) -> bool {
        let mut until = after(self.now(), patience);
        while !self.is_stable() {
            if self.awaits_node() {
                until = after(self.now(), patience).max(until);
            }
            let Some(next) = self.next().filter(|next| *next <= until || self.awaits_node()) else {
                return false;
            };
            self.timeline.advance_to(next);
            self.step();
        }
        true
    }

    /// Whether no pod is about to be tried, bound, made or gone, no node is on its way, and the autoscaler has looked at
    /// pods that wait and can do nothing for them. Containers may end and nodes become unneeded: that takes its time.
    pub fn is_stable(&self) -> bool {
        let scheduler = &self.informers.scheduler;
        !self.timeline.agenda.is_busy()
            && scheduler.is_idle()
            && self.informers.autoscaler.as_ref().is_none_or(|autoscaler| {
                !autoscaler.awaits_node() && (!scheduler.has_refused() || autoscaler.is_calm())
            })
    }

    fn awaits_node(&self) -> bool {
        self.informers.autoscaler.as_ref().is_some_and(AutoscalerLoop::awaits_node)
    }

    /// When something happens next, if nothing is given.
    fn next(&self) -> Option<Moment> {
        let now = self.now();
        let scheduler = self.informers.scheduler.next(now);
        let autoscaler = self.informers.autoscaler.as_ref().map(AutoscalerLoop::next);
        let next = [scheduler, autoscaler, self.next_work(), self.timeline.agenda.next()]
            .into_iter()
            .flatten()
            .min();
        next.map(|next| next.max(now).max(self.begins))
    }

    /// When time alone gives controllers something to do.
    fn next_work(&self) -> Option<Moment> {
        self.informers.controllers.as_ref()?.next()
    }

    /// One thing that is due now: what was begun ends first, then the scheduler decides, then the autoscaler.
    fn step(&mut self) {
        let now = self.now();
        if let Some(due) = self.timeline.agenda.take(now) {
            self.informers.scheduler.wake();
            self.carry_out(due);
        } else if self.next_work().is_some_and(|next| next <= now) {
            self.informers.scheduler.wake();
            self.work();
        } else if let Some(attempted) = self.informers.scheduler.try_one(now) {
            self.attempted(attempted);
        } else {
            self.scale();
        }
    }

    fn carry_out(&mut self, due: Due) {
        match due {
            Due::Ask(demand) => self.make(demand),
            Due::Bind(pod) => self.bind(pod),
            Due::Start(pod) => self.start(pod),
            Due::End(pod) => self.end(pod),
            Due::Lose(pod, to) => self.lose(pod, to),
            Due::Preempted(pod) => self.has_preempted(pod),
            Due::LoseToTaint(pod, at) => self.lose_to_taint(pod, at),
            Due::Go(pod) => self.go(pod),
            Due::Collect(node) => self.collect(&node),
            Due::Work => self.work(),
        }
    }

    /// When something is over that begins for a pod now: it takes as long as recorded, or as usual.
    fn takes(&self, id: PodId, recorded: fn(&Life) -> Option<Took>, step: Step) -> Moment {
        self.takes_since(self.now(), id, recorded, step)
    }

    /// The same, where what was recorded began then.
    fn takes_since(
        &self,
        began: Moment,
        id: PodId,
        recorded: fn(&Life) -> Option<Took>,
        step: Step,
    ) -> Moment {
        match self.demands.recorded(id).and_then(recorded) {
            Some(Took { time, longer: false }) => after(began, time),
            Some(Took { time, longer: true }) => {
                self.over_for(id, step).max(after(began, time).plus_nanos(1))
            }
            None => self.over_for(id, step),
        }
    }

    /// When a step is over that begins for a pod now. It depends on no other pod: so a replay of a replay, which has
    /// more of them recorded, still has the same for the rest.
    fn over_for(&self, id: PodId, step: Step) -> Moment {
        let pod = self.pods.get(id).map(|pod| (&pod.name.namespace, &pod.name.name));
        let demand = || self.demands.get(id.demand).map(|state| (&state.body.namespace, &state.body.name));
        let mut whose = if pod.is_some() { FNV_OFFSET } else { FNV_OFFSET ^ u64::from(id.life) };
        if let Some((namespace, name)) = pod.or_else(demand) {
            for byte in namespace.bytes().chain([b'/']).chain(name.bytes()) {
                whose = (whose ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        after(self.now(), self.timeline.pacer.draw_for(whose, step, self.now()))
    }
}
