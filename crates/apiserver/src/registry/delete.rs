//! Deletion of objects: preconditions, propagation, finalizers, and the grace period of pods.

use std::time::Duration;

use kubernetes::time::{after, whole_second};
use model::{Kind, NamespacedName, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::metadata::{has_finalizers, is_terminating, metadata_mut, metadata_text};
use super::update::{is_gone, parsed};
use super::{CommitError, MAX_ATTEMPTS, Registry, WriteOptions};
use crate::resource::Resource;
use crate::status::{ApiError, InvalidField};

/// `DeleteOptions` of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteOptions {
    /// The grace period of a pod; `None` for its own.
    pub grace_period_seconds: Option<i64>,
    /// What happens to the dependents; `None` for the default of the kind.
    pub propagation_policy: Option<PropagationPolicy>,
    /// The older form of a propagation policy.
    pub orphan_dependents: Option<bool>,
    /// The state that the object must have.
    pub preconditions: Option<Preconditions>,
    /// `All` for a dry run.
    pub dry_run: Vec<String>,
}

/// What happens to the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum PropagationPolicy {
    /// They lose their owner.
    Orphan,
    /// They are deleted afterwards.
    Background,
    /// They are deleted before.
    Foreground,
}

/// The state that an object must have to be deleted.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resourceVersion.
    pub resource_version: Option<String>,
}

/// The result of a deletion.
#[derive(Debug)]
pub enum Deletion {
    /// The object has gone; its last state.
    Gone(Object),
    /// The object is terminating.
    Terminating(Object),
}

