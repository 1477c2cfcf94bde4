//! Pods end: by themselves, by their owners, or because they are evicted.

use kubernetes::time::after;
use model::{Kind, Moment, Object, What};

use super::Run;
use crate::components::ObservedPod;
use crate::events::PodEvent;
use crate::eviction::LostTo;
use crate::given::Again;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::observer::{Decided, Observer};
use crate::pace::Step;
use crate::store::{Stage, name_of};
use crate::timeline::Due;

impl<O: Observer> Run<'_, O> {
    /// The containers of a pod have ended.
    pub(super) fn end(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.stage != Stage::Bound || pod.is_leaving() {
            return;
        }
        let runs = self.demands.get(id.demand).and_then(|state| state.demand.runs);
        (pod.stage, pod.ended) = (Stage::Ended, Some((now, runs.is_some_and(|runs| runs.fails))));
        if let Some(node) = pod.node() {
            self.informers.decided(now, &Decided::Rises { id, node, takes: pod.takes });
        }
        self.informers.pod_released(&mut self.timeline, pod, What::Modified);
        self.pods.release(id);
        self.demand_is_over(id.demand);
        if self.demands.get(id.demand).is_some_and(|state| state.cleaned_up) {
            self.withdraw(id.demand);
        }
    }

    /// A demand is no more: those that wait for it come.
    fn demand_is_over(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get_mut(demand) else { return };
        state.over = true;
        for waiting in std::mem::take(&mut state.waiting) {
            let first = PodId { demand: waiting, life: 0 };
            let at = self.takes(first, |life| life.again, Step::NextOfJob);
            self.timeline.put(at, Due::Ask(waiting));
        }
        self.forget_if_done(demand);
    }

    fn forget_if_done(&mut self, demand: DemandId) {
        if self.demands.get(demand).is_some_and(|state| state.over && state.there == 0) {
            self.demands.remove(demand);
            self.informers.decided(self.timeline.now(), &Decided::Over(demand));
        }
    }

    /// The pod of a demand is deleted when it has ended.
    pub(super) fn clean_up(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get_mut(demand) else { return };
        if state.over {
            self.withdraw(demand);
        } else {
            state.cleaned_up = true;
        }
    }

    /// Nobody wants a demand any more.
    pub(super) fn withdraw(&mut self, demand: DemandId) {
        self.demand_is_over(demand);
        for id in self.pods.of_demand(demand).map(|(id, _)| id).collect::<Vec<_>>() {
            let Some(pod) = self.pods.get_mut(id) else { continue };
            let is_news = pod.ended.is_none() && !std::mem::replace(&mut pod.withdrawn, true);
            if !pod.is_leaving() {
                self.delete(id, None);
            } else if is_news {
                self.tell_status(id);
            }
        }
    }

    /// Somebody deletes the pod of a demand.
    pub(super) fn delete_given(&mut self, demand: DemandId) {
        let newest = self.pods.of_demand(demand).next_back();
        if let Some((id, pod)) = newest
            && !pod.is_leaving()
        {
            self.delete(id, None);
            self.make_again(id);
        }
    }

    /// A pod is evicted.
    pub(super) fn lose(&mut self, id: PodId, to: LostTo) {
        let now = self.now();
        let Some(pod) = self.pods.get(id).filter(|pod| !pod.is_leaving() && pod.stage != Stage::Ended) else {
            return;
        };
        self.informers.decided(now, &Decided::Lost { id, pod: &pod.name, node: pod.node(), to: &to });
        if let LostTo::Preemption(by) = &to {
            self.informers.scheduler_event(now, pod, || {
                let by = self.pods.named(by).map(|by| by.uid.clone()).unwrap_or_default();
                let node = pod.node().cloned().unwrap_or_default();
                PodEvent {
                    reason: "Preempted",
                    action: "Preempting",
                    note: format!("Preempted by pod {by} on node {node}"),
                    warning: false,
                }
            });
        }
        self.delete(id, Some(to));
        self.make_again(id);
    }

    /// A pod came to its node, or something about the two changed: a taint may evict it.
    pub(super) fn consider_taints(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(id).filter(|pod| pod.stage == Stage::Bound) else { return };
        let now = self.timeline.now();
        if let Some(at) = self.taint_eviction.pod_changed(now, &id, pod.node(), || pod.object()) {
            self.timeline.put(at, Due::LoseToTaint(id, at));
        }
    }

    /// The time that a taint gave a pod is over, if it is still to be evicted at that moment.
    pub(super) fn lose_to_taint(&mut self, id: PodId, at: Moment) {
        if let Some(taint) = self.taint_eviction.evicts(&id, at) {
            self.lose(id, LostTo::Taint(taint));
        }
    }

    /// Its owner makes a pod again that is being deleted.
    pub(super) fn make_again(&mut self, id: PodId) {
        let Some(state) = self.demands.open(id.demand) else { return };
        match state.demand.again {
            Again::Never => self.demand_is_over(id.demand),
            Again::AtOnce => self.will_make(id.demand),
            Again::WhenGone => {}
        }
    }

    /// The owner of a demand makes its next pod.
    fn will_make(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get(demand) else { return };
        let next = PodId { demand, life: state.made };
        let unmade = state.demand.unmade.filter(|_| state.made as usize == state.demand.lives.len());
        let at = match unmade {
            Some(unmade) => self.over_for(next, Step::Again).max(after(self.now(), unmade).plus_nanos(1)),
            None => self.takes(next, |life| life.again, Step::Again),
        };
        self.timeline.put(at, Due::Ask(demand));
    }

    /// Begins to delete a pod.
    pub(super) fn delete(&mut self, id: PodId, to: Option<LostTo>) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id).filter(|pod| !pod.is_leaving()) else { return };
        let is_forced =
            matches!(to, Some(LostTo::NodeGone)) || pod.stage == Stage::Ended || pod.bound.is_none();
        let grace = if is_forced { 0 } else { pod.body.grace_seconds };
        pod.leaving = Some((now, grace));
        if let Some(to) = to {
            if to == LostTo::NodeGone {
                pod.ended = pod.ended.or(Some((now, true)));
            }
            pod.lost = Some((to, now));
        }
        if is_forced && !pod.is_tracked {
            self.gone(id);
            return;
        }
        self.informers.pod_leaving(&mut self.timeline, pod);
        let step = if is_forced { Step::Vanish } else { Step::End };
        let at = self.takes(id, |life| life.end, step);
        self.timeline.put(at, Due::Go(id));
    }

    /// A pod could be gone now. Where the node is gone nobody stops its containers.
    pub(super) fn go(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(id) else { return };
        let is_stopped = pod.leaving.is_some_and(|(_, grace)| grace == 0);
        if is_stopped || pod.node().is_some_and(|node| self.nodes.contains(node)) {
            self.gone(id);
        }
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, id: PodId) {
        let now = self.now();
        let is_counted = self.is_controlled(&Kind::new("batch", "Job"));
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.is_tracked && is_counted {
            if !std::mem::replace(&mut pod.is_over, true) {
                self.tell_pod(id, What::Modified);
            }
            return;
        }
        self.informers.pod_released(&mut self.timeline, pod, What::Deleted);
        let Some(pod) = self.pods.remove(id) else { return };
        self.taint_eviction.pod_deleted(&id);
        let waited = pod.bound.is_none();
        self.informers.decided(now, &Decided::Went { id, pod: &pod.name, waited });
        if let (Stage::Bound, Some(node)) = (pod.stage, pod.node()) {
            self.informers.decided(now, &Decided::Rises { id, node, takes: pod.takes });
        }
        for demand in pod.then {
            self.timeline.put(now, Due::Ask(demand));
        }
        let Some(state) = self.demands.get_mut(id.demand) else { return };
        state.there = state.there.saturating_sub(1);
        if !state.over && state.demand.again == Again::WhenGone && state.there == 0 {
            self.will_make(id.demand);
        }
        self.forget_if_done(id.demand);
    }

    /// A Job has taken note of a pod: its finalizers are gone.
    pub(super) fn release(&mut self, seen: &Object) {
        let Some(id) = self.pods.find(&name_of(seen)) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        if seen.meta().uid.as_deref() != Some(&*pod.uid) || !std::mem::take(&mut pod.is_tracked) {
            return;
        }
        match pod.is_over {
            true => self.gone(id),
            false => self.tell_pod(id, What::Modified),
        }
    }
}
