//! Recorded pods that controllers create in a replay.
//!
//! Where an owner was recorded and its controller is part of the replay, its pods are not input: the controller creates
//! them. Each pod that it creates stands for the next recorded one of the same owner, whose name and run time it gets.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use calibration::observed::ObservedChange;
use controllers::{Controller, OwnerName, TemplateHashes, template_hash_of};
use kubernetes::objects::PodView;
use kubernetes::well_known::JOB_COMPLETION_INDEX;
use model::Object;
use serde::Deserialize;
use simulation::{DemandId, PodRecord, RecordedPodSource};

use super::RecordedDemands;

/// Recorded pods that controllers create in a replay, by owner.
#[derive(Debug, Default)]
pub struct ControllerPods {
    /// The controllers of the replay.
    controllers: Vec<Controller>,
    /// The template hashes that recorded ReplicaSets have in their names.
    pub(crate) template_hashes: TemplateHashes,
    /// Recorded objects that these controllers reconcile.
    owners: BTreeSet<OwnerName>,
    pods: BTreeMap<OwnerName, Vec<RecordedControllerPod>>,
}

/// A recorded pod of one owner.
#[derive(Clone, Debug)]
struct RecordedControllerPod {
    /// Distinguishes it from other pods of its owner: a name, a completion index or a node.
    slot: Option<Arc<str>>,
    demand: DemandId,
}

/// Matches the pods that controllers of a replay create with recorded ones.
#[derive(Debug)]
pub(crate) struct ControllerPodMatcher<'a> {
    demands: &'a RecordedDemands,
    /// Recorded pods without a match yet.
    unmatched: BTreeMap<OwnerName, Vec<RecordedControllerPod>>,
    /// The number of created pods beyond those recorded.
    extra_pods: BTreeMap<OwnerName, usize>,
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
        if self.owners.is_empty() { &[] } else { &self.controllers }
    }

    /// Takes a change of a recorded object.
    pub(super) fn observe(&mut self, change: &ObservedChange) {
        let ObservedChange { key, what, .. } = change;
        if !self.reconciles(&key.kind.kind) {
            return;
        }
        let (kind, namespace, name) = (key.kind.kind.clone(), key.namespace.clone(), key.name.clone());
        if self.owners.insert(OwnerName { kind, namespace, name }) && *key.kind.kind == *"ReplicaSet" {
            self.template_hashes.extend(template_hash_of(what.object()));
        }
    }

    /// Adds a pod that was observed for the first time, if a controller of the replay may create it.
    pub(super) fn add_pod(&mut self, pod: &Object, demand: DemandId) {
        if let Some((owner, slot)) = self.owner_of(pod) {
            self.pods.entry(owner).or_default().push(RecordedControllerPod { slot, demand });
        }
    }

    /// Whether a controller of the replay creates such an object.
    pub(crate) fn creates(&self, object: &Object) -> bool {
        self.owner_of(object).is_some_and(|(owner, _)| self.owners.contains(&owner))
    }

    fn reconciles(&self, kind: &str) -> bool {
        Controller::for_kind(kind).is_some_and(|controller| self.controllers.contains(&controller))
    }

    /// Returns the controller owner of an object, if the replay reconciles that kind of owner, and the object's slot.
    fn owner_of(&self, object: &Object) -> Option<(OwnerName, Option<Arc<str>>)> {
        if self.controllers.is_empty() {
            return None;
        }
        let json: ObjectJson = object.view().ok()?;
        let owners = json.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        if !self.reconciles(&owner.kind) {
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
        Some((OwnerName { kind: owner.kind, namespace, name: owner.name }, slot))
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
        ControllerPodMatcher { demands, unmatched: BTreeMap::new(), extra_pods: BTreeMap::new(), error: None }
    }

    /// Returns the first read error.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

impl RecordedPodSource for ControllerPodMatcher<'_> {
    /// Pods of a Deployment are recorded under the Deployment in a trace, under the ReplicaSet in a cluster.
    fn next_record(&mut self, pod: &PodView, owners: &[OwnerName]) -> Option<PodRecord> {
        let controller_pods = &self.demands.controller_pods;
        let (owner, recorded_pods) =
            owners.iter().find_map(|owner| Some((owner, controller_pods.pods.get(owner)?)))?;
        let slot = slot_of(pod);
        let unmatched = self.unmatched.entry(owner.clone()).or_insert_with(|| recorded_pods.clone());
        let position = unmatched.iter().position(|recorded| recorded.slot == slot);
        let (demand, recorded) = match position {
            Some(position) => {
                let recorded = unmatched.remove(position);
                (Some(recorded.demand), recorded)
            }
            None => {
                // It is treated like a recorded one: a Job that creates an extra pod must still finish.
                let extra_count = self.extra_pods.entry(owner.clone()).or_default();
                let example = recorded_pods[*extra_count % recorded_pods.len()].clone();
                *extra_count += 1;
                (None, example)
            }
        };
        match self.demands.get(recorded.demand) {
            Ok(recorded_demand) => {
                let incarnations = if demand.is_some() { recorded_demand.incarnations } else { Vec::new() };
                Some(PodRecord { demand, incarnations, exit: recorded_demand.exit })
            }
            Err(error) => {
                self.error = Some(error);
                None
            }
        }
    }
}
