//! The volumes of a pod that are relevant to scheduling.

use std::sync::Arc;

use serde::Deserialize;

use super::attachable::{AttachableVolume, ClaimKey};
use super::in_tree::{self, InTreePlugin};
use super::objects::PersistentVolumeClaim;

/// The volumes of a pod that are relevant to scheduling, in order.
#[derive(Debug, PartialEq)]
pub struct PodVolumes {
    /// The pod's name.
    pub(crate) pod: Arc<str>,
    /// The pod's uid, by which ephemeral claims refer to it as their controller.
    pub(crate) uid: Arc<str>,
    pub(crate) volumes: Vec<PodVolume>,
    has_disks: bool,
}

/// An entry of `spec.volumes`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeJson {
    #[serde(deserialize_with = "null_is_empty")]
    name: Arc<str>,
    persistent_volume_claim: Option<ClaimJson>,
    ephemeral: Option<Anything>,
    gce_persistent_disk: Option<GceJson>,
    aws_elastic_block_store: Option<VolumeIdJson>,
    iscsi: Option<IscsiJson>,
    rbd: Option<RbdJson>,
    azure_disk: Option<in_tree::AzureDisk>,
    cinder: Option<VolumeIdJson>,
    portworx_volume: Option<VolumeIdJson>,
    image: Option<ImageJson>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ImageJson {
    #[serde(deserialize_with = "null_is_empty")]
    reference: Arc<str>,
}

/// One volume of a pod.
#[derive(Debug, PartialEq)]
pub(crate) enum PodVolume {
    /// A claim by name.
    Claim(Arc<str>),
    /// A generic ephemeral volume, by the name of its claim.
    Ephemeral(Arc<str>),
    /// An inline volume.
    Inline {
        /// Set if the pods of a node cannot share it.
        disk: Option<InlineDisk>,
        /// Its identity for attach limits, or why it cannot be translated to CSI.
        attachable: Option<Result<AttachableVolume, String>>,
    },
}

/// A disk that two pods of a node cannot both use, at least not for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InlineDisk {
    Gce { name: Arc<str>, read_only: bool },
    AwsEbs { id: Arc<str> },
    Iscsi { iqn: Arc<str>, read_only: bool },
    Rbd { monitors: Vec<Arc<str>>, pool: Arc<str>, image: Arc<str>, read_only: bool },
}

// === impl VolumeJson ===

impl VolumeJson {
    /// The image reference of an image volume.
    pub(crate) fn image(&self) -> Option<&Arc<str>> {
        self.image.as_ref().map(|image| &image.reference)
    }
}

// === impl PodVolumes ===

impl PodVolumes {
    /// Reads the relevant volumes of a pod; `None` if there are none.
    pub(crate) fn read(volumes: &[VolumeJson], pod: &Arc<str>, uid: &Arc<str>) -> Option<Arc<PodVolumes>> {
        let volumes: Vec<PodVolume> =
            volumes.iter().filter_map(|volume| PodVolume::read(volume, pod)).collect();
        let has_disks =
            volumes.iter().any(|volume| matches!(volume, PodVolume::Inline { disk: Some(_), .. }));
        (!volumes.is_empty())
            .then(|| Arc::new(PodVolumes { pod: pod.clone(), uid: uid.clone(), volumes, has_disks }))
    }

    /// The claims that the pod names, in order, with duplicates.
    pub(crate) fn named_claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.volumes.iter().filter_map(|volume| match volume {
            PodVolume::Claim(claim) => Some(claim),
            PodVolume::Ephemeral(_) | PodVolume::Inline { .. } => None,
        })
    }

    /// All claims, including those of ephemeral volumes, in order, with duplicates.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<str>> {
        self.volumes.iter().filter_map(|volume| match volume {
            PodVolume::Claim(claim) | PodVolume::Ephemeral(claim) => Some(claim),
            PodVolume::Inline { .. } => None,
        })
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = &InlineDisk> {
        self.volumes.iter().filter_map(|volume| match volume {
            PodVolume::Inline { disk, .. } => disk.as_ref(),
            PodVolume::Claim(_) | PodVolume::Ephemeral(_) => None,
        })
    }

    /// Checks that the claim of an ephemeral volume was created for the pod, and returns kube-scheduler's message if
    /// not.
    pub(crate) fn check_owner(&self, claim: &PersistentVolumeClaim) -> Result<(), String> {
        if claim.controller.as_ref() == Some(&self.uid) {
            return Ok(());
        }
        let ClaimKey { namespace, name } = &claim.key;
        Err(format!(
            "PVC {namespace}/{name} was not created for pod {namespace}/{} (pod is not owner)",
            self.pod
        ))
    }

    pub(crate) fn has_disks(&self) -> bool {
        self.has_disks
    }
}

