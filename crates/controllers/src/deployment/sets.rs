//! The ReplicaSets of a Deployment, while it is being looked at.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use super::{DeploymentSpec, Work};
use crate::Context;
use crate::api::{ReplicaSetSpec, ReplicaSetStatus};
use crate::table::{Held, created_now, object_of};
use crate::template::TEMPLATE_HASH;
use crate::world::World;

const REVISION: &str = "deployment.kubernetes.io/revision";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations of a Deployment that its ReplicaSets do not get.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
    "deprecated.deployment.rollback.to",
];
/// How long the list of former numbers may get.
const LONGEST_HISTORY: usize = 2000;
const LONGEST_NAME: usize = 253;

/// The ReplicaSets of a Deployment.
pub(super) struct Sets {
    /// The one of the current template.
    pub(super) new: Option<Set>,
    /// The others, the oldest first.
    pub(super) old: Vec<Set>,
}

/// A ReplicaSet and what it is to be.
pub(super) struct Set {
    pub(super) held: Arc<Held<ReplicaSetSpec>>,
    pub(super) size: i64,
    /// It was scaled, or is to be told the size of the Deployment.
    is_scaled: bool,
    /// Annotations that it is to have besides.
    annotations: Vec<(String, String)>,
    min_ready_seconds: Option<i64>,
    /// It does not exist yet.
    is_made: bool,
}

// === impl Sets ===

impl Sets {
    pub(super) fn of(world: &World, held: &Held<DeploymentSpec>) -> Sets {
        let mut sets: Vec<Set> = world.replica_sets_of(&held.uid).into_iter().map(Set::new).collect();
        sets.sort_by_key(Set::by_age);
        let is_new = |set: &Set| set.held.spec.template.text == held.spec.template.text;
        let new = sets.iter().position(is_new).map(|index| sets.remove(index));
        Sets { new, old: sets }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// How many pods all of them are to have.
    pub(super) fn size(&self) -> i64 {
        self.all().map(|set| set.size).fold(0, i64::saturating_add)
    }

    /// How many of their pods are available.
    pub(super) fn available(&self) -> i64 {
        self.all().map(|set| set.held.status.available_replicas).fold(0, i64::saturating_add)
    }
}

// === impl Set ===

impl Set {
    fn new(held: Arc<Held<ReplicaSetSpec>>) -> Set {
        let size = held.spec.replicas();
        Set { held, size, is_scaled: false, annotations: Vec::new(), min_ready_seconds: None, is_made: false }
    }

    /// Gives it another size. False if it has that already.
    pub(super) fn scale(&mut self, size: i64) -> bool {
        let changed = self.size != size;
        self.size = size;
        self.is_scaled |= changed;
        changed
    }

    /// Gives it a size, and tells it that of the Deployment anyway.
    pub(super) fn scale_and_tell(&mut self, size: i64) {
        self.size = size;
        self.is_scaled = true;
    }

    /// The size that its Deployment had when it got its own.
    pub(super) fn desired(&self) -> Option<i64> {
        self.number(DESIRED)
    }

    /// How many pods its Deployment could have when it got its size.
    pub(super) fn most(&self) -> Option<i64> {
        self.number(MOST)
    }

    /// What number it is; `None` if that is no number.
    pub(super) fn revision(&self) -> Option<i64> {
        self.held.meta.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    pub(super) fn by_age(&self) -> (Moment, Arc<str>) {
        (self.held.created(), self.held.name.name.clone())
    }

    /// The object that it is to be, if it is another.
    pub(super) fn written(&self, spec: &DeploymentSpec) -> Option<Object> {
        let mut annotations = self.annotations.clone();
        if self.is_scaled {
            annotations.push((DESIRED.to_owned(), spec.replicas().to_string()));
            annotations.push((MOST.to_owned(), spec.most().to_string()));
        }
        annotations.retain(|(key, value)| self.held.meta.annotations.get(key) != Some(value));
        let is_resized = self.size != self.held.spec.replicas();
        if self.is_made || annotations.is_empty() && !is_resized && self.min_ready_seconds.is_none() {
            return None;
        }
        let mut metadata = self.held.metadata_value();
        for (key, value) in annotations {
            annotate(&mut metadata, &key, &value);
        }
        if !is_resized && self.min_ready_seconds.is_none() {
            return Some(self.held.with_metadata(&metadata, &self.held.status));
        }
        let mut object = self.held.spec_value();
        object["replicas"] = self.size.into();
        if let Some(seconds) = self.min_ready_seconds {
            object["minReadySeconds"] = seconds.into();
        }
        Some(self.held.with_spec(metadata, &object))
    }

    fn number(&self, annotation: &str) -> Option<i64> {
        self.held
            .meta
            .annotations
            .get(annotation)?
            .parse::<u32>()
            .ok()
            .filter(|number| *number <= i32::MAX as u32)
            .map(i64::from)
    }
}

// === impl Work ===

impl Work<'_> {
    /// Gives the newest ReplicaSet the highest number and the annotations of the Deployment.
    pub(super) fn sync_revision(&mut self, context: &Context<'_>) {
        let next = self.sets.old.iter().filter_map(Set::revision).max().unwrap_or(0).max(0).saturating_add(1);
        let Some(new) = &mut self.sets.new else { return };
        new.annotations = copied(self.held);
        let own = new.held.meta.annotations.get(REVISION);
        match own.map_or(Some(0), |own| own.parse::<i64>().ok()) {
            Some(number) if number < next => {
                new.annotations.push((REVISION.to_owned(), next.to_string()));
                if let Some(own) = own {
                    let known = new.held.meta.annotations.get(HISTORY).unwrap_or_default();
                    new.annotations.extend(history(known, own).map(|list| (HISTORY.to_owned(), list)));
                }
                self.revision = Some(next.to_string());
            }
            _ => self.revision = own.map(str::to_owned),
        }
        let seconds = self.held.spec.min_ready_seconds;
        new.min_ready_seconds = (new.held.spec.min_ready_seconds != seconds).then_some(seconds);
        self.note_found(context.now);
    }

