//! The garbage collector, which deletes the dependents of deleted owners.
//!
//! A dependent is deleted with its controller, or with its only owner. An owner deleted in the foreground waits for the
//! dependents that are deleted with it and have `blockOwnerDeletion`. A dependent that loses another of several owners
//! keeps the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::OwnerReference;
use model::{NamespacedName, Object};
use serde_json::Value;

use super::ApiCall;
use super::informer_cache::{InformerCache, OwnershipKind};
use super::object_table::{CachedObject, ObjectSpec};

const FOREGROUND_FINALIZER: &str = "foregroundDeletion";

/// The objects to delete.
#[derive(Debug, Default)]
pub(super) struct GarbageCollector {
    attempt_to_delete: BTreeSet<(OwnershipKind, NamespacedName)>,
    /// Owners in foreground deletion that wait for their dependents, by uid.
    foreground_owners: BTreeMap<Arc<str>, Object>,
}

impl GarbageCollector {
    /// An owner was deleted.
    pub(super) fn owner_deleted(&mut self, cache: &InformerCache, uid: &str) {
        self.foreground_owners.remove(uid);
        let dependents = cache.dependents_of(uid).filter(|(kind, name)| {
            ownership_of(cache, *kind, name)
                .is_some_and(|(_, owners, _)| deleting_owner(uid, &owners).is_some())
        });
        self.attempt_to_delete.extend(dependents.cloned());
    }

    /// An owner was added or modified, and may be in foreground deletion.
    pub(super) fn owner_changed<S: ObjectSpec>(
        &mut self,
        cache: &InformerCache,
        cached_object: &CachedObject<S>,
    ) {
        if cached_object.is_deleting()
            && cached_object.meta.finalizers.iter().any(|finalizer| **finalizer == *FOREGROUND_FINALIZER)
        {
            self.owner_deleted(cache, &cached_object.uid);
            self.foreground_owners.insert(cached_object.uid.clone(), cached_object.object().clone());
        }
    }

    /// Whether there are objects to delete. Owners in foreground deletion wait for events.
    pub(super) fn has_work(&self) -> bool {
        !self.attempt_to_delete.is_empty()
    }

    /// The API calls that delete dependents, and those that complete foreground deletions.
    pub(super) fn collect(&mut self, cache: &InformerCache) -> Vec<ApiCall> {
        let mut api_calls = Vec::new();
        for (kind, name) in std::mem::take(&mut self.attempt_to_delete) {
            if let Some((uid, _, false)) = ownership_of(cache, kind, &name) {
                api_calls.push(ApiCall::delete(kind, &name, &uid));
            }
        }
        self.foreground_owners.retain(|uid, object| {
            let has_blocking_dependents = cache.dependents_of(uid).any(|(kind, name)| {
                let owners =
                    ownership_of(cache, *kind, name).map(|(_, owners, _)| owners).unwrap_or_default();
                deleting_owner(uid, &owners).is_some_and(|owner| owner.block_owner_deletion == Some(true))
            });
            if !has_blocking_dependents {
                api_calls.push(ApiCall::Update(without_finalizer(object, FOREGROUND_FINALIZER)));
            }
            has_blocking_dependents
        });
        api_calls
    }
}

/// The owner of that uid, if its deletion deletes an object with these owners.
fn deleting_owner<'o>(uid: &str, owners: &'o [OwnerReference]) -> Option<&'o OwnerReference> {
    let owner = owners.iter().find(|owner| *owner.uid == *uid)?;
    (owners.len() == 1 || owner.controller == Some(true)).then_some(owner)
}

/// The uid and owners of an object, and whether it is terminating.
fn ownership_of(
    cache: &InformerCache,
    kind: OwnershipKind,
    name: &NamespacedName,
) -> Option<(Arc<str>, Arc<[OwnerReference]>, bool)> {
    fn cached_object<S: ObjectSpec>(
        cached_object: &Arc<CachedObject<S>>,
    ) -> (Arc<str>, Arc<[OwnerReference]>, bool) {
        (cached_object.uid.clone(), cached_object.meta.owner_references.clone(), cached_object.is_deleting())
    }
    match kind {
        OwnershipKind::Pod => {
            let pod = cache.pods.get(name)?;
            Some((pod.uid.clone(), pod.owner_references.clone(), pod.is_deleting()))
        }
        OwnershipKind::ReplicaSet => cache.replica_sets.get(name).map(cached_object),
        OwnershipKind::Deployment => cache.deployments.get(name).map(cached_object),
        OwnershipKind::StatefulSet => cache.stateful_sets.get(name).map(cached_object),
        OwnershipKind::DaemonSet => cache.daemon_sets.get(name).map(cached_object),
        OwnershipKind::Job => cache.jobs.get(name).map(cached_object),
        OwnershipKind::CronJob => cache.cron_jobs.get(name).map(cached_object),
        OwnershipKind::PodDisruptionBudget => cache.pod_disruption_budgets.get(name).map(cached_object),
        OwnershipKind::ReplicationController => cache.replication_controllers.get(name).map(cached_object),
        OwnershipKind::ControllerRevision => cache
            .controller_revisions
            .get(name)
            .map(|revision| (revision.uid.clone(), revision.owners.clone(), false)),
    }
}

/// The same object without one of its finalizers.
fn without_finalizer(object: &Object, finalizer: &str) -> Object {
    let mut value = object.value().unwrap_or_default();
    if let Some(finalizers) = value.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
        finalizers.retain(|own| own != finalizer);
        if finalizers.is_empty()
            && let Some(metadata) = value["metadata"].as_object_mut()
        {
            metadata.remove("finalizers");
        }
    }
    Object::from_trusted(value.to_string())
}
