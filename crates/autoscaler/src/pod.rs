//! A pod as the autoscaler sees it.

use std::ops::Deref;
use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::objects::{ConditionStatus, PodCondition, PodConditionType, PodView};
use kubernetes::well_known::{CONFIG_MIRROR, DAEMON_SET_POD};
use model::Moment;
use scheduler::pod::Pod as SchedulerPod;

use super::equivalence::SpecEquivalence;

/// A pod: its view, with what simulations need.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub view: Arc<PodView>,
    /// For the comparison with other pods.
    pub spec_equivalence: SpecEquivalence,
    /// The pod as the scheduler's filters see it. One with a `read_error` passes no filters.
    pub scheduler_pod: Arc<SchedulerPod>,
}

impl Pod {
    pub(crate) fn new(view: Arc<PodView>, scalars: &mut ScalarResourceNames) -> Pod {
        let scheduler_pod = Arc::new(SchedulerPod::new(&view, scalars));
        Pod { spec_equivalence: SpecEquivalence::default(), scheduler_pod, view }
    }

    /// A later version of the pod. An unchanged spec is not converted again.
    #[must_use]
    pub(crate) fn updated(&self, view: Arc<PodView>, scalars: &mut ScalarResourceNames) -> Pod {
        let is_same_spec = Arc::ptr_eq(&self.view.spec, &view.spec) && self.labels == view.labels;
        Pod {
            spec_equivalence: if is_same_spec { self.spec_equivalence.clone() } else { Default::default() },
            scheduler_pod: Arc::new(self.scheduler_pod.updated(&view, scalars)),
            view,
        }
    }

    /// Whether pods are equivalent: equal labels and semantically equal `spec`. Controllers are not compared.
    pub(crate) fn is_similar(&self, other: &Pod) -> bool {
        self.spec_equivalence.is_known_equivalent(&other.spec_equivalence)
            || self.labels == other.labels
                && self.spec_equivalence.is_equivalent(
                    &self.spec.json,
                    &other.spec_equivalence,
                    &other.spec.json,
                )
    }

    /// Whether all fields that the autoscaler's decisions depend on are equal. The start time, for example, is not one.
    pub(crate) fn has_same_relevant_fields(&self, other: &Pod) -> bool {
        let condition = |pod: &Pod| {
            let found = pod.scheduled_condition()?;
            Some((found.status, found.reason.clone(), found.last_transition_time))
        };
        self.creation_timestamp == other.creation_timestamp
            && self.annotations == other.annotations
            && self.controller() == other.controller()
            && self.is_finished() == other.is_finished()
            && self.status.nominated_node_name == other.status.nominated_node_name
            && self.deletion_timestamp == other.deletion_timestamp
            && condition(self) == condition(other)
            && (Arc::ptr_eq(&self.spec, &other.spec) || self.spec.json == other.spec.json)
            && self.scheduler_pod.is_same(&other.scheduler_pod)
    }

    /// When it was created; 1970 if the object does not say.
    pub(crate) fn created(&self) -> Moment {
        self.creation_timestamp.unwrap_or_default()
    }

    /// The condition `PodScheduled`.
    pub(crate) fn scheduled_condition(&self) -> Option<&PodCondition> {
        self.status.condition(PodConditionType::PodScheduled)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key)
    }

    /// Whether it belongs to a DaemonSet, or its annotation says that it is to be treated so.
    pub(crate) fn is_daemon_set_pod(&self) -> bool {
        self.controller().is_some_and(|owner| *owner.kind == *"DaemonSet")
            || self.annotation(DAEMON_SET_POD) == Some("true")
    }

    /// Whether it is the mirror pod of a static pod.
    pub(crate) fn is_mirror(&self) -> bool {
        self.annotation(CONFIG_MIRROR).is_some()
    }

    /// Whether the scheduler reports it as unschedulable, bound or not.
    pub(crate) fn is_marked_unschedulable(&self) -> bool {
        self.scheduled_condition().is_some_and(PodCondition::is_unschedulable)
    }

    /// Whether its scheduler has not reported a result yet.
    pub(crate) fn is_unprocessed(&self) -> bool {
        self.scheduled_condition()
            .is_none_or(|found| found.status == ConditionStatus::False && found.reason.is_empty())
    }

    /// Since when the scheduler reports it as unschedulable.
    pub(crate) fn unschedulable_since(&self) -> Option<Moment> {
        let scheduled = self.scheduled_condition().filter(|_| self.node_name.is_none())?;
        scheduled.last_transition_time.filter(|_| scheduled.is_unschedulable())
    }
}

impl Deref for Pod {
    type Target = PodView;

    fn deref(&self) -> &PodView {
        &self.view
    }
}
