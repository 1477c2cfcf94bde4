//! Running the queue: trying pods in their turn, letting time pass, and hearing what became of bindings.

use model::{Moment, NamespacedName};

use super::super::answer::Decision;
use super::super::ids::PodId;
use super::super::pod::Pod;
use super::super::{Consequence, Promise, Scheduler};
use super::{Known, Place, Queue, Queued, State};
use crate::events::{About, Event, Sort};

/// A pod that was tried, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempted {
    /// The pod.
    pub pod: NamespacedName,
    /// What came of it.
    pub decision: Decision,
}

impl Scheduler {
    /// Tries the pod whose turn it is: it is assumed on its node, or waits again as the real scheduler would have it
    /// wait. Time passes first, as by [`Scheduler::advance`].
    ///
    /// `None` if no pod is ready.
    pub fn schedule_one(&mut self, now: Moment) -> Option<Attempted> {
        self.advance(now);
        let id = self.queue.pop()?;
        let pod = self.world.pod(id).name.clone();
        let profile = match self.profile_for(id) {
            Ok(profile) => profile,
            Err(decision) => {
                if let Decision::Gated(_) = *decision {
                    // Gates cannot be added, but a recording may say so.
                    self.with_queue(|queue, known| queue.put_back(now, id, known));
                } else {
                    // One that is being deleted comes back only if it changes. What it was promised is not kept free:
                    // the original remembers its name there, but not what it asks for.
                    self.queue.remove(id);
                    self.nominations.set(id, None);
                }
                return Some(Attempted { pod, decision: *decision });
            }
        };
        let (decision, consequence) = self.decide(now, id, profile);
        let rejectors = match &decision {
            Decision::Refused(rejection) => Some(rejection.plugins.as_slice()),
            Decision::Failed(_) => Some(&[][..]),
            Decision::Placed(_) | Decision::Skipped(_) | Decision::Gated(_) => None,
        };
        if let Some(rejectors) = rejectors {
            self.with_queue(|queue, known| queue.fail(now, id, rejectors, known));
        }
        self.follow(now, id, consequence);
        Some(Attempted { pod, decision })
    }

    /// Lets time pass until this moment: waits end with each whole second, and at each whole and half minute those
    /// that were refused more than five minutes ago are tried again.
    pub fn advance(&mut self, now: Moment) {
        while let Some(tick) = self.queue.next_tick().filter(|tick| *tick <= now) {
            self.with_queue(|queue, known| queue.tick(tick, known));
        }
    }

    /// The next moment at which time alone moves a pod; never earlier than now. `None` if there is none.
    pub fn next_wake(&self, now: Moment) -> Option<Moment> {
        self.queue.next_tick().map(|tick| tick.max(now))
    }

    /// Whether nobody's turn comes before something changes: pods may be left that were refused, or whose cycle failed.
    pub fn is_idle(&self) -> bool {
        self.queue.active.is_empty() && self.queue.backoff.is_empty()
    }

    /// Whether pods wait that no node takes.
    pub fn has_refused(&self) -> bool {
        self.queue.is_anyone_refused()
    }

    /// The binding of a pod is seen to have worked, as by an update of the pod that names its node. Nothing happens if
    /// the pod is not on its way to a node.
    pub fn placed(&mut self, now: Moment, namespace: &str, name: &str) {
        self.advance(now);
        let Some(id) = self.world.find(namespace, name).filter(|id| self.queue.is_binding(*id)) else {
            return;
        };
        let Some(node) = self.world.node_of(id) else { return };
        let mut pod = self.world.pod(id).clone();
        pod.node_name = Some(self.world.nodes.name(node).clone());
        pod.nominated_node = None;
        self.bound(now, id, pod);
    }

    /// The containers of a pod on a node run since then. Nobody is tried again for it.
    pub fn started(&mut self, namespace: &str, name: &str, since: Moment) {
        if let Some(id) = self.world.find(namespace, name) {
            self.world.set_started(id, since);
        }
    }

    /// A pod on a node is being deleted, to make room for another or not: the same as by [`Scheduler::apply`], without a
    /// look at the pod. Nothing happens if the pod is on no node.
    pub fn leaves(&mut self, now: Moment, namespace: &str, name: &str, preempted: bool) {
        self.advance(now);
        let Some(id) = self.world.find(namespace, name) else { return };
        let old = self.world.pod(id).clone();
        if old.node_name.is_some() {
            self.change_placed(now, id, &old, Pod { terminating: true, preempted, ..old.clone() });
        }
    }

