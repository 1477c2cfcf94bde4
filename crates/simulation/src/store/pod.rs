//! A pod of a run, and how far it has come.

use std::sync::Arc;

use autoscaler::PodStatusUpdate;
use model::{Moment, NamespacedName, Object};
use scheduler::Placement;

use crate::components::ObservedPod;
use crate::eviction::LostTo;
use crate::ids::DemandId;
use crate::pod_template::{PodState, PodTemplate};
use crate::requests::Requests;

/// A pod.
#[derive(Debug)]
pub(crate) struct Pod {
    pub(crate) name: NamespacedName,
    pub(crate) uid: Arc<str>,
    pub(crate) body: Arc<PodTemplate>,
    pub(crate) takes: Requests,
    pub(crate) came: Moment,
    pub(crate) stage: Stage,
    /// The node it is on, or on its way to.
    pub(super) node: Option<Arc<str>>,
    pub(crate) nominated: Option<Arc<str>>,
    pub(crate) bound: Option<Moment>,
    pub(crate) placement: Option<Placement>,
    /// What the scheduler last said, and since when it says no.
    pub(crate) refused: Option<(Arc<str>, Moment)>,
    pub(crate) refusals: u32,
    pub(crate) started: Option<Moment>,
    pub(crate) ended: Option<(Moment, bool)>,
    pub(crate) leaving: Option<(Moment, i64)>,
    /// It is not wanted any more.
    pub(crate) withdrawn: bool,
    pub(crate) lost: Option<(LostTo, Moment)>,
    /// Somebody has still to take note of it before it can go.
    pub(crate) is_tracked: bool,
    /// It would be gone if nobody had to.
    pub(crate) is_over: bool,
    /// Demands that wait until its name is free.
    pub(crate) then: Vec<DemandId>,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Binding,
    Bound,
    Ended,
}

impl Pod {
    /// A pod of a demand that has just come.
    pub(crate) fn new(
        name: NamespacedName,
        uid: Arc<str>,
        body: Arc<PodTemplate>,
        takes: Requests,
        came: Moment,
    ) -> Pod {
        Pod {
            name,
            uid,
            takes,
            came,
            stage: Stage::Waiting,
            node: None,
            nominated: None,
            bound: None,
            placement: None,
            refused: None,
            refusals: 0,
            started: None,
            ended: None,
            leaving: None,
            withdrawn: false,
            lost: None,
            is_tracked: body.has_finalizers(),
            body,
            is_over: false,
            then: Vec::new(),
        }
    }

    /// The node it is on, or on its way to.
    pub(crate) fn node(&self) -> Option<&Arc<str>> {
        self.node.as_ref()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// The scheduler says no, in these words. Whether anything is new about it.
    pub(crate) fn refuse(&mut self, now: Moment, message: &str, nominated: Option<Arc<str>>) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        let is_news = self.refused.as_ref().is_none_or(|(said, _)| **said != *message);
        let since = self.refused.as_ref().map_or(now, |(_, since)| *since);
        if is_news {
            self.refused = Some((message.into(), since));
        }
        self.nominate(nominated) || is_news
    }

    /// Nominates a node, or none. Whether that is news.
    pub(crate) fn nominate(&mut self, node: Option<Arc<str>>) -> bool {
        let is_news = self.nominated != node;
        self.nominated = node;
        is_news
    }

    fn now(&self) -> PodState<'_> {
        PodState {
            name: &self.name.name,
            uid: &self.uid,
            came: self.came,
            node: self.node.as_deref().filter(|_| self.bound.is_some()),
            nominated: self.nominated.as_deref(),
            bound: self.bound,
            refused: self.refused.as_ref().map(|(message, since)| (&**message, *since)),
            started: self.started,
            ended: self.ended,
            leaving: self.leaving,
            withdrawn: self.withdrawn,
            lost: self.lost.as_ref().map(|(to, at)| (to, *at)),
            is_tracked: self.is_tracked,
        }
    }
}

impl ObservedPod for Pod {
    fn name(&self) -> &NamespacedName {
        &self.name
    }

    fn is_unschedulable(&self) -> bool {
        self.bound.is_none() && self.refused.is_some() && self.leaving.is_none()
    }

    fn object(&self) -> Object {
        self.body.object(&self.now())
    }

    fn status_update(&self) -> PodStatusUpdate {
        self.now().fate()
    }
}
