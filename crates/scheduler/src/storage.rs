//! The cache of storage objects: claims, volumes, classes, CSI objects, and the volumes attached to nodes.
//!
//! Derived state is updated incrementally, and equals what a rebuild from all objects would give.

mod assigned_pods;
mod assume;
mod attachable;
mod in_tree;
mod node_volumes;
mod objects;
mod pod_volumes;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::{Kind, NamespacedName, Object};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::ids::{NodeId, PodId};
use super::plugin::Plugin;
use super::status::{Code, Status};
use assigned_pods::AssignedPod;
use assume::AssumeSlot;
use node_volumes::NodeVolumesTable;
use objects::CsiNode;
use read::ObjectFields;

pub(crate) use assigned_pods::VolumeOwner;
pub(crate) use assume::VolumeReservation;
pub(crate) use attachable::AttachableVolume;
pub(crate) use in_tree::InTreeVolume;
pub(crate) use node_volumes::{LimitedDriver, NodeVolumes, VolumeUses};
pub(crate) use objects::{
    CsiDriver, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
    VolumeBindingMode,
};
pub use pod_volumes::PodVolumes;
pub(crate) use pod_volumes::{InlineDisk, PodVolume};
pub(crate) use read::{ReadResult, UnreadableObject};

/// The cache of storage objects.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct StorageCache {
    claims: FxHashMap<NamespacedName, ClaimEntry>,
    volumes: FxHashMap<Arc<str>, VolumeEntry>,
    /// The names of volumes that claims can be bound to.
    candidates: FxHashMap<CandidateKey, BTreeSet<Arc<str>>>,
    classes: FxHashMap<Arc<str>, ClassEntry>,
    drivers: FxHashMap<Arc<str>, ReadResult<CsiDriver>>,
    /// The class each capacity is listed under.
    capacities: FxHashMap<NamespacedName, Option<Arc<str>>>,
    capacities_by_class:
        FxHashMap<Option<Arc<str>>, BTreeMap<NamespacedName, ReadResult<CsiStorageCapacity>>>,
    attachments: FxHashMap<Arc<str>, AttachmentEntry>,
    nodes: NodeVolumesTable,
    /// Unreadable attachments whose node is unknown.
    attachments_without_node: BTreeMap<Arc<str>, Arc<UnreadableObject>>,
    pods: FxHashMap<PodId, AssignedPod>,
}

/// The kinds of storage objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StorageKind {
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
}

/// Why the attached volumes of a pod cannot be determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum VolumeError {
    /// An object was not found, with kube-scheduler's message.
    NotFound(String),
    /// An error, with kube-scheduler's message.
    Failed(String),
    /// An object is unreadable.
    Unreadable(Arc<UnreadableObject>),
}

/// The index key of volumes that a claim can be bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CandidateKey {
    /// `None` if it is unreadable.
    class: Option<Arc<str>>,
    /// The claim that the volume is pre-bound to, if any.
    claim: Option<NamespacedName>,
}

/// A claim and the pods that use it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct ClaimEntry {
    slot: Option<AssumeSlot<PersistentVolumeClaim>>,
    /// The assigned pods that use it.
    pods: BTreeSet<PodId>,
    /// The number of volumes of such pods that name it.
    mounts: usize,
}

/// A volume and the objects that refer to it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct VolumeEntry {
    slot: Option<AssumeSlot<PersistentVolume>>,
    candidate_key: Option<CandidateKey>,
    claims: BTreeSet<NamespacedName>,
    attachments: BTreeSet<Arc<str>>,
}

/// A class and the claims of it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct ClassEntry {
    class: Option<ReadResult<StorageClass>>,
    claims: BTreeSet<NamespacedName>,
}

/// An attachment, and what is counted for it.
#[derive(Debug, PartialEq)]
struct AttachmentEntry {
    attachment: ReadResult<VolumeAttachment>,
    /// `None` if it is unreadable.
    node: Option<Arc<str>>,
    counted: Result<Option<AttachableVolume>, Arc<UnreadableObject>>,
}

// === impl StorageCache ===

