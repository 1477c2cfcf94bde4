//! The event loop of a cluster in virtual time.
//!
//! The submodules together are one module and call each other: the lifecycle of pods (`creation`, `binding`,
//! `termination`), nodes, and the decisions of the autoscaler and the controllers.

mod api_calls;
mod autoscaling;
mod binding;
mod creation;
mod event_receivers;
mod nodes;
mod notification;
mod termination;

use std::time::Duration;

use controllers::{Controller, TemplateHashes};
use kubernetes::time::after;
use model::{Moment, NamespacedName};

use crate::components::{AutoscalerLoop, ControllerLoop, RecordedPodSource, SchedulerLoop, TaintEviction};
use crate::ids::PodId;
use crate::input::{Input, ObservedDuration, PodIncarnation};
use crate::latency::{LatencyKind, LatencySampler};
use crate::observer::Observer;
use crate::pod_template::InvalidPod;
use crate::setup::RunSetup;
use crate::store::{DemandTable, NodeTable, ObjectTable, PodTable};
use crate::timeline::{RunTask, Timeline};
use event_receivers::EventReceivers;

/// A cluster in virtual time: its objects, the components that decide about them, and an observer.
#[derive(Debug)]
pub struct Run<'m, O> {
    timeline: Timeline,
    /// No decision is made before this moment: the first moment only has the initial objects.
    first_decision: Moment,
    seed: u64,
    demands: DemandTable,
    pods: PodTable,
    nodes: NodeTable,
    objects: ObjectTable,
    taint_eviction: TaintEviction<PodId>,
    receivers: EventReceivers<'m, O>,
}

