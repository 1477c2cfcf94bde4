//! A pod of a run and its state.

use std::sync::Arc;

use kubernetes::objects::PodView;
use kubernetes::taints::Toleration;
use model::{Moment, NamespacedName, Object};
use scheduler::ScheduleResult;

use crate::eviction::EvictionCause;
use crate::ids::DemandId;
use crate::pod_template::{PodState, PodTemplate};
use crate::requests::Requests;

/// A pod of a run.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: NamespacedName,
    pub(crate) uid: Arc<str>,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) requests: Requests,
    pub(crate) created: Moment,
    pub(crate) stage: PodStage,
    /// The node it is bound or being bound to.
    pub(super) node: Option<Arc<str>>,
    pub(crate) nominated: Option<Arc<str>>,
    pub(crate) bound_at: Option<Moment>,
    pub(crate) placement: Option<ScheduleResult>,
    /// The scheduler's last message, and since when it is unschedulable.
    pub(crate) unschedulable: Option<(Arc<str>, Moment)>,
    pub(crate) failed_attempts: u32,
    pub(crate) started: Option<Moment>,
    pub(crate) finished: Option<(Moment, bool)>,
    pub(crate) deletion: Option<(Moment, i64)>,
    /// Its demand was withdrawn.
    pub(crate) withdrawn: bool,
    pub(crate) disruption: Option<(EvictionCause, Moment)>,
    /// It still has its finalizers.
    pub(crate) has_finalizers: bool,
    /// Only its finalizers keep it from being removed.
    pub(crate) awaits_finalizers: bool,
    /// Demands that wait until its name is free.
    pub(crate) waiting_for_name: Vec<DemandId>,
}

/// The stage of a pod's lifecycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodStage {
    Pending,
    Binding,
    Bound,
    Finished,
}

impl Pod {
    /// A pod of a demand, just created.
    pub(crate) fn new(
        name: NamespacedName,
        uid: Arc<str>,
        template: Arc<PodTemplate>,
        requests: Requests,
        created: Moment,
    ) -> Pod {
        Pod {
            name,
            uid,
            requests,
            created,
            stage: PodStage::Pending,
            node: None,
            nominated: None,
            bound_at: None,
            placement: None,
            unschedulable: None,
            failed_attempts: 0,
            started: None,
            finished: None,
            deletion: None,
            withdrawn: false,
            disruption: None,
            has_finalizers: template.has_finalizers(),
            template,
            awaits_finalizers: false,
            waiting_for_name: Vec::new(),
        }
    }

    /// The node it is bound or being bound to.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }

    pub(crate) fn tolerations(&self) -> &[Toleration] {
        &self.template.view.spec.tolerations
    }

    pub(crate) fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }

    /// The scheduler found it unschedulable. Returns whether its status changes.
    pub(crate) fn set_unschedulable(
        &mut self,
        now: Moment,
        message: &str,
        nominated: Option<Arc<str>>,
    ) -> bool {
        self.failed_attempts = self.failed_attempts.saturating_add(1);
        let is_changed =
            self.unschedulable.as_ref().is_none_or(|(previous_message, _)| **previous_message != *message);
        let since = self.unschedulable.as_ref().map_or(now, |(_, since)| *since);
        if is_changed {
            self.unschedulable = Some((message.into(), since));
        }
        self.set_nominated(nominated) || is_changed
    }

    /// Sets or clears the nominated node. Returns whether that changed it.
    pub(crate) fn set_nominated(&mut self, node: Option<Arc<str>>) -> bool {
        let is_changed = self.nominated != node;
        self.nominated = node;
        is_changed
    }

    /// The pod as components see it.
    pub(crate) fn view(&self) -> Arc<PodView> {
        Arc::new(self.template.view(&self.state()))
    }

    /// The pod as JSON.
    pub(crate) fn object(&self) -> Object {
        self.template.object(&self.state())
    }

    fn state(&self) -> PodState<'_> {
        PodState {
            name: &self.name,
            uid: &self.uid,
            created: self.created,
            node: self.node.as_ref().filter(|_| self.bound_at.is_some()),
            nominated: self.nominated.as_ref(),
            bound_at: self.bound_at,
            unschedulable: self.unschedulable.as_ref().map(|(message, since)| (message, *since)),
            started: self.started,
            finished: self.finished,
            deletion: self.deletion,
            withdrawn: self.withdrawn,
            disruption: self.disruption.as_ref().map(|(cause, at)| (cause, *at)),
            has_finalizers: self.has_finalizers,
        }
    }
}