impl StorageCache {
    /// Applies an added or modified object. An unreadable one is kept as such: whatever uses it is rejected with this
    /// error.
    pub(crate) fn apply(&mut self, kind: StorageKind, object: &Object) -> Result<(), Arc<UnreadableObject>> {
        let meta = object.meta();
        let key = NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() };
        let title = match meta.namespace.is_empty() {
            true => format!("{kind} {}", meta.name),
            false => format!("{kind} {}/{}", meta.namespace, meta.name),
        };
        let value = object.value();
        let fields = match &value {
            Ok(value) => Ok(ObjectFields::of(value, &title)),
            Err(error) => Err(UnreadableObject {
                object: title.clone(),
                field: "the whole object".to_owned(),
                why: error.to_string(),
            }),
        };
        let readable_fields = fields.as_ref().ok();
        let name = key.name.clone();
        match kind {
            StorageKind::PersistentVolumeClaim => {
                let (parsed, result) = read_object(&fields, PersistentVolumeClaim::read);
                self.set_claim(&key, Some(parsed));
                result
            }
            StorageKind::PersistentVolume => {
                let (parsed, result) = read_object(&fields, PersistentVolume::read);
                let candidate_key = match &parsed {
                    Ok(volume) => CandidateKey {
                        class: Some(volume.class.clone()),
                        claim: volume.claim.as_ref().map(|claim| claim.key.clone()),
                    },
                    Err(_) => CandidateKey {
                        class: readable_fields.and_then(PersistentVolume::class_of_unreadable),
                        claim: None,
                    },
                };
                self.set_volume(&name, Some((parsed, candidate_key)));
                result
            }
            StorageKind::StorageClass => {
                let (parsed, result) = read_object(&fields, StorageClass::read);
                self.set_class(&name, Some(parsed));
                result
            }
            StorageKind::CsiNode => {
                let (parsed, result) = read_object(&fields, CsiNode::read);
                self.nodes.set_csi_node(&name, Some(parsed));
                result
            }
            StorageKind::CsiDriver => {
                let (parsed, result) = read_object(&fields, CsiDriver::read);
                self.drivers.insert(name, parsed);
                result
            }
            StorageKind::CsiStorageCapacity => {
                let (parsed, result) = read_object(&fields, CsiStorageCapacity::read);
                let class = match &parsed {
                    Ok(capacity) => Some(capacity.class.clone()),
                    Err(_) => readable_fields.and_then(CsiStorageCapacity::class_of_unreadable),
                };
                self.set_capacity(&key, Some((parsed, class)));
                result
            }
            StorageKind::VolumeAttachment => {
                let (parsed, result) = read_object(&fields, VolumeAttachment::read);
                let node = match &parsed {
                    Ok(attachment) => Some(attachment.node.clone()),
                    Err(_) => readable_fields.and_then(VolumeAttachment::node_of_unreadable),
                };
                self.set_attachment(&name, Some((parsed, node)));
                result
            }
        }
    }

    /// Removes an object, if it exists.
    pub(crate) fn remove(&mut self, kind: StorageKind, namespace: &Arc<str>, name: &Arc<str>) {
        let key = NamespacedName::new(namespace.clone(), name.clone());
        match kind {
            StorageKind::PersistentVolumeClaim => self.set_claim(&key, None),
            StorageKind::PersistentVolume => self.set_volume(name, None),
            StorageKind::StorageClass => self.set_class(name, None),
            StorageKind::CsiNode => self.nodes.set_csi_node(name, None),
            StorageKind::CsiDriver => drop(self.drivers.remove(name)),
            StorageKind::CsiStorageCapacity => self.set_capacity(&key, None),
            StorageKind::VolumeAttachment => self.set_attachment(name, None),
        }
    }

    /// A claim as last applied.
    pub(crate) fn claim(
        &self,
        namespace: &Arc<str>,
        name: &Arc<str>,
    ) -> Option<&ReadResult<PersistentVolumeClaim>> {
        self.claims
            .get(&NamespacedName::new(namespace.clone(), name.clone()))?
            .slot
            .as_ref()
            .map(|slot| &slot.applied)
    }

    /// A claim with assumed changes.
    pub(crate) fn latest_claim(
        &self,
        namespace: &Arc<str>,
        name: &Arc<str>,
    ) -> Option<Result<&Arc<PersistentVolumeClaim>, &Arc<UnreadableObject>>> {
        self.claims
            .get(&NamespacedName::new(namespace.clone(), name.clone()))?
            .slot
            .as_ref()
            .map(AssumeSlot::latest)
    }

    /// Whether an assigned pod names the claim.
    pub(crate) fn is_mounted(&self, namespace: &Arc<str>, claim: &Arc<str>) -> bool {
        self.claims
            .get(&NamespacedName::new(namespace.clone(), claim.clone()))
            .is_some_and(|entry| entry.mounts > 0)
    }

    /// A volume as last applied.
    pub(crate) fn volume(&self, name: &str) -> Option<&ReadResult<PersistentVolume>> {
        self.volumes.get(name)?.slot.as_ref().map(|slot| &slot.applied)
    }

    /// A volume with assumed changes.
    pub(crate) fn latest_volume(
        &self,
        name: &str,
    ) -> Option<Result<&Arc<PersistentVolume>, &Arc<UnreadableObject>>> {
        self.volumes.get(name)?.slot.as_ref().map(AssumeSlot::latest)
    }

    /// The volumes of a claim's class, with assumed changes, that are pre-bound to the claim or to none, and unreadable
    /// ones that may be.
    pub(crate) fn candidate_volumes(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> impl Iterator<Item = Result<&Arc<PersistentVolume>, &Arc<UnreadableObject>>> {
        let class = Some(claim.class.clone());
        let candidate_keys = [
            CandidateKey { class: class.clone(), claim: Some(claim.key.clone()) },
            CandidateKey { class, claim: None },
            CandidateKey { class: None, claim: None },
        ];
        let names = candidate_keys
            .into_iter()
            .filter_map(|candidate_key| self.candidates.get(&candidate_key))
            .flatten();
        names.filter_map(|name| self.latest_volume(name))
    }

    pub(crate) fn class(&self, name: &str) -> Option<&ReadResult<StorageClass>> {
        self.classes.get(name)?.class.as_ref()
    }

    pub(crate) fn driver(&self, name: &str) -> Option<&ReadResult<CsiDriver>> {
        self.drivers.get(name)
    }

    /// The capacities of a class, and unreadable ones whose class is unknown.
    pub(crate) fn capacities(
        &self,
        class: &Arc<str>,
    ) -> impl Iterator<Item = &ReadResult<CsiStorageCapacity>> {
        let class_keys = [Some(class.clone()), None];
        class_keys
            .into_iter()
            .filter_map(|class| self.capacities_by_class.get(&class))
            .flat_map(BTreeMap::values)
    }

    /// A node was added. Volumes of a node may be known before.
    pub(crate) fn add_node(&mut self, id: NodeId, name: &Arc<str>) {
        self.nodes.add_node(id, name);
    }

    /// A node was removed.
    pub(crate) fn remove_node(&mut self, id: NodeId, name: &Arc<str>) {
        self.nodes.remove_node(id, name);
    }

    /// The volumes of an existing node; `None` if it does not exist.
    pub(crate) fn node(&self, id: NodeId) -> Option<&NodeVolumes> {
        self.nodes.by_id(id)
    }

    /// The volumes of a node by its name, whether the node was added or not.
    pub(crate) fn node_by_name(&self, name: &str) -> Option<&NodeVolumes> {
        self.nodes.by_name(name)
    }

    /// A driver by name; `None` if no node has an attach limit for it.
    pub(crate) fn limited_driver(&self, name: &str) -> Option<LimitedDriver> {
        self.nodes.limited_driver(name)
    }

    /// An unreadable attachment whose node is unknown.
    pub(crate) fn unreadable_attachment(&self) -> Option<&Arc<UnreadableObject>> {
        self.attachments_without_node.values().next()
    }

    fn set_claim(&mut self, key: &NamespacedName, parsed: Option<ReadResult<PersistentVolumeClaim>>) {
        let new = parsed.as_ref().and_then(|parsed| parsed.as_ref().ok()).cloned();
        let entry = self.claims.entry(key.clone()).or_default();
        let old = entry.slot.as_ref().and_then(|slot| slot.applied.as_ref().ok()).cloned();
        AssumeSlot::apply(&mut entry.slot, parsed);
        if let Some(old) = old {
            self.update_claim_lists(&old, |claims| claims.remove(key));
        }
        if let Some(new) = new {
            self.update_claim_lists(&new, |claims| claims.insert(key.clone()));
        }
        self.refresh_claim(key);
        self.update_claim_entry(key, |_| ());
    }

    fn set_volume(&mut self, name: &Arc<str>, parsed: Option<(ReadResult<PersistentVolume>, CandidateKey)>) {
        let (parsed, candidate_key) = parsed.unzip();
        let entry = self.volumes.entry(name.clone()).or_default();
        let old_key = std::mem::replace(&mut entry.candidate_key, candidate_key.clone());
        AssumeSlot::apply(&mut entry.slot, parsed);
        let (claims, attachments) = (entry.claims.clone(), entry.attachments.clone());
        if let Some(old) = old_key
            && let Some(names) = self.candidates.get_mut(&old)
        {
            names.remove(name);
            if names.is_empty() {
                self.candidates.remove(&old);
            }
        }
        if let Some(candidate_key) = candidate_key {
            self.candidates.entry(candidate_key).or_default().insert(name.clone());
        }
        claims.iter().for_each(|claim| self.refresh_claim(claim));
        attachments.iter().for_each(|attachment| self.refresh_attachment(attachment));
        self.update_volume_entry(name, |_| ());
    }

    fn set_class(&mut self, name: &Arc<str>, parsed: Option<ReadResult<StorageClass>>) {
        let entry = self.classes.entry(name.clone()).or_default();
        entry.class = parsed;
        entry.claims.clone().iter().for_each(|claim| self.refresh_claim(claim));
        self.update_class_entry(name, |_| ());
    }

    fn set_capacity(
        &mut self,
        key: &NamespacedName,
        parsed: Option<(ReadResult<CsiStorageCapacity>, Option<Arc<str>>)>,
    ) {
        if let Some(class) = self.capacities.remove(key)
            && let Some(list) = self.capacities_by_class.get_mut(&class)
        {
            list.remove(key);
            if list.is_empty() {
                self.capacities_by_class.remove(&class);
            }
        }
        if let Some((parsed, class)) = parsed {
            self.capacities.insert(key.clone(), class.clone());
            self.capacities_by_class.entry(class).or_default().insert(key.clone(), parsed);
        }
    }

    fn set_attachment(
        &mut self,
        name: &Arc<str>,
        parsed: Option<(ReadResult<VolumeAttachment>, Option<Arc<str>>)>,
    ) {
        let volume_of = |parsed: &ReadResult<VolumeAttachment>| {
            parsed.as_ref().ok().and_then(|parsed| parsed.volume.clone())
        };
        if let Some(old) = self.attachments.remove(name) {
            self.attachments_without_node.remove(name);
            if let Some(node) = &old.node {
                self.nodes.update(node, |node| node.remove_attachment(name, &old.counted));
            }
            if let Some(volume) = volume_of(&old.attachment) {
                self.update_volume_entry(&volume, |entry| entry.attachments.remove(name));
            }
        }
        let Some((parsed, node)) = parsed else { return };
        if let Some(volume) = volume_of(&parsed) {
            self.update_volume_entry(&volume, |entry| entry.attachments.insert(name.clone()));
        }
        self.attachments
            .insert(name.clone(), AttachmentEntry { attachment: parsed, node, counted: Ok(None) });
        self.refresh_attachment(name);
    }

    /// Updates the lists of claims of the volume and class that the claim names.
    fn update_claim_lists<R>(
        &mut self,
        claim: &PersistentVolumeClaim,
        change: impl Fn(&mut BTreeSet<NamespacedName>) -> R,
    ) {
        if !claim.volume.is_empty() {
            self.update_volume_entry(&claim.volume, |entry| change(&mut entry.claims));
        }
        if !claim.class.is_empty() {
            self.update_class_entry(&claim.class, |entry| change(&mut entry.claims));
        }
    }

    /// Updates the entry of a claim, and removes it if it is empty.
    fn update_claim_entry<R>(&mut self, key: &NamespacedName, change: impl FnOnce(&mut ClaimEntry) -> R) {
        let entry = self.claims.entry(key.clone()).or_default();
        change(entry);
        if entry.slot.is_none() && entry.pods.is_empty() && entry.mounts == 0 {
            self.claims.remove(key);
        }
    }

    /// Updates the entry of a volume, and removes it if it is empty.
    fn update_volume_entry<R>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut VolumeEntry) -> R) {
        let entry = self.volumes.entry(name.clone()).or_default();
        change(entry);
        if entry.slot.is_none() && entry.claims.is_empty() && entry.attachments.is_empty() {
            self.volumes.remove(name);
        }
    }

    /// Updates the entry of a class, and removes it if it is empty.
    fn update_class_entry<R>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut ClassEntry) -> R) {
        let entry = self.classes.entry(name.clone()).or_default();
        change(entry);
        if entry.class.is_none() && entry.claims.is_empty() {
            self.classes.remove(name);
        }
    }
}

