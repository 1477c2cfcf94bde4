//! Pods that controllers make in a run, as they were recorded.
//!
//! Where an owner was recorded and a controller of the run looks after it, its pods are not given: the controller makes
//! them. Each that it makes stands for a recorded one, the next of the same owner: that has its name, and its containers
//! run as long.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use calibration::seen::Seen;
use controllers::{Controller, OwnerName, Words, word_of};
use model::Object;
use serde::Deserialize;
use simulation::{DemandId, Memory, Remembered};

use super::Causes;

/// Pods that controllers make in a run.
#[derive(Debug, Default)]
pub struct Made {
    /// Who works in the run.
    controllers: Vec<Controller>,
    /// What ReplicaSets were called.
    pub(crate) words: Words,
    /// Whatever was recorded that those look after.
    owners: BTreeSet<OwnerName>,
    pods: BTreeMap<OwnerName, Vec<Recorded>>,
}

/// A recorded pod.
#[derive(Clone, Debug)]
struct Recorded {
    /// What tells it from the others of its owner: a name, an index, a node.
    slot: Option<Arc<str>>,
    demand: DemandId,
}

/// Tells a run what the pods were like that its controllers make.
#[derive(Debug)]
pub(crate) struct Recall<'a> {
    causes: &'a Causes,
    /// Those that none stands for yet.
    left: BTreeMap<OwnerName, Vec<Recorded>>,
    /// How many more were made than recorded.
    more: BTreeMap<OwnerName, usize>,
    trouble: Option<io::Error>,
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

// === impl Made ===

impl Made {
    pub(super) fn by(controllers: &[Controller]) -> Made {
        Made { controllers: controllers.to_vec(), ..Made::default() }
    }

    /// Who works in the run: nobody, if there is nothing to look after.
    pub fn controllers(&self) -> &[Controller] {
        if self.owners.is_empty() { &[] } else { &self.controllers }
    }

    /// An object was recorded.
    pub(super) fn see(&mut self, seen: &Seen) {
        let Seen { key, what, .. } = seen;
        if !self.works(&key.kind.kind) {
            return;
        }
        let (kind, namespace, name) = (key.kind.kind.clone(), key.namespace.clone(), key.name.clone());
        if self.owners.insert(OwnerName { kind, namespace, name }) && *key.kind.kind == *"ReplicaSet" {
            self.words.extend(word_of(what.object()));
        }
    }

    /// Who makes a pod that was recorded for the first time, if a controller of the run may.
    pub(super) fn note(&mut self, pod: &Object, demand: DemandId) {
        if let Some((owner, slot)) = self.owner_of(pod) {
            self.pods.entry(owner).or_default().push(Recorded { slot, demand });
        }
    }

    /// Whether a controller of the run makes such an object.
    pub(crate) fn makes(&self, object: &Object) -> bool {
        self.owner_of(object).is_some_and(|(owner, _)| self.owners.contains(&owner))
    }

    fn works(&self, kind: &str) -> bool {
        Controller::of(kind).is_some_and(|controller| self.controllers.contains(&controller))
    }

    /// Who manages an object, if a controller of the run looks after such owners, and what tells the object from others
    /// of the same owner.
    fn owner_of(&self, object: &Object) -> Option<(OwnerName, Option<Arc<str>>)> {
        if self.controllers.is_empty() {
            return None;
        }
        let json: ObjectJson = object.view().ok()?;
        let owners = json.metadata.owner_references.unwrap_or_default();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
        if !self.works(&owner.kind) {
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

// === impl Recall ===

impl<'a> Recall<'a> {
    pub(crate) fn new(causes: &'a Causes) -> Recall<'a> {
        Recall { causes, left: BTreeMap::new(), more: BTreeMap::new(), trouble: None }
    }

    /// What could not be read.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.trouble.map_or(Ok(()), Err)
    }
}

impl Memory for Recall<'_> {
    /// What a trace tells of a Deployment's pods stands under the Deployment, what a cluster tells under the ReplicaSet.
    fn recall(&mut self, pod: &Object, owners: &[OwnerName]) -> Option<Remembered> {
        let made = &self.causes.made;
        let (owner, all) = owners.iter().find_map(|owner| Some((owner, made.pods.get(owner)?)))?;
        let slot = made.owner_of(pod).and_then(|(_, slot)| slot);
        let left = self.left.entry(owner.clone()).or_insert_with(|| all.clone());
        let place = left.iter().position(|recorded| recorded.slot == slot);
        let (demand, recorded) = match place {
            Some(place) => {
                let recorded = left.remove(place);
                (Some(recorded.demand), recorded)
            }
            None => {
                // Like one of those there were: a Job that makes one more comes to its end too.
                let more = self.more.entry(owner.clone()).or_default();
                let like = all[*more % all.len()].clone();
                *more += 1;
                (None, like)
            }
        };
        match self.causes.get(recorded.demand) {
            Ok(cause) => {
                let lives = if demand.is_some() { cause.lives } else { Vec::new() };
                Some(Remembered { demand, lives, runs: cause.runs })
            }
            Err(trouble) => {
                self.trouble = Some(trouble);
                None
            }
        }
    }
}
