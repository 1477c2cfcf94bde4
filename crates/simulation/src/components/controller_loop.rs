//! The controllers' loops, which sync some time after a change and when a timer fires.

use std::fmt;
use std::time::Duration;

use controllers::{ApiCall, Controller, Controllers, TemplateHashes};
use kubernetes::objects::{NodeEvent, PodEvent, PodView};
use kubernetes::time::after;
use model::{Kind, Moment, ObjectRef, What};

use crate::ids::DemandId;
use crate::input::{ContainerExit, PodIncarnation};
use crate::latency::{LatencyKind, LatencySampler};

/// A source of recorded pods for the pods that controllers create.
pub trait RecordedPodSource: fmt::Debug {
    /// The recorded counterpart of a new pod: the next pod of its owner. The first of the owners is the pod's own
    /// controller, each following one owns the one before.
    fn next_record(&mut self, pod: &PodView, owners: &[ObjectRef]) -> Option<PodRecord>;
}

/// The record of a pod.
#[derive(Clone, Debug, Default)]
pub struct PodRecord {
    /// Its demand; `None` if the owner had fewer pods, and this is a record of a similar one.
    pub demand: Option<DemandId>,
    /// The pod as recorded.
    pub incarnations: Vec<PodIncarnation>,
    /// How its containers exit by themselves, if they do.
    pub exit: Option<ContainerExit>,
}

/// kube-controller-manager's loops.
#[derive(Debug)]
pub struct ControllerLoop<'m> {
    controllers: Controllers,
    recorded_pods: Option<&'m mut dyn RecordedPodSource>,
    /// The moment of the next sync, if one is due.
    work_at: Option<Moment>,
    /// Whether a sync is under way. Changes it causes need no new one.
    is_working: bool,
}

/// The delay before work continues after too many rounds.
const SYNC_RETRY_DELAY: Duration = Duration::from_millis(1);

impl<'m> ControllerLoop<'m> {
    /// These controllers. In a replay, ReplicaSets get their recorded pod template hashes, and new pods their recorded
    /// counterparts.
    pub fn new(
        enabled: &[Controller],
        seed: u64,
        recorded_hashes: Option<TemplateHashes>,
        recorded_pods: Option<&'m mut dyn RecordedPodSource>,
    ) -> ControllerLoop<'m> {
        let mut controllers = Controllers::new(enabled, seed);
        if let Some(hashes) = recorded_hashes {
            controllers.use_recorded_hashes(hashes);
        }
        ControllerLoop { controllers, recorded_pods, work_at: None, is_working: false }
    }
}

impl ControllerLoop<'_> {
    /// An object was added, modified or deleted. Returns when the controllers are to [work](ControllerLoop::work),
    /// unless that is known already.
    pub fn apply(&mut self, now: Moment, what: &What, sampler: &mut LatencySampler) -> Option<Moment> {
        self.controllers.apply(now, what);
        let is_node = what.object().meta().kind == "Node";
        let latency_kind = if is_node { LatencyKind::DaemonPodCreation } else { LatencyKind::PodRecreation };
        self.schedule_work(now, latency_kind, sampler)
    }

    /// The same for a pod.
    pub fn apply_pod(
        &mut self,
        now: Moment,
        event: &PodEvent,
        sampler: &mut LatencySampler,
    ) -> Option<Moment> {
        self.controllers.apply_pod(now, event);
        self.schedule_work(now, LatencyKind::PodRecreation, sampler)
    }

    /// The same for a node.
    pub fn apply_node(
        &mut self,
        now: Moment,
        event: &NodeEvent,
        sampler: &mut LatencySampler,
    ) -> Option<Moment> {
        self.controllers.apply_node(event);
        self.schedule_work(now, LatencyKind::DaemonPodCreation, sampler)
    }

    fn schedule_work(
        &mut self,
        now: Moment,
        latency_kind: LatencyKind,
        sampler: &mut LatencySampler,
    ) -> Option<Moment> {
        if self.is_working || self.work_at.is_some() || !self.controllers.has_work() {
            return None;
        }
        self.work_at = Some(after(now, sampler.draw(latency_kind, now)));
        self.work_at
    }

    /// When the next timer fires.
    pub fn next(&self) -> Option<Moment> {
        self.controllers.next_wake()
    }

    /// One round of work: the API calls of the controllers, to be carried out and reported back. To be repeated until a
    /// round returns none.
    pub fn work(&mut self, now: Moment) -> Vec<ApiCall> {
        self.is_working = true;
        let api_calls = self.controllers.process_next_item(now);
        if api_calls.is_empty() {
            (self.is_working, self.work_at) = (false, None);
        }
        api_calls
    }

    /// Interrupts their work although some is left. Returns when it continues.
    pub fn pause(&mut self, now: Moment) -> Moment {
        let at = after(now, SYNC_RETRY_DELAY);
        (self.is_working, self.work_at) = (false, Some(at));
        at
    }

    /// The recorded counterpart of a pod that they create, if there is one.
    pub fn next_record(&mut self, pod: &PodView) -> Option<PodRecord> {
        let owners = self.controllers.owners_of(pod);
        self.recorded_pods.as_mut()?.next_record(pod, &owners)
    }

    /// Whether one of them creates the pods of this pod's owner.
    pub fn creates_pods_of(&self, pod: &PodView) -> bool {
        self.controllers.creates_pods_of(pod)
    }

    /// Whether they write objects of a kind. Of inputs of that kind everything but the status applies.
    pub fn writes_kind(&self, kind: &Kind) -> bool {
        self.controllers.writes_kind(kind)
    }

    /// Each unsupported feature that was requested, with its count.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, u64)> {
        self.controllers.unsupported()
    }
}
