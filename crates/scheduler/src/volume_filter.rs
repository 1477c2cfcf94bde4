//! The filter VolumeBinding by itself, for a scheduler with a cycle of its own.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::objects::PodView;
use model::{Kind, Object};

use super::plugins::volume_binding::{self, VolumeBindingState};
use super::plugins::volume_context::{VolumeNode, VolumePod};
use super::status::Status;
use super::storage::{PodVolumes, StorageCache, StorageKind};

/// Claims, volumes, storage classes and CSI objects, and the filter that reads them. Nothing is reserved.
#[derive(Debug, Default)]
pub struct VolumeFilter {
    storage: StorageCache,
}

/// The claims of a pod, as PreFilter found them.
#[derive(Clone, Debug)]
pub struct PodClaims(VolumeBindingState);

impl VolumeFilter {
    /// Adds an object; one of another kind is ignored. An unreadable one is kept as such: pods that use it are rejected
    /// with its error.
    pub fn add(&mut self, object: &Object) {
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        if let Some(kind) = StorageKind::of(&Kind::new(group, &meta.kind)) {
            let _ = self.storage.apply(kind, object);
        }
    }

    /// PreFilter; `None` if the pod has no claims, so that the filter is skipped.
    pub fn pre_filter(&self, pod: &PodView) -> Result<Option<PodClaims>, Status> {
        let Some(volumes) = PodVolumes::new(&pod.spec.volumes, &pod.name.name, &pod.uid) else {
            return Ok(None);
        };
        let pod = VolumePod { namespace: &pod.name.namespace, volumes: &volumes };
        Ok(volume_binding::pre_filter(pod, &self.storage)?.map(PodClaims))
    }

    /// Filter on a node.
    pub fn filter(&self, claims: &PodClaims, node: &Arc<str>, labels: &Labels) -> Result<(), Status> {
        let node = VolumeNode { name: node, labels, volumes: self.storage.node_by_name(node) };
        volume_binding::filter(&claims.0, &node)
    }
}
