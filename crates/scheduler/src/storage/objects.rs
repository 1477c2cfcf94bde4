//! Claims, volumes, storage classes and what CSI drivers say of themselves, as far as they matter to scheduling.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::quantity::Quantity;
use kubernetes::selector::{BadSelector, Expression, LabelSelector, NodeSelector, Selector};

use super::attachable::{Attachable, ClaimKey};
use super::in_tree::{BETWEEN_ZONES, InTree, InTreeDisk, OLD_REGION, OLD_ZONE, REGION, ZONE};
use super::read::{Fields, Unreadable};

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) key: ClaimKey,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: Arc<str>,
    pub(crate) is_deleting: bool,
    /// Its volume is gone.
    pub(crate) is_lost: bool,
    /// Empty as long as it has none.
    pub(crate) volume: Arc<str>,
    /// Whether binding it to its volume is over.
    pub(crate) is_bound: bool,
    /// Empty for none.
    pub(crate) class: Arc<str>,
    /// Where its volume is to be made.
    pub(crate) selected_node: Option<Arc<str>>,
    pub(crate) access_modes: Vec<Arc<str>>,
    pub(crate) request: Option<Quantity>,
    pub(crate) selector: Option<Result<Selector, BadSelector>>,
    pub(crate) mode: Arc<str>,
    /// `volumeAttributesClassName`; empty for none.
    pub(crate) attributes_class: Arc<str>,
    /// The uid of the object that is in charge of it.
    pub(crate) controller: Option<Arc<str>>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Volume {
    pub(crate) name: Arc<str>,
    pub(crate) resource_version: Arc<str>,
    pub(crate) is_deleting: bool,
    pub(crate) is_available: bool,
    pub(crate) labels: Labels,
    pub(crate) class: Arc<str>,
    pub(crate) capacity: Quantity,
    pub(crate) access_modes: Vec<Arc<str>>,
    pub(crate) mode: Arc<str>,
    pub(crate) attributes_class: Arc<str>,
    pub(crate) claim: Option<ClaimRef>,
    /// The nodes it can be reached from.
    pub(crate) affinity: Option<NodeSelector>,
    /// Set if a CSI driver attaches it.
    pub(crate) csi: Option<Attachable>,
    /// Set if it is written as a disk that Kubernetes once attached itself.
    pub(crate) in_tree: Option<InTreeDisk>,
    /// Zones and regions it can be reached from, by label.
    pub(crate) zones: Vec<(&'static str, Vec<Arc<str>>)>,
}

/// The claim a volume is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRef {
    pub(crate) key: ClaimKey,
    /// Empty if any life of the claim will do.
    pub(crate) uid: Arc<str>,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Class {
    pub(crate) provisioner: Arc<str>,
    pub(crate) binding: Option<Binding>,
    /// Of which one must match a node, if there are any. A term that cannot be used matches none.
    topologies: Vec<Option<Selector>>,
}

/// When claims of a class get their volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Immediate,
    /// When a pod that uses them is placed.
    Delayed,
}

/// A CSINode: what drivers say of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CsiNode {
    /// How many volumes of a driver the node can attach.
    pub(crate) limits: Vec<(Arc<str>, i64)>,
    /// In-tree plugins whose work CSI drivers have taken over on the node.
    migrated: Vec<Arc<str>>,
}

/// A CSIDriver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CsiDriver {
    /// Whether it says how much room there is.
    pub(crate) tracks_capacity: bool,
}

/// A CSIStorageCapacity: how much room there is for volumes of a class, seen from some nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) class: Arc<str>,
    /// The largest volume there is room for, in bytes.
    pub(crate) largest: Option<i64>,
    /// The nodes it can be reached from.
    pub(crate) nodes: Option<Selector>,
}

/// A VolumeAttachment: a volume that a node has attached, or is to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attachment {
    pub(crate) node: Arc<str>,
    pub(crate) attacher: Arc<str>,
    /// A PersistentVolume.
    pub(crate) volume: Option<Arc<str>>,
}

// === impl Claim ===

