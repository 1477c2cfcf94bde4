//! The scheduler's loop: one pod after the other, each attempt with its latency.

use std::sync::Arc;

use kubernetes::objects::{NodeEvent, PodEvent};
use kubernetes::time::after;
use model::{Moment, NamespacedName, What};
use scheduler::{Scheduler, SchedulingAttempt};

use crate::latency::{LatencyKind, LatencySampler};

/// kube-scheduler's loop.
#[derive(Debug)]
pub struct SchedulerLoop {
    scheduler: Scheduler,
    /// The end of the last attempt.
    busy_until: Moment,
    /// Whether the active queue may hold a pod.
    may_have_active_pod: bool,
}

/// The moments at which the victims of a preemption are deleted.
#[derive(Debug)]
pub struct Preemption {
    /// By victim: when its deletion begins.
    pub victims: Vec<Moment>,
    /// When the scheduler is to be notified that all deletions have begun, if it attempts other pods meanwhile.
    pub ends: Option<Moment>,
}

impl SchedulerLoop {
    /// A scheduler that starts now, with an empty cache.
    pub fn new(settings: scheduler::Settings, start: Moment) -> SchedulerLoop {
        SchedulerLoop { scheduler: Scheduler::new(settings), busy_until: start, may_have_active_pod: false }
    }

    /// Something happened that may activate a pod.
    pub fn wake(&mut self) {
        self.may_have_active_pod = true;
    }

    /// When the next attempt may begin, if nothing else happens until then.
    pub fn next(&self, now: Moment) -> Option<Moment> {
        if self.may_have_active_pod {
            Some(self.busy_until)
        } else {
            self.scheduler.next_wake(now).map(|wake| wake.max(self.busy_until))
        }
    }

    /// Attempts the next pod; `None` if the active queue is empty, or an attempt is still under way.
    pub fn schedule_one(&mut self, now: Moment) -> Option<SchedulingAttempt> {
        if self.busy_until > now {
            return None;
        }
        let attempt = self.scheduler.schedule_one(now);
        self.may_have_active_pod = attempt.is_some();
        attempt
    }

    /// Keeps it busy with the attempt that begins now. Returns the attempt's end.
    pub fn begin_attempt(&mut self, now: Moment, sampler: &mut LatencySampler) -> Moment {
        self.busy_until = after(now, sampler.draw(LatencyKind::Attempt, now));
        self.busy_until
    }

    /// Keeps it busy until the unschedulable pod's status is patched.
    pub fn wait_for_status_patch(&mut self, now: Moment, sampler: &mut LatencySampler) {
        self.busy_until = after(self.busy_until, sampler.draw(LatencyKind::StatusPatch, now));
    }

    /// Preempts so many victims for an unschedulable pod: they are deleted one after the other.
    pub fn preempt(
        &mut self,
        now: Moment,
        pod: &NamespacedName,
        victims: usize,
        sampler: &mut LatencySampler,
    ) -> Preemption {
        let mut at = now;
        let mut next = || {
            at = after(at, sampler.draw(LatencyKind::Preempt, now));
            at
        };
        let victims: Vec<Moment> = (0..victims).map(|_| next()).collect();
        let mut ends = None;
        if at > now {
            if self.scheduler.begin_preemption(&pod.namespace, &pod.name) {
                ends = Some(at);
            } else {
                self.busy_until = self.busy_until.max(at);
            }
        }
        Preemption { victims, ends }
    }

    /// A pod was added, modified or deleted.
    pub fn apply_pod(&mut self, now: Moment, event: &PodEvent) {
        self.scheduler.apply_pod(now, event);
    }

    /// A node was added, modified or deleted.
    pub fn apply_node(&mut self, now: Moment, event: &NodeEvent) {
        self.scheduler.apply_node(now, event);
    }

    /// An object of any kind was added, modified or deleted.
    pub fn apply(&mut self, now: Moment, what: &What) {
        self.scheduler.apply(now, what);
    }

    /// Whether a profile of this scheduler is responsible for a pod.
    pub fn schedules(&self, pod: &NamespacedName) -> bool {
        self.scheduler.is_responsible_for(&pod.namespace, &pod.name)
    }

    /// Prefers this node for a pod among nodes of equal score.
    pub fn prefer_node(&mut self, pod: &NamespacedName, node: &Arc<str>) {
        self.scheduler.prefer_recorded_node(&pod.namespace, &pod.name, node);
    }

    /// The API server refused to bind a pod.
    pub fn bind_failed(&mut self, now: Moment, pod: &NamespacedName) {
        self.scheduler.bind_failed(now, &pod.namespace, &pod.name);
    }

    /// The deletion of all victims of a pod has begun.
    pub fn preemption_ended(&mut self, pod: &NamespacedName) {
        self.scheduler.finish_preemption(&pod.namespace, &pod.name);
    }

    /// Whether there are unschedulable pods.
    pub fn has_unschedulable(&self) -> bool {
        self.scheduler.has_unschedulable_pods()
    }

    /// Whether no attempt is due.
    pub fn is_idle(&self) -> bool {
        !self.may_have_active_pod && self.scheduler.is_idle()
    }
}
