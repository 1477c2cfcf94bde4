//! The world of volumes: claims, the volumes they have or could have, and what nodes have attached.
//!
//! All that is derived is kept up to date with each change, and is what it would be if it were derived anew.

mod assume;
mod attachable;
mod in_tree;
mod node_volumes;
mod objects;
mod placed;
mod pod_volumes;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use model::{Kind, Object};
use rustc_hash::FxHashMap;
use smallvec::smallvec;

use super::ids::PodId;
use super::plugin::Plugin;
use super::verdict::{Code, Refusal};
use assume::Slot;
use placed::Placed;
use read::Fields;

pub(crate) use assume::Reservation;
pub(crate) use attachable::{Attachable, ClaimKey};
pub(crate) use in_tree::{InTreeDisk, OLD_REGION, OLD_ZONE, REGION, ZONE};
pub(crate) use node_volumes::{NodeVolumes, Uses};
pub(crate) use objects::{Attachment, Binding, Capacity, Claim, Class, CsiDriver, CsiNode, Volume};
pub(crate) use placed::Whose;
pub use pod_volumes::PodVolumes;
pub(crate) use pod_volumes::{Disk, PodVolume, VolumeJson};
pub(crate) use read::{Known, Unreadable};

/// The world of volumes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Storage {
    claims: FxHashMap<ClaimKey, ClaimEntry>,
    volumes: FxHashMap<Arc<str>, VolumeEntry>,
    /// The volumes that claims may have, by name.
    offers: FxHashMap<Offer, BTreeSet<Arc<str>>>,
    classes: FxHashMap<Arc<str>, ClassEntry>,
    drivers: FxHashMap<Arc<str>, Known<CsiDriver>>,
    /// The class each capacity is listed under.
    capacities: FxHashMap<ClaimKey, Option<Arc<str>>>,
    capacities_by_class: FxHashMap<Option<Arc<str>>, BTreeMap<ClaimKey, Known<Capacity>>>,
    attachments: FxHashMap<Arc<str>, AttachmentEntry>,
    nodes: FxHashMap<Arc<str>, NodeVolumes>,
    /// Attachments of which not even the node can be told.
    nowhere: BTreeMap<Arc<str>, Arc<Unreadable>>,
    pods: FxHashMap<PodId, Placed>,
}

/// The kinds of objects that this world is made of.
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

/// Why it cannot be told what a pod has attached, or needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Something is not there, in kube-scheduler's words.
    NotFound(String),
    /// Something is wrong, in kube-scheduler's words.
    Failed(String),
    /// A recorded object makes no sense.
    Unreadable(Arc<Unreadable>),
}

/// What makes a volume one that a claim may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Offer {
    /// `None` if that cannot be told.
    class: Option<Arc<str>>,
    /// The only claim it is for, if it is for one.
    claim: Option<ClaimKey>,
}

/// A claim and who uses it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct ClaimEntry {
    slot: Option<Slot<Claim>>,
    /// The pods on nodes that use it.
    users: BTreeSet<PodId>,
    /// How many volumes of such pods name it.
    mounts: usize,
}

/// A volume and who names it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct VolumeEntry {
    slot: Option<Slot<Volume>>,
    offer: Option<Offer>,
    claims: BTreeSet<ClaimKey>,
    attachments: BTreeSet<Arc<str>>,
}

/// A class and the claims of it, whether it exists or not.
#[derive(Debug, Default, PartialEq)]
struct ClassEntry {
    known: Option<Known<Class>>,
    claims: BTreeSet<ClaimKey>,
}

/// An attachment, and what is counted for it.
#[derive(Debug, PartialEq)]
struct AttachmentEntry {
    known: Known<Attachment>,
    /// `None` if that cannot be told.
    node: Option<Arc<str>>,
    counted: Result<Option<Attachable>, Arc<Unreadable>>,
}

// === impl Storage ===