// === impl StorageKind ===

impl StorageKind {
    /// The kind by group and name; `None` if it is not a storage kind.
    pub(crate) fn of(kind: &Kind) -> Option<StorageKind> {
        match (&*kind.group, &*kind.kind) {
            ("", "PersistentVolumeClaim") => Some(StorageKind::PersistentVolumeClaim),
            ("", "PersistentVolume") => Some(StorageKind::PersistentVolume),
            ("storage.k8s.io", "StorageClass") => Some(StorageKind::StorageClass),
            ("storage.k8s.io", "CSINode") => Some(StorageKind::CsiNode),
            ("storage.k8s.io", "CSIDriver") => Some(StorageKind::CsiDriver),
            ("storage.k8s.io", "CSIStorageCapacity") => Some(StorageKind::CsiStorageCapacity),
            ("storage.k8s.io", "VolumeAttachment") => Some(StorageKind::VolumeAttachment),
            _ => None,
        }
    }
}

impl fmt::Display for StorageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StorageKind::PersistentVolumeClaim => "PersistentVolumeClaim",
            StorageKind::PersistentVolume => "PersistentVolume",
            StorageKind::StorageClass => "StorageClass",
            StorageKind::CsiNode => "CSINode",
            StorageKind::CsiDriver => "CSIDriver",
            StorageKind::CsiStorageCapacity => "CSIStorageCapacity",
            StorageKind::VolumeAttachment => "VolumeAttachment",
        })
    }
}

