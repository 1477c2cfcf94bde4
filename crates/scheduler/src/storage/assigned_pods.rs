//! Volumes of assigned pods by node, kept so that filtering a node does not iterate over its pods.

use std::sync::Arc;

use model::NamespacedName;

use super::attachable::{AttachableVolume, VolumeHandle};
use super::in_tree::InTreePlugin;
use super::node_volumes::AttachedVolumes;
use super::objects::{PersistentVolumeClaim, VolumeAttachment};
use super::pod_volumes::{PodVolume, PodVolumes};
use super::read::UnreadableObject;
use super::{StorageCache, VolumeError};
use crate::ids::PodId;

/// An assigned pod and its attached volumes.
#[derive(Debug, PartialEq)]
pub(super) struct AssignedPod {
    node: Arc<str>,
    namespace: Arc<str>,
    volumes: Arc<PodVolumes>,
    attached: AttachedVolumes,
}

/// The pod whose attached volumes are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum VolumeOwner {
    /// An incoming pod, which is rejected if a claim is missing.
    Incoming,
    /// An assigned pod, whose missing claims are ignored.
    Assigned,
}

// === impl StorageCache ===

impl StorageCache {
    /// Adds an assigned pod. Pods without relevant volumes need not be added.
    ///
    /// In kube-scheduler a pod uses its claims only as long as its node exists.
    pub(crate) fn add_pod(
        &mut self,
        pod: PodId,
        node: &Arc<str>,
        namespace: &Arc<str>,
        volumes: &Arc<PodVolumes>,
    ) {
        self.remove_pod(pod);
        for claim in volumes.claims() {
            self.claims
                .entry(NamespacedName::new(namespace.clone(), claim.clone()))
                .or_default()
                .pods
                .insert(pod);
        }
        for claim in volumes.named_claims() {
            self.claims.entry(NamespacedName::new(namespace.clone(), claim.clone())).or_default().mounts += 1;
        }
        let attached = self.attached_volumes(namespace, volumes, VolumeOwner::Assigned, true);
        self.nodes.update(node, |node| node.add_pod(pod, volumes, &attached));
        let (node, namespace, volumes) = (node.clone(), namespace.clone(), volumes.clone());
        self.pods.insert(pod, AssignedPod { node, namespace, volumes, attached });
    }

    /// Removes a pod, if it was added.
    pub(crate) fn remove_pod(&mut self, pod: PodId) {
        let Some(assigned_pod) = self.pods.remove(&pod) else { return };
        self.nodes.update(&assigned_pod.node, |node| node.remove_pod(pod, &assigned_pod.attached));
        let key = |claim: &Arc<str>| NamespacedName::new(assigned_pod.namespace.clone(), claim.clone());
        for claim in assigned_pod.volumes.named_claims() {
            self.update_claim_entry(&key(claim), |entry| entry.mounts -= 1);
        }
        for claim in assigned_pod.volumes.claims() {
            self.update_claim_entry(&key(claim), |entry| entry.pods.remove(&pod));
        }
    }

    /// The node and the volumes of an assigned pod.
    pub(crate) fn assigned_pod(&self, pod: PodId) -> Option<(&Arc<str>, &Arc<PodVolumes>, &AttachedVolumes)> {
        self.pods
            .get(&pod)
            .map(|assigned_pod| (&assigned_pod.node, &assigned_pod.volumes, &assigned_pod.attached))
    }