impl Claim {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Claim, Unreadable> {
        let volume = fields.shared("spec.volumeName")?;
        let is_bound = !volume.is_empty() && fields.annotation("pv.kubernetes.io/bind-completed")?.is_some();
        let selector: Option<LabelSelector> = fields.parsed("spec.selector")?;
        Ok(Claim {
            key: ClaimKey {
                namespace: fields.shared("metadata.namespace")?,
                name: fields.shared("metadata.name")?,
            },
            uid: fields.shared("metadata.uid")?,
            resource_version: fields.shared("metadata.resourceVersion")?,
            is_deleting: fields.find("metadata.deletionTimestamp")?.is_some(),
            is_lost: fields.text("status.phase")? == Some("Lost"),
            volume,
            is_bound,
            class: class(fields)?,
            selected_node: fields.annotation("volume.kubernetes.io/selected-node")?.map(Arc::from),
            access_modes: fields.texts("spec.accessModes")?,
            request: fields.quantity("spec.resources.requests.storage")?,
            selector: selector.map(|selector| Selector::of(Some(&selector))),
            mode: mode(fields)?,
            attributes_class: fields.shared("spec.volumeAttributesClassName")?,
            controller: controller(fields)?,
        })
    }

    /// How much it asks for; nothing counts as zero.
    pub(crate) fn requested(&self) -> Quantity {
        self.request.clone().unwrap_or_default()
    }

    /// Whether only one pod may use it.
    pub(crate) fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}

// === impl Volume ===

impl Volume {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Volume, Unreadable> {
        let labels: Labels = fields.parsed("metadata.labels")?.unwrap_or_default();
        // Before the in-tree disk, which has what is required rewritten and relies on its shape.
        let affinity = fields.parsed("spec.nodeAffinity.required")?;
        let in_tree = InTreeDisk::read(fields, &labels)?;
        let csi = fields
            .part("spec.csi")?
            .map(|csi| Ok(Attachable::volume(&csi.shared("driver")?, &csi.shared("volumeHandle")?)));
        let claim = fields.part("spec.claimRef")?.map(|claim| {
            let key = ClaimKey { namespace: claim.shared("namespace")?, name: claim.shared("name")? };
            Ok(ClaimRef { key, uid: claim.shared("uid")? })
        });
        Ok(Volume {
            name: fields.shared("metadata.name")?,
            resource_version: fields.shared("metadata.resourceVersion")?,
            is_deleting: fields.find("metadata.deletionTimestamp")?.is_some(),
            is_available: fields.text("status.phase")? == Some("Available"),
            zones: zones(&labels),
            labels,
            class: class(fields)?,
            capacity: fields.quantity("spec.capacity.storage")?.unwrap_or_default(),
            access_modes: fields.texts("spec.accessModes")?,
            mode: mode(fields)?,
            attributes_class: fields.shared("spec.volumeAttributesClassName")?,
            claim: claim.transpose()?,
            affinity,
            csi: csi.transpose()?,
            in_tree,
        })
    }

    /// Its class as far as it can be told of a volume that cannot be understood.
    pub(super) fn class_of_unreadable(fields: &Fields<'_>) -> Option<Arc<str>> {
        class(fields).ok()
    }

    /// Whether it is for that claim and no other.
    pub(crate) fn is_for(&self, claim: &Claim) -> bool {
        self.claim
            .as_ref()
            .is_some_and(|own| own.key == claim.key && (own.uid.is_empty() || own.uid == claim.uid))
    }

    /// What the limits of nodes count it as.
    pub(crate) fn attachable(&self) -> Option<&Attachable> {
        let in_tree = self.in_tree.as_ref().and_then(|disk| disk.migrated.as_ref().ok());
        self.csi.as_ref().or(in_tree.map(|migrated| &migrated.attachable)).filter(|volume| volume.counts())
    }
}

// === impl Class ===

impl Class {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Class, Unreadable> {
        let topologies = fields.list("allowedTopologies")?.into_iter().map(|term| {
            let expressions = term.list("matchLabelExpressions")?.into_iter().map(|expression| {
                Ok(Expression {
                    key: expression.text("key")?.unwrap_or_default().to_owned(),
                    operator: "In".to_owned(),
                    values: expression.parsed("values")?,
                })
            });
            let expressions: Vec<Expression> = expressions.collect::<Result<_, _>>()?;
            let is_empty = expressions.is_empty();
            let selector = LabelSelector { match_labels: None, match_expressions: Some(expressions) };
            Ok(Selector::of(Some(&selector)).ok().filter(|_| !is_empty))
        });
        Ok(Class {
            provisioner: fields.shared("provisioner")?,
            binding: fields.text("volumeBindingMode")?.map(|mode| match mode {
                "WaitForFirstConsumer" => Binding::Delayed,
                _ => Binding::Immediate,
            }),
            topologies: topologies.collect::<Result<_, _>>()?,
        })
    }

    /// Whether volumes can be made on demand.
    pub(crate) fn provisions(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != "kubernetes.io/no-provisioner"
    }

