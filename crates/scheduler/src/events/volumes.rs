//! The volumes of a pod, as far as events about others may help it.

use std::sync::Arc;

use model::Object;
use serde::Deserialize;

use crate::storage::Disk;

/// The volumes of a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Volumes(Vec<Volume>);

#[derive(Clone, Debug, PartialEq)]
enum Volume {
    /// A claim by name.
    Claim(Arc<str>),
    /// A claim that is made for the pod, by the name it gets.
    Ephemeral(Arc<str>),
    /// Of a driver.
    Csi(Arc<str>),
    /// Of a plugin that gave way to a driver; `None` for a volume that the driver does not know.
    Migrated { driver: Option<&'static str>, disk: Option<Disk> },
    /// Another disk that pods of a node may not share.
    Disk(Disk),
}

/// An entry of `spec.volumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct VolumeJson {
    name: Option<Arc<str>>,
    persistent_volume_claim: Option<ClaimJson>,
    ephemeral: Option<serde::de::IgnoredAny>,
    csi: Option<CsiJson>,
    gce_persistent_disk: Option<GceJson>,
    aws_elastic_block_store: Option<AwsJson>,
    azure_disk: Option<AzureJson>,
    azure_file: Option<serde::de::IgnoredAny>,
    cinder: Option<serde::de::IgnoredAny>,
    vsphere_volume: Option<serde::de::IgnoredAny>,
    portworx_volume: Option<serde::de::IgnoredAny>,
    iscsi: Option<IscsiJson>,
    rbd: Option<RbdJson>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimJson {
    claim_name: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct CsiJson {
    driver: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct GceJson {
    pd_name: Option<Arc<str>>,
    read_only: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AwsJson {
    #[serde(rename = "volumeID")]
    volume_id: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AzureJson {
    kind: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct IscsiJson {
    iqn: Option<Arc<str>>,
    read_only: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RbdJson {
    monitors: Option<Vec<Arc<str>>>,
    pool: Option<Arc<str>>,
    image: Option<Arc<str>>,
    read_only: Option<bool>,
}

// === impl Volumes ===

impl Volumes {
    pub(crate) fn of(pod: &Object, volumes: Vec<VolumeJson>) -> Volumes {
        let meta = pod.meta();
        Volumes(volumes.into_iter().filter_map(|volume| Volume::of(&meta.name, volume)).collect())
    }

    pub(crate) fn named_claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter_map(|volume| if let Volume::Claim(name) = volume { Some(name) } else { None })
    }

    /// Also those that are made for the pod.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.0.iter().filter_map(|volume| match volume {
            Volume::Claim(name) | Volume::Ephemeral(name) => Some(name),
            Volume::Csi(_) | Volume::Migrated { .. } | Volume::Disk(_) => None,
        })
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = &Disk> {
        self.0.iter().filter_map(|volume| match volume {
            Volume::Migrated { disk, .. } => disk.as_ref(),
            Volume::Disk(disk) => Some(disk),
            Volume::Claim(_) | Volume::Ephemeral(_) | Volume::Csi(_) => None,
        })
    }

    pub(crate) fn is_of_driver(&self, name: &str) -> bool {
        self.0.iter().any(|volume| matches!(volume, Volume::Csi(driver) if **driver == *name))
    }

    /// Whether one of them is attached to the node.
    pub(crate) fn may_be_attached(&self) -> bool {
        let is_attached = |volume: &Volume| {
            matches!(volume, Volume::Claim(_) | Volume::Ephemeral(_) | Volume::Migrated { .. })
        };
        self.0.iter().any(is_attached)
    }

    /// Whether one of the volumes counts among those that the driver attaches; the first that cannot be told decides.
    pub(crate) fn may_be_attached_by(&self, name: &str) -> bool {
        self.0.iter().any(|volume| match volume {
            Volume::Claim(_) => true,
            Volume::Migrated { driver, .. } => driver.is_none_or(|driver| driver == name),
            Volume::Ephemeral(_) | Volume::Csi(_) | Volume::Disk(_) => false,
        })
    }
}

// === impl Volume ===

impl Volume {
    fn of(pod: &str, json: VolumeJson) -> Option<Volume> {
        if let Some(claim) = json.persistent_volume_claim {
            return Some(Volume::Claim(claim.claim_name.unwrap_or_default()));
        }
        if json.ephemeral.is_some() {
            return Some(Volume::Ephemeral(format!("{pod}-{}", json.name.unwrap_or_default()).into()));
        }
        if let Some(csi) = json.csi {
            return Some(Volume::Csi(csi.driver.unwrap_or_default()));
        }
        let migrated = |driver, disk| Some(Volume::Migrated { driver, disk });
        if let Some(gce) = json.gce_persistent_disk {
            let (name, read_only) = (gce.pd_name.unwrap_or_default(), gce.read_only.unwrap_or(false));
            return migrated(Some("pd.csi.storage.gke.io"), Some(Disk::Gce { name, read_only }));
        }
        if let Some(aws) = json.aws_elastic_block_store {
            let id = aws.volume_id.unwrap_or_default();
            let driver = is_ebs_volume(&id).then_some("ebs.csi.aws.com");
            return migrated(driver, Some(Disk::AwsEbs { id }));
        }
        if let Some(azure) = json.azure_disk {
            // Only managed disks are known to the driver.
            let is_managed = azure.kind.is_none_or(|kind| kind.eq_ignore_ascii_case("Managed"));
            return migrated(is_managed.then_some("disk.csi.azure.com"), None);
        }
        let others = [
            (json.azure_file, "file.csi.azure.com"),
            (json.cinder, "cinder.csi.openstack.org"),
            (json.vsphere_volume, "csi.vsphere.vmware.com"),
            (json.portworx_volume, "pxd.portworx.com"),
        ];
        if let Some((_, driver)) = others.into_iter().find(|(volume, _)| volume.is_some()) {
            return migrated(Some(driver), None);
        }
        if let Some(iscsi) = json.iscsi {
            let (iqn, read_only) = (iscsi.iqn.unwrap_or_default(), iscsi.read_only.unwrap_or(false));
            return Some(Volume::Disk(Disk::Iscsi { iqn, read_only }));
        }
        json.rbd.map(|rbd| {
            Volume::Disk(Disk::Rbd {
                monitors: rbd.monitors.unwrap_or_default(),
                pool: rbd.pool.unwrap_or_default(),
                image: rbd.image.unwrap_or_default(),
                read_only: rbd.read_only.unwrap_or(false),
            })
        })
    }
}

/// Whether the driver can tell which volume it is: `vol-1`, or `aws://ZONE/vol-1`.
fn is_ebs_volume(id: &str) -> bool {
    let Some(address) = id.strip_prefix("aws://") else { return true };
    let path = address.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    path.starts_with("vol-") && !path.contains('/')
}
