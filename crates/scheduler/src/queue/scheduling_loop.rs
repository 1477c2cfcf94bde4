//! The scheduling loop: popping pods, advancing time, and handling the results of bindings.

use model::{Moment, NamespacedName};

use super::super::decision::Decision;
use super::super::ids::PodId;
use super::super::pod::Pod;
use super::super::{CycleEffect, NominationChange, Scheduler};
use super::{EntryState, QueueContext, QueueState, QueuedPodInfo, SchedulingQueue};
use crate::events::{ClusterEvent, EventObjects, ObservedEvent};

/// A scheduling attempt and its decision.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulingAttempt {
    /// The pod.
    pub pod: NamespacedName,
    /// The decision.
    pub decision: Decision,
}

impl Scheduler {
    /// Pops the next pod and runs its scheduling cycle: it is assumed on its node, or returned to the queue as in
    /// kube-scheduler. Time advances first, as by [`Scheduler::advance`].
    ///
    /// Returns `None` if no pod is ready.
    pub fn schedule_one(&mut self, now: Moment) -> Option<SchedulingAttempt> {
        self.advance(now);
        let id = self.queue.pop()?;
        let pod = self.cache.pod(id).name.clone();
        let profile = match self.profile_for(id) {
            Ok(profile) => profile,
            Err(decision) => {
                if let Decision::Gated(_) = *decision {
                    // The API server rejects added gates, but a recording may have them.
                    self.with_queue(|queue, context| queue.enqueue_or_back_off(now, id, context));
                } else {
                    // A terminating pod returns to the queue only if it is updated. Its nomination is dropped:
                    // kube-scheduler remembers the pod's name there, but not its requests.
                    self.queue.remove(id);
                    self.nominator.set(id, None);
                }
                return Some(SchedulingAttempt { pod, decision: *decision });
            }
        };
        let (decision, effect) = self.decide(now, id, profile);
        let unschedulable_plugins = match &decision {
            Decision::Unschedulable(rejection) => Some(rejection.unschedulable_plugins.as_slice()),
            Decision::Failed(_) => Some(&[][..]),
            Decision::Scheduled(_) | Decision::Skipped(_) | Decision::Gated(_) => None,
        };
        if let Some(unschedulable_plugins) = unschedulable_plugins {
            self.with_queue(|queue, context| {
                queue.add_unschedulable(now, id, unschedulable_plugins, context)
            });
        }
        self.apply_effect(now, id, effect);
        Some(SchedulingAttempt { pod, decision })
    }

    /// The pod that [`Scheduler::schedule_one`] would attempt now.
    pub fn next_pod(&mut self, now: Moment) -> Option<NamespacedName> {
        self.advance(now);
        self.queue.first().map(|id| self.cache.pod(id).name.clone())
    }

    /// Advances time to this moment: backoffs end with each whole second, and at each whole and half minute pods that
    /// have been unschedulable for more than five minutes are flushed.
    pub fn advance(&mut self, now: Moment) {
        while let Some(tick) = self.queue.next_tick().filter(|tick| *tick <= now) {
            self.with_queue(|queue, context| queue.tick(tick, context));
        }
    }

    /// The next moment, not before now, at which a backoff ends or a pod is flushed. `None` if there is none.
    pub fn next_wake(&self, now: Moment) -> Option<Moment> {
        self.queue.next_tick().map(|tick| tick.max(now))
    }

    /// Whether activeQ and backoffQ are empty. Unschedulable pods, and pods whose cycle failed with an error, may be
    /// left.
    pub fn is_idle(&self) -> bool {
        self.queue.active_q.is_empty() && self.queue.backoff_q.is_empty()
    }

    /// Whether there are unschedulable pods.
    pub fn has_unschedulable_pods(&self) -> bool {
        self.queue.has_unschedulable()
    }

    /// The binding of a pod failed: the pod is forgotten by the cache and retried after a backoff. Ignored if the pod
    /// is not being bound.
    pub fn bind_failed(&mut self, now: Moment, namespace: &str, name: &str) {
        self.advance(now);
        let Some(id) = self.cache.find_pod(namespace, name).filter(|id| self.queue.is_in_flight(*id)) else {
            return;
        };
        self.forget_assumed_pod(now, id);
        self.with_queue(|queue, context| queue.add_unschedulable(now, id, &[], context));
        self.set_nomination(now, id, None);
    }

    /// Whether a profile of this scheduler is responsible for a pod.
    pub fn is_responsible_for(&self, namespace: &str, name: &str) -> bool {
        self.cache.find_pod(namespace, name).is_some_and(|id| self.is_responsible(self.cache.pod(id)))
    }