// === impl PodVolume ===

impl PodVolume {
    fn read(json: &VolumeJson, pod: &str) -> Option<PodVolume> {
        if let Some(claim) = &json.persistent_volume_claim {
            return Some(PodVolume::Claim(claim.claim_name.clone()));
        }
        if json.ephemeral.is_some() {
            return Some(PodVolume::Ephemeral(format!("{pod}-{}", json.name).into()));
        }
        let inline = |disk, attachable: Result<AttachableVolume, String>| {
            let attachable = attachable
                .map_err(|error| format!("converting volume({}) from inline to csi: {error}", json.name));
            Some(PodVolume::Inline { disk, attachable: Some(attachable) })
        };
        if let Some(gce) = &json.gce_persistent_disk {
            let disk =
                InlineDisk::Gce { name: gce.pd_name.clone(), read_only: gce.read_only.unwrap_or_default() };
            inline(Some(disk), Ok(InTreePlugin::GcePd.attachable(&in_tree::gce_handle(None, &gce.pd_name))))
        } else if let Some(ebs) = &json.aws_elastic_block_store {
            let handle = in_tree::ebs_handle(&ebs.volume_id);
            let attachable = handle.map(|handle| InTreePlugin::AwsEbs.attachable(&handle));
            inline(Some(InlineDisk::AwsEbs { id: ebs.volume_id.clone() }), attachable)
        } else if let Some(azure) = &json.azure_disk {
            inline(None, azure.handle().map(|handle| InTreePlugin::AzureDisk.attachable(&handle)))
        } else if let Some(cinder) = &json.cinder {
            inline(None, Ok(InTreePlugin::Cinder.attachable(&cinder.volume_id)))
        } else if let Some(portworx) = &json.portworx_volume {
            inline(None, Ok(InTreePlugin::Portworx.attachable(&portworx.volume_id)))
        } else if let Some(IscsiJson { iqn, read_only }) = json.iscsi.clone() {
            let disk = InlineDisk::Iscsi { iqn, read_only: read_only.unwrap_or_default() };
            Some(PodVolume::Inline { disk: Some(disk), attachable: None })
        } else {
            let RbdJson { monitors, pool, image, read_only } = json.rbd.clone()?;
            let (monitors, read_only) = (monitors.unwrap_or_default(), read_only.unwrap_or_default());
            Some(PodVolume::Inline {
                disk: Some(InlineDisk::Rbd { monitors, pool, image, read_only }),
                attachable: None,
            })
        }
    }
}

// === impl InlineDisk ===