    /// Makes the ReplicaSet of the current template. False if its name is taken.
    pub(super) fn make_new(&mut self, context: &mut Context<'_>) -> bool {
        let (held, spec) = (self.held, &self.held.spec);
        let hash = context.names.word(&spec.template, self.status.collision_count.unwrap_or(0));
        let longest = LONGEST_NAME.saturating_sub(hash.len() + 1);
        let base: String = held.name.name.chars().take(longest).collect();
        let name =
            NamespacedName { namespace: held.name.namespace.clone(), name: format!("{base}-{hash}").into() };
        if context.world.replica_sets.get(&name).is_some() {
            *self.status.collision_count.get_or_insert(0) += 1;
            return false;
        }
        let next = self.sets.old.iter().filter_map(Set::revision).max().unwrap_or(0).max(0).saturating_add(1);
        let size = self.new_size(0);
        let template = spec.template.labelled(TEMPLATE_HASH, &hash);
        let mut metadata = json!({
            "name": *name.name, "namespace": *name.namespace, "uid": context.names.uid(context.now), "generation": 1,
            "creationTimestamp": created_now(context.now), "labels": template["metadata"]["labels"],
            "ownerReferences": [held.reference()],
        });
        for (key, value) in copied(held).into_iter().chain([
            (REVISION.to_owned(), next.to_string()),
            (DESIRED.to_owned(), spec.replicas().to_string()),
            (MOST.to_owned(), spec.most().to_string()),
        ]) {
            annotate(&mut metadata, &key, &value);
        }
        let mut selector = spec.selector.clone();
        if !selector["matchLabels"].is_object() {
            selector["matchLabels"] = json!({});
        }
        selector["matchLabels"][TEMPLATE_HASH] = hash.into();
        let mut wanted = json!({"replicas": size, "selector": selector, "template": template});
        if spec.min_ready_seconds != 0 {
            wanted["minReadySeconds"] = spec.min_ready_seconds.into();
        }
        let object = object_of::<ReplicaSetSpec>(
            &metadata.to_string(),
            &wanted.to_string(),
            &ReplicaSetStatus::default(),
        );
        context.create(object.clone());
        let made = Held::read(name, &object, None).expect("it was made right here");
        self.note_made(context.now, &made.name.name);
        self.sets.new = Some(Set { is_made: true, ..Set::new(Arc::new(made)) });
        self.revision = Some(next.to_string());
        true
    }

    /// The annotation that tells the number of the newest ReplicaSet, if the Deployment has another.
    pub(super) fn metadata(&self) -> Option<Value> {
        let revision = self.revision.as_deref()?;
        (self.held.meta.annotations.get(REVISION) != Some(revision)).then(|| {
            let mut metadata = self.held.metadata_value();
            annotate(&mut metadata, REVISION, revision);
            metadata
        })
    }
}

/// The annotations of a Deployment that its ReplicaSets have too.
fn copied(held: &Held<DeploymentSpec>) -> Vec<(String, String)> {
    let own = held.meta.annotations.iter().filter(|(key, _)| !OWN.contains(&&***key));
    own.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The list of former numbers with one more; the first ones are dropped where it gets too long.
fn history(known: &str, own: &str) -> Option<String> {
    if known.is_empty() {
        return Some(own.to_owned());
    }
    let mut rest = known;
    while rest.len() + own.len() + 1 > LONGEST_HISTORY {
        rest = rest.split_once(',')?.1;
    }
    Some(format!("{rest},{own}"))
}

fn annotate(metadata: &mut Value, key: &str, value: &str) {
    if !metadata["annotations"].is_object() {
        metadata["annotations"] = json!({});
    }
    metadata["annotations"][key] = value.into();
}