/// FNV-1a, to hash names.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl<'m, O: Observer> Run<'m, O> {
    /// A cluster without nodes, pods and controllers: all pods come from the input.
    pub fn new(setup: RunSetup, observer: O) -> Run<'m, O> {
        let start = setup.start;
        let scheduler = SchedulerLoop::new(setup.scheduler, start);
        let autoscaler = setup.autoscaler.map(|setup| AutoscalerLoop::new(setup, start));
        Run {
            timeline: Timeline::new(start, LatencySampler::new(setup.latencies, setup.seed)),
            first_decision: start.plus_nanos(1),
            seed: setup.seed,
            demands: DemandTable::new(setup.seed),
            pods: PodTable::default(),
            nodes: NodeTable::default(),
            objects: ObjectTable::default(),
            taint_eviction: TaintEviction::default(),
            receivers: EventReceivers::new(scheduler, autoscaler, observer),
        }
    }

    /// The same with these controllers. In a replay, ReplicaSets get their recorded pod template hashes, and new pods
    /// their recorded counterparts.
    #[must_use]
    pub fn with_controllers(
        mut self,
        enabled: &[Controller],
        recorded_hashes: Option<TemplateHashes>,
        recorded_pods: Option<&'m mut dyn RecordedPodSource>,
    ) -> Run<'m, O> {
        self.receivers.controllers =
            Some(ControllerLoop::new(enabled, self.seed, recorded_hashes, recorded_pods));
        self
    }

    /// The observer.
    pub fn observer(&self) -> &O {
        &self.receivers.observer
    }

    /// The observer, mutable.
    pub fn observer_mut(&mut self) -> &mut O {
        &mut self.receivers.observer
    }

    /// Ends the run and returns its observer.
    pub fn into_observer(self) -> O {
        self.receivers.observer
    }

    /// The current virtual time.
    pub fn now(&self) -> Moment {
        self.timeline.now()
    }

    /// Each unsupported controller feature that was requested, with its count.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, u64)> {
        self.receivers.controllers.iter().flat_map(ControllerLoop::unsupported)
    }

    /// Whether no state is left of deleted pods.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.demands.is_empty() && self.pods.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn has_no_withdrawal_state(&self) -> bool {
        self.demands.has_no_substitutes() && self.pods.has_no_unassigned()
    }

    #[cfg(test)]
    pub(crate) fn autoscaler_mut(&mut self) -> Option<&mut AutoscalerLoop> {
        self.receivers.autoscaler.as_mut()
    }

    /// Advances the clock to a moment, with everything that is due before it.
    pub fn advance(&mut self, until: Moment) {
        while let Some(next) = self.next_event_time().filter(|next| *next < until) {
            self.timeline.advance_to(next);
            self.step();
        }
        self.timeline.advance_to(until);
    }

    /// Applies an input at this moment. The run must have been advanced to it.
    pub fn apply_input(&mut self, at: Moment, input: Input) -> Result<(), InvalidPod> {
        self.timeline.advance_to(at);
        self.receivers.scheduler.wake();
        match input {
            Input::Object(what) => self.apply_object(what),
            Input::Demand(parsed_demand) => self.add_demand(*parsed_demand),
            Input::Withdrawn(demand) => {
                let withdrawn = self.demands.select_for_withdrawal(demand, &self.pods);
                self.withdraw(withdrawn);
            }
            Input::CleanedUp(demand) => self.delete_when_finished(self.demands.resolve_substitute(demand)),
            Input::PodDeleted(demand) => self.delete_for_client(self.demands.resolve_substitute(demand)),
            Input::PodChanged(demand, pod) => return self.change_pod(demand, &pod),
        }
        Ok(())
    }

    /// Advances until the cluster is stable, or for `timeout` after the last node arrived. Returns whether it is
    /// stable.
    pub fn settle(&mut self, timeout: Duration) -> bool {
        let mut until = after(self.now(), timeout);
        while !self.is_stable() {
            if self.awaits_node() {
                until = after(self.now(), timeout).max(until);
            }
            let Some(next) = self.next_event_time().filter(|next| *next <= until || self.awaits_node())
            else {
                return false;
            };
            self.timeline.advance_to(next);
            self.step();
        }
        true
    }

    /// Whether no pod is about to be attempted, bound, created or deleted, no node is being provisioned, and the
    /// autoscaler has found no scale-up for the pending pods. Running containers may still exit and nodes may still
    /// become unneeded, which takes longer.
    pub fn is_stable(&self) -> bool {
        let scheduler = &self.receivers.scheduler;
        !self.timeline.agenda.is_busy()
            && scheduler.is_idle()
            && self.receivers.autoscaler.as_ref().is_none_or(|autoscaler| {
                !autoscaler.awaits_node() && (!scheduler.has_unschedulable() || autoscaler.is_idle())
            })
    }

    fn awaits_node(&self) -> bool {
        self.receivers.autoscaler.as_ref().is_some_and(AutoscalerLoop::awaits_node)
    }

    /// When the next event is due, apart from inputs.
    fn next_event_time(&self) -> Option<Moment> {
        let now = self.now();
        let scheduler = self.receivers.scheduler.next(now);
        let autoscaler = self.receivers.autoscaler.as_ref().map(AutoscalerLoop::next);
        let next = [scheduler, autoscaler, self.next_controller_wake(), self.timeline.agenda.next()]
            .into_iter()
            .flatten()
            .min();
        next.map(|next| next.max(now).max(self.first_decision))
    }

    /// When the controllers' next timer fires.
    fn next_controller_wake(&self) -> Option<Moment> {
        self.receivers.controllers.as_ref()?.next()
    }

    /// Handles one event that is due now: tasks first, then controllers, then the scheduler, then the autoscaler.
    fn step(&mut self) {
        let now = self.now();
        if let Some(task) = self.timeline.agenda.take(now) {
            self.receivers.scheduler.wake();
            self.run_task(task);
        } else if self.next_controller_wake().is_some_and(|next| next <= now) {
            self.receivers.scheduler.wake();
            self.sync_controllers();
        } else if let Some(attempt) = self.receivers.scheduler.schedule_one(now) {
            self.handle_attempt(attempt);
        } else {
            self.run_autoscaler();
        }
    }

    fn run_task(&mut self, task: RunTask) {
        match task {
            RunTask::CreatePod(demand) => self.create_next_pod(demand),
            RunTask::FinishBinding(pod) => self.finish_binding(pod),
            RunTask::StartContainers(pod) => self.start_containers(pod),
            RunTask::FinishContainers(pod) => self.finish_containers(pod),
            RunTask::Evict(pod, cause) => self.evict(pod, cause),
            RunTask::FinishPreemption(pod) => self.finish_preemption(pod),
            RunTask::EvictByTaint(pod, at) => self.evict_by_taint(pod, at),
            RunTask::FinishDeletion(pod) => self.finish_deletion(pod),
            RunTask::CollectPods(node) => self.run_pod_gc(&node),
            RunTask::SyncControllers => self.sync_controllers(),
        }
    }

    /// When an operation that begins now for a pod is done: after the recorded duration, or a sampled latency.
    fn completion_time(
        &self,
        id: PodId,
        recorded_duration: fn(&PodIncarnation) -> Option<ObservedDuration>,
        latency_kind: LatencyKind,
    ) -> Moment {
        self.completion_time_since(self.now(), id, recorded_duration, latency_kind)
    }

    /// The same, where the recorded duration counts from an earlier moment.
    fn completion_time_since(
        &self,
        began: Moment,
        id: PodId,
        recorded_duration: fn(&PodIncarnation) -> Option<ObservedDuration>,
        latency_kind: LatencyKind,
    ) -> Moment {
        match self.demands.recorded_incarnation(id).and_then(recorded_duration) {
            Some(ObservedDuration { duration, is_lower_bound: false }) => after(began, duration),
            Some(ObservedDuration { duration, is_lower_bound: true }) => {
                self.sampled_completion_time(id, latency_kind).max(after(began, duration).plus_nanos(1))
            }
            None => self.sampled_completion_time(id, latency_kind),
        }
    }

    /// When an operation that begins now for a pod is done, by a sampled latency. It does not depend on other pods: so
    /// a replay of a replay, which has more recorded durations, samples the same for the rest.
    fn sampled_completion_time(&self, id: PodId, latency_kind: LatencyKind) -> Moment {
        let pod = self.pods.get(id).map(|pod| &pod.name);
        let demand = || self.demands.get(id.demand).map(|state| &state.template.view.name);
        let mut name_hash = if pod.is_some() { FNV_OFFSET } else { FNV_OFFSET ^ u64::from(id.incarnation) };
        if let Some(NamespacedName { namespace, name }) = pod.or_else(demand) {
            for byte in namespace.bytes().chain([b'/']).chain(name.bytes()) {
                name_hash = (name_hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        after(self.now(), self.timeline.latencies.draw_for(name_hash, latency_kind, self.now()))
    }
}