    /// Returns whether preemption is asynchronous. If so it begins now: until [`Scheduler::finish_preemption`] the pod
    /// is kept out of the queue.
    pub fn begin_preemption(&mut self, namespace: &str, name: &str) -> bool {
        if let Some(id) = self.cache.find_pod(namespace, name).filter(|_| self.queue.async_preemption) {
            self.queue.preempting.insert(id);
        }
        self.queue.async_preemption
    }

    /// The deletion of all victims of a pod has been requested. The pod is requeued when they are gone.
    pub fn finish_preemption(&mut self, namespace: &str, name: &str) {
        if let Some(id) = self.cache.find_pod(namespace, name) {
            self.queue.preempting.remove(&id);
        }
    }

    /// All pending pods, by name.
    pub fn queued_pods(&self) -> impl Iterator<Item = QueuedPodInfo> {
        let mut queued: Vec<QueuedPodInfo> = Vec::with_capacity(self.queue.entries.len());
        #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
        for (id, entry) in &self.queue.entries {
            let until = entry.backoff_expiration.unwrap_or(Moment::MIN);
            let state = match entry.state {
                EntryState::Active => QueueState::Active,
                EntryState::Backoff | EntryState::ErrorBackoff => QueueState::Backoff { until },
                EntryState::Unschedulable => {
                    QueueState::Unschedulable { plugins: entry.unschedulable_plugins.to_vec() }
                }
                EntryState::Gated(plugin) => QueueState::Gated { plugin },
                EntryState::InFlight => continue,
            };
            queued.push(QueuedPodInfo {
                pod: self.cache.pod(*id).name.clone(),
                state,
                attempts: entry.attempts,
            });
        }
        queued.sort_unstable_by(|a, b| a.pod.cmp(&b.pod));
        queued.into_iter()
    }

    /// Applies the effect of a decision.
    pub(crate) fn apply_effect(&mut self, now: Moment, id: PodId, effect: CycleEffect) {
        match effect {
            CycleEffect::Nomination(NominationChange::Unchanged) => {}
            CycleEffect::Assume(node, reservation) => {
                self.nominator.set(id, None);
                self.cache.assume_pod(id, node);
                if let Some(reservation) = reservation {
                    self.cache.storage.assume(&reservation);
                    self.reservations.insert(id, reservation);
                }
            }
            CycleEffect::Nomination(NominationChange::Cleared) => self.set_nomination(now, id, None),
            CycleEffect::Nomination(NominationChange::Nominated(node, cleared)) => {
                cleared.into_iter().for_each(|pod| self.set_nomination(now, pod, None));
                let node = self.cache.nodes.name(node).clone();
                self.set_nomination(now, id, Some(node));
            }
        }
    }

    /// Forgets an assumed pod, and requeues pods that this may help.
    pub(super) fn forget_assumed_pod(&mut self, now: Moment, id: PodId) {
        if !self.cache.is_assumed(id) {
            return;
        }
        let Some(node) = self.cache.node_of(id) else { return };
        let mut forgotten_pod = self.cache.pod(id).clone();
        forgotten_pod.node_name = Some(self.cache.nodes.name(node).clone());
        self.cache.forget_pod(id);
        self.unreserve_volumes(id);
        self.requeue_for_pod_left(now, &forgotten_pod, id, |_| true);
    }

    /// Drops the volume reservation of a pod.
    pub(super) fn unreserve_volumes(&mut self, id: PodId) {
        if let Some(reservation) = self.reservations.remove(&id) {
            self.cache.storage.forget(&reservation);
        }
    }

    /// Requeues pods after a pod left its node or lost its nomination. Its volumes are those of its queue entry, if it
    /// has one.
    pub(super) fn requeue_for_pod_left(
        &mut self,
        now: Moment,
        departed_pod: &Pod,
        id: PodId,
        is_candidate: impl Fn(&Pod) -> bool,
    ) {
        let volumes = self.queue.entries.get(&id).and_then(|entry| entry.hint_inputs.volumes.clone());
        let objects = EventObjects::Pod { old: Some(departed_pod), new: None, volumes: volumes.as_deref() };
        self.requeue_for_event(
            now,
            &ObservedEvent { cluster_event: ClusterEvent::AssignedPodDelete, objects },
            is_candidate,
        );
    }

    /// Requeues pods for which `is_candidate` holds and which the event may help.
    pub(super) fn requeue_for_event(
        &mut self,
        now: Moment,
        event: &ObservedEvent<'_>,
        is_candidate: impl Fn(&Pod) -> bool,
    ) {
        self.with_queue(|queue, context| {
            queue.move_all_to_active_or_backoff_queue(now, event, is_candidate, context)
        });
    }

    pub(super) fn with_queue<T>(
        &mut self,
        change: impl FnOnce(&mut SchedulingQueue, QueueContext<'_>) -> T,
    ) -> T {
        change(&mut self.queue, QueueContext { cache: &self.cache, profiles: &self.profiles })
    }
}
