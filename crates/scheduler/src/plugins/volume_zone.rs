//! VolumeZone: the zones and regions of volumes, which a node must match.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};

use super::registration::{FilterTraits, Registration};
use super::volume_context::{VolumeNode, VolumePod, unreadable_status};
use crate::events::{ClusterEvent, EventObjects, HintContext, TrackedDetails, TrackedObjectKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::status::Status;
use crate::storage::{PersistentVolume, StorageCache, VolumeBindingMode, VolumeError};

pub(crate) const REGISTRATION: Registration =
    Registration::new("VolumeZone", |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter])
        .filter(FilterTraits::CLUSTER)
        .events(&[
            ClusterEvent::NodeAdd,
            ClusterEvent::UpdateNodeLabel,
            ClusterEvent::Add(TrackedObjectKind::PersistentVolumeClaim),
            ClusterEvent::Add(TrackedObjectKind::PersistentVolume),
            ClusterEvent::Add(TrackedObjectKind::StorageClass),
            ClusterEvent::Update(TrackedObjectKind::PersistentVolumeClaim),
            ClusterEvent::Update(TrackedObjectKind::PersistentVolume),
        ])
        .queueing_hint(queueing_hint);

const PLUGIN: Plugin = Plugin::VolumeZone;

/// The volumes of a pod that have topology labels.
#[derive(Clone, Debug)]
pub(crate) struct VolumeZoneState {
    volumes: Vec<Arc<PersistentVolume>>,
}

pub(crate) fn pre_filter(
    pod: VolumePod<'_>,
    storage: &StorageCache,
) -> Result<Option<VolumeZoneState>, Status> {
    let reject = |error: String| Status::unresolvable(PLUGIN, error);
    let mut volumes = Vec::new();
    for name in pod.volumes.named_claims() {
        if name.is_empty() {
            return Err(reject("PersistentVolumeClaim had no name".to_owned()));
        }
        let claim =
            storage.claim(pod.namespace, name).ok_or_else(|| reject(VolumeError::claim_not_found(name)))?;
        let claim = claim.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?;
        if claim.volume.is_empty() {
            if claim.class.is_empty() {
                return Err(reject("PersistentVolumeClaim had no pv name and storageClass name".to_owned()));
            }
            let missing = || reject(format!("storageclass.storage.k8s.io {:?} not found", claim.class));
            let class = storage.class(&claim.class).ok_or_else(missing)?;
            match class.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?.binding_mode {
                Some(VolumeBindingMode::WaitForFirstConsumer) => continue,
                Some(VolumeBindingMode::Immediate) => {
                    return Err(reject("PersistentVolume had no name".to_owned()));
                }
                None => {
                    let class = &claim.class;
                    return Err(reject(format!("VolumeBindingMode not set for StorageClass {class:?}")));
                }
            }
        }
        let missing = || reject(format!("persistentvolume {:?} not found", claim.volume));
        let volume = storage.volume(&claim.volume).ok_or_else(missing)?;
        let volume = volume.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?;
        if !volume.zones.is_empty() {
            volumes.push(volume.clone());
        }
    }
    Ok((!volumes.is_empty()).then_some(VolumeZoneState { volumes }))
}

pub(crate) fn filter(state: &VolumeZoneState, node: &VolumeNode<'_>) -> Result<(), Status> {
    let labels = node.labels;
    // A node without topology labels is in a cluster of one zone.
    let has_no_topology_labels =
        || [BETA_ZONE, BETA_REGION, ZONE, REGION].iter().all(|key| labels.get(key).is_none());
    if state.volumes.iter().all(|volume| is_reachable(volume, labels)) || has_no_topology_labels() {
        return Ok(());
    }
    Err(Status::unresolvable(PLUGIN, "node(s) had no available volume zone"))
}

fn is_reachable(volume: &PersistentVolume, labels: &Labels) -> bool {
    volume.zones.iter().all(|(key, zones)| {
        let node_value = labels.get(key).or_else(|| match *key {
            BETA_ZONE => labels.get(ZONE),
            BETA_REGION => labels.get(REGION),
            _ => None,
        });
        node_value.is_some_and(|node_value| zones.iter().any(|zone| &**zone == node_value))
    })
}

