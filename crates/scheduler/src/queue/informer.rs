//! What informers tell, as it changes the cluster and the queue.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};

use super::super::Scheduler;
use super::super::ids::PodId;
use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Pod;
use crate::events::{About, Event, Extras, Sort, Thing, ThingKind, Volumes, node_changes, pod_changes};

impl Scheduler {
    pub(crate) fn set_node(&mut self, now: Moment, object: &Object) {
        let new = NodeSpec::read(object, &mut self.world.scalars);
        let known = self.world.nodes.by_name(&new.name).map(|id| self.world.nodes.spec(id));
        let sorts = known.map_or_else(|| vec![Sort::NodeAdded], |old| node_changes(old, &new));
        if sorts.is_empty() || !self.queue.is_anyone_refused() {
            self.world.set_node(new);
            return;
        }
        let old = known.cloned();
        self.world.set_node(new.clone());
        for sort in sorts {
            let about = About::Node { old: old.as_ref(), new: Some(&new) };
            self.happened(now, &Event { sort, about }, |_| true);
        }
    }

    pub(crate) fn remove_node(&mut self, now: Moment, name: &str) {
        let known = self.world.nodes.by_name(name).map(|id| self.world.nodes.spec(id).clone());
        if let Some(old) = &known {
            let about = About::Node { old: Some(old), new: None };
            self.happened(now, &Event { sort: Sort::NodeDeleted, about }, |_| true);
        }
        self.world.remove_node(name);
    }

    /// An object that only who was refused waits for.
    pub(crate) fn apply_thing(
        &mut self,
        now: Moment,
        group: &str,
        kind: &str,
        object: &Object,
        present: bool,
    ) {
        let Some(kind) = ThingKind::of(group, kind) else { return };
        let new = Arc::new(Thing::read(kind, object));
        let old = self.queue.things.set(kind, object, present.then(|| new.clone()));
        let (sort, old, new) = match (present, old) {
            (true, None) => (Sort::Added(kind), None, Some(new)),
            (true, Some(old)) => (Sort::Changed(kind), Some(old), Some(new)),
            (false, old) => (Sort::Deleted(kind), Some(old.unwrap_or(new)), None),
        };
        let about = About::Thing { old: old.as_deref(), new: new.as_deref() };
        self.happened(now, &Event { sort, about }, |_| true);
    }

    pub(crate) fn lose_pod(
        &mut self,
        now: Moment,
        namespace: &str,
        name: &str,
        object: impl FnOnce() -> Object,
    ) {
        if let Some(id) = self.world.find(namespace, name) {
            self.remove_pod(now, id, object);
        }
    }

    pub(crate) fn set_pod(&mut self, now: Moment, object: &Object) {
        let pod = Pod::read(object, &mut self.world.scalars);
        let NamespacedName { namespace, name } = &pod.name;
        // One that has run to its end is not seen by the scheduler's informer.
        if pod.finished {
            self.lose_pod(now, namespace, name, || object.clone());
            return;
        }
        match self.world.find(namespace, name) {
            // Another life of the name. An informer that missed the end of the first would tell of a change. None is
            // taken off its node and goes on living.
            Some(id) if self.world.pod(id).uid != pod.uid || self.is_taken_off(id, &pod) => {
                self.remove_pod(now, id, || object.clone());
                self.add_pod(now, pod, object);
            }
            Some(id) => self.change_pod(now, id, pod, object),
            None => self.add_pod(now, pod, object),
        }
    }

    fn add_pod(&mut self, now: Moment, pod: Pod, object: &Object) {
        let (bound, own) = (pod.node_name.is_some(), self.is_own(&pod));
        let id = self.world.add_pod(pod);
        if bound {
            self.came(now, id);
        } else if own {
            self.enqueue(now, id, object);
        }
    }

    fn change_pod(&mut self, now: Moment, id: PodId, mut pod: Pod, object: &Object) {
        let old = self.world.pod(id).clone();
        // A promise that only the scheduler knows of is kept.
        if pod.node_name.is_none() && old.said_nominated.is_none() && pod.said_nominated.is_none() {
            pod.nominated_node = old.nominated_node.clone();
        }
        if old.node_name.is_some() {
            self.change_placed(now, id, &old, pod);
        } else if pod.node_name.is_some() {
            self.bound(now, id, pod);
        } else if !self.is_own(&old) {
            self.world.change_pod(id, pod);
        } else if self.world.is_assumed(id) {
            // Other news of it is not looked at until it is seen on its node.
            if pod.terminating && !old.terminating {
                self.world.change_pod(id, pod);
                // Its binding goes on, and will fail.
                self.forget_assumed(now, id);
            }
        } else {
            self.world.change_pod(id, pod);
            self.update_waiting(now, id, &old, object);
        }
    }

