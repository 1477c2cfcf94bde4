//! The garbage collector, which deletes the dependents of deleted owners.
//!
//! A dependent is deleted with its controller, or with its only owner. An owner deleted in the foreground waits for the
//! dependents that are deleted with it and have `blockOwnerDeletion`. A dependent that loses another of several owners
//! keeps the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{NamespacedName, Object};
use serde_json::Value;

use super::informer_cache::{InformerCache, OwnershipKind};
use super::object_table::{CachedObject, ObjectSpec, OwnerReference};
use super::{ApiCall, DeleteTarget};

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
    pub(super) fn owner_deleted(&mut self, world: &InformerCache, uid: &str) {
        self.foreground_owners.remove(uid);
        let doomed = world.dependents_of(uid).filter(|(thing, name)| {
            ownership_of(world, *thing, name)
                .is_some_and(|(_, owners, _)| deleting_owner(uid, &owners).is_some())
        });
        self.attempt_to_delete.extend(doomed.cloned());
    }

    /// An owner was added or modified, and may be in foreground deletion.
    pub(super) fn owner_changed<S: ObjectSpec>(&mut self, world: &InformerCache, held: &CachedObject<S>) {
        if held.is_deleting()
            && held.meta.finalizers.iter().any(|finalizer| **finalizer == *FOREGROUND_FINALIZER)
        {
            self.owner_deleted(world, &held.uid);
            self.foreground_owners.insert(held.uid.clone(), held.object().clone());
        }
    }

    /// Whether there are objects to delete. Owners in foreground deletion wait for events.
    pub(super) fn has_work(&self) -> bool {
        !self.attempt_to_delete.is_empty()
    }

    /// The API calls that delete dependents, and those that complete foreground deletions.
    pub(super) fn collect(&mut self, world: &InformerCache) -> Vec<ApiCall> {
        let mut done = Vec::new();
        for (thing, name) in std::mem::take(&mut self.attempt_to_delete) {
            if let Some((uid, _, false)) = ownership_of(world, thing, &name) {
                done.push(ApiCall::Delete(DeleteTarget::new(thing, &name, &uid)));
            }
        }
        self.foreground_owners.retain(|uid, object| {
            let waits = world.dependents_of(uid).any(|(thing, name)| {
                let owners =
                    ownership_of(world, *thing, name).map(|(_, owners, _)| owners).unwrap_or_default();
                deleting_owner(uid, &owners).is_some_and(|owner| owner.block_owner_deletion == Some(true))
            });
            if !waits {
                done.push(ApiCall::Update(without_finalizer(object, FOREGROUND_FINALIZER)));
            }
            waits
        });
        done
    }
}

/// The owner of that uid, if its deletion deletes an object with these owners.
fn deleting_owner<'o>(uid: &str, owners: &'o [OwnerReference]) -> Option<&'o OwnerReference> {
    let owner = owners.iter().find(|owner| *owner.uid == *uid)?;
    (owners.len() == 1 || owner.controller == Some(true)).then_some(owner)
}

/// The uid and owners of an object, and whether it is terminating.
fn ownership_of(
    world: &InformerCache,
    thing: OwnershipKind,
    name: &NamespacedName,
) -> Option<(Arc<str>, Vec<OwnerReference>, bool)> {
    fn held<S: ObjectSpec>(held: &Arc<CachedObject<S>>) -> (Arc<str>, Vec<OwnerReference>, bool) {
        (held.uid.clone(), held.meta.owner_references.clone(), held.is_deleting())
    }
    match thing {
        OwnershipKind::Pod => {
            let entry = world.pods.entry(name)?;
            Some((entry.uid.clone(), entry.owners.clone(), entry.pod(name).is_deleting()))
        }
        OwnershipKind::ReplicaSet => world.replica_sets.get(name).map(held),
        OwnershipKind::Deployment => world.deployments.get(name).map(held),
        OwnershipKind::StatefulSet => world.stateful_sets.get(name).map(held),
        OwnershipKind::DaemonSet => world.daemon_sets.get(name).map(held),
        OwnershipKind::Job => world.jobs.get(name).map(held),
        OwnershipKind::CronJob => world.cron_jobs.get(name).map(held),
        OwnershipKind::PodDisruptionBudget => world.pod_disruption_budgets.get(name).map(held),
        OwnershipKind::ReplicationController => world.replication_controllers.get(name).map(held),
        OwnershipKind::ControllerRevision => {
            world.controller_revisions.get(name).map(|own| (own.uid.clone(), own.owners.clone(), false))
        }
    }
}

/// The same object without one of its finalizers.
pub(super) fn without_finalizer(object: &Object, finalizer: &str) -> Object {
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
