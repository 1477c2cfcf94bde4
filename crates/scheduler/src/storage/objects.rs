//! Claims, volumes, storage classes and CSI objects, as parsed for scheduling.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::quantity::Quantity;
use kubernetes::selector::{BadSelector, Expression, LabelSelector, NodeSelector, Selector};
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use model::NamespacedName;

use super::attachable::AttachableVolume;
use super::in_tree::{InTreePlugin, InTreeVolume, ZONE_SEPARATOR};
use super::read::{ObjectFields, UnreadableObject};

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PersistentVolumeClaim {
    pub(crate) key: NamespacedName,
    pub(crate) uid: Arc<str>,
    pub(crate) resource_version: Arc<str>,
    pub(crate) is_deleting: bool,
    /// Its phase is Lost.
    pub(crate) is_lost: bool,
    /// Empty if it has none.
    pub(crate) volume: Arc<str>,
    /// Whether its binding is completed.
    pub(crate) is_bound: bool,
    /// Empty for none.
    pub(crate) class: Arc<str>,
    /// The node for which its volume is to be provisioned.
    pub(crate) selected_node: Option<Arc<str>>,
    pub(crate) access_modes: Vec<Arc<str>>,
    pub(crate) request: Option<Quantity>,
    pub(crate) selector: Option<Result<Selector, BadSelector>>,
    pub(crate) mode: Arc<str>,
    /// `volumeAttributesClassName`; empty for none.
    pub(crate) attributes_class: Arc<str>,
    /// The uid of its controller.
    pub(crate) controller: Option<Arc<str>>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PersistentVolume {
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
    /// The nodes it is reachable from.
    pub(crate) affinity: Option<NodeSelector>,
    /// Set if a CSI driver attaches it.
    pub(crate) csi: Option<AttachableVolume>,
    /// Set if it has an in-tree source.
    pub(crate) in_tree: Option<InTreeVolume>,
    /// The zones and regions it is reachable from, by label.
    pub(crate) zones: Vec<(&'static str, Vec<Arc<str>>)>,
}

/// The `claimRef` of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRef {
    pub(crate) key: NamespacedName,
    /// Empty if it refers to any claim of that name.
    pub(crate) uid: Arc<str>,
}

/// A StorageClass.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StorageClass {
    pub(crate) provisioner: Arc<str>,
    pub(crate) binding_mode: Option<VolumeBindingMode>,
    /// One of them must match a node, if there are any. `None` is an invalid term, which matches no node.
    allowed_topologies: Vec<Option<Selector>>,
}

/// `volumeBindingMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VolumeBindingMode {
    Immediate,
    /// When a pod that uses the claim is scheduled.
    WaitForFirstConsumer,
}

/// A CSINode.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CsiNode {
    /// Attach limits by driver.
    pub(super) limits: Vec<(Arc<str>, i64)>,
    /// In-tree plugins that are migrated on the node.
    pub(super) migrated_plugins: MigratedPlugins,
}

/// A set of in-tree plugins, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct MigratedPlugins(u8);

/// A CSIDriver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CsiDriver {
    /// `storageCapacity`: whether it publishes CSIStorageCapacity objects.
    pub(crate) tracks_capacity: bool,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CsiStorageCapacity {
    pub(crate) class: Arc<str>,
    /// `maximumVolumeSize`, or else `capacity`, in bytes.
    pub(crate) max_volume_size: Option<i64>,
    /// The nodes it is reachable from.
    pub(crate) nodes: Option<Selector>,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VolumeAttachment {
    pub(crate) node: Arc<str>,
    pub(crate) attacher: Arc<str>,
    pub(crate) volume: Option<Arc<str>>,
}

// === impl PersistentVolumeClaim ===

impl PersistentVolumeClaim {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<PersistentVolumeClaim, UnreadableObject> {
        let volume = fields.shared_text("spec.volumeName")?;
        let is_bound = !volume.is_empty() && fields.annotation("pv.kubernetes.io/bind-completed")?.is_some();
        let selector: Option<LabelSelector> = fields.parsed("spec.selector")?;
        Ok(PersistentVolumeClaim {
            key: NamespacedName {
                namespace: fields.shared_text("metadata.namespace")?,
                name: fields.shared_text("metadata.name")?,
            },
            uid: fields.shared_text("metadata.uid")?,
            resource_version: fields.shared_text("metadata.resourceVersion")?,
            is_deleting: fields.get("metadata.deletionTimestamp")?.is_some(),
            is_lost: fields.text("status.phase")? == Some("Lost"),
            volume,
            is_bound,
            class: class(fields)?,
            selected_node: fields.annotation("volume.kubernetes.io/selected-node")?.map(Arc::from),
            access_modes: fields.texts("spec.accessModes")?,
            request: fields.quantity("spec.resources.requests.storage")?,
            selector: selector.map(|selector| Selector::of(Some(&selector))),
            mode: mode(fields)?,
            attributes_class: fields.shared_text("spec.volumeAttributesClassName")?,
            controller: controller(fields)?,
        })
    }

    /// The requested size; zero without a request.
    pub(crate) fn requested(&self) -> Quantity {
        self.request.clone().unwrap_or_default()
    }

    /// Whether an access mode is ReadWriteOncePod.
    pub(crate) fn is_read_write_once_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| &**mode == "ReadWriteOncePod")
    }
}

