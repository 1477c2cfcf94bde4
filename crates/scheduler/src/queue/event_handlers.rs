//! The event handlers: updates of the cache and the queue by informer events.

use std::sync::Arc;

use kubernetes::objects::{NodeView, PodView};
use model::{Meta, Moment, Object};

use super::super::Scheduler;
use super::super::ids::PodId;
use super::super::node::Node;
use super::super::plugin::Plugin;
use super::super::pod::Pod;
use crate::events::{
    ClusterEvent, EventObjects, HintInputs, HintVolumes, ObservedEvent, TrackedObject, TrackedObjectKind,
    node_scheduling_properties_change, pod_scheduling_properties_change,
};

impl Scheduler {
    pub(crate) fn set_node(&mut self, now: Moment, view: &Arc<NodeView>) {
        let new = Node::new(view.clone(), &mut self.cache.scalars);
        let current_spec = self.cache.nodes.by_name(&new.name).map(|id| self.cache.nodes.spec(id));
        let cluster_events = current_spec
            .map_or_else(|| vec![ClusterEvent::NodeAdd], |old| node_scheduling_properties_change(old, &new));
        if cluster_events.is_empty() || !self.queue.has_unschedulable() {
            self.cache.set_node(new);
            return;
        }
        let old = current_spec.cloned();
        self.cache.set_node(new.clone());
        for cluster_event in cluster_events {
            let objects = EventObjects::Node { old: old.as_ref(), new: Some(&new) };
            self.requeue_for_event(now, &ObservedEvent { cluster_event, objects }, |_| true);
        }
    }

    pub(crate) fn remove_node(&mut self, now: Moment, name: &str) {
        let current_spec = self.cache.nodes.by_name(name).map(|id| self.cache.nodes.spec(id).clone());
        if let Some(old) = &current_spec {
            let objects = EventObjects::Node { old: Some(old), new: None };
            self.requeue_for_event(
                now,
                &ObservedEvent { cluster_event: ClusterEvent::NodeDelete, objects },
                |_| true,
            );
        }
        self.cache.remove_node(name);
    }

    /// Evaluates the queueing hints for an event of an object that is neither pod nor node.
    pub(crate) fn apply_tracked_object(
        &mut self,
        now: Moment,
        group: &str,
        kind: &str,
        object: &Object,
        present: bool,
    ) {
        let Some(kind) = TrackedObjectKind::of(group, kind) else { return };
        let new = Arc::new(TrackedObject::read(kind, object));
        let old = self.queue.tracked_objects.set(kind, object, present.then(|| new.clone()));
        let (cluster_event, old, new) = match (present, old) {
            (true, None) => (ClusterEvent::Add(kind), None, Some(new)),
            (true, Some(old)) => (ClusterEvent::Update(kind), Some(old), Some(new)),
            (false, old) => (ClusterEvent::Delete(kind), Some(old.unwrap_or(new)), None),
        };
        let objects = EventObjects::Tracked { old: old.as_deref(), new: new.as_deref() };
        self.requeue_for_event(now, &ObservedEvent { cluster_event, objects }, |_| true);
    }

    pub(crate) fn remove_pod_by_name(&mut self, now: Moment, view: &PodView) {
        if let Some(id) = self.cache.find_pod(&view.name.namespace, &view.name.name) {
            self.remove_pod(now, id, || HintVolumes::new(view));
        }
    }

    /// Handles the deletion of a pod. Its object is parsed only if a queueing hint depends on its volumes.
    pub(crate) fn remove_pod_of_object(&mut self, now: Moment, meta: &Meta<'_>, object: &Object) {
        if let Some(id) = self.cache.find_pod(&meta.namespace, &meta.name) {
            self.remove_pod(now, id, || HintVolumes::new(&PodView::parse(object)));
        }
    }

