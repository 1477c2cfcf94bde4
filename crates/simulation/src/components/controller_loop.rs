//! The controllers' loops: they work a while after something changed, and when time alone gives them work.

use std::fmt;
use std::time::Duration;

use controllers::{Controller, Controllers, Do, OwnerName, Words};
use kubernetes::time::after;
use model::{Kind, Moment, Object, What};

use crate::given::{Life, Runs};
use crate::ids::DemandId;
use crate::pace::{Pacer, Step};

/// Remembers what was recorded of pods that controllers make.
pub trait Memory: fmt::Debug {
    /// The recorded pod that a new one stands for, the next of its owner's. The owner is the first of those named, the
    /// others own it in turn.
    fn recall(&mut self, pod: &Object, owners: &[OwnerName]) -> Option<Remembered>;
}

/// What was recorded of a pod.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Which demand it was; `None` if there were not so many, and it is like one of them.
    pub demand: Option<DemandId>,
    /// The pod itself.
    pub lives: Vec<Life>,
    /// Its containers end by themselves so long after they have started.
    pub runs: Option<Runs>,
}

/// kube-controller-manager's loops.
#[derive(Debug)]
pub struct ControllerLoop<'m> {
    controllers: Controllers,
    memory: Option<&'m mut dyn Memory>,
    /// When they will look at what there is to do.
    wakes: Option<Moment>,
    /// They are at work, and see for themselves what comes of it.
    at_work: bool,
}

/// How long controllers pause whose work does not end.
const PAUSE: Duration = Duration::from_millis(1);

impl<'m> ControllerLoop<'m> {
    /// These controllers. Beside a recording they call ReplicaSets by its words, and memory tells what the pods that
    /// they make were like.
    pub fn new(
        which: &[Controller],
        seed: u64,
        recorded: Option<Words>,
        memory: Option<&'m mut dyn Memory>,
    ) -> ControllerLoop<'m> {
        let mut controllers = Controllers::new(which, seed);
        if let Some(words) = recorded {
            controllers.learn(words);
        }
        ControllerLoop { controllers, memory, wakes: None, at_work: false }
    }
}

impl ControllerLoop<'_> {
    /// Something happened. Says when the controllers are to [work](ControllerLoop::work), if they have not said so before.
    pub fn apply(&mut self, now: Moment, what: &What, pacer: &mut Pacer) -> Option<Moment> {
        self.controllers.apply(now, what);
        if self.at_work || self.wakes.is_some() || !self.controllers.has_work() {
            return None;
        }
        let step = if what.object().meta().kind == "Node" { Step::Daemon } else { Step::Again };
        self.wakes = Some(after(now, pacer.draw(step, now)));
        self.wakes
    }

    /// When time alone gives them something to do.
    pub fn next(&self) -> Option<Moment> {
        self.controllers.next_wake()
    }

    /// One round of work: what they want done, which the caller does and tells. They work until a round returns nothing.
    pub fn work(&mut self, now: Moment) -> Vec<Do> {
        self.at_work = true;
        let done = self.controllers.work(now);
        if done.is_empty() {
            (self.at_work, self.wakes) = (false, None);
        }
        done
    }

    /// Ends their work although something is left to do; says when they go on.
    pub fn pause(&mut self, now: Moment) -> Moment {
        let at = after(now, PAUSE);
        (self.at_work, self.wakes) = (false, Some(at));
        at
    }

    /// What was recorded of a pod that they make, if somebody remembers.
    pub fn recall(&mut self, pod: &Object) -> Option<Remembered> {
        let owners = self.controllers.owners_of(pod);
        self.memory.as_mut()?.recall(pod, &owners)
    }

    /// Whether they make this pod.
    pub fn makes(&self, pod: &Object) -> bool {
        self.controllers.make(pod)
    }

    /// Whether they write objects of a kind: then only what people say of them is given.
    pub fn writes(&self, kind: &Kind) -> bool {
        self.controllers.write(kind)
    }

    /// Each unsupported feature that was requested, with its count.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, u64)> {
        self.controllers.left_out()
    }
}
