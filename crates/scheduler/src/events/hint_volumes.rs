//! The volumes of a pod, as queueing hints depend on them.

use std::sync::Arc;

use kubernetes::objects::{AwsElasticBlockStore, GcePersistentDisk, PodView, Volume, VolumeSource};

use crate::storage::InlineDisk;

/// The volumes of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HintVolumes(Vec<HintVolume>);

#[derive(Clone, Debug, PartialEq)]
enum HintVolume {
    /// A claim by name.
    Claim(Arc<str>),
    /// A generic ephemeral volume, by the name of its claim.
    Ephemeral(Arc<str>),
    /// An inline CSI volume, by driver.
    Csi(Arc<str>),
    /// An in-tree volume migrated to a CSI driver; `None` if it cannot be translated.
    Migrated { driver: Option<&'static str>, disk: Option<InlineDisk> },
    /// Another disk that the pods of a node may not share.
    Disk(InlineDisk),
}

// === impl HintVolumes ===

impl HintVolumes {
    pub(crate) fn new(pod: &PodView) -> HintVolumes {
        let volumes = pod.spec.volumes.iter();
        HintVolumes(volumes.filter_map(|volume| HintVolume::new(&pod.name.name, volume)).collect())
    }

    pub(crate) fn named_claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0
            .iter()
            .filter_map(|volume| if let HintVolume::Claim(name) = volume { Some(name) } else { None })
    }

    /// Including those of generic ephemeral volumes.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter_map(|volume| match volume {
            HintVolume::Claim(name) | HintVolume::Ephemeral(name) => Some(name),
            HintVolume::Csi(_) | HintVolume::Migrated { .. } | HintVolume::Disk(_) => None,
        })
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = &InlineDisk> {
        self.0.iter().filter_map(|volume| match volume {
            HintVolume::Migrated { disk, .. } => disk.as_ref(),
            HintVolume::Disk(disk) => Some(disk),
            HintVolume::Claim(_) | HintVolume::Ephemeral(_) | HintVolume::Csi(_) => None,
        })
    }

    pub(crate) fn has_inline_csi_driver(&self, name: &str) -> bool {
        self.0.iter().any(|volume| matches!(volume, HintVolume::Csi(driver) if **driver == *name))
    }

    /// Whether one of them may be attached to the node.
    pub(crate) fn may_be_attached(&self) -> bool {
        let is_attached = |volume: &HintVolume| {
            matches!(volume, HintVolume::Claim(_) | HintVolume::Ephemeral(_) | HintVolume::Migrated { .. })
        };
        self.0.iter().any(is_attached)
    }

    /// Whether one of the volumes may count towards the driver's attach limit; one that cannot be translated does.
    pub(crate) fn may_be_attached_by(&self, name: &str) -> bool {
        self.0.iter().any(|volume| match volume {
            HintVolume::Claim(_) => true,
            HintVolume::Migrated { driver, .. } => driver.is_none_or(|driver| driver == name),
            HintVolume::Ephemeral(_) | HintVolume::Csi(_) | HintVolume::Disk(_) => false,
        })
    }
}

// === impl HintVolume ===

impl HintVolume {
    fn new(pod: &str, volume: &Volume) -> Option<HintVolume> {
        let migrated = |driver, disk| HintVolume::Migrated { driver, disk };
        Some(match &volume.source {
            VolumeSource::PersistentVolumeClaim(claim) => HintVolume::Claim(claim.clone()),
            VolumeSource::Ephemeral => HintVolume::Ephemeral(format!("{pod}-{}", volume.name).into()),
            VolumeSource::Csi(driver) => HintVolume::Csi(driver.clone()),
            VolumeSource::GcePersistentDisk(GcePersistentDisk { pd_name, read_only }) => {
                let disk = InlineDisk::Gce { name: pd_name.clone(), read_only: *read_only };
                migrated(Some("pd.csi.storage.gke.io"), Some(disk))
            }
            VolumeSource::AwsElasticBlockStore(AwsElasticBlockStore { volume_id: id }) => {
                let driver = is_ebs_volume(id).then_some("ebs.csi.aws.com");
                migrated(driver, Some(InlineDisk::AwsEbs { id: id.clone() }))
            }
            VolumeSource::AzureDisk(disk) => {
                // Only managed disks can be migrated.
                let is_managed = disk.kind.as_ref().is_none_or(|kind| kind.eq_ignore_ascii_case("Managed"));
                migrated(is_managed.then_some("disk.csi.azure.com"), None)
            }
            VolumeSource::AzureFile => migrated(Some("file.csi.azure.com"), None),
            VolumeSource::Cinder(_) => migrated(Some("cinder.csi.openstack.org"), None),
            VolumeSource::VsphereVolume => migrated(Some("csi.vsphere.vmware.com"), None),
            VolumeSource::PortworxVolume(_) => migrated(Some("pxd.portworx.com"), None),
            VolumeSource::Iscsi(disk) => HintVolume::Disk(disk.into()),
            VolumeSource::Rbd(image) => HintVolume::Disk(image.into()),
            VolumeSource::HostPath
            | VolumeSource::EmptyDir { .. }
            | VolumeSource::Image(_)
            | VolumeSource::Other => return None,
        })
    }
}

/// Whether the volume ID can be translated: `vol-1`, or `aws://ZONE/vol-1`.
fn is_ebs_volume(id: &str) -> bool {
    let Some(address) = id.strip_prefix("aws://") else { return true };
    let path = address.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    path.starts_with("vol-") && !path.contains('/')
}
