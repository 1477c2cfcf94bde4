//! Everyone who is told what happens in a run: the components, each as much as it needs, and the observer.

use autoscaler::Event;
use model::{Moment, Object, What};

use crate::components::{AutoscalerLoop, ControllerLoop, ObservedPod, PodNews, SchedulerLoop};
use crate::events::{EventWriter, PodEvent};
use crate::eviction::LostTo;
use crate::observer::{Decided, Observer};
use crate::store::{Pod, PodTable};
use crate::timeline::{Due, Timeline};

/// Everyone who is told what happens.
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
    /// Something was decided.
    pub(super) fn decided(&mut self, now: Moment, decided: &Decided<'_>) {
        self.observer.decided(now, decided);
    }

    /// An object that is no pod came, changed or went.
    pub(super) fn object(&mut self, timeline: &mut Timeline, what: What) {
        self.scheduler.apply(timeline.now(), &what);
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.apply(&what);
        }
        self.show(timeline, what);
    }

    /// A pod is new, or its owner changed it.
    pub(super) fn pod(&mut self, timeline: &mut Timeline, pod: &Pod, how: fn(Object) -> What) {
        self.scheduler.apply(timeline.now(), &how(pod.object()));
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.pod_changed(pod, PodNews::All);
        }
        self.show_pod(timeline, pod, how);
    }

    /// The status of a pod changed in a way that the scheduler knows of.
    pub(super) fn pod_status(&mut self, timeline: &mut Timeline, pod: &Pod, how: fn(Object) -> What) {
        if let Some(autoscaler) = &mut self.autoscaler {
            autoscaler.pod_changed(pod, PodNews::StatusUpdate);
        }
        self.show_pod(timeline, pod, how);
    }

    /// A pod takes no room any more: it has ended, or it is gone.
    pub(super) fn pod_released(&mut self, timeline: &mut Timeline, pod: &Pod, how: fn(Object) -> What) {
        // That it is gone is all that the scheduler asks for.
        self.scheduler.pod_released(timeline.now(), &pod.name, || pod.object());
        self.pod_status(timeline, pod, how);
    }

    /// A pod is being deleted.
    pub(super) fn pod_leaving(&mut self, timeline: &mut Timeline, pod: &Pod) {
        if pod.bound.is_none() {
            return self.pod(timeline, pod, What::Modified);
        }
        let preempted = matches!(pod.lost, Some((LostTo::Preemption(_), _)));
        self.scheduler.pod_leaving(timeline.now(), &pod.name, preempted);
        self.pod_status(timeline, pod, What::Modified);
    }

    /// A pod changed in a way that only those see who look at objects.
    pub(super) fn show_pod(&mut self, timeline: &mut Timeline, pod: &Pod, how: fn(Object) -> What) {
        if self.controllers.is_some() || self.observer.wants_changes() {
            self.show(timeline, how(pod.object()));
        }
    }

    fn show(&mut self, timeline: &mut Timeline, what: What) {
        let now = timeline.now();
        if let Some(controllers) = &mut self.controllers
            && let Some(at) = controllers.apply(now, &what, &mut timeline.pacer)
        {
            timeline.put(at, Due::Work);
        }
        if self.observer.wants_changes() {
            self.observer.changed(now, what);
        }
    }

    /// The scheduler writes an Event about a pod.
    pub(super) fn scheduler_event(&mut self, now: Moment, pod: &Pod, event: impl FnOnce() -> PodEvent) {
        if self.observer.wants_changes() {
            let event = self.events.of_scheduler(now, &pod.name, &pod.uid, &event());
            self.observer.changed(now, What::Added(event));
        }
    }

    /// The autoscaler writes an Event.
    pub(super) fn autoscaler_event(&mut self, now: Moment, event: &Event, pods: &PodTable) {
        if self.observer.wants_changes() {
            let uid_of = |pod: &_| pods.named(pod).map(|pod| pod.uid.clone());
            let event = self.events.of_autoscaler(now, event, uid_of);
            self.observer.changed(now, What::Added(event));
        }
    }
}