    /// The binding of a pod failed: its place is free again, and it is tried again after a wait. Nothing happens if the
    /// pod is not on its way to a node.
    pub fn bind_failed(&mut self, now: Moment, namespace: &str, name: &str) {
        self.advance(now);
        let Some(id) = self.world.find(namespace, name).filter(|id| self.queue.is_binding(*id)) else {
            return;
        };
        self.forget_assumed(now, id);
        self.with_queue(|queue, known| queue.fail(now, id, &[], known));
        self.promise(now, id, None);
    }

    /// Whether it is for this scheduler to find a node for a pod.
    pub fn schedules(&self, namespace: &str, name: &str) -> bool {
        self.world.find(namespace, name).is_some_and(|id| self.is_own(self.world.pod(id)))
    }

    /// Whether the victims of a pod are deleted while the scheduler goes on. If so, that begins now: until
    /// [`Scheduler::has_preempted`] the pod is kept back.
    pub fn preempts(&mut self, namespace: &str, name: &str) -> bool {
        if let Some(id) = self.world.find(namespace, name).filter(|_| self.queue.preempts_aside) {
            self.queue.preempting.insert(id);
        }
        self.queue.preempts_aside
    }

    /// All victims of a pod are marked for deletion. What wakes the pod is their end.
    pub fn has_preempted(&mut self, namespace: &str, name: &str) {
        if let Some(id) = self.world.find(namespace, name) {
            self.queue.preempting.remove(&id);
        }
    }

    /// Every pod that waits, by name.
    pub fn queued(&self) -> impl Iterator<Item = Queued> {
        let mut all: Vec<Queued> = Vec::with_capacity(self.queue.entries.len());
        #[expect(clippy::iter_over_hash_type, reason = "sorted below")]
        for (id, entry) in &self.queue.entries {
            let until = entry.until.unwrap_or(Moment::MIN);
            let place = match entry.state {
                State::Active => Place::Active,
                State::Backoff | State::Errors => Place::Backoff { until },
                State::Refused => Place::Unschedulable { plugins: entry.rejectors.to_vec() },
                State::Gated(by) => Place::Gated { by },
                State::Binding => continue,
            };
            all.push(Queued { pod: self.world.pod(*id).name.clone(), place, attempts: entry.attempts });
        }
        all.sort_unstable_by(|a, b| a.pod.cmp(&b.pod));
        all.into_iter()
    }

    /// What follows from a decision.
    pub(crate) fn follow(&mut self, now: Moment, id: PodId, consequence: Consequence) {
        match consequence {
            Consequence::Promise(Promise::Kept) => {}
            Consequence::Placed(node, reservation) => {
                self.nominations.set(id, None);
                self.world.assume(id, node);
                if let Some(reservation) = reservation {
                    self.world.storage.assume(&reservation);
                    self.reservations.insert(id, reservation);
                }
            }
            Consequence::Promise(Promise::Void) => self.promise(now, id, None),
            Consequence::Promise(Promise::Made(node, cleared)) => {
                cleared.into_iter().for_each(|pod| self.promise(now, pod, None));
                let node = self.world.nodes.name(node).clone();
                self.promise(now, id, Some(node));
            }
        }
    }

    /// A pod that was taken to be on its node is not any more.
    pub(super) fn forget_assumed(&mut self, now: Moment, id: PodId) {
        if !self.world.is_assumed(id) {
            return;
        }
        let Some(node) = self.world.node_of(id) else { return };
        let mut gone = self.world.pod(id).clone();
        gone.node_name = Some(self.world.nodes.name(node).clone());
        self.world.forget(id);
        self.give_up_volumes(id);
        self.left(now, &gone, id, |_| true);
    }

    /// The volumes that a pod was to get are free again.
    pub(super) fn give_up_volumes(&mut self, id: PodId) {
        if let Some(reservation) = self.reservations.remove(&id) {
            self.world.storage.forget(&reservation);
        }
    }

    /// A pod left its node, or what it was promised; its volumes are those that it still waits with.
    pub(super) fn left(&mut self, now: Moment, gone: &Pod, id: PodId, such: impl Fn(&Pod) -> bool) {
        let volumes = self.queue.entries.get(&id).and_then(|entry| entry.extras.volumes.clone());
        let about = About::Pod { old: Some(gone), new: None, volumes: volumes.as_deref() };
        self.happened(now, &Event { sort: Sort::PodDeleted, about }, such);
    }

    /// Something happened that may help such pods.
    pub(super) fn happened(&mut self, now: Moment, event: &Event<'_>, such: impl Fn(&Pod) -> bool) {
        self.with_queue(|queue, known| queue.happened(now, event, such, known));
    }

    pub(super) fn with_queue<T>(&mut self, change: impl FnOnce(&mut Queue, Known<'_>) -> T) -> T {
        change(&mut self.queue, Known { world: &self.world, profiles: &self.profiles })
    }
}