    pub(crate) fn set_pod(&mut self, now: Moment, view: &PodView) {
        // kube-scheduler's informer filters out finished pods.
        if view.is_finished() {
            self.remove_pod_by_name(now, view);
            return;
        }
        match self.cache.find_pod(&view.name.namespace, &view.name.name) {
            // A recreated pod of the same name, whose deletion was missed; or a pod that lost its `nodeName`, which no
            // running pod does.
            Some(id) if self.cache.pod(id).uid != view.uid || self.loses_node(id, view) => {
                self.remove_pod(now, id, || HintVolumes::new(view));
                self.add_pod(now, view);
            }
            Some(id) => self.update_pod(now, id, view),
            None => self.add_pod(now, view),
        }
    }

    fn add_pod(&mut self, now: Moment, view: &PodView) {
        let pod = Pod::new(view, &mut self.cache.scalars);
        let (is_bound, is_responsible) = (pod.node_name.is_some(), self.is_responsible(&pod));
        let id = self.cache.add_pod(pod);
        if is_bound {
            self.requeue_for_assigned_pod(now, id);
        } else if is_responsible {
            self.enqueue(now, id, view);
        }
    }

    fn update_pod(&mut self, now: Moment, id: PodId, view: &PodView) {
        let old = self.cache.pod(id).clone();
        let mut pod = old.updated(view, &mut self.cache.scalars);
        // A nomination that is not yet in the pod's status is kept.
        if pod.node_name.is_none()
            && old.status_nominated_node.is_none()
            && pod.status_nominated_node.is_none()
        {
            pod.nominated_node = old.nominated_node.clone();
        }
        if old.node_name.is_some() {
            self.update_assigned_pod(now, id, &old, pod);
        } else if pod.node_name.is_some() {
            self.confirm_bound_pod(now, id, pod);
        } else if !self.is_responsible(&old) {
            self.cache.update_pod(id, pod);
        } else if self.cache.is_assumed(id) {
            // Other updates are ignored until its binding is observed.
            if pod.terminating && !old.terminating {
                self.cache.update_pod(id, pod);
                // Its binding continues, and will fail.
                self.forget_assumed_pod(now, id);
            }
        } else {
            self.cache.update_pod(id, pod);
            self.update_pod_in_queue(now, id, &old, view);
        }
    }

    /// Handles an update of an assigned pod.
    pub(super) fn update_assigned_pod(&mut self, now: Moment, id: PodId, old: &Pod, pod: Pod) {
        let cluster_events = pod_scheduling_properties_change(old, &pod, None);
        self.cache.update_pod(id, pod);
        if !self.queue.has_unschedulable() {
            return;
        }
        let new = self.cache.pod(id).clone();
        for cluster_event in cluster_events {
            let objects = EventObjects::Pod { old: Some(old), new: Some(&new), volumes: None };
            self.requeue_for_event(now, &ObservedEvent { cluster_event, objects }, |_| true);
        }
    }

    /// Handles an update of a pending pod.
    fn update_pod_in_queue(&mut self, now: Moment, id: PodId, old: &Pod, view: &PodView) {
        let new = self.cache.pod(id).clone();
        let hint_inputs = HintInputs::new(view);
        match self.queue.entries.get(&id) {
            None => self.enqueue(now, id, view),
            Some(entry) => {
                let cluster_events =
                    pod_scheduling_properties_change(old, &new, Some((&entry.hint_inputs, &hint_inputs)));
                if old.nominated_node.is_some() || new.nominated_node.is_some() {
                    self.nominator.set(id, new.nominated_node.as_ref());
                }
                let objects = EventObjects::Pod { old: Some(old), new: Some(&new), volumes: None };
                let events: Vec<ObservedEvent<'_>> = cluster_events
                    .into_iter()
                    .map(|cluster_event| ObservedEvent { cluster_event, objects })
                    .collect();
                self.with_queue(|queue, context| queue.update(now, id, &events, hint_inputs, context));
            }
        }
        if old.nominated_node.is_some() && old.nominated_node != new.nominated_node {
            self.requeue_for_pod_left(now, old, id, |pod| pod.priority() <= old.priority());
        }
    }

