//! The garbage collector: dependents of deleted owners are deleted, or lose their owner.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::{DeleteOptions, Preconditions, PropagationPolicy, StoreEvent, UpdatedPart};
use kubernetes::objects::{ObjectMeta, OwnerReference};
use model::{Kind, NamespacedName, Object, ObjectRef};
use serde::Deserialize;
use serde_json::Value;

use super::ComponentContext;

/// Owners and dependents by uid.
#[derive(Default)]
pub(super) struct GarbageCollection {
    /// The dependents of an owner.
    dependents: BTreeMap<Arc<str>, BTreeSet<ObjectRef>>,
    objects: BTreeMap<ObjectRef, OwnedObject>,
    /// The uids of all objects that exist.
    uids: BTreeMap<Arc<str>, ObjectRef>,
    /// Owners that have gone, and objects that are being deleted, to be looked at.
    pending: BTreeSet<PendingOwner>,
    /// New dependents, whose owner may have gone before they came.
    new_dependents: BTreeSet<ObjectRef>,
}

struct OwnedObject {
    uid: Arc<str>,
    owners: Arc<[OwnerReference]>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PendingOwner {
    Gone(Arc<str>),
    Foreground(ObjectRef),
    Orphaning(ObjectRef),
}

#[derive(Deserialize)]
struct MetadataJson {
    metadata: ObjectMeta,
}

const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

impl GarbageCollection {
    pub(super) fn observe(&mut self, event: &StoreEvent) {
        // Events and Leases own nothing, and are many.
        if matches!(&*event.kind.kind, "Event") {
            return;
        }
        let Ok(MetadataJson { metadata }) = event.new.view::<MetadataJson>() else { return };
        let object = object_ref(&event.kind, &event.new);
        let earlier_owners = self.forget(&object);
        if event.is_deletion {
            self.uids.remove(&metadata.uid);
            if self.dependents.contains_key(&metadata.uid) {
                self.pending.insert(PendingOwner::Gone(metadata.uid.clone()));
            }
            // An owner in foreground deletion may wait for this object.
            for owner in metadata.owner_references.iter() {
                if let Some(owner) = self.uids.get(&owner.uid) {
                    self.pending.insert(PendingOwner::Foreground(owner.clone()));
                }
            }
            return;
        }
        self.uids.insert(metadata.uid.clone(), object.clone());
        if !metadata.owner_references.is_empty() {
            for owner in metadata.owner_references.iter() {
                self.dependents.entry(owner.uid.clone()).or_default().insert(object.clone());
            }
            let owners = metadata.owner_references.clone();
            self.objects.insert(object.clone(), OwnedObject { uid: metadata.uid.clone(), owners });
            // Objects that the cluster begins with keep owners that it does not have: their kind may not be recorded.
            if event.version != 0 && earlier_owners.is_none_or(|earlier| earlier != metadata.owner_references)
            {
                self.new_dependents.insert(object.clone());
            }
        }
        if metadata.deletion_timestamp.is_some() {
            let has = |name: &str| metadata.finalizers.iter().any(|finalizer| **finalizer == *name);
            if has(FOREGROUND_FINALIZER) {
                self.pending.insert(PendingOwner::Foreground(object));
            } else if has(ORPHAN_FINALIZER) {
                self.pending.insert(PendingOwner::Orphaning(object));
            }
        }
    }

    /// Forgets an object, and returns the owners that it had.
    fn forget(&mut self, object: &ObjectRef) -> Option<Arc<[OwnerReference]>> {
        let OwnedObject { owners, .. } = self.objects.remove(object)?;
        for owner in owners.iter() {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(object);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        Some(owners)
    }

    /// Deletes what is due. Returns whether there was anything.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        for object in std::mem::take(&mut self.new_dependents) {
            let Some(OwnedObject { owners, .. }) = self.objects.get(&object) else { continue };
            let is_missing = |owner: &&OwnerReference| !owner_may_exist(context, &object, owner);
            for owner in owners.iter().filter(is_missing) {
                self.pending.insert(PendingOwner::Gone(owner.uid.clone()));
            }
        }
        let pending = std::mem::take(&mut self.pending);
        let has_work = !pending.is_empty();
        for owner in pending {
            match owner {
                PendingOwner::Gone(uid) => self.delete_dependents(context, &uid, None),
                PendingOwner::Foreground(owner) => self.delete_in_foreground(context, &owner),
                PendingOwner::Orphaning(owner) => self.orphan(context, &owner),
            }
        }
        has_work
    }

