//! The ReplicaSets of a Deployment during its sync.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use super::{DeploymentSpec, DeploymentSync};
use crate::api::{ReplicaSetSpec, ReplicaSetStatus};
use crate::informer_cache::InformerCache;
use crate::object_table::{CachedObject, assemble_object, creation_timestamp};
use crate::pod_template::POD_TEMPLATE_HASH_LABEL;
use crate::{EventText, SyncContext};

const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that are not copied to its ReplicaSets.
const ANNOTATIONS_TO_SKIP: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];
/// The longest revision history in bytes.
const MAX_HISTORY_LENGTH: usize = 2000;
const MAX_NAME_LENGTH: usize = 253;

/// The ReplicaSets of a Deployment.
pub(super) struct ReplicaSets {
    /// The ReplicaSet of the current template.
    pub(super) new: Option<PlannedReplicaSet>,
    /// The others, the oldest first.
    pub(super) old: Vec<PlannedReplicaSet>,
}

/// A ReplicaSet and its desired state.
pub(super) struct PlannedReplicaSet {
    pub(super) replica_set: Arc<CachedObject<ReplicaSetSpec>>,
    pub(super) replicas: i64,
    /// Whether its annotations with the Deployment's replicas are to be updated.
    is_scaled: bool,
    /// Further annotations to set.
    annotations: Vec<(String, String)>,
    min_ready_seconds: Option<i64>,
    /// Whether it was created in this sync.
    is_created: bool,
}

// === impl ReplicaSets ===

impl ReplicaSets {
    pub(super) fn of(cache: &InformerCache, deployment: &CachedObject<DeploymentSpec>) -> ReplicaSets {
        let mut sets: Vec<PlannedReplicaSet> =
            cache.replica_sets_of(&deployment.uid).into_iter().map(PlannedReplicaSet::new).collect();
        sets.sort_by_key(PlannedReplicaSet::age_key);
        let is_new = |set: &PlannedReplicaSet| {
            set.replica_set.spec.template.normalized == deployment.spec.template.normalized
        };
        let new = sets.iter().position(is_new).map(|index| sets.remove(index));
        ReplicaSets { new, old: sets }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PlannedReplicaSet> {
        self.old.iter().chain(&self.new)
    }

    /// The sum of their replicas.
    pub(super) fn replicas(&self) -> i64 {
        self.all().map(|set| set.replicas).fold(0, i64::saturating_add)
    }

    /// The sum of their available replicas.
    pub(super) fn available_replicas(&self) -> i64 {
        self.all().map(|set| set.replica_set.status.available_replicas).fold(0, i64::saturating_add)
    }
}

// === impl PlannedReplicaSet ===

impl PlannedReplicaSet {
    fn new(replica_set: Arc<CachedObject<ReplicaSetSpec>>) -> PlannedReplicaSet {
        let size = replica_set.spec.replicas();
        PlannedReplicaSet {
            replica_set,
            replicas: size,
            is_scaled: false,
            annotations: Vec::new(),
            min_ready_seconds: None,
            is_created: false,
        }
    }

    /// Scales it. Returns false if it has that many replicas already.
    pub(super) fn scale(&mut self, size: i64) -> bool {
        let changed = self.replicas != size;
        self.replicas = size;
        self.is_scaled |= changed;
        changed
    }

    /// Scales it, and updates its annotations even if its replicas stay.
    pub(super) fn scale_with_annotations(&mut self, size: i64) {
        self.replicas = size;
        self.is_scaled = true;
    }

    /// The replicas of its Deployment when it was last scaled.
    pub(super) fn desired_replicas(&self) -> Option<i64> {
        self.int_annotation(DESIRED_REPLICAS)
    }

    /// The replicas plus surge of its Deployment when it was last scaled.
    pub(super) fn max_replicas(&self) -> Option<i64> {
        self.int_annotation(MAX_REPLICAS)
    }