impl Storage {
    /// An object was added or changed. One that cannot be understood is remembered as such: whatever needs it is
    /// refused in the words of this error.
    pub(crate) fn apply(&mut self, kind: StorageKind, object: &Object) -> Result<(), Arc<Unreadable>> {
        let meta = object.meta();
        let key = ClaimKey { namespace: (*meta.namespace).into(), name: (*meta.name).into() };
        let title = match meta.namespace.is_empty() {
            true => format!("{kind} {}", meta.name),
            false => format!("{kind} {}/{}", meta.namespace, meta.name),
        };
        let value = object.value();
        let fields = match &value {
            Ok(value) => Ok(Fields::of(value, &title)),
            Err(error) => Err(Unreadable {
                object: title.clone(),
                field: "the whole object".to_owned(),
                why: error.to_string(),
            }),
        };
        let told = fields.as_ref().ok();
        let name = key.name.clone();
        match kind {
            StorageKind::PersistentVolumeClaim => {
                let (known, result) = know(&fields, Claim::read);
                self.set_claim(&key, Some(known));
                result
            }
            StorageKind::PersistentVolume => {
                let (known, result) = know(&fields, Volume::read);
                let offer = match &known {
                    Ok(volume) => Offer {
                        class: Some(volume.class.clone()),
                        claim: volume.claim.as_ref().map(|claim| claim.key.clone()),
                    },
                    Err(_) => Offer { class: told.and_then(Volume::class_of_unreadable), claim: None },
                };
                self.set_volume(&name, Some((known, offer)));
                result
            }
            StorageKind::StorageClass => {
                let (known, result) = know(&fields, Class::read);
                self.set_class(&name, Some(known));
                result
            }
            StorageKind::CsiNode => {
                let (known, result) = know(&fields, CsiNode::read);
                self.change_node(&name, |node| node.csi_node = Some(known));
                result
            }
            StorageKind::CsiDriver => {
                let (known, result) = know(&fields, CsiDriver::read);
                self.drivers.insert(name, known);
                result
            }
            StorageKind::CsiStorageCapacity => {
                let (known, result) = know(&fields, Capacity::read);
                let class = match &known {
                    Ok(capacity) => Some(capacity.class.clone()),
                    Err(_) => told.and_then(Capacity::class_of_unreadable),
                };
                self.set_capacity(&key, Some((known, class)));
                result
            }
            StorageKind::VolumeAttachment => {
                let (known, result) = know(&fields, Attachment::read);
                let node = match &known {
                    Ok(attachment) => Some(attachment.node.clone()),
                    Err(_) => told.and_then(Attachment::node_of_unreadable),
                };
                self.set_attachment(&name, Some((known, node)));
                result
            }
        }
    }

    /// An object is gone. Nothing happens if it was not there.
    pub(crate) fn remove(&mut self, kind: StorageKind, namespace: &Arc<str>, name: &Arc<str>) {
        let key = ClaimKey::new(namespace, name);
        match kind {
            StorageKind::PersistentVolumeClaim => self.set_claim(&key, None),
            StorageKind::PersistentVolume => self.set_volume(name, None),
            StorageKind::StorageClass => self.set_class(name, None),
            StorageKind::CsiNode => self.change_node(name, |node| node.csi_node = None),
            StorageKind::CsiDriver => drop(self.drivers.remove(name)),
            StorageKind::CsiStorageCapacity => self.set_capacity(&key, None),
            StorageKind::VolumeAttachment => self.set_attachment(name, None),
        }
    }

    /// A claim as it was applied.
    pub(crate) fn claim(&self, namespace: &Arc<str>, name: &Arc<str>) -> Option<&Known<Claim>> {
        self.claims.get(&ClaimKey::new(namespace, name))?.slot.as_ref().map(|slot| &slot.applied)
    }

    /// A claim as it is assumed to be.
    pub(crate) fn latest_claim(
        &self,
        namespace: &Arc<str>,
        name: &Arc<str>,
    ) -> Option<Result<&Arc<Claim>, &Arc<Unreadable>>> {
        self.claims.get(&ClaimKey::new(namespace, name))?.slot.as_ref().map(Slot::latest)
    }

    /// Whether a pod on a node names the claim.
    pub(crate) fn is_mounted(&self, namespace: &Arc<str>, claim: &Arc<str>) -> bool {
        self.claims.get(&ClaimKey::new(namespace, claim)).is_some_and(|entry| entry.mounts > 0)
    }

    /// A volume as it was applied.
    pub(crate) fn volume(&self, name: &str) -> Option<&Known<Volume>> {
        self.volumes.get(name)?.slot.as_ref().map(|slot| &slot.applied)
    }

