//! The volumes of a pod that are relevant to scheduling.

use std::sync::Arc;

use kubernetes::objects::{IscsiDisk, RbdImage, Volume, VolumeSource};
use model::NamespacedName;

use super::attachable::AttachableVolume;
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

// === impl PodVolumes ===

impl PodVolumes {
    /// The relevant volumes of a pod; `None` if there are none.
    pub(crate) fn new(volumes: &[Volume], pod: &Arc<str>, uid: &Arc<str>) -> Option<Arc<PodVolumes>> {
        let volumes: Vec<PodVolume> =
            volumes.iter().filter_map(|volume| PodVolume::new(volume, pod)).collect();
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
        let NamespacedName { namespace, name } = &claim.key;
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
    fn new(volume: &Volume, pod: &str) -> Option<PodVolume> {
        let inline = |disk, attachable: Result<AttachableVolume, String>| {
            let attachable = attachable
                .map_err(|error| format!("converting volume({}) from inline to csi: {error}", volume.name));
            PodVolume::Inline { disk, attachable: Some(attachable) }
        };
        Some(match &volume.source {
            VolumeSource::PersistentVolumeClaim(claim) => PodVolume::Claim(claim.clone()),
            VolumeSource::Ephemeral => PodVolume::Ephemeral(format!("{pod}-{}", volume.name).into()),
            VolumeSource::GcePersistentDisk(gce) => {
                let disk = InlineDisk::Gce { name: gce.pd_name.clone(), read_only: gce.read_only };
                let handle = in_tree::gce_handle(None, &gce.pd_name);
                inline(Some(disk), Ok(InTreePlugin::GcePd.attachable(&handle)))
            }
            VolumeSource::AwsElasticBlockStore(ebs) => {
                let handle = in_tree::ebs_handle(&ebs.volume_id);
                let attachable = handle.map(|handle| InTreePlugin::AwsEbs.attachable(&handle));
                inline(Some(InlineDisk::AwsEbs { id: ebs.volume_id.clone() }), attachable)
            }
            VolumeSource::AzureDisk(disk) => {
                let handle = in_tree::azure_handle(disk);
                inline(None, handle.map(|handle| InTreePlugin::AzureDisk.attachable(&handle)))
            }
            VolumeSource::Cinder(id) => inline(None, Ok(InTreePlugin::Cinder.attachable(id))),
            VolumeSource::PortworxVolume(id) => inline(None, Ok(InTreePlugin::Portworx.attachable(id))),
            VolumeSource::Iscsi(disk) => PodVolume::Inline { disk: Some(disk.into()), attachable: None },
            VolumeSource::Rbd(image) => PodVolume::Inline { disk: Some(image.into()), attachable: None },
            VolumeSource::Csi(_)
            | VolumeSource::AzureFile
            | VolumeSource::VsphereVolume
            | VolumeSource::HostPath
            | VolumeSource::EmptyDir { .. }
            | VolumeSource::Image(_)
            | VolumeSource::Other => return None,
        })
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

impl From<&IscsiDisk> for InlineDisk {
    fn from(disk: &IscsiDisk) -> InlineDisk {
        InlineDisk::Iscsi { iqn: disk.iqn.clone(), read_only: disk.read_only }
    }
}

impl From<&RbdImage> for InlineDisk {
    fn from(disk: &RbdImage) -> InlineDisk {
        let RbdImage { monitors, pool, image, read_only } = disk.clone();
        InlineDisk::Rbd { monitors, pool, image, read_only }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Arc<PodVolumes>> {
        let volumes: Vec<Volume> = serde_json::from_str(json).unwrap();
        PodVolumes::new(&volumes, &"web-1".into(), &"u1".into())
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
