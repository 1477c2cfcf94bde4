//! Volumes of a pod.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::read::nullable;

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "VolumeJson")]
pub struct Volume {
    /// Its name.
    pub name: Arc<str>,
    /// Its source.
    pub source: VolumeSource,
}

/// The source of a volume, as far as components distinguish them.
#[derive(Clone, Debug, PartialEq)]
pub enum VolumeSource {
    /// A claim by name.
    PersistentVolumeClaim(Arc<str>),
    /// A claim that is made for the pod.
    Ephemeral,
    /// An inline CSI volume, by driver.
    Csi(Arc<str>),
    /// A disk of Google Compute Engine.
    GcePersistentDisk(GcePersistentDisk),
    /// A disk of AWS.
    AwsElasticBlockStore(AwsElasticBlockStore),
    /// A disk of Azure.
    AzureDisk(AzureDisk),
    /// A file share of Azure.
    AzureFile,
    /// A volume of OpenStack, by its ID.
    Cinder(Arc<str>),
    /// A disk of vSphere.
    VsphereVolume,
    /// A volume of Portworx, by its ID.
    PortworxVolume(Arc<str>),
    /// An iSCSI disk.
    Iscsi(IscsiDisk),
    /// An image of Ceph.
    Rbd(RbdImage),
    /// A directory of the node.
    HostPath,
    /// A directory that is lost with the pod.
    EmptyDir {
        /// Whether it is in memory.
        is_in_memory: bool,
    },
    /// An OCI image, by reference.
    Image(Arc<str>),
    /// Any other source, such as a ConfigMap.
    Other,
}

/// A disk of Google Compute Engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GcePersistentDisk {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub pd_name: Arc<str>,
    /// Whether it is only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// A disk of AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AwsElasticBlockStore {
    /// Its ID.
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    pub volume_id: Arc<str>,
}

/// A disk of Azure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AzureDisk {
    /// Its address.
    #[serde(rename = "diskURI")]
    pub disk_uri: Option<Arc<str>>,
    /// `Managed`, `Shared` or `Dedicated`.
    pub kind: Option<Arc<str>>,
}

/// An iSCSI disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IscsiDisk {
    /// Its qualified name.
    #[serde(deserialize_with = "nullable")]
    pub iqn: Arc<str>,
    /// Whether it is only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// An image of Ceph.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RbdImage {
    /// Addresses of monitors.
    #[serde(deserialize_with = "nullable")]
    pub monitors: Vec<Arc<str>>,
    /// Its pool.
    #[serde(deserialize_with = "nullable")]
    pub pool: Arc<str>,
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub image: Arc<str>,
    /// Whether it is only read.
    #[serde(deserialize_with = "nullable")]
    pub read_only: bool,
}

/// An entry of `spec.volumes`. A valid one has one source.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeJson {
    #[serde(deserialize_with = "nullable")]
    name: Arc<str>,
    persistent_volume_claim: Option<ClaimJson>,
    ephemeral: Option<IgnoredAny>,
    csi: Option<CsiJson>,
    gce_persistent_disk: Option<GcePersistentDisk>,
    aws_elastic_block_store: Option<AwsElasticBlockStore>,
    azure_disk: Option<AzureDisk>,
    azure_file: Option<IgnoredAny>,
    cinder: Option<VolumeIdJson>,
    vsphere_volume: Option<IgnoredAny>,
    portworx_volume: Option<VolumeIdJson>,
    iscsi: Option<IscsiDisk>,
    rbd: Option<RbdImage>,
    host_path: Option<IgnoredAny>,
    empty_dir: Option<EmptyDirJson>,
    image: Option<ImageJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimJson {
    #[serde(deserialize_with = "nullable")]
    claim_name: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CsiJson {
    #[serde(deserialize_with = "nullable")]
    driver: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct VolumeIdJson {
    #[serde(rename = "volumeID", deserialize_with = "nullable")]
    volume_id: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EmptyDirJson {
    #[serde(deserialize_with = "nullable")]
    medium: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImageJson {
    #[serde(deserialize_with = "nullable")]
    reference: Arc<str>,
}

impl Volume {
    /// Whether its contents are lost with the node.
    pub fn is_local(&self) -> bool {
        matches!(self.source, VolumeSource::HostPath | VolumeSource::EmptyDir { is_in_memory: false })
    }
}

impl From<VolumeJson> for Volume {
    fn from(json: VolumeJson) -> Volume {
        let source = if let Some(claim) = json.persistent_volume_claim {
            VolumeSource::PersistentVolumeClaim(claim.claim_name)
        } else if json.ephemeral.is_some() {
            VolumeSource::Ephemeral
        } else if let Some(csi) = json.csi {
            VolumeSource::Csi(csi.driver)
        } else if let Some(disk) = json.gce_persistent_disk {
            VolumeSource::GcePersistentDisk(disk)
        } else if let Some(disk) = json.aws_elastic_block_store {
            VolumeSource::AwsElasticBlockStore(disk)
        } else if let Some(disk) = json.azure_disk {
            VolumeSource::AzureDisk(disk)
        } else if json.azure_file.is_some() {
            VolumeSource::AzureFile
        } else if let Some(volume) = json.cinder {
            VolumeSource::Cinder(volume.volume_id)
        } else if json.vsphere_volume.is_some() {
            VolumeSource::VsphereVolume
        } else if let Some(volume) = json.portworx_volume {
            VolumeSource::PortworxVolume(volume.volume_id)
        } else if let Some(disk) = json.iscsi {
            VolumeSource::Iscsi(disk)
        } else if let Some(image) = json.rbd {
            VolumeSource::Rbd(image)
        } else if json.host_path.is_some() {
            VolumeSource::HostPath
        } else if let Some(directory) = json.empty_dir {
            VolumeSource::EmptyDir { is_in_memory: *directory.medium == *"Memory" }
        } else if let Some(image) = json.image {
            VolumeSource::Image(image.reference)
        } else {
            VolumeSource::Other
        };
        Volume { name: json.name, source }
    }
}