// === impl PersistentVolume ===

impl PersistentVolume {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<PersistentVolume, UnreadableObject> {
        let labels: Labels = fields.parsed("metadata.labels")?.unwrap_or_default();
        // Before the in-tree source, whose translation relies on a valid node affinity.
        let affinity = fields.parsed("spec.nodeAffinity.required")?;
        let in_tree = InTreeVolume::read(fields, &labels)?;
        let csi = fields.object("spec.csi")?.map(|csi| {
            Ok(AttachableVolume::volume(&csi.shared_text("driver")?, &csi.shared_text("volumeHandle")?))
        });
        let claim = fields.object("spec.claimRef")?.map(|claim| {
            let key = NamespacedName {
                namespace: claim.shared_text("namespace")?,
                name: claim.shared_text("name")?,
            };
            Ok(ClaimRef { key, uid: claim.shared_text("uid")? })
        });
        Ok(PersistentVolume {
            name: fields.shared_text("metadata.name")?,
            resource_version: fields.shared_text("metadata.resourceVersion")?,
            is_deleting: fields.get("metadata.deletionTimestamp")?.is_some(),
            is_available: fields.text("status.phase")? == Some("Available"),
            zones: zones(&labels),
            labels,
            class: class(fields)?,
            capacity: fields.quantity("spec.capacity.storage")?.unwrap_or_default(),
            access_modes: fields.texts("spec.accessModes")?,
            mode: mode(fields)?,
            attributes_class: fields.shared_text("spec.volumeAttributesClassName")?,
            claim: claim.transpose()?,
            affinity,
            csi: csi.transpose()?,
            in_tree,
        })
    }

    /// The class of an unreadable volume, if that field can be read.
    pub(super) fn class_of_unreadable(fields: &ObjectFields<'_>) -> Option<Arc<str>> {
        class(fields).ok()
    }

    /// Whether its `claimRef` refers to that claim.
    pub(crate) fn is_bound_to(&self, claim: &PersistentVolumeClaim) -> bool {
        self.claim
            .as_ref()
            .is_some_and(|own| own.key == claim.key && (own.uid.is_empty() || own.uid == claim.uid))
    }

    /// Its identity for attach limits.
    pub(crate) fn attachable(&self) -> Option<&AttachableVolume> {
        let in_tree = self.in_tree.as_ref().and_then(|disk| disk.migrated.as_ref().ok());
        self.csi
            .as_ref()
            .or(in_tree.map(|migrated| &migrated.attachable))
            .filter(|volume| volume.is_counted())
    }
}

// === impl StorageClass ===

impl StorageClass {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<StorageClass, UnreadableObject> {
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
        Ok(StorageClass {
            provisioner: fields.shared_text("provisioner")?,
            binding_mode: fields.text("volumeBindingMode")?.map(|mode| match mode {
                "WaitForFirstConsumer" => VolumeBindingMode::WaitForFirstConsumer,
                _ => VolumeBindingMode::Immediate,
            }),
            allowed_topologies: topologies.collect::<Result<_, _>>()?,
        })
    }

    /// Whether volumes can be provisioned dynamically.
    pub(crate) fn can_provision(&self) -> bool {
        !self.provisioner.is_empty() && &*self.provisioner != "kubernetes.io/no-provisioner"
    }

    /// Whether `allowedTopologies` permit a node with these labels.
    pub(crate) fn allows_topology(&self, labels: &Labels) -> bool {
        let matches = |term: &Option<Selector>| {
            term.as_ref().is_some_and(|selector| selector.matches(|key| labels.get(key)))
        };
        self.allowed_topologies.is_empty() || self.allowed_topologies.iter().any(matches)
    }
}