    /// A pod on a node changed.
    pub(super) fn change_placed(&mut self, now: Moment, id: PodId, old: &Pod, pod: Pod) {
        let sorts = pod_changes(old, &pod, None);
        self.world.change_pod(id, pod);
        if !self.queue.is_anyone_refused() {
            return;
        }
        let new = self.world.pod(id).clone();
        for sort in sorts {
            let about = About::Pod { old: Some(old), new: Some(&new), volumes: None };
            self.happened(now, &Event { sort, about }, |_| true);
        }
    }

    /// A pod that waits, or was given up, changed.
    fn update_waiting(&mut self, now: Moment, id: PodId, old: &Pod, object: &Object) {
        let new = self.world.pod(id).clone();
        let extras = Extras::read(object);
        match self.queue.entries.get(&id) {
            None => self.enqueue(now, id, object),
            Some(entry) => {
                let sorts = pod_changes(old, &new, Some((&entry.extras, &extras)));
                if old.nominated_node.is_some() || new.nominated_node.is_some() {
                    self.nominations.set(id, new.nominated_node.as_ref());
                }
                let about = About::Pod { old: Some(old), new: Some(&new), volumes: None };
                let events: Vec<Event<'_>> = sorts.into_iter().map(|sort| Event { sort, about }).collect();
                self.with_queue(|queue, known| queue.update(now, id, &events, extras, known));
            }
        }
        if old.nominated_node.is_some() && old.nominated_node != new.nominated_node {
            self.left(now, old, id, |pod| pod.priority() <= old.priority());
        }
    }

    /// A pod is seen to be bound.
    pub(super) fn bound(&mut self, now: Moment, id: PodId, pod: Pod) {
        let assumed = self.world.is_assumed(id).then(|| self.world.node_of(id)).flatten();
        if assumed.map(|node| self.world.nodes.name(node)) == pod.node_name.as_ref() {
            // What it was to get is told of by its claims now.
            self.reservations.remove(&id);
        } else {
            self.give_up_volumes(id);
        }
        self.world.change_pod(id, pod);
        self.nominations.set(id, None);
        self.inclinations.remove(&id);
        self.came(now, id);
        self.queue.remove(id);
    }

    fn remove_pod(&mut self, now: Moment, id: PodId, object: impl FnOnce() -> Object) {
        let own = self.is_own(self.world.pod(id));
        let assumed = self.world.is_assumed(id).then(|| self.world.node_of(id)).flatten();
        let assumed = assumed.map(|node| self.world.nodes.name(node).clone());
        self.nominations.set(id, None);
        self.inclinations.remove(&id);
        self.queue.remove(id);
        self.give_up_volumes(id);
        let mut gone = self.world.remove_pod(id);
        let of_volumes = [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits];
        let volumes = self.queue.is_awaited(&of_volumes).then(|| Volumes::read(&object())).flatten();
        if gone.node_name.is_none() {
            if !own || (assumed.is_none() && gone.nominated_node.is_none()) {
                return;
            }
            gone.node_name = assumed;
        }
        let held = gone.node_name.is_some();
        let about = About::Pod { old: Some(&gone), new: None, volumes: volumes.as_ref() };
        // Who was only promised a node stood in the way of those that are not stronger.
        let such = |pod: &Pod| held || pod.priority() <= gone.priority();
        self.happened(now, &Event { sort: Sort::PodDeleted, about }, such);
    }

    fn enqueue(&mut self, now: Moment, id: PodId, object: &Object) {
        let extras = Extras::read(object);
        if self.with_queue(|queue, known| queue.add(now, id, extras, known)) {
            let promised = self.world.pod(id).nominated_node.clone();
            self.nominations.set(id, promised.as_ref());
        }
    }

    /// A pod is seen on its node.
    fn came(&mut self, now: Moment, id: PodId) {
        if self.queue.is_anyone_refused() {
            let pod = self.world.pod(id).clone();
            let about = About::Pod { old: None, new: Some(&pod), volumes: None };
            self.happened(now, &Event { sort: Sort::PodAdded, about }, |_| true);
        }
    }

    /// A pod is promised a node from now on, or none.
    pub(crate) fn promise(&mut self, now: Moment, id: PodId, node: Option<Arc<str>>) {
        self.nominations.set(id, node.as_ref());
        let old = self.world.pod(id).clone();
        self.world.set_nominated(id, node.clone());
        if old.nominated_node.is_some() && old.nominated_node != node {
            self.left(now, &old, id, |pod| pod.priority() <= old.priority());
        }
    }

    fn is_taken_off(&self, id: PodId, pod: &Pod) -> bool {
        self.world.pod(id).node_name.is_some() && pod.node_name.is_none()
    }

    /// Whether a profile is for the pod.
    pub(super) fn is_own(&self, pod: &Pod) -> bool {
        self.profiles.iter().any(|rules| rules.profile.scheduler_name == pod.shape.scheduler_name)
    }
}
