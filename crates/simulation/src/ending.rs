//! How the lives of pods end: by themselves, by their owners, or because their place is taken.

use std::sync::Arc;

use model::{Kind, NamespacedName, Object, What};

use super::agenda::Due;
use super::given::{Again, DemandId};
use super::pods::{Stage, all_of};
use super::told::{Audience, Decided, LostTo, PodId};
use super::{Run, after};
use crate::pace::Step;

impl Run<'_> {
    /// The containers of a pod have ended.
    pub(super) fn end(&mut self, id: PodId, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if pod.stage != Stage::Bound || pod.leaving.is_some() {
            return;
        }
        let fails =
            self.demands.get(&id.demand).and_then(|state| state.demand.runs).is_some_and(|runs| runs.fails);
        (pod.stage, pod.ended) = (Stage::Ended, Some((now, fails)));
        let node = pod.node.clone();
        if let Some(node) = &node {
            audience.decided(now, &Decided::Rises { id, node, takes: pod.takes });
        }
        self.tell_gone(id, What::Modified, audience);
        if let Some(node) = node {
            self.leave_node(id, &node);
        }
        self.demand_is_over(id.demand, audience);
        if self.demands.get(&id.demand).is_some_and(|state| state.cleaned_up) {
            self.withdraw(id.demand, audience);
        }
    }

    /// A demand is no more: those that wait for it come.
    fn demand_is_over(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(state) = self.demands.get_mut(&demand) else { return };
        state.over = true;
        for waiting in std::mem::take(&mut state.waiting) {
            let first = PodId { demand: waiting, life: 0 };
            let at = self.takes(first, |life| life.again, Step::NextOfJob);
            self.agenda.put(at, Due::Ask(waiting));
        }
        self.forget_if_done(demand, audience);
    }

    fn forget_if_done(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        if self.demands.get(&demand).is_some_and(|state| state.over && state.there == 0) {
            self.demands.remove(&demand);
            audience.decided(self.now, &Decided::Over(demand));
        }
    }

    /// The pod of a demand goes when it has ended.
    pub(super) fn clean_up(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(state) = self.demands.get_mut(&demand) else { return };
        if state.over {
            self.withdraw(demand, audience);
        } else {
            state.cleaned_up = true;
        }
    }

    /// A demand is withdrawn. If its pod has a node and that of another of its set has none, the other goes, as a ReplicaSet
    /// would have it; what is done to that one later is done to the first.
    pub(super) fn give_up(&mut self, mut demand: DemandId, audience: &mut dyn Audience) {
        // Nothing more is said of those that are passed here: each was withdrawn before.
        while let Some(other) = self.instead.remove(&demand) {
            demand = other;
        }
        let goes = self.least_far(demand);
        if goes != demand {
            self.instead.insert(goes, demand);
        }
        self.withdraw(goes, audience);
    }

    /// The demand itself, or the one in whose place it was given up.
    pub(super) fn stands_for(&self, mut demand: DemandId) -> DemandId {
        while let Some(other) = self.instead.get(&demand) {
            demand = *other;
        }
        demand
    }

    /// A demand; or if its pod has a node, the one of its set whose pod came last of those that wait for one.
    fn least_far(&self, demand: DemandId) -> DemandId {
        let set_of = |demand: &DemandId| {
            let state = self.demands.get(demand).filter(|state| !state.over);
            state.and_then(|state| state.demand.set.as_ref())
        };
        let Some(set) = set_of(&demand) else { return demand };
        let mut pods = self.pods.range(all_of(demand)).map(|(_, pod)| pod);
        if !pods.any(|pod| pod.stage == Stage::Bound && !pod.is_leaving()) {
            return demand;
        }
        let waiting = self.waiting.iter().filter(|id| set_of(&id.demand) == Some(set));
        let waiting = waiting.map(|id| (&self.pods[id], id.demand)).filter(|(pod, _)| !pod.is_leaving());
        waiting.map(|(pod, other)| (pod.came, other)).max().map_or(demand, |(_, other)| other)
    }

    /// Nobody wants a demand any more.
    pub(super) fn withdraw(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        self.demand_is_over(demand, audience);
        for id in self.pods_of(demand) {
            let Some(pod) = self.pods.get_mut(&id) else { continue };
            let is_news = pod.ended.is_none() && !std::mem::replace(&mut pod.withdrawn, true);
            if !pod.is_leaving() {
                self.delete(id, None, audience);
            } else if is_news {
                self.tell_fate(id, What::Modified, audience);
            }
        }
    }

    /// Somebody deletes the pod of a demand.
    pub(super) fn delete_given(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(id) = self.pods_of(demand).pop() else { return };
        if self.pods[&id].leaving.is_none() {
            self.delete(id, None, audience);
            self.make_again(id, audience);
        }
    }

    /// A pod loses its place.
    pub(super) fn lose(&mut self, id: PodId, to: LostTo, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id).filter(|pod| pod.leaving.is_none() && pod.stage != Stage::Ended)
        else {
            return;
        };
        let (name, node) = (pod.name.clone(), pod.node.clone());
        let decided = Decided::Lost { id, pod: &name, node: node.as_ref(), to: &to };
        audience.decided(self.now, &decided);
        if let LostTo::Preemption(by) = &to {
            self.tell_preempted(id, by, audience);
        }
        self.delete(id, Some(to), audience);
        self.make_again(id, audience);
    }

    /// Its owner makes a pod again that is being deleted.
    pub(super) fn make_again(&mut self, id: PodId, audience: &mut dyn Audience) {
        let Some(state) = self.demands.get(&id.demand).filter(|state| !state.over) else { return };
        match state.demand.again {
            Again::Never => self.demand_is_over(id.demand, audience),
            Again::AtOnce => self.will_make(id.demand),
            Again::WhenGone => {}
        }
    }

    /// The owner of a demand makes its next pod.
    fn will_make(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get(&demand) else { return };
        let next = PodId { demand, life: state.made };
        let unmade = state.demand.unmade.filter(|_| state.made as usize == state.demand.lives.len());
        let at = match unmade {
            Some(unmade) => self.over_for(next, Step::Again).max(after(self.now, unmade).plus_nanos(1)),
            None => self.takes(next, |life| life.again, Step::Again),
        };
        self.agenda.put(at, Due::Ask(demand));
    }

    /// Begins to delete a pod.
    pub(super) fn delete(&mut self, id: PodId, to: Option<LostTo>, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.leaving.is_none()) else { return };
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
            self.gone(id, audience);
            return;
        }
        self.tell_leaving(id, audience);
        let step = if is_forced { Step::Vanish } else { Step::End };
        let at = self.takes(id, |life| life.end, step);
        self.agenda.put(at, Due::Go(id));
    }

    /// A pod could be gone now. Where the node is gone nobody stops its containers.
    pub(super) fn go(&mut self, id: PodId, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id) else { return };
        let is_stopped = pod.leaving.is_some_and(|(_, grace)| grace == 0);
        if is_stopped || pod.node.as_ref().is_some_and(|node| self.nodes.contains_key(node)) {
            self.gone(id, audience);
        }
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, id: PodId, audience: &mut dyn Audience) {
        let is_counted = self.is_controlled(&Kind::new("batch", "Job"));
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if pod.is_tracked && is_counted {
            if !std::mem::replace(&mut pod.is_over, true) {
                self.tell_pod(id, What::Modified, audience);
            }
            return;
        }
        self.tell_gone(id, What::Deleted, audience);
        let Some(pod) = self.pods.remove(&id) else { return };
        self.waiting.remove(&id);
        let waited = pod.bound.is_none();
        audience.decided(self.now, &Decided::Went { id, pod: &pod.name, waited });
        if let (Stage::Bound, Some(node)) = (pod.stage, &pod.node) {
            audience.decided(self.now, &Decided::Rises { id, node, takes: pod.takes });
        }
        self.names.remove(&pod.name);
        for demand in pod.then {
            self.agenda.put(self.now, Due::Ask(demand));
        }
        if let Some(node) = &pod.node {
            self.leave_node(id, node);
        }
        let Some(state) = self.demands.get_mut(&id.demand) else { return };
        state.there = state.there.saturating_sub(1);
        if !state.over && state.demand.again == Again::WhenGone && state.there == 0 {
            self.will_make(id.demand);
        }
        self.forget_if_done(id.demand, audience);
    }

    /// A Job has taken note of a pod: its finalizers are gone.
    pub(super) fn release(&mut self, seen: &Object, audience: &mut dyn Audience) {
        let meta = seen.meta();
        let name = NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() };
        let Some(id) = self.names.get(&name).copied() else { return };
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if meta.uid.as_deref() != Some(&**pod.uid()) || !std::mem::take(&mut pod.is_tracked) {
            return;
        }
        match pod.is_over {
            true => self.gone(id, audience),
            false => self.tell_pod(id, What::Modified, audience),
        }
    }

    pub(super) fn leave_node(&mut self, id: PodId, node: &Arc<str>) {
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(&id);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
        }
    }
}
