//! What is deleted because its owner is.
//!
//! Something goes when its controller does, or the only owner it has; an owner that is only deleted after what it owns
//! waits for that, as far as it goes and has it so. Whoever has several owners and loses one that does not manage it keeps the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{NamespacedName, Object};
use serde_json::Value;

use super::table::{Held, Owner, Spec};
use super::world::{Thing, World};
use super::{Do, Doomed};

const FOREGROUND: &str = "foregroundDeletion";

/// What is to be deleted.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    doomed: BTreeSet<(Thing, NamespacedName)>,
    /// Owners that wait for what they own, by uid.
    waiting: BTreeMap<Arc<str>, Object>,
}

impl Garbage {
    /// An owner is gone.
    pub(super) fn owner_gone(&mut self, world: &World, uid: &str) {
        self.waiting.remove(uid);
        let doomed = world.owned(uid).filter(|(thing, name)| {
            look(world, *thing, name).is_some_and(|(_, owners, _)| goes_with(uid, &owners).is_some())
        });
        self.doomed.extend(doomed.cloned());
    }

    /// An owner is there, and may be waiting for what it owns to go.
    pub(super) fn owner_changed<S: Spec>(&mut self, world: &World, held: &Held<S>) {
        if held.is_deleted() && held.meta.finalizers.iter().any(|finalizer| **finalizer == *FOREGROUND) {
            self.owner_gone(world, &held.uid);
            self.waiting.insert(held.uid.clone(), held.object().clone());
        }
    }

    /// Those that wait do so for news.
    pub(super) fn has_work(&self) -> bool {
        !self.doomed.is_empty()
    }

    /// What is done about it.
    pub(super) fn collect(&mut self, world: &World) -> Vec<Do> {
        let mut done = Vec::new();
        for (thing, name) in std::mem::take(&mut self.doomed) {
            if let Some((uid, _, false)) = look(world, thing, &name) {
                done.push(Do::Delete(Doomed::new(thing, &name, &uid)));
            }
        }
        self.waiting.retain(|uid, object| {
            let waits = world.owned(uid).any(|(thing, name)| {
                let owners = look(world, *thing, name).map(|(_, owners, _)| owners).unwrap_or_default();
                goes_with(uid, &owners).is_some_and(|owner| owner.block_owner_deletion == Some(true))
            });
            if !waits {
                done.push(Do::Update(without_finalizer(object, FOREGROUND)));
            }
            waits
        });
        done
    }
}

/// The owner of that uid, if what has these owners goes with it.
fn goes_with<'o>(uid: &str, owners: &'o [Owner]) -> Option<&'o Owner> {
    let owner = owners.iter().find(|owner| *owner.uid == *uid)?;
    (owners.len() == 1 || owner.controller == Some(true)).then_some(owner)
}

/// Its uid, its owners, and whether it is being deleted.
fn look(world: &World, thing: Thing, name: &NamespacedName) -> Option<(Arc<str>, Vec<Owner>, bool)> {
    fn held<S: Spec>(held: &Arc<Held<S>>) -> (Arc<str>, Vec<Owner>, bool) {
        (held.uid.clone(), held.meta.owner_references.clone(), held.is_deleted())
    }
    match thing {
        Thing::Pod => {
            let entry = world.pods.entry(name)?;
            Some((entry.uid.clone(), entry.owners.clone(), entry.pod(name).is_deleted()))
        }
        Thing::ReplicaSet => world.replica_sets.get(name).map(held),
        Thing::Deployment => world.deployments.get(name).map(held),
        Thing::StatefulSet => world.stateful_sets.get(name).map(held),
        Thing::DaemonSet => world.daemon_sets.get(name).map(held),
        Thing::Job => world.jobs.get(name).map(held),
        Thing::CronJob => world.cron_jobs.get(name).map(held),
        Thing::Budget => world.budgets.get(name).map(held),
        Thing::ReplicationController => world.replication_controllers.get(name).map(held),
        Thing::Revision => world.revisions.get(name).map(|own| (own.uid.clone(), own.owners.clone(), false)),
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
    Object::trusted(value.to_string())
}