    /// A pod's binding is observed.
    pub(super) fn confirm_bound_pod(&mut self, now: Moment, id: PodId, pod: Pod) {
        let assumed = self.cache.is_assumed(id).then(|| self.cache.node_of(id)).flatten();
        if assumed.map(|node| self.cache.nodes.name(node)) == pod.node_name.as_ref() {
            // Its claims show the reserved volumes from now on.
            self.reservations.remove(&id);
        } else {
            self.unreserve_volumes(id);
        }
        self.cache.update_pod(id, pod);
        self.nominator.set(id, None);
        self.recorded_nodes.remove(&id);
        self.requeue_for_assigned_pod(now, id);
        self.queue.remove(id);
    }

    fn remove_pod(&mut self, now: Moment, id: PodId, volumes: impl FnOnce() -> HintVolumes) {
        let is_responsible = self.is_responsible(self.cache.pod(id));
        let assumed_node = self.cache.is_assumed(id).then(|| self.cache.node_of(id)).flatten();
        let assumed_node = assumed_node.map(|node| self.cache.nodes.name(node).clone());
        self.nominator.set(id, None);
        self.recorded_nodes.remove(&id);
        self.queue.remove(id);
        self.unreserve_volumes(id);
        let mut deleted_pod = self.cache.remove_pod(id);
        let volume_plugins = [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits];
        let volumes = self.queue.has_rejected_by_any(&volume_plugins).then(volumes);
        if deleted_pod.node_name.is_none() {
            if !is_responsible || (assumed_node.is_none() && deleted_pod.nominated_node.is_none()) {
                return;
            }
            deleted_pod.node_name = assumed_node;
        }
        let was_assigned = deleted_pod.node_name.is_some();
        let objects = EventObjects::Pod { old: Some(&deleted_pod), new: None, volumes: volumes.as_ref() };
        // A pod that was only nominated blocked pods of the same or a lower priority only.
        let is_candidate = |pod: &Pod| was_assigned || pod.priority() <= deleted_pod.priority();
        self.requeue_for_event(
            now,
            &ObservedEvent { cluster_event: ClusterEvent::AssignedPodDelete, objects },
            is_candidate,
        );
    }

    fn enqueue(&mut self, now: Moment, id: PodId, view: &PodView) {
        let hint_inputs = HintInputs::new(view);
        if self.with_queue(|queue, context| queue.add(now, id, hint_inputs, context)) {
            let nominated_node = self.cache.pod(id).nominated_node.clone();
            self.nominator.set(id, nominated_node.as_ref());
        }
    }

    /// Requeues pods after a pod was assigned.
    fn requeue_for_assigned_pod(&mut self, now: Moment, id: PodId) {
        if self.queue.has_unschedulable() {
            let pod = self.cache.pod(id).clone();
            let objects = EventObjects::Pod { old: None, new: Some(&pod), volumes: None };
            self.requeue_for_event(
                now,
                &ObservedEvent { cluster_event: ClusterEvent::AssignedPodAdd, objects },
                |_| true,
            );
        }
    }

    /// Sets or clears the nomination of a pod.
    pub(crate) fn set_nomination(&mut self, now: Moment, id: PodId, node: Option<Arc<str>>) {
        self.nominator.set(id, node.as_ref());
        let old = self.cache.pod(id).clone();
        self.cache.set_nominated_node(id, node.clone());
        if old.nominated_node.is_some() && old.nominated_node != node {
            self.requeue_for_pod_left(now, &old, id, |pod| pod.priority() <= old.priority());
        }
    }

    fn loses_node(&self, id: PodId, view: &PodView) -> bool {
        self.cache.pod(id).node_name.is_some() && view.node_name.is_none()
    }

    /// Whether a profile is responsible for the pod.
    pub(super) fn is_responsible(&self, pod: &Pod) -> bool {
        self.profiles.iter().any(|framework| framework.profile.scheduler_name == pod.spec.scheduler_name)
    }
}