impl InlineDisk {
    /// Whether a node cannot have both.
    pub(crate) fn conflicts(&self, other: &InlineDisk) -> bool {
        match (self, other) {
            (InlineDisk::Gce { name: a, read_only: ra }, InlineDisk::Gce { name: b, read_only: rb }) => {
                a == b && !(*ra && *rb)
            }
            (InlineDisk::AwsEbs { id: a }, InlineDisk::AwsEbs { id: b }) => a == b,
            (InlineDisk::Iscsi { iqn: a, read_only: ra }, InlineDisk::Iscsi { iqn: b, read_only: rb }) => {
                a == b && !(*ra && *rb)
            }
            (
                InlineDisk::Rbd { monitors: ma, pool: pa, image: ia, read_only: ra },
                InlineDisk::Rbd { monitors: mb, pool: pb, image: ib, read_only: rb },
            ) => pa == pb && ia == ib && !(*ra && *rb) && ma.iter().any(|monitor| mb.contains(monitor)),
            _ => false,
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimJson {
    #[serde(deserialize_with = "null_is_empty")]
    claim_name: Arc<str>,
}

/// An object of which only the presence matters.
#[derive(Clone, Debug, Deserialize)]
struct Anything {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GceJson {
    #[serde(deserialize_with = "null_is_empty")]
    pd_name: Arc<str>,
    read_only: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct VolumeIdJson {
    #[serde(rename = "volumeID", deserialize_with = "null_is_empty")]
    volume_id: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct IscsiJson {
    #[serde(deserialize_with = "null_is_empty")]
    iqn: Arc<str>,
    read_only: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RbdJson {
    monitors: Option<Vec<Arc<str>>>,
    #[serde(deserialize_with = "null_is_empty")]
    pool: Arc<str>,
    #[serde(deserialize_with = "null_is_empty")]
    image: Arc<str>,
    read_only: Option<bool>,
}

fn null_is_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    Ok(Option::<Arc<str>>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Arc<PodVolumes>> {
        let volumes: Vec<VolumeJson> = serde_json::from_str(json).unwrap();
        PodVolumes::read(&volumes, &"web-1".into(), &"u1".into())
    }

    #[track_caller]
    fn conflict(a: &str, b: &str, expected: bool) {
        let (a, b) = (read(&format!("[{a}]")).unwrap(), read(&format!("[{b}]")).unwrap());
        let conflicts = |a: &PodVolumes, b: &PodVolumes| {
            a.disks().any(|disk| b.disks().any(|other| disk.conflicts(other)))
        };
        assert_eq!(conflicts(&a, &b), expected);
        assert_eq!(conflicts(&b, &a), expected);
    }

    #[test]
    fn irrelevant_volumes_are_left_out() {
        assert_eq!(read(r#"[{"name":"a","emptyDir":{}},{"name":"b","configMap":{"name":"c"}}]"#), None);
        assert_eq!(read(r#"[{"name":"a","azureFile":{"shareName":"s"}}]"#), None);
    }

    #[test]
    fn a_claim_made_for_the_pod_is_named_after_pod_and_volume() {
        let volumes = read(
            r#"[{"name":"tmp","ephemeral":{"volumeClaimTemplate":{}}},{"name":"d","persistentVolumeClaim":{"claimName":"data"}}]"#,
        );
        let volumes = volumes.unwrap();
        assert_eq!(volumes.claims().map(|claim| &**claim).collect::<Vec<_>>(), ["web-1-tmp", "data"]);
        assert_eq!(volumes.named_claims().map(|claim| &**claim).collect::<Vec<_>>(), ["data"]);
    }

    #[test]
    fn gce_disks_may_be_shared_read_only() {
        let written = r#"{"gcePersistentDisk":{"pdName":"d"}}"#;
        let read = r#"{"gcePersistentDisk":{"pdName":"d","readOnly":true}}"#;
        conflict(written, written, true);
        conflict(written, read, true);
        conflict(read, read, false);
        conflict(written, r#"{"gcePersistentDisk":{"pdName":"e"}}"#, false);
        conflict(written, r#"{"awsElasticBlockStore":{"volumeID":"d"}}"#, false);
    }

    #[test]
    fn ebs_disks_may_not_be_shared_at_all() {
        let read = r#"{"awsElasticBlockStore":{"volumeID":"v","readOnly":true}}"#;
        conflict(read, read, true);
        conflict(read, r#"{"awsElasticBlockStore":{"volumeID":"w"}}"#, false);
    }

    #[test]
    fn rbd_images_are_one_if_they_share_a_monitor() {
        let rbd = |monitors: &str, pool: &str, more: &str| {
            format!(r#"{{"rbd":{{"monitors":{monitors},"pool":"{pool}","image":"i"{more}}}}}"#)
        };
        conflict(&rbd(r#"["a","b"]"#, "p", ""), &rbd(r#"["c","b"]"#, "p", ""), true);
        conflict(&rbd(r#"["a"]"#, "p", ""), &rbd(r#"["c"]"#, "p", ""), false);
        conflict(&rbd(r#"["a"]"#, "p", ""), &rbd(r#"["a"]"#, "q", ""), false);
        let read = rbd(r#"["a"]"#, "p", r#","readOnly":true"#);
        conflict(&read, &read, false);
        conflict(&read, &rbd(r#"["a"]"#, "p", ""), true);
    }

    #[test]
    fn iscsi_disks_are_one_if_their_iqn_is() {
        let disk = r#"{"iscsi":{"targetPortal":"t","iqn":"q","lun":1}}"#;
        conflict(disk, r#"{"iscsi":{"targetPortal":"u","iqn":"q","lun":2,"readOnly":true}}"#, true);
        conflict(disk, r#"{"iscsi":{"iqn":"r"}}"#, false);
    }
}