    /// Deletes the dependents of an owner that have no other owner. Others lose the reference.
    fn delete_dependents(
        &self,
        context: &mut ComponentContext<'_>,
        uid: &Arc<str>,
        policy: Option<PropagationPolicy>,
    ) {
        for dependent in self.dependents.get(uid).into_iter().flatten() {
            let Some(OwnedObject { uid: own_uid, owners }) = self.objects.get(dependent) else { continue };
            let is_gone = |owner: &OwnerReference| !owner_may_exist(context, dependent, owner);
            if policy.is_none() && !owners.iter().any(|owner| owner.uid == *uid && is_gone(owner)) {
                continue;
            }
            let has_other =
                owners.iter().any(|owner| owner.uid != *uid && owner_may_exist(context, dependent, owner));
            if has_other {
                remove_owner(context, dependent, uid);
                continue;
            }
            let preconditions =
                Some(Preconditions { uid: Some(own_uid.to_string()), resource_version: None });
            let policy = policy.or(Some(PropagationPolicy::Background));
            let options =
                DeleteOptions { preconditions, propagation_policy: policy, ..DeleteOptions::default() };
            // One that has gone already needs no deletion.
            let _ = context.registry.delete_object(&dependent.kind, &name_of(dependent), &options);
        }
    }

    /// Deletes the dependents of an owner, and then the owner.
    fn delete_in_foreground(&self, context: &mut ComponentContext<'_>, owner: &ObjectRef) {
        let Some(object) = context.registry.get(&owner.kind, &name_of(owner)) else { return };
        let Ok(MetadataJson { metadata }) = object.view::<MetadataJson>() else { return };
        let is_foreground = metadata.deletion_timestamp.is_some()
            && metadata.finalizers.iter().any(|finalizer| &**finalizer == FOREGROUND_FINALIZER);
        if !is_foreground {
            return;
        }
        self.delete_dependents(context, &metadata.uid, Some(PropagationPolicy::Foreground));
        let dependents = self.dependents.get(&metadata.uid).into_iter().flatten();
        let blocks = |dependent: &ObjectRef| {
            let is_blocking = |owner: &OwnerReference| {
                owner.uid == metadata.uid && owner.block_owner_deletion == Some(true)
            };
            self.objects.get(dependent).is_some_and(|object| object.owners.iter().any(is_blocking))
                && context.registry.get(&dependent.kind, &name_of(dependent)).is_some()
        };
        if !dependents.into_iter().any(blocks) {
            remove_finalizer(context, owner, FOREGROUND_FINALIZER);
        }
    }

    fn orphan(&self, context: &mut ComponentContext<'_>, owner: &ObjectRef) {
        let uid = context.registry.get(&owner.kind, &name_of(owner)).and_then(|object| {
            let MetadataJson { metadata } = object.view().ok()?;
            Some(metadata.uid)
        });
        let Some(uid) = uid else { return };
        for dependent in self.dependents.get(&uid).into_iter().flatten() {
            remove_owner(context, dependent, &uid);
        }
        remove_finalizer(context, owner, ORPHAN_FINALIZER);
    }
}

/// Whether an owner exists, or is of a kind that the cluster does not have. It is asked for as the original does, since
/// the changes that were read may be behind.
fn owner_may_exist(context: &ComponentContext<'_>, dependent: &ObjectRef, owner: &OwnerReference) -> bool {
    let table = context.registry.store().resources();
    let kind = Kind::of(&owner.api_version, &owner.kind);
    let Some(resource) = table.of_kind(&kind) else { return true };
    let namespace = if resource.namespaced { &*dependent.namespace } else { "" };
    let found = context.registry.get(&kind, &NamespacedName::new(namespace, &*owner.name));
    found.is_some_and(|found| found.meta().uid.as_deref() == Some(&*owner.uid))
}

fn object_ref(kind: &Kind, object: &Object) -> ObjectRef {
    let meta = object.meta();
    ObjectRef::new(kind.clone(), &*meta.namespace, &*meta.name)
}

fn name_of(object: &ObjectRef) -> NamespacedName {
    NamespacedName::new(object.namespace.clone(), object.name.clone())
}

fn remove_owner(context: &mut ComponentContext<'_>, dependent: &ObjectRef, uid: &Arc<str>) {
    remove_items(context, dependent, "ownerReferences", |owner| owner["uid"] == **uid);
}

fn remove_finalizer(context: &mut ComponentContext<'_>, object: &ObjectRef, name: &str) {
    remove_items(context, object, "finalizers", |finalizer| finalizer == name);
}

/// Removes items of a list in the metadata of an object. One that has gone is left alone.
fn remove_items(
    context: &mut ComponentContext<'_>,
    object: &ObjectRef,
    field: &str,
    is_removed: impl Fn(&Value) -> bool,
) {
    let _ =
        context.registry.update_object(&object.kind, &name_of(object), UpdatedPart::Everything, |object| {
            let Some(items) = object["metadata"][field].as_array_mut() else { return false };
            let count = items.len();
            items.retain(|item| !is_removed(item));
            items.len() < count
        });
}
