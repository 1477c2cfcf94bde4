//! The fields of pods that every loop reads, kept small for the CPU cache: a loop may see tens of thousands of pods.

use std::sync::Arc;

use model::Moment;
use rustc_hash::FxHashMap;

use super::pod::Pod;

/// The summary of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodSummary {
    pub created: Moment,
    pub priority: Option<i32>,
    /// Its controller.
    pub controller: Option<ControllerNumber>,
    pub scheduling: SchedulingState,
    pub is_daemon_set_pod: bool,
    /// It has a node name.
    pub is_bound: bool,
    /// It requests resources other than CPU, memory and ephemeral storage.
    pub has_scalar_requests: bool,
    /// It has an annotation with its own scale-up delay.
    pub has_scale_up_delay: bool,
}

/// Stands for the UID of a controller: equal for pods of the same controller. Reused after its last pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ControllerNumber(u32);

/// The scheduler's result for a pod without a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchedulingState {
    /// The pod is being deleted, so that it does not matter.
    Terminating,
    /// Reported as unschedulable.
    Unschedulable,
    /// Not tried yet.
    Unprocessed,
    Other,
}

/// The numbers of the controllers of all pods.
#[derive(Debug, Default)]
pub(crate) struct ControllerNumbers {
    /// By UID.
    controllers: FxHashMap<Arc<str>, CountedController>,
    free: Vec<ControllerNumber>,
}

#[derive(Debug)]
struct CountedController {
    number: ControllerNumber,
    pod_count: usize,
}

pub(crate) const POD_SCALE_UP_DELAY_ANNOTATION: &str = "cluster-autoscaler.kubernetes.io/pod-scale-up-delay";

// === impl PodSummary ===

impl PodSummary {
    /// The summary of a pod that is added; its controller is counted.
    pub(crate) fn of(pod: &Pod, controllers: &mut ControllerNumbers) -> PodSummary {
        PodSummary {
            created: pod.created(),
            priority: pod.spec.priority,
            controller: pod.controller().map(|controller| controllers.acquire(&controller.uid)),
            scheduling: SchedulingState::of(pod),
            is_daemon_set_pod: pod.is_daemon_set_pod(),
            is_bound: pod.node_name.is_some(),
            has_scalar_requests: !pod.scheduler_pod.spec.requests.scalars.is_empty(),
            has_scale_up_delay: pod.annotation(POD_SCALE_UP_DELAY_ANNOTATION).is_some(),
        }
    }
}

// === impl SchedulingState ===

impl SchedulingState {
    fn of(pod: &Pod) -> SchedulingState {
        if pod.deletion_timestamp.is_some() {
            return SchedulingState::Terminating;
        }
        if pod.is_marked_unschedulable() {
            SchedulingState::Unschedulable
        } else if pod.is_unprocessed() {
            SchedulingState::Unprocessed
        } else {
            SchedulingState::Other
        }
    }
}

// === impl ControllerNumbers ===

impl ControllerNumbers {
    /// The number of a controller, for one more pod.
    fn acquire(&mut self, uid: &Arc<str>) -> ControllerNumber {
        if let Some(controller) = self.controllers.get_mut(uid) {
            controller.pod_count += 1;
            return controller.number;
        }
        let number = self.free.pop().unwrap_or(ControllerNumber(self.controllers.len() as u32));
        self.controllers.insert(uid.clone(), CountedController { number, pod_count: 1 });
        number
    }

    /// Releases the number of a pod's controller.
    pub(crate) fn release(&mut self, pod: &Pod) {
        let Some(uid) = pod.controller().map(|controller| &*controller.uid) else { return };
        let Some(controller) = self.controllers.get_mut(uid) else { return };
        controller.pod_count -= 1;
        if controller.pod_count == 0 {
            self.free.push(controller.number);
            self.controllers.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes::objects::PodView;

    use super::*;

    #[test]
    fn a_controller_keeps_its_number_until_its_last_pod_is_removed() {
        let mut scalars = kubernetes::amounts::ScalarResourceNames::default();
        let mut pod = |name: &str, uid: &str| {
            let pod = testobjects::pod(name).owner_with_uid("ReplicaSet", "web", uid);
            Pod::new(Arc::new(PodView::parse(&pod.object())), &mut scalars)
        };
        let pods = [pod("a", "1"), pod("b", "1"), pod("c", "2"), pod("d", "3")];
        let mut numbers = ControllerNumbers::default();
        let add = |pod: &Pod, numbers: &mut ControllerNumbers| PodSummary::of(pod, numbers).controller;
        let first = add(&pods[0], &mut numbers);
        assert_eq!(add(&pods[1], &mut numbers), first);
        let second = add(&pods[2], &mut numbers);
        assert_ne!(second, first);
        numbers.release(&pods[0]);
        assert_eq!(add(&pods[0], &mut numbers), first);
        numbers.release(&pods[2]);
        assert_eq!(add(&pods[3], &mut numbers), second, "the number is free");
        assert_ne!(add(&pods[2], &mut numbers), second);
    }
}
