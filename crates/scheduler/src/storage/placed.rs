//! Which pods use which volumes on which nodes, kept so that a question about a node does not go through its pods.

use std::sync::Arc;

use super::attachable::{Attachable, ClaimKey, Handle};
use super::in_tree::InTree;
use super::node_volumes::{Attached, NodeVolumes};
use super::objects::{Attachment, Claim};
use super::pod_volumes::{PodVolume, PodVolumes};
use super::read::Unreadable;
use super::{Storage, Trouble};
use crate::ids::PodId;

/// A pod on a node.
#[derive(Debug, PartialEq)]
pub(super) struct Placed {
    node: Arc<str>,
    namespace: Arc<str>,
    volumes: Arc<PodVolumes>,
    attached: Attached,
}

/// Whose volumes are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Of a pod that is to be placed: it cannot do without its claims.
    New,
    /// Of a pod that has a node: what it claims in vain is not attached.
    Placed,
}

// === impl Storage ===

impl Storage {
    /// A pod is on a node. Pods without volumes that matter need not be told of.
    ///
    /// To kube-scheduler a pod uses its claims only as long as its node exists.
    pub(crate) fn place(
        &mut self,
        pod: PodId,
        node: &Arc<str>,
        namespace: &Arc<str>,
        volumes: &Arc<PodVolumes>,
    ) {
        self.displace(pod);
        for claim in volumes.claims() {
            self.claims.entry(ClaimKey::new(namespace, claim)).or_default().users.insert(pod);
        }
        for claim in volumes.named_claims() {
            self.claims.entry(ClaimKey::new(namespace, claim)).or_default().mounts += 1;
        }
        let attached = self.attached(namespace, volumes, Whose::Placed, true);
        self.change_node(node, |node| node.add_pod(pod, volumes, &attached));
        let (node, namespace, volumes) = (node.clone(), namespace.clone(), volumes.clone());
        self.pods.insert(pod, Placed { node, namespace, volumes, attached });
    }

    /// A pod has left its node. Nothing happens if it was on none.
    pub(crate) fn displace(&mut self, pod: PodId) {
        let Some(placed) = self.pods.remove(&pod) else { return };
        self.change_node(&placed.node, |node| node.remove_pod(pod, &placed.attached));
        let key = |claim| ClaimKey::new(&placed.namespace, claim);
        for claim in placed.volumes.named_claims() {
            self.change_claim(&key(claim), |entry| entry.mounts -= 1);
        }
        for claim in placed.volumes.claims() {
            self.change_claim(&key(claim), |entry| entry.users.remove(&pod));
        }
    }

    /// The node and the volumes of a pod that was placed.
    pub(crate) fn placed(&self, pod: PodId) -> Option<(&Arc<str>, &Arc<PodVolumes>, &Attached)> {
        self.pods.get(&pod).map(|placed| (&placed.node, &placed.volumes, &placed.attached))
    }

    /// What is attached for a pod, each volume once, sorted. Disks named by the pod itself count only on nodes of
    /// which CSI drivers say something.
    pub(crate) fn attached(
        &self,
        namespace: &Arc<str>,
        volumes: &PodVolumes,
        whose: Whose,
        has_csi_node: bool,
    ) -> Attached {
        let mut attached = Vec::new();
        for volume in &volumes.volumes {
            let volume = match volume {
                PodVolume::Claim(name) | PodVolume::Ephemeral(name) => {
                    if name.is_empty() {
                        return Err(Trouble::Failed("PersistentVolumeClaim had no name".to_owned()));
                    }
                    let claim = match (self.claim(namespace, name), whose) {
                        (Some(Ok(claim)), _) => claim,
                        (Some(Err(why)), _) => return Err(Trouble::Unreadable(why.clone())),
                        (None, Whose::Placed) => continue,
                        (None, Whose::New) => {
                            let why = Trouble::no_claim(name);
                            return Err(Trouble::NotFound(format!(
                                "looking up PVC {namespace}/{name}: {why}"
                            )));
                        }
                    };
                    if matches!(volume, PodVolume::Ephemeral(_)) {
                        volumes.check_owns(claim).map_err(Trouble::Failed)?;
                    }
                    self.attachable(claim).map_err(Trouble::Unreadable)?
                }
                PodVolume::Inline { attachable: Some(attachable), .. } if has_csi_node => {
                    Some(attachable.clone().map_err(Trouble::Failed)?)
                }
                PodVolume::Inline { .. } => None,
            };
            attached.extend(volume);
        }
        attached.sort_unstable();
        attached.dedup();
        Ok(attached)
    }

