//! Termination of pods: containers exit, owners and clients delete pods, and pods are evicted.

use kubernetes::time::after;
use model::{Kind, Moment, NamespacedName};

use super::Run;
use super::event_receivers::ChangeKind;
use crate::events::SchedulerEvent;
use crate::eviction::EvictionCause;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::input::RecreatePolicy;
use crate::latency::LatencyKind;
use crate::observer::{Observer, SimulationEvent};
use crate::store::PodStage;
use crate::timeline::RunTask;

impl<O: Observer> Run<'_, O> {
    /// The containers of a pod exit.
    pub(super) fn finish_containers(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.stage != PodStage::Bound || pod.is_terminating() {
            return;
        }
        let exit = self.demands.get(id.demand).and_then(|state| state.demand.exit);
        (pod.stage, pod.finished) = (PodStage::Finished, Some((now, exit.is_some_and(|exit| exit.fails))));
        if let Some(node) = pod.node() {
            self.receivers
                .notify_event(now, &SimulationEvent::ResourcesReleased { id, node, requests: pod.requests });
        }
        self.receivers.pod_changed(&mut self.timeline, pod, ChangeKind::Modified);
        self.pods.release_node(id);
        self.finish_demand(id.demand);
        if self.demands.get(id.demand).is_some_and(|state| state.delete_when_finished) {
            self.withdraw(id.demand);
        }
    }

    /// Finishes a demand; the demands that wait for it are due.
    fn finish_demand(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get_mut(demand) else { return };
        state.is_finished = true;
        for successor in std::mem::take(&mut state.successors) {
            let first = PodId { demand: successor, incarnation: 0 };
            let at = self.completion_time(
                first,
                |incarnation| incarnation.recreate_duration,
                LatencyKind::NextJobPod,
            );
            self.timeline.put(at, RunTask::CreatePod(successor));
        }
        self.remove_demand_if_done(demand);
    }

    fn remove_demand_if_done(&mut self, demand: DemandId) {
        if self.demands.get(demand).is_some_and(|state| state.is_finished && state.pods_existing == 0) {
            self.demands.remove(demand);
            self.receivers.notify_event(self.timeline.now(), &SimulationEvent::DemandFinished(demand));
        }
    }

    /// Deletes the pod of a demand as soon as it has finished.
    pub(super) fn delete_when_finished(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get_mut(demand) else { return };
        if state.is_finished {
            self.withdraw(demand);
        } else {
            state.delete_when_finished = true;
        }
    }

    /// Withdraws a demand: it is finished, and its pods are deleted.
    pub(super) fn withdraw(&mut self, demand: DemandId) {
        self.finish_demand(demand);
        for id in self.pods.of_demand(demand).map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(pod) = self.pods.get_mut(id) else { continue };
            let is_newly_withdrawn = pod.finished.is_none() && !std::mem::replace(&mut pod.withdrawn, true);
            if !pod.is_terminating() {
                self.begin_deletion(id, None);
            } else if is_newly_withdrawn {
                self.notify_pod_status(id);
            }
        }
    }

    /// A client deletes the pod of a demand.
    pub(super) fn delete_for_client(&mut self, demand: DemandId) {
        let newest = self.pods.of_demand(demand).next_back();
        if let Some((id, pod)) = newest
            && !pod.is_terminating()
        {
            self.begin_deletion(id, None);
            self.recreate(id);
        }
    }

    /// Evicts a pod.
    pub(super) fn evict(&mut self, id: PodId, cause: EvictionCause) {
        let now = self.now();
        let Some(pod) =
            self.pods.get(id).filter(|pod| !pod.is_terminating() && pod.stage != PodStage::Finished)
        else {
            return;
        };
        self.receivers.notify_event(
            now,
            &SimulationEvent::PodEvicted { id, pod: &pod.name, node: pod.node(), cause: &cause },
        );
        if let EvictionCause::Preemption(preemptor) = &cause {
            self.receivers.scheduler_event(now, pod, || {
                let preemptor = self
                    .pods
                    .get_by_name(preemptor)
                    .map(|preemptor| preemptor.uid.clone())
                    .unwrap_or_default();
                let node = pod.node().cloned().unwrap_or_default();
                SchedulerEvent {
                    reason: "Preempted",
                    action: "Preempting",
                    note: format!("Preempted by pod {preemptor} on node {node}"),
                    warning: false,
                }
            });
        }
        self.begin_deletion(id, Some(cause));
        self.recreate(id);
    }

    /// A pod was bound, or the pod or its node changed: a taint may evict it.
    pub(super) fn check_taints(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(id).filter(|pod| pod.stage == PodStage::Bound) else { return };
        let now = self.timeline.now();
        if let Some(at) = self.taint_eviction.pod_changed(now, &id, pod.node(), pod.tolerations()) {
            self.timeline.put(at, RunTask::EvictByTaint(id, at));
        }
    }

    /// Evicts a pod whose toleration of a taint has expired, if that eviction is still pending.
    pub(super) fn evict_by_taint(&mut self, id: PodId, at: Moment) {
        if let Some(taint) = self.taint_eviction.evicts(&id, at) {
            self.evict(id, EvictionCause::Taint(taint));
        }
    }

    /// The owner of a terminating pod recreates it, as the demand's policy says.
    pub(super) fn recreate(&mut self, id: PodId) {
        let Some(state) = self.demands.get_unfinished(id.demand) else { return };
        match state.demand.recreate {
            RecreatePolicy::Never => self.finish_demand(id.demand),
            RecreatePolicy::WhenTerminating => self.begin_recreation(id.demand),
            RecreatePolicy::WhenGone => {}
        }
    }

    /// Has the owner of a demand create its next pod after a delay.
    fn begin_recreation(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get(demand) else { return };
        let next = PodId { demand, incarnation: state.pods_created };
        let not_recreated_for = state
            .demand
            .not_recreated_for
            .filter(|_| state.pods_created as usize == state.demand.incarnations.len());
        let at = match not_recreated_for {
            Some(not_recreated_for) => self
                .sampled_completion_time(next, LatencyKind::PodRecreation)
                .max(after(self.now(), not_recreated_for).plus_nanos(1)),
            None => self.completion_time(
                next,
                |incarnation| incarnation.recreate_duration,
                LatencyKind::PodRecreation,
            ),
        };
        self.timeline.put(at, RunTask::CreatePod(demand));
    }

    /// Begins to delete a pod.
    pub(super) fn begin_deletion(&mut self, id: PodId, cause: Option<EvictionCause>) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id).filter(|pod| !pod.is_terminating()) else { return };
        let is_forced = matches!(cause, Some(EvictionCause::NodeDeleted))
            || pod.stage == PodStage::Finished
            || pod.bound_at.is_none();
        let grace = if is_forced { 0 } else { pod.template.grace_seconds };
        pod.deletion = Some((now, grace));
        if let Some(cause) = cause {
            if cause == EvictionCause::NodeDeleted {
                pod.finished = pod.finished.or(Some((now, true)));
            }
            pod.disruption = Some((cause, now));
        }
        if is_forced && !pod.has_finalizers {
            self.remove_pod(id);
            return;
        }
        self.receivers.pod_changed(&mut self.timeline, pod, ChangeKind::Modified);
        let latency_kind = if is_forced { LatencyKind::ForcedPodDeletion } else { LatencyKind::PodDeletion };
        let at = self.completion_time(id, |incarnation| incarnation.deletion_duration, latency_kind);
        self.timeline.put(at, RunTask::FinishDeletion(id));
    }

    /// A terminating pod can be removed, unless its node is deleted: then no kubelet stops its containers.
    pub(super) fn finish_deletion(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(id) else { return };
        let is_stopped = pod.deletion.is_some_and(|(_, grace)| grace == 0);
        if is_stopped || pod.node().is_some_and(|node| self.nodes.contains(node)) {
            self.remove_pod(id);
        }
    }

    /// Removes a pod, unless finalizers keep it.
    pub(super) fn remove_pod(&mut self, id: PodId) {
        let now = self.now();
        let jobs_are_controlled = self.is_controlled(&Kind::new("batch", "Job"));
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.has_finalizers && jobs_are_controlled {
            if !std::mem::replace(&mut pod.awaits_finalizers, true) {
                self.notify_pod(id, ChangeKind::Modified);
            }
            return;
        }
        self.receivers.pod_changed(&mut self.timeline, pod, ChangeKind::Deleted);
        let Some(pod) = self.pods.remove(id) else { return };
        self.taint_eviction.pod_deleted(&id);
        let was_pending = pod.bound_at.is_none();
        self.receivers.notify_event(now, &SimulationEvent::PodDeleted { id, pod: &pod.name, was_pending });
        if let (PodStage::Bound, Some(node)) = (pod.stage, pod.node()) {
            self.receivers
                .notify_event(now, &SimulationEvent::ResourcesReleased { id, node, requests: pod.requests });
        }
        for demand in pod.waiting_for_name {
            self.timeline.put(now, RunTask::CreatePod(demand));
        }
        let Some(state) = self.demands.get_mut(id.demand) else { return };
        state.pods_existing = state.pods_existing.saturating_sub(1);
        if !state.is_finished && state.demand.recreate == RecreatePolicy::WhenGone && state.pods_existing == 0
        {
            self.begin_recreation(id.demand);
        }
        self.remove_demand_if_done(id.demand);
    }

    /// The Job controller has counted a pod and removed its finalizer.
    pub(super) fn remove_finalizers(&mut self, name: &NamespacedName, uid: &str) {
        let Some(id) = self.pods.id_of(name) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        if *pod.uid != *uid || !std::mem::take(&mut pod.has_finalizers) {
            return;
        }
        match pod.awaits_finalizers {
            true => self.remove_pod(id),
            false => self.notify_pod(id, ChangeKind::Modified),
        }
    }
}
