//! The volumes of a pod, as queueing hints depend on them.

use std::sync::Arc;

use model::Object;
use serde::Deserialize;

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

/// An entry of `spec.volumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct HintVolumeJson {
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

// === impl HintVolumes ===

impl HintVolumes {
    pub(crate) fn of(pod: &Object, volumes: Vec<HintVolumeJson>) -> HintVolumes {
        let meta = pod.meta();
        HintVolumes(volumes.into_iter().filter_map(|volume| HintVolume::of(&meta.name, volume)).collect())
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
    fn of(pod: &str, json: HintVolumeJson) -> Option<HintVolume> {
        if let Some(claim) = json.persistent_volume_claim {
            return Some(HintVolume::Claim(claim.claim_name.unwrap_or_default()));
        }
        if json.ephemeral.is_some() {
            return Some(HintVolume::Ephemeral(format!("{pod}-{}", json.name.unwrap_or_default()).into()));
        }
        if let Some(csi) = json.csi {
            return Some(HintVolume::Csi(csi.driver.unwrap_or_default()));
        }
        let migrated = |driver, disk| Some(HintVolume::Migrated { driver, disk });
        if let Some(gce) = json.gce_persistent_disk {
            let (name, read_only) = (gce.pd_name.unwrap_or_default(), gce.read_only.unwrap_or(false));
            return migrated(Some("pd.csi.storage.gke.io"), Some(InlineDisk::Gce { name, read_only }));
        }
        if let Some(aws) = json.aws_elastic_block_store {
            let id = aws.volume_id.unwrap_or_default();
            let driver = is_ebs_volume(&id).then_some("ebs.csi.aws.com");
            return migrated(driver, Some(InlineDisk::AwsEbs { id }));
        }
        if let Some(azure) = json.azure_disk {
            // Only managed disks can be migrated.
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
            return Some(HintVolume::Disk(InlineDisk::Iscsi { iqn, read_only }));
        }
        json.rbd.map(|rbd| {
            HintVolume::Disk(InlineDisk::Rbd {
                monitors: rbd.monitors.unwrap_or_default(),
                pool: rbd.pool.unwrap_or_default(),
                image: rbd.image.unwrap_or_default(),
                read_only: rbd.read_only.unwrap_or(false),
            })
        })
    }
}

/// Whether the volume ID can be translated: `vol-1`, or `aws://ZONE/vol-1`.
fn is_ebs_volume(id: &str) -> bool {
    let Some(address) = id.strip_prefix("aws://") else { return true };
    let path = address.split_once('/').map_or("", |(_, path)| path).trim_matches('/');
    path.starts_with("vol-") && !path.contains('/')
}