    /// Whether volumes may be made for a node with these labels.
    pub(crate) fn allows(&self, labels: &Labels) -> bool {
        let matches = |term: &Option<Selector>| {
            term.as_ref().is_some_and(|selector| selector.matches(|key| labels.get(key)))
        };
        self.topologies.is_empty() || self.topologies.iter().any(matches)
    }
}

// === impl CsiNode ===

impl CsiNode {
    pub(super) fn read(fields: &Fields<'_>) -> Result<CsiNode, Unreadable> {
        let mut limits: Vec<(Arc<str>, i64)> = Vec::new();
        for driver in fields.list("spec.drivers")? {
            let name = driver.shared("name")?;
            let Some(count) = driver.number("allocatable.count")? else { continue };
            limits.retain(|(other, _)| *other != name);
            limits.push((name, count.into()));
        }
        let migrated = fields.annotation("storage.alpha.kubernetes.io/migrated-plugins")?.unwrap_or_default();
        Ok(CsiNode { limits, migrated: migrated.split(',').map(Arc::from).collect() })
    }

    /// Whether a CSI driver has taken over from the plugin on this node.
    pub(crate) fn has_migrated(&self, plugin: InTree) -> bool {
        self.migrated.iter().any(|name| &**name == plugin.name())
    }
}

// === impl CsiDriver ===

impl CsiDriver {
    pub(super) fn read(fields: &Fields<'_>) -> Result<CsiDriver, Unreadable> {
        Ok(CsiDriver { tracks_capacity: fields.flag("spec.storageCapacity")? })
    }
}

// === impl Capacity ===

impl Capacity {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Capacity, Unreadable> {
        let largest = match fields.quantity("maximumVolumeSize")? {
            Some(largest) => Some(largest),
            None => fields.quantity("capacity")?,
        };
        let nodes: Option<LabelSelector> = fields.parsed("nodeTopology")?;
        Ok(Capacity {
            class: fields.shared("storageClassName")?,
            largest: largest.map(|largest| largest.value()),
            // Neither an absent nor an unusable selector reaches any node.
            nodes: nodes.and_then(|nodes| Selector::of(Some(&nodes)).ok()),
        })
    }

    /// The class as far as it can be told of a capacity that cannot be understood.
    pub(super) fn class_of_unreadable(fields: &Fields<'_>) -> Option<Arc<str>> {
        fields.shared("storageClassName").ok()
    }
}

// === impl Attachment ===

impl Attachment {
    pub(super) fn read(fields: &Fields<'_>) -> Result<Attachment, Unreadable> {
        Ok(Attachment {
            node: fields.shared("spec.nodeName")?,
            attacher: fields.shared("spec.attacher")?,
            volume: fields.text("spec.source.persistentVolumeName")?.map(Arc::from),
        })
    }

    /// The node as far as it can be told of an attachment that cannot be understood.
    pub(super) fn node_of_unreadable(fields: &Fields<'_>) -> Option<Arc<str>> {
        fields.shared("spec.nodeName").ok()
    }
}

/// The class of a claim or a volume. An annotation of old counts more than the field.
fn class(fields: &Fields<'_>) -> Result<Arc<str>, Unreadable> {
    match fields.annotation("volume.beta.kubernetes.io/storage-class")? {
        Some(class) => Ok(class.into()),
        None => fields.shared("spec.storageClassName"),
    }
}

fn mode(fields: &Fields<'_>) -> Result<Arc<str>, Unreadable> {
    Ok(fields.text("spec.volumeMode")?.unwrap_or("Filesystem").into())
}

/// The uid of the first owner that is a controller.
fn controller(fields: &Fields<'_>) -> Result<Option<Arc<str>>, Unreadable> {
    for owner in fields.list("metadata.ownerReferences")? {
        if owner.flag("controller")? {
            return owner.shared("uid").map(Some);
        }
    }
    Ok(None)
}

/// Where a volume can be reached from, by its labels. A list with an empty place in it says nothing.
fn zones(labels: &Labels) -> Vec<(&'static str, Vec<Arc<str>>)> {
    let read = |key: &'static str| {
        let zones: Vec<Arc<str>> =
            labels.get(key)?.split(BETWEEN_ZONES).map(|zone| Arc::from(zone.trim())).collect();
        zones.iter().all(|zone| !zone.is_empty()).then_some((key, zones))
    };
    [OLD_ZONE, OLD_REGION, ZONE, REGION].into_iter().filter_map(read).collect()
}