    /// A volume as it is assumed to be.
    pub(crate) fn latest_volume(&self, name: &str) -> Option<Result<&Arc<Volume>, &Arc<Unreadable>>> {
        self.volumes.get(name)?.slot.as_ref().map(Slot::latest)
    }

    /// The volumes, as they are assumed to be, of a claim's class that are for that claim or for none, and those of
    /// which that cannot be told.
    pub(crate) fn offers(
        &self,
        claim: &Claim,
    ) -> impl Iterator<Item = Result<&Arc<Volume>, &Arc<Unreadable>>> {
        let class = Some(claim.class.clone());
        let offers = [
            Offer { class: class.clone(), claim: Some(claim.key.clone()) },
            Offer { class, claim: None },
            Offer { class: None, claim: None },
        ];
        let names = offers.into_iter().filter_map(|offer| self.offers.get(&offer)).flatten();
        names.filter_map(|name| self.latest_volume(name))
    }

    pub(crate) fn class(&self, name: &str) -> Option<&Known<Class>> {
        self.classes.get(name)?.known.as_ref()
    }

    pub(crate) fn driver(&self, name: &str) -> Option<&Known<CsiDriver>> {
        self.drivers.get(name)
    }

    /// The room there is for volumes of a class, and that of which the class cannot be told.
    pub(crate) fn capacities(&self, class: &Arc<str>) -> impl Iterator<Item = &Known<Capacity>> {
        let lists = [Some(class.clone()), None];
        lists.into_iter().filter_map(|class| self.capacities_by_class.get(&class)).flat_map(BTreeMap::values)
    }

    /// What a node has attached; `None` if nothing is known of it.
    pub(crate) fn node(&self, name: &str) -> Option<&NodeVolumes> {
        self.nodes.get(name)
    }

    /// An attachment of which not even the node can be told.
    pub(crate) fn unreadable_attachment(&self) -> Option<&Arc<Unreadable>> {
        self.nowhere.values().next()
    }

    fn set_claim(&mut self, key: &ClaimKey, known: Option<Known<Claim>>) {
        let new = known.as_ref().and_then(|known| known.as_ref().ok()).cloned();
        let entry = self.claims.entry(key.clone()).or_default();
        let old = entry.slot.as_ref().and_then(|slot| slot.applied.as_ref().ok()).cloned();
        Slot::apply(&mut entry.slot, known);
        if let Some(old) = old {
            self.change_lists_of(&old, |claims| claims.remove(key));
        }
        if let Some(new) = new {
            self.change_lists_of(&new, |claims| claims.insert(key.clone()));
        }
        self.refresh_claim(key);
        self.change_claim(key, |_| ());
    }

    fn set_volume(&mut self, name: &Arc<str>, known: Option<(Known<Volume>, Offer)>) {
        let (known, offer) = known.unzip();
        let entry = self.volumes.entry(name.clone()).or_default();
        let old_offer = std::mem::replace(&mut entry.offer, offer.clone());
        Slot::apply(&mut entry.slot, known);
        let (claims, attachments) = (entry.claims.clone(), entry.attachments.clone());
        if let Some(old) = old_offer
            && let Some(names) = self.offers.get_mut(&old)
        {
            names.remove(name);
            if names.is_empty() {
                self.offers.remove(&old);
            }
        }
        if let Some(offer) = offer {
            self.offers.entry(offer).or_default().insert(name.clone());
        }
        claims.iter().for_each(|claim| self.refresh_claim(claim));
        attachments.iter().for_each(|attachment| self.refresh_attachment(attachment));
        self.change_volume(name, |_| ());
    }

    fn set_class(&mut self, name: &Arc<str>, known: Option<Known<Class>>) {
        let entry = self.classes.entry(name.clone()).or_default();
        entry.known = known;
        entry.claims.clone().iter().for_each(|claim| self.refresh_claim(claim));
        self.change_class(name, |_| ());
    }

