//! The scheduler's loop: one pod after the other, each attempt taking its time.

use std::sync::Arc;

use kubernetes::time::after;
use model::{Moment, NamespacedName, Object, What};
use scheduler::{Attempted, Scheduler};

use crate::pace::{Pacer, Step};

/// kube-scheduler's loop.
#[derive(Debug)]
pub struct SchedulerLoop {
    scheduler: Scheduler,
    /// Until when the last attempt keeps it busy.
    busy_until: Moment,
    /// Whether a pod may be ready to be tried.
    may_try: bool,
}

/// When the victims of a preemption are deleted.
#[derive(Debug)]
pub struct Preemption {
    /// By victim: when it is marked for deletion.
    pub victims: Vec<Moment>,
    /// When the scheduler is to be told that all of them are, if it tries other pods meanwhile.
    pub ends: Option<Moment>,
}

impl SchedulerLoop {
    /// A scheduler that starts now, and knows no node and no pod.
    pub fn new(settings: scheduler::Settings, start: Moment) -> SchedulerLoop {
        SchedulerLoop { scheduler: Scheduler::new(settings), busy_until: start, may_try: false }
    }

    /// Something happened that may let a pod be tried.
    pub fn wake(&mut self) {
        self.may_try = true;
    }

    /// When the next pod may be tried, if nothing else happens until then.
    pub fn next(&self, now: Moment) -> Option<Moment> {
        if self.may_try {
            Some(self.busy_until)
        } else {
            self.scheduler.next_wake(now).map(|wake| wake.max(self.busy_until))
        }
    }

    /// Tries the pod whose turn it is; `None` if it is nobody's, or an attempt is still going on.
    pub fn try_one(&mut self, now: Moment) -> Option<Attempted> {
        if self.busy_until > now {
            return None;
        }
        let attempted = self.scheduler.schedule_one(now);
        self.may_try = attempted.is_some();
        attempted
    }

    /// The attempt that began now keeps it busy; says until when.
    pub fn spend_attempt(&mut self, now: Moment, pacer: &mut Pacer) -> Moment {
        self.busy_until = after(now, pacer.draw(Step::Attempt, now));
        self.busy_until
    }

    /// It goes on only when it has written to the status of the pod that it refused.
    pub fn spend_status_write(&mut self, now: Moment, pacer: &mut Pacer) {
        self.busy_until = after(self.busy_until, pacer.draw(Step::Refuse, now));
    }

    /// A pod was refused, and so many victims make room for it: they are deleted one after the other.
    pub fn preempt(
        &mut self,
        now: Moment,
        pod: &NamespacedName,
        victims: usize,
        pacer: &mut Pacer,
    ) -> Preemption {
        let mut at = now;
        let mut next = || {
            at = after(at, pacer.draw(Step::Preempt, now));
            at
        };
        let victims: Vec<Moment> = (0..victims).map(|_| next()).collect();
        let mut ends = None;
        if at > now {
            if self.scheduler.preempts(&pod.namespace, &pod.name) {
                ends = Some(at);
            } else {
                self.busy_until = self.busy_until.max(at);
            }
        }
        Preemption { victims, ends }
    }

    /// An object came, changed or went.
    pub fn apply(&mut self, now: Moment, what: &What) {
        self.scheduler.apply(now, what);
    }

    /// Whether it is this scheduler that a pod waits for.
    pub fn schedules(&self, pod: &NamespacedName) -> bool {
        self.scheduler.schedules(&pod.namespace, &pod.name)
    }

    /// Of several nodes that are equally good for a pod, this one is to be taken.
    pub fn prefer_node(&mut self, pod: &NamespacedName, node: &Arc<str>) {
        self.scheduler.incline(&pod.namespace, &pod.name, node);
    }

    /// A pod that it placed shows its node.
    pub fn pod_bound(&mut self, now: Moment, pod: &NamespacedName) {
        self.scheduler.placed(now, &pod.namespace, &pod.name);
    }

    /// A pod that it placed could not be bound.
    pub fn bind_failed(&mut self, now: Moment, pod: &NamespacedName) {
        self.scheduler.bind_failed(now, &pod.namespace, &pod.name);
    }

    /// The containers of a pod run since a moment.
    pub fn pod_started(&mut self, pod: &NamespacedName, since: Moment) {
        self.scheduler.started(&pod.namespace, &pod.name, since);
    }

    /// A pod takes no room any more: it has ended, or it is gone.
    pub fn pod_released(&mut self, now: Moment, pod: &NamespacedName, object: impl Fn() -> Object) {
        self.scheduler.gone(now, &pod.namespace, &pod.name, object);
    }

    /// A pod on a node is being deleted, perhaps because of a preemption.
    pub fn pod_leaving(&mut self, now: Moment, pod: &NamespacedName, preempted: bool) {
        self.scheduler.leaves(now, &pod.namespace, &pod.name, preempted);
    }

    /// All victims of a pod are marked for deletion.
    pub fn preemption_ended(&mut self, pod: &NamespacedName) {
        self.scheduler.has_preempted(&pod.namespace, &pod.name);
    }

    /// Whether there are pods that no node was found for.
    pub fn has_refused(&self) -> bool {
        self.scheduler.has_refused()
    }

    /// Whether no pod is about to be tried.
    pub fn is_idle(&self) -> bool {
        !self.may_try && self.scheduler.is_idle()
    }
}
