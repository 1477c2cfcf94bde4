//! Recorded pods that controllers create in a replay.
//!
//! Where an owner was recorded and its controller is part of the replay, its pods are not input: the controller creates
//! them. Each pod that it creates stands for the next recorded one of the same owner, whose name and run time it gets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calibration::observed::ObservedChange;
use controllers::{Controller, TemplateHashes, template_hash_of};
use kubernetes::objects::{OwnerReference, PodView, controller_of};
use kubernetes::well_known::JOB_COMPLETION_INDEX;
use model::{Kind, Object, ObjectRef};
use serde::Deserialize;
use simulation::{DemandId, PodRecord, RecordedPodSource};

use super::recorded_owners::{OwnerCounts, PodSelection, RecordedOwners};
use super::{RecordedDemand, RecordedDemands};

/// The controllers that run in a replay, the recorded pods that they create, by owner, and the template
/// hashes of recorded ReplicaSets.
#[derive(Debug, Default)]
pub struct ControllerPods {
    /// The controllers of the replay.
    controllers: Vec<Controller>,
    /// The template hashes that recorded ReplicaSets have in their names.
    pub(crate) template_hashes: TemplateHashes,
    /// Whether an object was recorded that these controllers reconcile.
    has_owners: bool,
    /// The objects that these controllers reconcile, and their pods. The input stream and the run read them in threads
    /// of their own.
    recorded: Mutex<RecordedOwners>,
}

/// The owner of a pod, if a controller of the replay reconciles that kind of owner.
#[derive(Debug)]
pub(super) struct PodOwner {
    object: ObjectRef,
    /// Distinguishes the pod from others of its owner: a name, a completion index or a node.
    slot: Option<Arc<str>>,
}

/// Matches the pods that controllers of a replay create with recorded ones.
#[derive(Debug)]
pub(crate) struct ControllerPodMatcher<'a> {
    demands: &'a RecordedDemands,
    /// By owner and slot: the number of recorded pods with a match, which are the first ones.
    matched_counts: OwnerCounts,
    /// By owner: the number of created pods beyond those recorded.
    extra_counts: OwnerCounts,
    error: Option<io::Error>,
}

#[derive(Deserialize)]
struct ObjectJson {
    metadata: MetadataJson,
    #[serde(default)]
    spec: SpecJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    #[serde(default)]
    owner_references: Option<Vec<OwnerReference>>,
    #[serde(default)]
    annotations: Option<AnnotationsJson>,
}

#[derive(Deserialize)]
struct AnnotationsJson {
    #[serde(rename = "batch.kubernetes.io/job-completion-index")]
    index: Option<Arc<str>>,
}

#[derive(Default, Deserialize)]
struct SpecJson {
    #[serde(default)]
    affinity: Option<serde_json::Value>,
}

// === impl ControllerPods ===

impl ControllerPods {
    pub(super) fn new(controllers: &[Controller]) -> ControllerPods {
        ControllerPods { controllers: controllers.to_vec(), ..ControllerPods::default() }
    }

    /// The controllers of the replay; none if no object was recorded that they reconcile.
    pub fn controllers(&self) -> &[Controller] {
        if self.has_owners { &self.controllers } else { &[] }
    }

    /// Takes a change of a recorded object.
    pub(super) fn observe(&mut self, change: &ObservedChange) -> io::Result<()> {
        let ObservedChange { key, what, .. } = change;
        if !self.reconciles(&key.kind) {
            return Ok(());
        }
        self.has_owners = true;
        let is_new = self.recorded_mut().add(&ObjectRef::from(key))?;
        if is_new && *key.kind.kind == *"ReplicaSet" {
            self.template_hashes.extend(template_hash_of(what.object()));
        }
        Ok(())
    }

    /// Adds a pod of an owner that was observed for the first time.
    pub(super) fn push_pod(&mut self, owner: &PodOwner, demand: DemandId) -> io::Result<()> {
        self.recorded_mut().push_pod(&owner.object, owner.slot.as_ref(), demand)
    }

    /// Whether an owner was recorded itself.
    pub(super) fn is_recorded(&mut self, owner: &PodOwner) -> io::Result<bool> {
        self.recorded_mut().contains(&owner.object)
    }

    /// Whether a controller of the replay creates such an object.
    pub(crate) fn creates(&self, object: &Object) -> io::Result<bool> {
        match self.owner_of(object).filter(|_| self.has_owners) {
            Some(owner) => self.lock_recorded().contains(&owner.object),
            None => Ok(false),
        }
    }