    /// Its revision number, 0 if it has none; `None` if it is not a number.
    pub(super) fn revision(&self) -> Option<i64> {
        self.replica_set.meta.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    pub(super) fn age_key(&self) -> (Moment, Arc<str>) {
        (self.replica_set.creation_time(), self.replica_set.name.name.clone())
    }

    /// The object to write, if anything changed.
    pub(super) fn updated_object(&self, spec: &DeploymentSpec) -> Option<Object> {
        let mut annotations = self.annotations.clone();
        if self.is_scaled {
            annotations.push((DESIRED_REPLICAS.to_owned(), spec.replicas().to_string()));
            annotations.push((MAX_REPLICAS.to_owned(), spec.max_replicas().to_string()));
        }
        annotations.retain(|(key, value)| self.replica_set.meta.annotations.get(key) != Some(value));
        let is_resized = self.replicas != self.replica_set.spec.replicas();
        if self.is_created || annotations.is_empty() && !is_resized && self.min_ready_seconds.is_none() {
            return None;
        }
        let mut metadata = self.replica_set.metadata_value();
        for (key, value) in annotations {
            annotate(&mut metadata, &key, &value);
        }
        if !is_resized && self.min_ready_seconds.is_none() {
            return Some(self.replica_set.with_metadata(&metadata, &self.replica_set.status));
        }
        let mut object = self.replica_set.spec_value();
        object["replicas"] = self.replicas.into();
        if let Some(seconds) = self.min_ready_seconds {
            object["minReadySeconds"] = seconds.into();
        }
        Some(self.replica_set.with_spec(metadata, &object))
    }

    /// What is reported when its size changes.
    pub(super) fn scaling_event(&self) -> Option<EventText> {
        let (old, new) = (self.replica_set.spec.replicas(), self.replicas);
        let direction = match old.cmp(&new) {
            std::cmp::Ordering::Less => "up",
            std::cmp::Ordering::Greater => "down",
            std::cmp::Ordering::Equal => return None,
        };
        let name = &self.replica_set.name.name;
        let message = format!("Scaled {direction} replica set {name} from {old} to {new}");
        Some(EventText::normal("ScalingReplicaSet", message))
    }

    fn int_annotation(&self, annotation: &str) -> Option<i64> {
        self.replica_set
            .meta
            .annotations
            .get(annotation)?
            .parse::<u32>()
            .ok()
            .filter(|number| *number <= i32::MAX as u32)
            .map(i64::from)
    }
}

// === impl DeploymentSync ===

impl DeploymentSync<'_> {
    /// Updates the new ReplicaSet's revision number and the annotations copied from the Deployment.
    pub(super) fn sync_new_replica_set(&mut self, context: &SyncContext<'_>) {
        let next = self
            .sets
            .old
            .iter()
            .filter_map(PlannedReplicaSet::revision)
            .max()
            .unwrap_or(0)
            .max(0)
            .saturating_add(1);
        let Some(new) = &mut self.sets.new else { return };
        new.annotations = copied_annotations(self.deployment);
        let old_revision = new.replica_set.meta.annotations.get(REVISION);
        match old_revision.map_or(Some(0), |old_revision| old_revision.parse::<i64>().ok()) {
            Some(number) if number < next => {
                new.annotations.push((REVISION.to_owned(), next.to_string()));
                if let Some(old_revision) = old_revision {
                    let history = new.replica_set.meta.annotations.get(REVISION_HISTORY).unwrap_or_default();
                    new.annotations.extend(
                        extended_history(history, old_revision)
                            .map(|list| (REVISION_HISTORY.to_owned(), list)),
                    );
                }
                self.revision = Some(next.to_string());
            }
            _ => self.revision = old_revision.map(str::to_owned),
        }
        let seconds = self.deployment.spec.min_ready_seconds;
        new.min_ready_seconds = (new.replica_set.spec.min_ready_seconds != seconds).then_some(seconds);
        self.note_found_replica_set(context.now);
    }

