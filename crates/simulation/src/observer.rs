//! The observer of a run, and the events it is notified of: every change of an object, and every decision with its
//! reasons.

use std::sync::Arc;

use autoscaler::{Autoscaler, LoopResult, RemovedNode, ScaleUpStatus};
use kubernetes::objects::NodeView;
use model::{Moment, NamespacedName, What};
use scheduler::{Rejection, ScheduleResult};

use crate::eviction::EvictionCause;
use crate::ids::{DemandId, PodId};
use crate::requests::Requests;

/// Observes a run.
pub trait Observer {
    /// Whether it needs changes. If not, objects that only an observer would see are not serialized.
    fn wants_changes(&self) -> bool;

    /// An object was added, modified or deleted.
    fn on_change(&mut self, at: Moment, what: What);

    /// A component made a decision, or an effect of one took place.
    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>);
}

impl<T: Observer + ?Sized> Observer for &mut T {
    fn wants_changes(&self) -> bool {
        (**self).wants_changes()
    }

    fn on_change(&mut self, at: Moment, what: What) {
        (**self).on_change(at, what);
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        (**self).on_event(at, event);
    }
}

/// A decision or its effect, with the reasons.
#[derive(Debug)]
pub enum SimulationEvent<'a> {
    /// A pod was created.
    PodCreated {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// Whether it is not bound yet.
        is_pending: bool,
    },
    /// A pod was deleted.
    PodDeleted {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// Whether it was never bound.
        was_pending: bool,
    },
    /// A pod was bound to a node.
    PodBound {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// When it was created.
        created: Moment,
        /// The scheduler's decision.
        placement: &'a ScheduleResult,
        /// How many attempts had failed before.
        failed_attempts: u32,
    },
    /// A pod claims resources of a node.
    ResourcesClaimed {
        /// The pod.
        id: PodId,
        /// The node.
        node: &'a Arc<str>,
        /// The pod's requests.
        requests: Requests,
    },
    /// A pod released its resources.
    ResourcesReleased {
        /// The pod.
        id: PodId,
        /// The node.
        node: &'a Arc<str>,
        /// The pod's requests.
        requests: Requests,
    },
    /// No node is feasible for a pod.
    PodUnschedulable {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// The scheduler's reasons.
        rejection: &'a Rejection,
    },
    /// A pod was not attempted, or the attempt failed with an error.
    PodNotAttempted {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// The reason.
        reason: &'a str,
    },
    /// A pod is evicted.
    PodEvicted {
        /// The pod.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// The node it was on.
        node: Option<&'a Arc<str>>,
        /// The cause.
        cause: &'a EvictionCause,
    },
    /// The autoscaler increased node groups.
    ScaledUp(&'a ScaleUpStatus),
    /// The autoscaler begins to remove a node.
    ScaledDown {
        /// The node and its pods.
        removed: &'a RemovedNode,
        /// Its group.
        group: Option<&'a Arc<str>>,
    },
    /// The autoscaler finished a loop.
    LoopFinished {
        /// Its result.
        result: &'a LoopResult,
        /// The autoscaler, for its status.
        autoscaler: &'a Autoscaler,
    },
    /// A node was added.
    NodeAdded {
        /// The node.
        node: &'a NodeView,
        /// Its group, if it has one.
        group: Option<&'a Arc<str>>,
    },
    /// A node was modified.
    NodeModified {
        /// The node.
        node: &'a NodeView,
    },
    /// A node was deleted.
    NodeDeleted {
        /// The node as it was.
        node: &'a NodeView,
    },
    /// A demand is finished and none of its pods exists.
    DemandFinished(DemandId),
}