    /// The attached volumes of a pod, each once, sorted. Inline volumes count only on nodes with a CSINode.
    pub(crate) fn attached_volumes(
        &self,
        namespace: &Arc<str>,
        volumes: &PodVolumes,
        owner: VolumeOwner,
        has_csi_node: bool,
    ) -> AttachedVolumes {
        let mut attached = Vec::new();
        for volume in &volumes.volumes {
            let volume = match volume {
                PodVolume::Claim(name) | PodVolume::Ephemeral(name) => {
                    if name.is_empty() {
                        return Err(VolumeError::Failed("PersistentVolumeClaim had no name".to_owned()));
                    }
                    let claim = match (self.claim(namespace, name), owner) {
                        (Some(Ok(claim)), _) => claim,
                        (Some(Err(error)), _) => return Err(VolumeError::Unreadable(error.clone())),
                        (None, VolumeOwner::Assigned) => continue,
                        (None, VolumeOwner::Incoming) => {
                            let error = VolumeError::claim_not_found(name);
                            return Err(VolumeError::NotFound(format!(
                                "looking up PVC {namespace}/{name}: {error}"
                            )));
                        }
                    };
                    if matches!(volume, PodVolume::Ephemeral(_)) {
                        volumes.check_owner(claim).map_err(VolumeError::Failed)?;
                    }
                    self.attachable(claim).map_err(VolumeError::Unreadable)?
                }
                PodVolume::Inline { attachable: Some(attachable), .. } if has_csi_node => {
                    Some(attachable.clone().map_err(VolumeError::Failed)?)
                }
                PodVolume::Inline { .. } => None,
            };
            attached.extend(volume);
        }
        attached.sort_unstable();
        attached.dedup();
        Ok(attached)
    }

    /// The attached volume of a claim: the one it is bound to, or the one to be provisioned.
    fn attachable(
        &self,
        claim: &PersistentVolumeClaim,
    ) -> Result<Option<AttachableVolume>, Arc<UnreadableObject>> {
        match self.volume(&claim.volume) {
            Some(Ok(volume)) => return Ok(volume.attachable().cloned()),
            Some(Err(error)) => return Err(error.clone()),
            None => {}
        }
        let Some(class) = self.class(&claim.class) else { return Ok(None) };
        let driver =
            InTreePlugin::provisioning_driver(&class.as_ref().map_err(|error| error.clone())?.provisioner);
        let attachable =
            driver.map(|driver| AttachableVolume { driver, handle: VolumeHandle::Claim(claim.key.clone()) });
        Ok(attachable.filter(AttachableVolume::is_counted))
    }

    /// Recomputes the pods that use a claim.
    pub(super) fn refresh_claim(&mut self, claim: &NamespacedName) {
        let users = self.claims.get(claim).map(|entry| entry.pods.clone());
        for pod in users.into_iter().flatten() {
            self.refresh_pod(pod);
        }
    }

    /// Recomputes an attachment.
    pub(super) fn refresh_attachment(&mut self, name: &Arc<str>) {
        let Some(mut entry) = self.attachments.remove(name) else { return };
        let counted = match &entry.attachment {
            Ok(attachment) => self.attachment_volume(attachment),
            Err(error) => Err(error.clone()),
        };
        let old = std::mem::replace(&mut entry.counted, counted);
        match &entry.node {
            Some(node) => self.nodes.update(node, |node| {
                node.remove_attachment(name, &old);
                node.add_attachment(name, &entry.counted);
            }),
            None => {
                let error = entry.counted.as_ref().err();
                self.attachments_without_node.extend(error.map(|error| (name.clone(), error.clone())));
            }
        }
        self.attachments.insert(name.clone(), entry);
    }

    fn refresh_pod(&mut self, pod: PodId) {
        let Some(mut assigned_pod) = self.pods.remove(&pod) else { return };
        let attached = self.attached_volumes(
            &assigned_pod.namespace,
            &assigned_pod.volumes,
            VolumeOwner::Assigned,
            true,
        );
        if attached != assigned_pod.attached {
            self.nodes.update(&assigned_pod.node, |node| {
                node.remove_pod(pod, &assigned_pod.attached);
                node.add_pod(pod, &assigned_pod.volumes, &attached);
            });
            assigned_pod.attached = attached;
        }
        self.pods.insert(pod, assigned_pod);
    }

    /// The volume of an attachment.
    fn attachment_volume(
        &self,
        attachment: &VolumeAttachment,
    ) -> Result<Option<AttachableVolume>, Arc<UnreadableObject>> {
        let volume = attachment.volume.as_ref().filter(|_| !attachment.attacher.is_empty());
        match volume.and_then(|volume| self.volume(volume)) {
            Some(Ok(volume)) => {
                let driver = attachment.attacher.clone();
                let handle = volume.csi.as_ref().map(|csi| csi.handle.clone());
                Ok(handle.map(|handle| AttachableVolume { driver, handle }))
            }
            Some(Err(error)) => Err(error.clone()),
            None => Ok(None),
        }
    }
}