    /// Creates the ReplicaSet of the current template. Returns false if its name is taken.
    pub(super) fn create_new_replica_set(&mut self, context: &mut SyncContext<'_>) -> bool {
        let (deployment, spec) = (self.deployment, &self.deployment.spec);
        let hash =
            context.name_generator.template_hash(&spec.template, self.status.collision_count.unwrap_or(0));
        let longest = MAX_NAME_LENGTH.saturating_sub(hash.len() + 1);
        let base: String = deployment.name.name.chars().take(longest).collect();
        let name = NamespacedName {
            namespace: deployment.name.namespace.clone(),
            name: format!("{base}-{hash}").into(),
        };
        if context.cache.replica_sets.get(&name).is_some() {
            *self.status.collision_count.get_or_insert(0) += 1;
            return false;
        }
        let next = self
            .sets
            .old
            .iter()
            .filter_map(PlannedReplicaSet::revision)
            .max()
            .unwrap_or(0)
            .max(0)
            .saturating_add(1);
        let size = self.new_replica_set_size(0);
        let template = spec.template.with_label(POD_TEMPLATE_HASH_LABEL, &hash);
        let mut metadata = json!({
            "name": *name.name, "namespace": *name.namespace, "uid": context.name_generator.uid(context.now), "generation": 1,
            "creationTimestamp": creation_timestamp(context.now), "labels": template["metadata"]["labels"],
            "ownerReferences": [deployment.controller_reference()],
        });
        for (key, value) in copied_annotations(deployment).into_iter().chain([
            (REVISION.to_owned(), next.to_string()),
            (DESIRED_REPLICAS.to_owned(), spec.replicas().to_string()),
            (MAX_REPLICAS.to_owned(), spec.max_replicas().to_string()),
        ]) {
            annotate(&mut metadata, &key, &value);
        }
        let mut selector = spec.selector.clone();
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][POD_TEMPLATE_HASH_LABEL] = hash.into();
        let mut replica_set_spec = json!({"replicas": size, "selector": selector, "template": template});
        if spec.min_ready_seconds != 0 {
            replica_set_spec["minReadySeconds"] = spec.min_ready_seconds.into();
        }
        let object = assemble_object::<ReplicaSetSpec>(
            &metadata.to_string(),
            &replica_set_spec.to_string(),
            &ReplicaSetStatus::default(),
        );
        context.create(object.clone());
        let scaled = EventText::normal(
            "ScalingReplicaSet",
            format!("Scaled up replica set {} from 0 to {size}", name.name),
        );
        let failed = format!("Failed to create new replica set {:?}: ", &*name.name);
        let failed = EventText::warning("ReplicaSetCreateError", failed);
        if size > 0 {
            context.report_call(deployment, scaled, Some(failed));
        }
        let created_set = CachedObject::parse(name, &object, None).expect("a ReplicaSet built here is valid");
        self.note_created_replica_set(context.now, &created_set.name.name);
        self.sets.new =
            Some(PlannedReplicaSet { is_created: true, ..PlannedReplicaSet::new(Arc::new(created_set)) });
        self.revision = Some(next.to_string());
        true
    }

    /// The metadata with the revision number of the new ReplicaSet, if the Deployment has another.
    pub(super) fn updated_metadata(&self) -> Option<Value> {
        let revision = self.revision.as_deref()?;
        (self.deployment.meta.annotations.get(REVISION) != Some(revision)).then(|| {
            let mut metadata = self.deployment.metadata_value();
            annotate(&mut metadata, REVISION, revision);
            metadata
        })
    }
}

/// The annotations of a Deployment that are copied to its ReplicaSets.
fn copied_annotations(deployment: &CachedObject<DeploymentSpec>) -> Vec<(String, String)> {
    let annotations =
        deployment.meta.annotations.iter().filter(|(key, _)| !ANNOTATIONS_TO_SKIP.contains(&&***key));
    annotations.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The revision history with one more number; the oldest are dropped if it gets too long.
fn extended_history(history: &str, old_revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(old_revision.to_owned());
    }
    let mut remaining_history = history;
    while remaining_history.len() + old_revision.len() + 1 > MAX_HISTORY_LENGTH {
        remaining_history = remaining_history.split_once(',')?.1;
    }
    Some(format!("{remaining_history},{old_revision}"))
}

fn annotate(metadata: &mut Value, key: &str, value: &str) {
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][key] = value.into();
}