const ORPHAN_FINALIZER: &str = "orphan";
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const DEFAULT_GRACE_SECONDS: i64 = 30;
/// The namespaces that an API server creates, and creates again.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Registry {
    /// Deletes an object of a kind that the store has, for a component.
    pub fn delete_object(
        &self,
        kind: &Kind,
        name: &NamespacedName,
        options: &DeleteOptions,
    ) -> Result<Deletion, ApiError> {
        let table = self.table();
        let resource = table.of_kind(kind).ok_or_else(ApiError::unknown_path)?;
        let write = WriteOptions { is_component: true, ..WriteOptions::default() };
        self.delete(resource, name, options, write)
    }

    /// Deletes an object, or begins to.
    pub fn delete(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        options: &DeleteOptions,
        write: WriteOptions<'_>,
    ) -> Result<Deletion, ApiError> {
        let write = WriteOptions { dry_run: write.dry_run || !options.dry_run.is_empty(), ..write };
        if resource.kind.is("", "Namespace") && IMMORTAL_NAMESPACES.contains(&&*name.name) {
            return Err(ApiError::forbidden(resource, &name.name, "this namespace may not be deleted"));
        }
        if resource.is_definition() {
            return self.delete_definition(resource, name, options, write);
        }
        for _ in 0..MAX_ATTEMPTS {
            let old_object = self.current(resource, name)?;
            let old = parsed(&old_object)?;
            options.check_preconditions(resource, name, &old)?;
            let mut new = old.clone();
            options.set_finalizers(resource, &mut new);
            self.begin_deletion(resource, &mut new, options.grace_period_seconds);
            let is_deletion = !has_finalizers(&new) && is_gone(resource, &new);
            if new == old && !is_deletion {
                return Ok(Deletion::Terminating(old_object));
            }
            match self.commit(resource, name, Some(&old_object), new, is_deletion, write) {
                Ok(deleted) if is_deletion => return Ok(Deletion::Gone(deleted)),
                Ok(terminating) => return Ok(Deletion::Terminating(terminating)),
                Err(CommitError::Overtaken) => {}
                Err(CommitError::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(resource, &name.name))
    }

    /// Sets the deletion timestamp of an object.
    fn begin_deletion(&self, resource: &Resource, object: &mut Value, requested_grace: Option<i64>) {
        let is_pod = resource.kind.is("", "Pod");
        let grace = if is_pod { grace_of_pod(object, requested_grace) } else { 0 };
        let current = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
        if is_terminating(object) && current.is_some_and(|current| current <= grace) {
            return;
        }
        let deleted_at = whole_second(after(self.now(), Duration::from_secs(grace.unsigned_abs())));
        let generation = object["metadata"]["generation"].as_i64();
        let metadata = metadata_mut(object);
        metadata.insert("deletionTimestamp".to_owned(), deleted_at.to_string().into());
        metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
        if let Some(generation) = generation.filter(|generation| *generation > 0 && current.is_none()) {
            metadata.insert("generation".to_owned(), (generation + 1).into());
        }
        if resource.kind.is("", "Namespace") {
            object["status"]["phase"] = "Terminating".into();
        }
    }
}

// === impl DeleteOptions ===

impl DeleteOptions {
    /// These options, and the others where these have none.
    #[must_use]
    pub fn or(self, other: DeleteOptions) -> DeleteOptions {
        DeleteOptions {
            grace_period_seconds: self.grace_period_seconds.or(other.grace_period_seconds),
            propagation_policy: self.propagation_policy.or(other.propagation_policy),
            orphan_dependents: self.orphan_dependents.or(other.orphan_dependents),
            preconditions: self.preconditions.or(other.preconditions),
            dry_run: if self.dry_run.is_empty() { other.dry_run } else { self.dry_run },
        }
    }

    /// Checks that the options do not contradict each other.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        let Some(policy) = self.propagation_policy.filter(|_| self.orphan_dependents.is_some()) else {
            return Ok(());
        };
        let why = "orphanDependents and deletionPropagation cannot be both set";
        let error = InvalidField::invalid("propagationPolicy", &format!("\"{policy:?}\""), why);
        Err(ApiError::invalid_options("DeleteOptions", &[error]))
    }

    pub(super) fn check_preconditions(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        object: &Value,
    ) -> Result<(), ApiError> {
        let Some(Preconditions { uid, resource_version }) = &self.preconditions else { return Ok(()) };
        for (what, field, wanted, change) in [
            ("UID", "uid", uid, "deleted and then recreated"),
            ("ResourceVersion", "resourceVersion", resource_version, "modified"),
        ] {
            let current = metadata_text(object, field);
            if let Some(wanted) = wanted.as_ref().filter(|wanted| **wanted != current) {
                let why = format!(
                    "the {what} in the precondition ({wanted}) does not match the {what} in record ({current}). The \
                     object might have been {change}"
                );
                return Err(ApiError::conflict_of_kind(resource, &name.name, why));
            }
        }
        Ok(())
    }

    /// The finalizers with which the garbage collector learns of the policy.
    fn set_finalizers(&self, resource: &Resource, object: &mut Value) {
        let has = |finalizer: &str| {
            object["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|own| own.iter().any(|own| own == finalizer))
        };
        let policy = self.propagation_policy.or(match self.orphan_dependents {
            Some(true) => Some(PropagationPolicy::Orphan),
            Some(false) => Some(PropagationPolicy::Background),
            None if has(ORPHAN_FINALIZER) || has(FOREGROUND_FINALIZER) => return,
            None => default_policy(&resource.kind),
        });
        let finalizer = match policy {
            Some(PropagationPolicy::Orphan) => Some(ORPHAN_FINALIZER),
            Some(PropagationPolicy::Foreground) => Some(FOREGROUND_FINALIZER),
            Some(PropagationPolicy::Background) | None => None,
        };
        let own = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let mut finalizers: Vec<Value> =
            own.into_iter().filter(|own| *own != ORPHAN_FINALIZER && *own != FOREGROUND_FINALIZER).collect();
        finalizers.extend(finalizer.map(Value::from));
        let metadata = metadata_mut(object);
        if finalizers.is_empty() {
            metadata.remove("finalizers");
        } else {
            metadata.insert("finalizers".to_owned(), finalizers.into());
        }
    }
}

/// Two kinds orphan their dependents unless told otherwise, as they always have.
fn default_policy(kind: &Kind) -> Option<PropagationPolicy> {
    let orphans = [Kind::new("", "ReplicationController"), Kind::new("batch", "Job")];
    orphans.contains(kind).then_some(PropagationPolicy::Orphan)
}

/// Pods that do not run have no grace period.
fn grace_of_pod(pod: &Value, requested: Option<i64>) -> i64 {
    let is_assigned = pod["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
    let is_finished = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    if !is_assigned || is_finished {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = requested.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    // A negative grace period means the shortest.
    if grace < 0 { 1 } else { grace }
}

/// The Status of a successful deletion.
pub(crate) fn success_status(resource: &Resource, object: &Object) -> Value {
    let meta = object.meta();
    let mut details =
        json!({"name": *meta.name, "kind": resource.plural, "uid": meta.uid.unwrap_or_default()});
    if !resource.kind.group.is_empty() {
        details["group"] = (*resource.kind.group).into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