    fn recorded_mut(&mut self) -> &mut RecordedOwners {
        self.recorded.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_recorded(&self) -> MutexGuard<'_, RecordedOwners> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reconciles(&self, kind: &Kind) -> bool {
        Controller::for_kind(kind).is_some_and(|controller| self.controllers.contains(&controller))
    }

    /// Returns the controller owner of an object, if the replay reconciles that kind of owner.
    pub(super) fn owner_of(&self, object: &Object) -> Option<PodOwner> {
        if !self.controllers.iter().any(|controller| creates_objects(*controller)) {
            return None;
        }
        let json: ObjectJson = object.view().ok()?;
        let owners = json.metadata.owner_references.unwrap_or_default();
        let owner = controller_of(&owners)?.object_ref(&(*object.meta().namespace).into());
        let controller = Controller::for_kind(&owner.kind)?;
        if !self.controllers.contains(&controller) || !creates_objects(controller) {
            return None;
        }
        let slot = match controller {
            Controller::StatefulSet => Some((*object.meta().name).into()),
            Controller::DaemonSet => {
                let path = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                            /matchFields/0/values/0";
                json.spec.affinity.and_then(|affinity| Some(affinity.pointer(path)?.as_str()?.into()))
            }
            _ => json.metadata.annotations.and_then(|annotations| annotations.index),
        };
        Some(PodOwner { object: owner, slot })
    }
}

/// Whether a controller creates pods, or objects that own pods.
fn creates_objects(controller: Controller) -> bool {
    match controller {
        Controller::GarbageCollection | Controller::Disruption => false,
        Controller::CronJob
        | Controller::Job
        | Controller::DaemonSet
        | Controller::Deployment
        | Controller::ReplicaSet
        | Controller::StatefulSet => true,
    }
}

/// The slot of a pod that a controller creates.
fn slot_of(pod: &PodView) -> Option<Arc<str>> {
    match &*pod.controller()?.kind {
        "StatefulSet" => Some(pod.name.name.clone()),
        "DaemonSet" => pod.spec.affinity.node_affinity.required.as_ref()?.single_name().map(Arc::from),
        _ => pod.annotations.get_shared(JOB_COMPLETION_INDEX).cloned(),
    }
}

// === impl ControllerPodMatcher ===

impl<'a> ControllerPodMatcher<'a> {
    pub(crate) fn new(demands: &'a RecordedDemands) -> ControllerPodMatcher<'a> {
        ControllerPodMatcher {
            demands,
            matched_counts: OwnerCounts::default(),
            extra_counts: OwnerCounts::default(),
            error: None,
        }
    }

    /// Returns the first read error.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }

    /// Pods of a Deployment are recorded under the Deployment in a trace, under the ReplicaSet in a cluster.
    fn find_record(&mut self, pod: &PodView, owners: &[ObjectRef]) -> io::Result<Option<PodRecord>> {
        let controller_pods = &self.demands.controller_pods;
        let mut recorded = controller_pods.lock_recorded();
        for owner in owners {
            let recorded_count = recorded.pod_count(owner, PodSelection::All)?;
            if recorded_count == 0 {
                continue;
            }
            let slot = slot_of(pod);
            let in_slot = PodSelection::InSlot(slot.as_ref());
            let matched_count = self.matched_counts.get(owner, in_slot)?;
            if matched_count < recorded.pod_count(owner, in_slot)? {
                self.matched_counts.set(owner, in_slot, matched_count + 1)?;
                let demand = recorded.pod(owner, in_slot, matched_count)?;
                let RecordedDemand { incarnations, exit, .. } = self.demands.get(demand)?;
                return Ok(Some(PodRecord { demand: Some(demand), incarnations, exit }));
            }
            // It is treated like a recorded one: a Job that creates an extra pod must still finish.
            let extra_count = self.extra_counts.get(owner, PodSelection::All)?;
            self.extra_counts.set(owner, PodSelection::All, extra_count + 1)?;
            let example = recorded.pod(owner, PodSelection::All, extra_count % recorded_count)?;
            let exit = self.demands.get(example)?.exit;
            return Ok(Some(PodRecord { demand: None, incarnations: Vec::new(), exit }));
        }
        Ok(None)
    }
}

impl RecordedPodSource for ControllerPodMatcher<'_> {
    fn next_record(&mut self, pod: &PodView, owners: &[ObjectRef]) -> Option<PodRecord> {
        self.find_record(pod, owners).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        })
    }
}