// === impl VolumeError ===

impl VolumeError {
    /// The message for a missing claim.
    pub(crate) fn claim_not_found(name: &str) -> String {
        format!("persistentvolumeclaim {name:?} not found")
    }

    /// The status that a plugin returns because of it.
    pub(crate) fn to_status(&self, plugin: Plugin) -> Status {
        let (code, reason) = match self {
            VolumeError::NotFound(error) => (Code::UnschedulableAndUnresolvable, error.clone()),
            VolumeError::Failed(error) => (Code::Error, error.clone()),
            VolumeError::Unreadable(error) => (Code::UnschedulableAndUnresolvable, error.to_string()),
        };
        Status { plugin, code, reasons: smallvec![reason.into()] }
    }
}

/// Reads an object, and returns it with the error separately.
fn read_object<T>(
    fields: &Result<ObjectFields<'_>, UnreadableObject>,
    read: impl Fn(&ObjectFields<'_>) -> Result<T, UnreadableObject>,
) -> (ReadResult<T>, Result<(), Arc<UnreadableObject>>) {
    let parsed =
        fields.as_ref().map_err(UnreadableObject::clone).and_then(read).map(Arc::new).map_err(Arc::new);
    let result = parsed.as_ref().map(drop).map_err(Arc::clone);
    (parsed, result)
}
