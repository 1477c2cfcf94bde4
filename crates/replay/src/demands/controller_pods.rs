//! Recorded pods that controllers create in a replay.
//!
//! Where an owner was recorded and its controller is part of the replay, its pods are not input: the controller creates
//! them. Each pod that it creates stands for the next recorded one of the same owner, whose name and run time it gets.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use calibration::observed::ObservedChange;
use controllers::{Controller, OwnerName, TemplateHashes, template_hash_of};
use kubernetes::objects::PodView;
use kubernetes::well_known::JOB_COMPLETION_INDEX;
use model::Object;
use serde::Deserialize;
use simulation::{DemandId, PodRecord, RecordedPodSource};

use super::recorded_owners::{OwnerCounts, PodSelection, RecordedOwners};
use super::{RecordedDemand, RecordedDemands};

/// Recorded pods that controllers create in a replay, by owner.
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
    /// The first error of a lookup that cannot return it.
    lookup_error: Mutex<Option<io::Error>>,
}

/// The owner of a pod, if a controller of the replay reconciles that kind of owner.
#[derive(Debug)]
pub(super) struct PodOwner {
    name: OwnerName,
    /// Distinguishes the pod from others of its owner: a name, a completion index or a node.
    slot: Option<Arc<str>>,
}

/// Matches the pods that controllers of a replay create with recorded ones.
#[derive(Debug)]
pub(crate) struct ControllerPodMatcher<'a> {
    demands: &'a RecordedDemands,
    /// By slot: the number of recorded pods with a match, which are the first ones. Of all pods of an owner: the number
    /// of created pods beyond those recorded.
    counts: OwnerCounts,
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
    owner_references: Option<Vec<OwnerJson>>,
    #[serde(default)]
    annotations: Option<AnnotationsJson>,
}

#[derive(Deserialize)]
struct OwnerJson {
    kind: Arc<str>,
    name: Arc<str>,
    controller: Option<bool>,
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
        if !self.reconciles(&key.kind.kind) {
            return Ok(());
        }
        self.has_owners = true;
        let (kind, namespace, name) = (key.kind.kind.clone(), key.namespace.clone(), key.name.clone());
        let is_new = self.recorded_mut().add(&OwnerName { kind, namespace, name })?;
        if is_new && *key.kind.kind == *"ReplicaSet" {
            self.template_hashes.extend(template_hash_of(what.object()));
        }
        Ok(())
    }

    /// Adds a pod of an owner that was observed for the first time.
    pub(super) fn push_pod(&mut self, owner: &PodOwner, demand: DemandId) -> io::Result<()> {
        self.recorded_mut().push_pod(&owner.name, owner.slot.as_ref(), demand)
    }

    /// Whether an owner was recorded itself.
    pub(super) fn is_recorded(&mut self, owner: &PodOwner) -> io::Result<bool> {
        self.recorded_mut().contains(&owner.name)
    }

    /// Whether a controller of the replay creates such an object. An error is returned at the end of the replay.
    pub(crate) fn creates(&self, object: &Object) -> bool {
        if !self.has_owners {
            return false;
        }
        let Some(owner) = self.owner_of(object) else { return false };
        let is_recorded = self.lock_recorded().contains(&owner.name);
        is_recorded.unwrap_or_else(|error| {
            self.lookup_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            false
        })
    }

    fn recorded_mut(&mut self) -> &mut RecordedOwners {
        self.recorded.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_recorded(&self) -> MutexGuard<'_, RecordedOwners> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reconciles(&self, kind: &str) -> bool {
        Controller::for_kind(kind).is_some_and(|controller| self.controllers.contains(&controller))
    }

    /// Returns the controller owner of an object, if the replay reconciles that kind of owner.
    pub(super) fn owner_of(&self, object: &Object) -> Option<PodOwner> {
        if !self.controllers.iter().any(|controller| creates_objects(*controller)) {
            return None;
        }
        let json: ObjectJson = object.view().ok()?;
        let owners = json.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        let controller = Controller::for_kind(&owner.kind)?;
        if !self.controllers.contains(&controller) || !creates_objects(controller) {
            return None;
        }
        let slot = match &*owner.kind {
            "StatefulSet" => Some((*object.meta().name).into()),
            "DaemonSet" => {
                let path = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0\
                            /matchFields/0/values/0";
                json.spec.affinity.and_then(|affinity| Some(affinity.pointer(path)?.as_str()?.into()))
            }
            _ => json.metadata.annotations.and_then(|annotations| annotations.index),
        };
        let namespace = (*object.meta().namespace).into();
        Some(PodOwner { name: OwnerName { kind: owner.kind, namespace, name: owner.name }, slot })
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
        ControllerPodMatcher { demands, counts: OwnerCounts::default(), error: None }
    }

    /// Returns the first read error, also of the input stream.
    pub(crate) fn finish(self) -> io::Result<()> {
        let lookup_error = &self.demands.controller_pods.lookup_error;
        let lookup_error = lookup_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.error.or(lookup_error).map_or(Ok(()), Err)
    }

    /// Pods of a Deployment are recorded under the Deployment in a trace, under the ReplicaSet in a cluster.
    fn find_record(&mut self, pod: &PodView, owners: &[OwnerName]) -> io::Result<Option<PodRecord>> {
        let controller_pods = &self.demands.controller_pods;
        let mut recorded = controller_pods.lock_recorded();
        for owner in owners {
            let recorded_count = recorded.pod_count(owner, PodSelection::All)?;
            if recorded_count == 0 {
                continue;
            }
            let slot = slot_of(pod);
            let in_slot = PodSelection::InSlot(slot.as_ref());
            let matched_count = self.counts.get(owner, in_slot)?;
            if matched_count < recorded.pod_count(owner, in_slot)? {
                self.counts.set(owner, in_slot, matched_count + 1)?;
                let demand = recorded.pod(owner, in_slot, matched_count)?;
                let RecordedDemand { incarnations, exit, .. } = self.demands.get(demand)?;
                return Ok(Some(PodRecord { demand: Some(demand), incarnations, exit }));
            }
            // It is treated like a recorded one: a Job that creates an extra pod must still finish.
            let extra_count = self.counts.get(owner, PodSelection::All)?;
            self.counts.set(owner, PodSelection::All, extra_count + 1)?;
            let example = recorded.pod(owner, PodSelection::All, extra_count % recorded_count)?;
            let exit = self.demands.get(example)?.exit;
            return Ok(Some(PodRecord { demand: None, incarnations: Vec::new(), exit }));
        }
        Ok(None)
    }
}

impl RecordedPodSource for ControllerPodMatcher<'_> {
    fn next_record(&mut self, pod: &PodView, owners: &[OwnerName]) -> Option<PodRecord> {
        self.find_record(pod, owners).unwrap_or_else(|error| {
            self.error.get_or_insert(error);
            None
        })
    }
}
