//! The inputs of a run: changes and pod demands that no simulated component decides.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::objects::PodView;
use model::{Moment, Object, What};

use crate::ids::{DemandAnnotation, DemandId};
use crate::pod_template::{InvalidPod, PodTemplate};
use crate::requests::Requests;

/// An external change, which takes effect whatever the run decides.
#[derive(Clone, Debug)]
pub enum Input {
    /// An object was added, modified or deleted.
    Object(What),
    /// A pod is demanded.
    Demand(Box<ParsedDemand>),
    /// A demand is withdrawn. For a ReplicaSet, the pod furthest from Running is removed, whichever demand it belongs
    /// to.
    Withdrawn(DemandId),
    /// The pod of a demand is deleted once it has finished.
    CleanedUp(DemandId),
    /// A client deletes the pod of a demand. Its owner recreates it, if the demand's policy says so.
    PodDeleted(DemandId),
    /// A client changes the pod of a demand, such as its labels or tolerations.
    PodChanged(DemandId, Object),
}

/// A demand for one pod at a time: if the pod is evicted or deleted, another one may take its place.
#[derive(Clone, Debug)]
pub struct PodDemand {
    /// The demand's number.
    pub id: DemandId,
    /// The pod as its owner created it; status and node are ignored.
    pub pod: Object,
    /// The demand that has to finish first.
    pub after: Option<DemandId>,
    /// The state of its pod at the start of the run, if the pod exists then.
    pub initial_state: Option<InitialPodState>,
    /// Whether and when its owner recreates an evicted or deleted pod.
    pub recreate: RecreatePolicy,
    /// The uid of its ReplicaSet, whose pods are interchangeable.
    pub replica_set: Option<Arc<str>>,
    /// How its containers exit by themselves, if they do.
    pub exit: Option<ContainerExit>,
    /// Its pods as recorded, oldest first.
    pub incarnations: Vec<PodIncarnation>,
    /// If the last recorded pod was evicted or deleted: how long its owner had not recreated it when the
    /// recording ended.
    pub not_recreated_for: Option<Duration>,
}

/// A demand with its pod parsed. Parsing is slow, and can be done outside of the run.
#[derive(Clone, Debug)]
pub struct ParsedDemand {
    /// The demand.
    pub demand: PodDemand,
    pub(crate) template: Arc<PodTemplate>,
    pub(crate) requests: Requests,
}

/// The state of a pod that exists at the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialPodState {
    /// When it was created.
    pub created: Moment,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// The node it is nominated to.
    pub nominated: Option<Arc<str>>,
    /// The scheduler's last message if it is unschedulable, and since when it is.
    pub unschedulable: Option<(Arc<str>, Moment)>,
    /// When its containers started.
    pub started: Option<Moment>,
    /// Whether it is terminating.
    pub is_terminating: bool,
}

/// Whether and when an evicted or deleted pod is recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecreatePolicy {
    /// It is not recreated.
    Never,
    /// As soon as it is terminating, as ReplicaSets and Jobs do.
    WhenTerminating,
    /// When it is gone, under the same name, as StatefulSets do.
    WhenGone,
}

/// How containers exit by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerExit {
    /// The time from their start.
    pub after: Duration,
    /// Whether the pod fails.
    pub fails: bool,
}

/// A pod of a demand, as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodIncarnation {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid; empty if unknown.
    pub uid: Arc<str>,
    /// The node it was bound to.
    pub node: Option<Arc<str>>,
    /// The time from its creation to its binding, if both were observed. `None` if the pod waited for another
    /// pod or for a node, unless another scheduler bound it.
    pub bind_duration: Option<ObservedDuration>,
    /// The time from its binding to the start of its containers.
    pub start_duration: Option<ObservedDuration>,
    /// The time from the start of its deletion until it was gone.
    pub deletion_duration: Option<ObservedDuration>,
    /// The time its owner took to create it after the pod before was evicted, deleted or finished.
    pub recreate_duration: Option<ObservedDuration>,
}

/// A recorded duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedDuration {
    /// The duration.
    pub duration: Duration,
    /// Whether it is a lower bound: the recording ended, or something else intervened.
    pub is_lower_bound: bool,
}

// === impl Input ===

impl Input {
    /// A demand, if its pod can be parsed.
    pub fn parse_demand(demand: PodDemand) -> Result<Input, InvalidPod> {
        Ok(Input::Demand(Box::new(ParsedDemand::parse(demand)?)))
    }
}

// === impl ParsedDemand ===

impl ParsedDemand {
    pub(crate) fn parse(demand: PodDemand) -> Result<ParsedDemand, InvalidPod> {
        let view = Arc::new(PodView::parse(&demand.pod));
        ParsedDemand::new(demand, view)
    }

    /// A demand whose pod is parsed already.
    pub(crate) fn new(demand: PodDemand, view: Arc<PodView>) -> Result<ParsedDemand, InvalidPod> {
        let requests = Requests::of(&view);
        let template = PodTemplate::new(view, &demand.pod, demand.annotation())?;
        Ok(ParsedDemand { template: Arc::new(template), requests, demand })
    }
}

// === impl PodDemand ===

impl PodDemand {
    /// The annotation for its pods; `None` for demands that the run made itself.
    pub(crate) fn annotation(&self) -> Option<DemandAnnotation> {
        (self.id.0 < u64::MAX / 2).then_some(DemandAnnotation { demand: self.id, after: self.after })
    }
}

// === impl ObservedDuration ===

impl ObservedDuration {
    /// Exactly this long.
    pub fn exactly(time: Duration) -> ObservedDuration {
        ObservedDuration { duration: time, is_lower_bound: false }
    }

    /// Longer than this.
    pub fn longer_than(time: Duration) -> ObservedDuration {
        ObservedDuration { duration: time, is_lower_bound: true }
    }
}
