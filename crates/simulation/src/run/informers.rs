//! The receivers of a run's events: the components, each with the events it needs, and the observer.

use autoscaler::Event;
use model::{Moment, Object, What};

use crate::components::{AutoscalerLoop, ControllerLoop, ObservedPod, PodUpdate, SchedulerLoop};
use crate::events::{EventWriter, PodEvent};
use crate::eviction::EvictionCause;
use crate::observer::{Observer, SimulationEvent};
use crate::store::{Pod, PodTable};
use crate::timeline::{RunTask, Timeline};

/// The components and the observer.
#[derive(Debug)]
pub(super) struct Informers<'m, O> {
    pub(super) scheduler: SchedulerLoop,
    pub(super) autoscaler: Option<AutoscalerLoop>,
    pub(super) controllers: Option<ControllerLoop<'m>>,
    pub(super) observer: O,
    events: EventWriter,
}

impl<'m, O> Informers<'m, O> {
    pub(super) fn new(
        scheduler: SchedulerLoop,
        autoscaler: Option<AutoscalerLoop>,
        observer: O,
    ) -> Informers<'m, O> {
        Informers { scheduler, autoscaler, controllers: None, observer, events: EventWriter::default() }
    }
}

impl<O: Observer> Informers<'_, O> {
    /// Notifies the observer of an event.
    pub(super) fn notify_event(&mut self, now: Moment, event: &SimulationEvent<'_>) {
        self.observer.on_event(now, event);
    }

    /// An object other than a pod was added, modified or deleted.
    pub(super) fn object_changed(&mut self, timeline: &mut Timeline, what: What) {
        self.scheduler.apply(timeline.now(), &what);
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply(&what);
        }
        self.publish(timeline, what);
    }

    /// A pod is new, or its owner or a client changed it.
    pub(super) fn pod_changed(&mut self, timeline: &mut Timeline, pod: &Pod, to_change: fn(Object) -> What) {
        self.scheduler.apply(timeline.now(), &to_change(pod.object()));
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.pod_changed(pod, PodUpdate::Full);
        }
        self.publish_pod(timeline, pod, to_change);
    }

    /// The status of a pod changed in a way that the scheduler knows of already.
    pub(super) fn pod_status_changed(
        &mut self,
        timeline: &mut Timeline,
        pod: &Pod,
        to_change: fn(Object) -> What,
    ) {
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.pod_changed(pod, PodUpdate::Status);
        }
        self.publish_pod(timeline, pod, to_change);
    }

    /// A pod has released its resources: it has finished, or is deleted.
    pub(super) fn pod_released(&mut self, timeline: &mut Timeline, pod: &Pod, to_change: fn(Object) -> What) {
        // The scheduler only needs to know that the resources are free.
        self.scheduler.pod_released(timeline.now(), &pod.name, || pod.object());
        self.pod_status_changed(timeline, pod, to_change);
    }

    /// A pod is terminating.
    pub(super) fn pod_terminating(&mut self, timeline: &mut Timeline, pod: &Pod) {
        if pod.bound_at.is_none() {
            return self.pod_changed(timeline, pod, What::Modified);
        }
        let preempted = matches!(pod.disruption, Some((EvictionCause::Preemption(_), _)));
        self.scheduler.pod_terminating(timeline.now(), &pod.name, preempted);
        self.pod_status_changed(timeline, pod, What::Modified);
    }

    /// A pod changed in a way that matters only to controllers and the observer.
    pub(super) fn publish_pod(&mut self, timeline: &mut Timeline, pod: &Pod, how: fn(Object) -> What) {
        if self.controllers.is_some() || self.observer.wants_changes() {
            self.publish(timeline, how(pod.object()));
        }
    }

    fn publish(&mut self, timeline: &mut Timeline, what: What) {
        let now = timeline.now();
        if let Some(controllers) = &mut self.controllers
            && let Some(at) = controllers.apply(now, &what, &mut timeline.latencies)
        {
            timeline.put(at, RunTask::SyncControllers);
        }
        if self.observer.wants_changes() {
            self.observer.on_change(now, what);
        }
    }

    /// The scheduler writes an Event about a pod.
    pub(super) fn scheduler_event(&mut self, now: Moment, pod: &Pod, event: impl FnOnce() -> PodEvent) {
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