    fn set_capacity(&mut self, key: &ClaimKey, known: Option<(Known<Capacity>, Option<Arc<str>>)>) {
        if let Some(class) = self.capacities.remove(key)
            && let Some(list) = self.capacities_by_class.get_mut(&class)
        {
            list.remove(key);
            if list.is_empty() {
                self.capacities_by_class.remove(&class);
            }
        }
        if let Some((known, class)) = known {
            self.capacities.insert(key.clone(), class.clone());
            self.capacities_by_class.entry(class).or_default().insert(key.clone(), known);
        }
    }

    fn set_attachment(&mut self, name: &Arc<str>, known: Option<(Known<Attachment>, Option<Arc<str>>)>) {
        let volume_of =
            |known: &Known<Attachment>| known.as_ref().ok().and_then(|known| known.volume.clone());
        if let Some(old) = self.attachments.remove(name) {
            self.nowhere.remove(name);
            if let Some(node) = &old.node {
                self.change_node(node, |node| node.remove_attachment(name, &old.counted));
            }
            if let Some(volume) = volume_of(&old.known) {
                self.change_volume(&volume, |entry| entry.attachments.remove(name));
            }
        }
        let Some((known, node)) = known else { return };
        if let Some(volume) = volume_of(&known) {
            self.change_volume(&volume, |entry| entry.attachments.insert(name.clone()));
        }
        self.attachments.insert(name.clone(), AttachmentEntry { known, node, counted: Ok(None) });
        self.refresh_attachment(name);
    }

    /// Changes the lists of claims that name the same volume or class.
    fn change_lists_of<R>(&mut self, claim: &Claim, change: impl Fn(&mut BTreeSet<ClaimKey>) -> R) {
        if !claim.volume.is_empty() {
            self.change_volume(&claim.volume, |entry| change(&mut entry.claims));
        }
        if !claim.class.is_empty() {
            self.change_class(&claim.class, |entry| change(&mut entry.claims));
        }
    }

    /// Changes what is known of a claim, and forgets it if that is nothing.
    fn change_claim<R>(&mut self, key: &ClaimKey, change: impl FnOnce(&mut ClaimEntry) -> R) {
        let entry = self.claims.entry(key.clone()).or_default();
        change(entry);
        if entry.slot.is_none() && entry.users.is_empty() && entry.mounts == 0 {
            self.claims.remove(key);
        }
    }

    /// Changes what is known of a volume, and forgets it if that is nothing.
    fn change_volume<R>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut VolumeEntry) -> R) {
        let entry = self.volumes.entry(name.clone()).or_default();
        change(entry);
        if entry.slot.is_none() && entry.claims.is_empty() && entry.attachments.is_empty() {
            self.volumes.remove(name);
        }
    }

    /// Changes what is known of a class, and forgets it if that is nothing.
    fn change_class<R>(&mut self, name: &Arc<str>, change: impl FnOnce(&mut ClassEntry) -> R) {
        let entry = self.classes.entry(name.clone()).or_default();
        change(entry);
        if entry.known.is_none() && entry.claims.is_empty() {
            self.classes.remove(name);
        }
    }
}

// === impl StorageKind ===

impl StorageKind {
    /// The kind by group and name; `None` if it has nothing to do with volumes.
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

// === impl Trouble ===

impl Trouble {
    /// That a claim is not there.
    pub(crate) fn no_claim(name: &str) -> String {
        format!("persistentvolumeclaim {name:?} not found")
    }

    /// What a plugin says because of it.
    pub(crate) fn refusal(&self, plugin: Plugin) -> Refusal {
        let (code, reason) = match self {
            Trouble::NotFound(why) => (Code::UnschedulableAndUnresolvable, why.clone()),
            Trouble::Failed(why) => (Code::Error, why.clone()),
            Trouble::Unreadable(why) => (Code::UnschedulableAndUnresolvable, why.to_string()),
        };
        Refusal { plugin, code, reasons: smallvec![reason.into()] }
    }
}

/// What is known of an object, and whether it could be understood.
fn know<T>(
    fields: &Result<Fields<'_>, Unreadable>,
    read: impl Fn(&Fields<'_>) -> Result<T, Unreadable>,
) -> (Known<T>, Result<(), Arc<Unreadable>>) {
    let known = fields.as_ref().map_err(Unreadable::clone).and_then(read).map(Arc::new).map_err(Arc::new);
    let result = known.as_ref().map(drop).map_err(Arc::clone);
    (known, result)
}