// === impl CsiNode ===

impl CsiNode {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<CsiNode, UnreadableObject> {
        let mut limits: Vec<(Arc<str>, i64)> = Vec::new();
        for driver in fields.list("spec.drivers")? {
            let name = driver.shared_text("name")?;
            let Some(count) = driver.number("allocatable.count")? else { continue };
            limits.retain(|(other, _)| *other != name);
            limits.push((name, count.into()));
        }
        let migrated = fields.annotation("storage.alpha.kubernetes.io/migrated-plugins")?.unwrap_or_default();
        let migrated_plugins = MigratedPlugins::named(migrated.split(','));
        Ok(CsiNode { limits, migrated_plugins })
    }
}

// === impl MigratedPlugins ===

impl MigratedPlugins {
    /// The plugins of these names; other names are ignored.
    fn named<'a>(names: impl Iterator<Item = &'a str>) -> MigratedPlugins {
        let plugins = names.filter_map(InTreePlugin::named);
        MigratedPlugins(plugins.fold(0, |bits, plugin| bits | 1 << plugin as u8))
    }

    pub(crate) fn contains(self, plugin: InTreePlugin) -> bool {
        self.0 & 1 << plugin as u8 != 0
    }
}

// === impl CsiDriver ===

impl CsiDriver {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<CsiDriver, UnreadableObject> {
        Ok(CsiDriver { tracks_capacity: fields.flag("spec.storageCapacity")? })
    }
}

// === impl CsiStorageCapacity ===

impl CsiStorageCapacity {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<CsiStorageCapacity, UnreadableObject> {
        let largest = match fields.quantity("maximumVolumeSize")? {
            Some(largest) => Some(largest),
            None => fields.quantity("capacity")?,
        };
        let nodes: Option<LabelSelector> = fields.parsed("nodeTopology")?;
        Ok(CsiStorageCapacity {
            class: fields.shared_text("storageClassName")?,
            max_volume_size: largest.map(|largest| largest.value()),
            // An absent or invalid selector matches no node.
            nodes: nodes.and_then(|nodes| Selector::of(Some(&nodes)).ok()),
        })
    }

    /// The class of an unreadable capacity, if that field can be read.
    pub(super) fn class_of_unreadable(fields: &ObjectFields<'_>) -> Option<Arc<str>> {
        fields.shared_text("storageClassName").ok()
    }
}

// === impl VolumeAttachment ===

impl VolumeAttachment {
    pub(super) fn read(fields: &ObjectFields<'_>) -> Result<VolumeAttachment, UnreadableObject> {
        Ok(VolumeAttachment {
            node: fields.shared_text("spec.nodeName")?,
            attacher: fields.shared_text("spec.attacher")?,
            volume: fields.text("spec.source.persistentVolumeName")?.map(Arc::from),
        })
    }

    /// The node of an unreadable attachment, if that field can be read.
    pub(super) fn node_of_unreadable(fields: &ObjectFields<'_>) -> Option<Arc<str>> {
        fields.shared_text("spec.nodeName").ok()
    }
}

/// The class of a claim or a volume. The beta annotation takes precedence over the field.
fn class(fields: &ObjectFields<'_>) -> Result<Arc<str>, UnreadableObject> {
    match fields.annotation("volume.beta.kubernetes.io/storage-class")? {
        Some(class) => Ok(class.into()),
        None => fields.shared_text("spec.storageClassName"),
    }
}

fn mode(fields: &ObjectFields<'_>) -> Result<Arc<str>, UnreadableObject> {
    Ok(fields.text("spec.volumeMode")?.unwrap_or("Filesystem").into())
}

/// The uid of the controlling owner.
fn controller(fields: &ObjectFields<'_>) -> Result<Option<Arc<str>>, UnreadableObject> {
    for owner in fields.list("metadata.ownerReferences")? {
        if owner.flag("controller")? {
            return owner.shared_text("uid").map(Some);
        }
    }
    Ok(None)
}

/// The zones and regions of a volume by its labels. A list with an empty part is ignored.
fn zones(labels: &Labels) -> Vec<(&'static str, Vec<Arc<str>>)> {
    let read = |key: &'static str| {
        let zones: Vec<Arc<str>> =
            labels.get(key)?.split(ZONE_SEPARATOR).map(|zone| Arc::from(zone.trim())).collect();
        zones.iter().all(|zone| !zone.is_empty()).then_some((key, zones))
    };
    [BETA_ZONE, BETA_REGION, ZONE, REGION].into_iter().filter_map(read).collect()
}
