//! The receivers of a run's events: the components, each with the events it needs, and the observer.

use std::sync::Arc;

use autoscaler::Event;
use kubernetes::objects::{InformerEvent, PodEvent};
use model::{Moment, Object, What};

use crate::components::{AutoscalerLoop, ControllerLoop, SchedulerLoop};
use crate::events::{EventWriter, SchedulerEvent};
use crate::observer::{Observer, SimulationEvent};
use crate::store::{Pod, PodTable, StoredNode};
use crate::timeline::{RunTask, Timeline};

/// The components and the observer.
#[derive(Debug)]
pub(super) struct EventReceivers<'m, O> {
    pub(super) scheduler: SchedulerLoop,
    pub(super) autoscaler: Option<AutoscalerLoop>,
    pub(super) controllers: Option<ControllerLoop<'m>>,
    pub(super) observer: O,
    events: EventWriter,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeKind {
    Added,
    Modified,
    Deleted,
}

impl<'m, O> EventReceivers<'m, O> {
    pub(super) fn new(
        scheduler: SchedulerLoop,
        autoscaler: Option<AutoscalerLoop>,
        observer: O,
    ) -> EventReceivers<'m, O> {
        EventReceivers { scheduler, autoscaler, controllers: None, observer, events: EventWriter::default() }
    }
}

impl<O: Observer> EventReceivers<'_, O> {
    /// Notifies the observer of an event.
    pub(super) fn notify_event(&mut self, now: Moment, event: &SimulationEvent<'_>) {
        self.observer.on_event(now, event);
    }

    /// An object other than a pod or node was added, modified or deleted.
    pub(super) fn object_changed(&mut self, timeline: &mut Timeline, what: What) {
        let now = timeline.now();
        self.scheduler.apply(now, &what);
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply(&what);
        }
        let work_at = self.controllers.as_mut().and_then(|it| it.apply(now, &what, &mut timeline.latencies));
        schedule_sync(timeline, work_at);
        if self.observer.wants_changes() {
            self.observer.on_change(now, what);
        }
    }

    /// A node was added, modified or deleted.
    pub(super) fn node_changed(&mut self, timeline: &mut Timeline, node: StoredNode, change: ChangeKind) {
        let now = timeline.now();
        let event = change.event(node.view);
        self.scheduler.apply_node(now, &event);
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply_node(&event);
        }
        let controllers = self.controllers.as_mut();
        let work_at = controllers.and_then(|it| it.apply_node(now, &event, &mut timeline.latencies));
        schedule_sync(timeline, work_at);
        if self.observer.wants_changes() {
            self.observer.on_change(now, change.what(node.object));
        }
    }

    /// A pod was added, modified or deleted.
    pub(super) fn pod_changed(&mut self, timeline: &mut Timeline, pod: &Pod, change: ChangeKind) {
        let event = change.event(pod.view());
        self.scheduler.apply_pod(timeline.now(), &event);
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply_pod(event.clone());
        }
        self.publish_pod(timeline, pod, change, || event);
    }

    /// The status of a pod changed in a way that the scheduler knows of already, because it wrote it.
    pub(super) fn pod_status_changed(&mut self, timeline: &mut Timeline, pod: &Pod) {
        let event = PodEvent::Modified(pod.view());
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply_pod(event.clone());
        }
        self.publish_pod(timeline, pod, ChangeKind::Modified, || event);
    }

    /// The containers of a pod have started, which the autoscaler does not consider.
    pub(super) fn pod_started(&mut self, timeline: &mut Timeline, pod: &Pod) {
        let event = PodEvent::Modified(pod.view());
        self.scheduler.apply_pod(timeline.now(), &event);
        self.publish_pod(timeline, pod, ChangeKind::Modified, || event);
    }

    /// Notifies the controllers and the observer.
    fn publish_pod(
        &mut self,
        timeline: &mut Timeline,
        pod: &Pod,
        change: ChangeKind,
        event: impl FnOnce() -> PodEvent,
    ) {
        let now = timeline.now();
        let controllers = self.controllers.as_mut();
        let work_at = controllers.and_then(|it| it.apply_pod(now, &event(), &mut timeline.latencies));
        schedule_sync(timeline, work_at);
        if self.observer.wants_changes() {
            self.observer.on_change(now, change.what(pod.object()));
        }
    }

    /// The scheduler writes an Event about a pod.
    pub(super) fn scheduler_event(&mut self, now: Moment, pod: &Pod, event: impl FnOnce() -> SchedulerEvent) {
        if self.observer.wants_changes() {
            let event = self.events.scheduler_event(now, &pod.name, &pod.uid, &event());
            self.observer.on_change(now, What::Added(event));
        }
    }

    /// The autoscaler writes an Event.
    pub(super) fn autoscaler_event(&mut self, now: Moment, event: &Event, pods: &PodTable) {
        if self.observer.wants_changes() {
            let uid_of = |pod: &_| pods.get_by_name(pod).map(|pod| pod.uid.clone());
            let event = self.events.autoscaler_event(now, event, uid_of);
            self.observer.on_change(now, What::Added(event));
        }
    }
}

// === impl ChangeKind ===

impl ChangeKind {
    fn event<T>(self, object: Arc<T>) -> InformerEvent<T> {
        match self {
            ChangeKind::Added => InformerEvent::Added(object),
            ChangeKind::Modified => InformerEvent::Modified(object),
            ChangeKind::Deleted => InformerEvent::Deleted(object),
        }
    }

    fn what(self, object: Object) -> What {
        match self {
            ChangeKind::Added => What::Added(object),
            ChangeKind::Modified => What::Modified(object),
            ChangeKind::Deleted => What::Deleted(object),
        }
    }
}

fn schedule_sync(timeline: &mut Timeline, at: Option<Moment>) {
    if let Some(at) = at {
        timeline.put(at, RunTask::SyncControllers);
    }
}