    /// What is attached for a claim: its volume, or the one that will be made.
    fn attachable(&self, claim: &Claim) -> Result<Option<Attachable>, Arc<Unreadable>> {
        match self.volume(&claim.volume) {
            Some(Ok(volume)) => return Ok(volume.attachable().cloned()),
            Some(Err(why)) => return Err(why.clone()),
            None => {}
        }
        let Some(class) = self.class(&claim.class) else { return Ok(None) };
        let driver = InTree::provisioning_driver(&class.as_ref().map_err(|why| why.clone())?.provisioner);
        let attachable = driver.map(|driver| Attachable { driver, handle: Handle::Claim(claim.key.clone()) });
        Ok(attachable.filter(Attachable::counts))
    }

    /// What a claim stands for may have changed.
    pub(super) fn refresh_claim(&mut self, claim: &ClaimKey) {
        let users = self.claims.get(claim).map(|entry| entry.users.clone());
        for pod in users.into_iter().flatten() {
            self.refresh_pod(pod);
        }
    }

    /// What an attachment stands for may have changed.
    pub(super) fn refresh_attachment(&mut self, name: &Arc<str>) {
        let Some(mut entry) = self.attachments.remove(name) else { return };
        let counted = match &entry.known {
            Ok(attachment) => self.attachment_volume(attachment),
            Err(why) => Err(why.clone()),
        };
        let old = std::mem::replace(&mut entry.counted, counted);
        match &entry.node {
            Some(node) => self.change_node(node, |node| {
                node.remove_attachment(name, &old);
                node.add_attachment(name, &entry.counted);
            }),
            None => {
                let why = entry.counted.as_ref().err();
                self.nowhere.extend(why.map(|why| (name.clone(), why.clone())));
            }
        }
        self.attachments.insert(name.clone(), entry);
    }

    /// Changes what is known of a node, and forgets the node if that is nothing.
    pub(super) fn change_node(&mut self, name: &Arc<str>, change: impl FnOnce(&mut NodeVolumes)) {
        let node = self.nodes.entry(name.clone()).or_default();
        change(node);
        if node.is_empty() {
            self.nodes.remove(name);
        }
    }

    fn refresh_pod(&mut self, pod: PodId) {
        let Some(mut placed) = self.pods.remove(&pod) else { return };
        let attached = self.attached(&placed.namespace, &placed.volumes, Whose::Placed, true);
        if attached != placed.attached {
            self.change_node(&placed.node, |node| {
                node.remove_pod(pod, &placed.attached);
                node.add_pod(pod, &placed.volumes, &attached);
            });
            placed.attached = attached;
        }
        self.pods.insert(pod, placed);
    }

    /// What an attachment counts as.
    fn attachment_volume(&self, attachment: &Attachment) -> Result<Option<Attachable>, Arc<Unreadable>> {
        let volume = attachment.volume.as_ref().filter(|_| !attachment.attacher.is_empty());
        match volume.and_then(|volume| self.volume(volume)) {
            Some(Ok(volume)) => {
                let driver = attachment.attacher.clone();
                let handle = volume.csi.as_ref().map(|csi| csi.handle.clone());
                Ok(handle.map(|handle| Attachable { driver, handle }))
            }
            Some(Err(why)) => Err(why.clone()),
            None => Ok(None),
        }
    }
}