/// A claim of the pod was added or updated, the topology of a volume changed, or a class has `WaitForFirstConsumer`.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let EventObjects::Tracked { old, new } = hint.event.objects else { return true };
    let (Some(own_volumes), Some(object)) = (hint.volumes, new.or(old)) else { return true };
    match (&object.details, old.map(|old| &old.details)) {
        (TrackedDetails::None, _) => hint.names_claim(own_volumes, object),
        (
            TrackedDetails::PersistentVolume { topology_labels },
            Some(TrackedDetails::PersistentVolume { topology_labels: old_labels }),
        ) => topology_labels != old_labels,
        (TrackedDetails::StorageClass { waits_for_consumer, .. }, _) => *waits_for_consumer,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::volume_context::describe;
    use crate::storage::PodVolumes;
    use serde_json::{Value, json};

    const CONFLICT: &str = "VolumeZone UnschedulableAndUnresolvable: node(s) had no available volume zone";

    /// Filters a pod with the claim `a/c` on a node with these labels.
    #[track_caller]
    fn check(objects: &[Value], labels: Value, expected: &str) {
        let storage = StorageCache::of(objects);
        let volumes = PodVolumes::of(json!([{"persistentVolumeClaim": {"claimName": "c"}}]));
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let found = match pre_filter(VolumePod { namespace: &"a".into(), volumes: &volumes }, &storage) {
            Ok(None) => "skipped".to_owned(),
            Ok(Some(state)) => match filter(&state, &VolumeNode::named(&"n".into(), &labels, &storage)) {
                Ok(()) => "fits".to_owned(),
                Err(status) => describe(&status),
            },
            Err(status) => describe(&status),
        };
        assert_eq!(found, expected);
    }

    fn claim(volume: &str, class: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "a", "name": "c"},
            "spec": {"volumeName": volume, "storageClassName": class}})
    }

    fn volume(labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v", "labels": labels}})
    }

    fn class(mode: Value) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
            "volumeBindingMode": mode})
    }

    #[test]
    fn a_node_must_be_in_one_of_the_zones() {
        let objects = [claim("v", ""), volume(json!({ZONE: "z1__z2"}))];
        check(&objects, json!({ZONE: "z2"}), "fits");
        check(&objects, json!({ZONE: "z3"}), CONFLICT);
        check(&objects, json!({REGION: "r"}), CONFLICT);
        check(&objects, json!({"disk": "ssd"}), "fits");
        check(&objects, json!({BETA_ZONE: "z1"}), CONFLICT);
    }

    #[test]
    fn the_old_label_of_a_volume_is_met_by_the_new_one_of_a_node() {
        let objects = [claim("v", ""), volume(json!({BETA_ZONE: "z1"}))];
        check(&objects, json!({ZONE: "z1"}), "fits");
        check(&objects, json!({ZONE: "z1", BETA_ZONE: "z2"}), CONFLICT);
    }

    #[test]
    fn a_zone_list_with_an_empty_part_is_ignored() {
        check(&[claim("v", ""), volume(json!({ZONE: "z1__"}))], json!({ZONE: "z2"}), "skipped");
    }

    #[test]
    fn missing_objects_are_named() {
        let rejected = |objects: &[Value], why: &str| {
            check(objects, json!({}), &format!("VolumeZone UnschedulableAndUnresolvable: {why}"));
        };
        rejected(&[], "persistentvolumeclaim \"c\" not found");
        rejected(&[claim("v", "")], "persistentvolume \"v\" not found");
        rejected(&[claim("", "")], "PersistentVolumeClaim had no pv name and storageClass name");
        rejected(&[claim("", "s")], "storageclass.storage.k8s.io \"s\" not found");
        rejected(&[claim("", "s"), class(json!(null))], "VolumeBindingMode not set for StorageClass \"s\"");
        rejected(&[claim("", "s"), class(json!("Immediate"))], "PersistentVolume had no name");
        check(&[claim("", "s"), class(json!("WaitForFirstConsumer"))], json!({}), "skipped");
        let bad = "PersistentVolume v: metadata.labels: invalid type: integer `3`, expected a map";
        rejected(&[claim("v", ""), volume(json!(3))], bad);
    }
}
