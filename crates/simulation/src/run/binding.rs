//! Scheduling and binding of pods: the scheduler's decisions are carried out, and containers start.

use kubernetes::time::after;
use model::Moment;
use scheduler::{Decision, Rejection, ScheduleResult, SchedulingAttempt};

use super::Run;
use super::event_receivers::ChangeKind;
use crate::events::SchedulerEvent;
use crate::eviction::EvictionCause;
use crate::ids::PodId;
use crate::latency::LatencyKind;
use crate::observer::{Observer, SimulationEvent};
use crate::store::PodStage;
use crate::timeline::RunTask;

impl<O: Observer> Run<'_, O> {
    /// The scheduler has attempted a pod.
    pub(super) fn handle_attempt(&mut self, attempt: SchedulingAttempt) {
        let SchedulingAttempt { pod, decision } = attempt;
        // The scheduler knows only pods of this run.
        let Some(id) = self.pods.id_of(&pod) else { return };
        let now = self.now();
        match decision {
            Decision::Scheduled(placement) => self.handle_placement(id, placement),
            Decision::Unschedulable(rejection) => self.handle_rejection(id, &rejection),
            Decision::Failed(reason) | Decision::Skipped(reason) => {
                self.receivers
                    .notify_event(now, &SimulationEvent::PodNotAttempted { id, pod: &pod, reason: &reason });
            }
            Decision::Gated(status) => {
                self.receivers.notify_event(
                    now,
                    &SimulationEvent::PodNotAttempted { id, pod: &pod, reason: &status.message() },
                );
            }
        }
    }

    fn handle_placement(&mut self, id: PodId, placement: ScheduleResult) {
        let now = self.now();
        let busy_until = self.receivers.scheduler.begin_attempt(now, &mut self.timeline.latencies);
        let Some(pod) = self.pods.get(id) else { return };
        let bound = if pod.failed_attempts == 0 {
            self.completion_time_since(
                pod.created,
                id,
                |incarnation| incarnation.bind_duration,
                LatencyKind::Bind,
            )
        } else {
            self.sampled_completion_time(id, LatencyKind::Bind)
        };
        self.begin_binding(id, placement, bound.max(busy_until));
    }

    fn handle_rejection(&mut self, id: PodId, rejection: &Rejection) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        let name = pod.name.clone();
        let is_changed =
            pod.set_unschedulable(now, &rejection.full_message(), rejection.nominated_node.clone());
        self.receivers.scheduler.begin_attempt(now, &mut self.timeline.latencies);
        if is_changed {
            // A new message is patched into the status before the next attempt; an unchanged one is not written.
            self.receivers.scheduler.wait_for_status_patch(now, &mut self.timeline.latencies);
            self.notify_pod_status(id);
            if let Some(autoscaler) = &mut self.receivers.autoscaler {
                autoscaler.pod_unschedulable(now, &name);
            }
        }
        if let Some(pod) = self.pods.get(id) {
            self.receivers.scheduler_event(now, pod, || SchedulerEvent {
                reason: "FailedScheduling",
                action: "Scheduling",
                note: rejection.event_message(),
                warning: true,
            });
        }
        self.receivers.notify_event(now, &SimulationEvent::PodUnschedulable { id, pod: &name, rejection });
        let victims = rejection.victims.iter().filter_map(|victim| self.pods.id_of(victim));
        let victims: Vec<PodId> = victims.collect();
        let sampler = &mut self.timeline.latencies;
        let preemption = self.receivers.scheduler.preempt(now, &name, victims.len(), sampler);
        for (victim, at) in victims.into_iter().zip(preemption.victims) {
            self.timeline.put(at, RunTask::Evict(victim, EvictionCause::Preemption(name.clone())));
        }
        if let Some(at) = preemption.ends {
            self.timeline.put(at, RunTask::FinishPreemption(id));
        }
        for cleared in rejection.cleared_nominations.iter().filter(|cleared| **cleared != name) {
            let Some(other) = self.pods.id_of(cleared) else { continue };
            if self.pods.get_mut(other).is_some_and(|pod| pod.set_nominated(None)) {
                self.notify_pod_status(other);
            }
        }
    }

    /// The deletion of all victims of a pod has begun.
    pub(super) fn finish_preemption(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            self.receivers.scheduler.preemption_ended(&pod.name);
        }
    }

    /// Assigns a pod to a node; the binding becomes visible at that moment.
    pub(super) fn begin_binding(&mut self, id: PodId, placement: ScheduleResult, at: Moment) {
        self.pods.assign(id, &placement.node);
        let Some(pod) = self.pods.get_mut(id) else { return };
        (pod.stage, pod.placement) = (PodStage::Binding, Some(placement));
        self.timeline.put(at, RunTask::FinishBinding(id));
    }

    /// The binding of a pod becomes visible.
    pub(super) fn finish_binding(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id).filter(|pod| pod.stage == PodStage::Binding) else { return };
        let Some(node) = pod.node().cloned() else { return };
        let name = pod.name.clone();
        // A terminating pod is not bound. The API server does not check whether the node exists.
        if pod.is_terminating() {
            pod.stage = PodStage::Pending;
            self.pods.unassign(id);
            self.receivers.scheduler.bind_failed(now, &name);
            return;
        }
        (pod.stage, pod.bound_at, pod.nominated) = (PodStage::Bound, Some(now), None);
        let (placement, created, failed_attempts) = (pod.placement.take(), pod.created, pod.failed_attempts);
        self.receivers.notify_event(
            now,
            &SimulationEvent::ResourcesClaimed { id, node: &node, requests: pod.requests },
        );
        self.notify_pod(id, ChangeKind::Modified);
        if let (Some(placement), Some(pod)) = (placement, self.pods.get(id)) {
            self.receivers.scheduler_event(now, pod, || SchedulerEvent {
                reason: "Scheduled",
                action: "Binding",
                note: format!("Successfully assigned {}/{} to {node}", name.namespace, name.name),
                warning: false,
            });
            let event =
                SimulationEvent::PodBound { id, pod: &name, created, placement: &placement, failed_attempts };
            self.receivers.notify_event(now, &event);
        }
        if !self.nodes.contains(&node) {
            self.schedule_pod_gc(&node);
            return;
        }
        self.begin_start(id);
        self.check_taints(id);
    }

    pub(super) fn begin_start(&mut self, id: PodId) {
        let at = self.completion_time(id, |incarnation| incarnation.start_duration, LatencyKind::PodStart);
        self.timeline.put(at, RunTask::StartContainers(id));
    }

    /// The containers of a pod start.
    pub(super) fn start_containers(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.stage != PodStage::Bound || pod.is_terminating() || pod.started.is_some() {
            return;
        }
        pod.started = Some(now);
        if let Some(exit) = self.demands.get(id.demand).and_then(|state| state.demand.exit) {
            self.timeline.put(after(now, exit.after), RunTask::FinishContainers(id));
        }
        self.receivers.pod_started(&mut self.timeline, pod);
    }
}
