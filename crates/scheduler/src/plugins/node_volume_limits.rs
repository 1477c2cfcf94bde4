//! NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

use smallvec::SmallVec;

use super::registration::{FilterTraits, Registration};
use super::volume_context::{PodChanges, VolumeNode, VolumePod, unreadable_status};
use crate::events::{ClusterEvent, EventObjects, HintContext, TrackedDetails, TrackedObjectKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Pod;
use crate::status::Status;
use crate::storage::{
    AttachableVolume, LimitedDriver, NodeVolumes, PodVolume, StorageCache, VolumeOwner, VolumeUses,
};

pub(crate) const REGISTRATION: Registration =
    Registration::new("NodeVolumeLimits", |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter])
        .filter(FilterTraits::CLUSTER_AND_PODS)
        .events(&[
            ClusterEvent::AssignedPodDelete,
            ClusterEvent::Add(TrackedObjectKind::PersistentVolumeClaim),
            ClusterEvent::Add(TrackedObjectKind::CsiNode),
            ClusterEvent::Update(TrackedObjectKind::CsiNode),
            ClusterEvent::Delete(TrackedObjectKind::VolumeAttachment),
        ])
        .queueing_hint(queueing_hint);

const PLUGIN: Plugin = Plugin::NodeVolumeLimits;

/// The volumes that must be attached for a pod.
#[derive(Clone, Debug)]
pub(crate) struct NodeVolumeLimitsState {
    /// The result on a node without a CSINode.
    without_csi_node: Result<(), Status>,
    /// The volumes on any other node.
    volumes: Result<Vec<AttachableVolume>, Status>,
    /// The number of volumes by driver, for drivers with a limit on some node.
    drivers: SmallVec<[(LimitedDriver, usize); 2]>,
}

pub(crate) fn pre_filter(pod: VolumePod<'_>, storage: &StorageCache) -> Option<NodeVolumeLimitsState> {
    let needs_attachment = |volume: &PodVolume| !matches!(volume, PodVolume::Inline { attachable: None, .. });
    if !pod.volumes.volumes.iter().any(needs_attachment) {
        return None;
    }
    let attached = |has_csi_node| {
        let attached =
            storage.attached_volumes(pod.namespace, pod.volumes, VolumeOwner::Incoming, has_csi_node);
        attached.map_err(|error| error.to_status(PLUGIN))
    };
    let volumes = attached(true);
    let mut drivers: SmallVec<[(LimitedDriver, usize); 2]> = SmallVec::new();
    for volume in volumes.iter().flatten() {
        match drivers.iter_mut().find(|(driver, _)| driver.attaches(volume)) {
            Some((_, count)) => *count += 1,
            None => drivers.extend(storage.limited_driver(&volume.driver).map(|driver| (driver, 1))),
        }
    }
    Some(NodeVolumeLimitsState { without_csi_node: attached(false).map(drop), volumes, drivers })
}

pub(crate) fn filter(
    state: &NodeVolumeLimitsState,
    node: &VolumeNode<'_>,
    pod_changes: &PodChanges<'_>,
    storage: &StorageCache,
) -> Result<(), Status> {
    let Some((node_volumes, migrated_plugins)) =
        node.volumes.and_then(|node_volumes| Some((node_volumes, node_volumes.migrated_plugins()?)))
    else {
        return state.without_csi_node.clone();
    };
    let volumes = state.volumes.as_ref().map_err(Status::clone)?;
    if volumes.is_empty() {
        return Ok(());
    }
    if let Err(error) = migrated_plugins {
        return Err(unreadable_status(PLUGIN, error));
    }
    if !node_volumes.has_limits() {
        return Ok(());
    }
    let with_changes = NodeVolumesWithChanges::new(node_volumes, node, pod_changes, storage)?;
    for (driver, new) in &state.drivers {
        let Some((limit, attached)) = node_volumes.limit(driver) else { continue };
        let attached = with_changes.attached_count(driver, attached);
        if fits(attached + *new, limit) {
            continue;
        }
        let of_driver = volumes.iter().filter(|volume| driver.attaches(volume));
        let new = of_driver.filter(|volume| with_changes.uses(volume).by_pods == 0).count();
        if new > 0 && !fits(attached + new, limit) {
            return Err(Status::unschedulable(PLUGIN, "node(s) exceed max volume count"));
        }
    }
    Ok(())
}

// === impl NodeVolumeLimitsState ===

impl NodeVolumeLimitsState {
    /// Whether a node has room for all volumes, without regard to those that it has already. If so, the filter passes.
    #[inline]
    pub(crate) fn passes(&self, node: &VolumeNode<'_>, storage: &StorageCache) -> bool {
        let has_room = |node_volumes: &NodeVolumes| {
            self.drivers.iter().all(|(driver, new)| {
                let limit = node_volumes.limit(driver);
                limit.is_none_or(|(limit, attached)| fits(attached + new, limit))
            })
        };
        self.volumes.is_ok()
            && storage.unreadable_attachment().is_none()
            && node.volumes.is_some_and(|node_volumes| node_volumes.is_readable() && has_room(node_volumes))
    }
}

fn fits(volumes: usize, limit: i64) -> bool {
    i64::try_from(volumes).is_ok_and(|volumes| volumes <= limit)
}

/// The volumes attached to a node, with pods added and removed.
struct NodeVolumesWithChanges<'a> {
    node: &'a NodeVolumes,
    /// The change in the number of pods that use a volume, sorted by volume.
    by_pods: Vec<(AttachableVolume, isize)>,
}

// === impl NodeVolumesWithChanges ===

impl<'a> NodeVolumesWithChanges<'a> {
    fn new(
        node_volumes: &'a NodeVolumes,
        node: &VolumeNode<'_>,
        pod_changes: &PodChanges<'_>,
        storage: &StorageCache,
    ) -> Result<NodeVolumesWithChanges<'a>, Status> {
        let error = node_volumes.errors.iter().find(|(pod, _)| !pod_changes.removed.contains(pod));
        if let Some((_, error)) = error {
            return Err(error.to_status(PLUGIN));
        }
        let mut by_pods = Vec::new();
        for pod in pod_changes.removed {
            let Some((node_name, _, Ok(attached))) = storage.assigned_pod(*pod) else { continue };
            let removed = attached.iter().filter(|_| node_name == node.name);
            by_pods.extend(removed.map(|volume| (volume.clone(), -1)));
        }
        for pod in pod_changes.added {
            let attached = storage.attached_volumes(pod.namespace, pod.volumes, VolumeOwner::Assigned, true);
            let added = attached.map_err(|error| error.to_status(PLUGIN))?;
            by_pods.extend(added.into_iter().map(|volume| (volume, 1)));
        }
        by_pods.sort_unstable();
        by_pods.dedup_by(|(later, change), (volume, sum)| {
            let is_same = later == volume;
            *sum += if is_same { *change } else { 0 };
            is_same
        });
        let unreadable = node_volumes.unreadable.values().next().or_else(|| storage.unreadable_attachment());
        unreadable.map_or(Ok(NodeVolumesWithChanges { node: node_volumes, by_pods }), |error| {
            Err(unreadable_status(PLUGIN, error))
        })
    }

    /// The number of volumes of a driver that are in use; `attached` is the number without the changes.
    fn attached_count(&self, driver: &LimitedDriver, attached: usize) -> usize {
        let mut count = attached;
        for (volume, _) in self.by_pods.iter().filter(|(volume, _)| driver.attaches(volume)) {
            match (self.node.uses(volume).is_used(), self.uses(volume).is_used()) {
                (false, true) => count += 1,
                (true, false) => count -= 1,
                _ => {}
            }
        }
        count
    }

    fn uses(&self, volume: &AttachableVolume) -> VolumeUses {
        let uses = self.node.uses(volume);
        let index = self.by_pods.binary_search_by(|(other, _)| other.cmp(volume));
        let change = index.map_or(0, |index| self.by_pods[index].1);
        VolumeUses { by_pods: uses.by_pods.saturating_add_signed(change), ..uses }
    }
}

/// A pod with an attached volume was deleted, a driver's limit grew, or a claim of the pod was added.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { .. } => true,
        EventObjects::Pod { old, volumes, .. } => volumes.is_none_or(|volumes| {
            old.is_some_and(Pod::is_assigned_or_nominated) && volumes.may_be_attached()
        }),
        EventObjects::Tracked { old, new } => {
            let (Some(own_volumes), Some(object)) = (hint.volumes, new.or(old)) else { return true };
            match (&object.details, old.map(|old| &old.details)) {
                (TrackedDetails::None, _) => hint.uses_claim(own_volumes, object),
                (
                    TrackedDetails::CsiNode { limits, .. },
                    Some(TrackedDetails::CsiNode { limits: before, .. }),
                ) => limits.iter().any(|(driver, limit)| *limit > before.get(driver).copied().unwrap_or(0)),
                (TrackedDetails::VolumeAttachment { driver }, _) => own_volumes.may_be_attached_by(driver),
                _ => true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::PodId;
    use crate::plugins::volume_context::describe;
    use crate::storage::PodVolumes;
    use kubernetes::labels::Labels;
    use serde_json::{Value, json};

    const FULL: &str = "NodeVolumeLimits Unschedulable: node(s) exceed max volume count";

    fn csi_node(count: Value) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{"name": "d", "allocatable": {"count": count}}]}})
    }

    /// A claim `a/NAME` and its volume `NAME` of driver `d`.
    fn bound(name: &str) -> [Value; 2] {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "a", "name": name}, "spec": {"volumeName": name}});
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"csi": {"driver": "d", "volumeHandle": name}}});
        [claim, volume]
    }

    fn attachment(node: Value, volume: &str) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "t"},
            "spec": {"nodeName": node, "attacher": "d", "source": {"persistentVolumeName": volume}}})
    }

    fn uses(claim: &str) -> Value {
        json!({"persistentVolumeClaim": {"claimName": claim}})
    }

    /// Filters a pod on node `n` beside other pods.
    #[track_caller]
    fn check(objects: &[Value], placed: &[Value], pod: Value, expected: &str) {
        let mut storage = StorageCache::of(objects);
        let (node, namespace): (Arc<str>, Arc<str>) = ("n".into(), "a".into());
        for (id, volumes) in placed.iter().enumerate() {
            storage.add_pod(PodId(id as u32), &node, &namespace, &PodVolumes::of(json!([volumes])));
        }
        let volumes = PodVolumes::of(pod);
        let found = match pre_filter(VolumePod { namespace: &namespace, volumes: &volumes }, &storage) {
            None => "skipped".to_owned(),
            Some(state) => {
                let labels = Labels::default();
                let view = VolumeNode::named(&node, &labels, &storage);
                match filter(&state, &view, &PodChanges::default(), &storage) {
                    Ok(()) => "fits".to_owned(),
                    Err(status) => describe(&status),
                }
            }
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_volume_that_pods_share_counts_once() {
        let objects = [&bound("x")[..], &bound("y"), &[csi_node(json!(1))]].concat();
        check(&objects, &[], json!([uses("x")]), "fits");
        check(&objects, &[], json!([uses("x"), uses("y")]), FULL);
        check(&objects, &[uses("x")], json!([uses("y")]), FULL);
        check(&objects, &[uses("x")], json!([uses("x")]), "fits");
        let objects = [&bound("x")[..], &bound("y"), &[csi_node(json!(0))]].concat();
        check(&objects, &[uses("x")], json!([uses("x")]), "fits");
    }

    #[test]
    fn a_volume_attachment_counts_even_for_the_same_volume() {
        let objects = [&bound("x")[..], &[csi_node(json!(1)), attachment(json!("n"), "x")]].concat();
        check(&objects, &[], json!([uses("x")]), FULL);
        check(&objects, &[uses("x")], json!([uses("x")]), "fits");
        let elsewhere = [&bound("x")[..], &[csi_node(json!(1)), attachment(json!("m"), "x")]].concat();
        check(&elsewhere, &[], json!([uses("x")]), "fits");
    }

    #[test]
    fn nodes_without_limits_accept_any_number() {
        check(&bound("x"), &[], json!([uses("x")]), "fits");
        check(&[], &[], json!([{"rbd": {}}]), "skipped");
    }

    #[test]
    fn a_missing_claim_is_rejected_on_every_node() {
        let missing = "NodeVolumeLimits UnschedulableAndUnresolvable: looking up PVC a/x: persistentvolumeclaim \"x\" not found";
        check(&[], &[], json!([uses("x")]), missing);
        check(&[csi_node(json!(1))], &[], json!([uses("x")]), missing);
        let objects = [&bound("y")[..], &[csi_node(json!(1))]].concat();
        check(&objects, &[uses("x")], json!([uses("y")]), "fits");
    }

    #[test]
    fn a_volume_that_cannot_be_migrated_is_an_error_on_csi_nodes() {
        let disk = json!({"name": "d", "azureDisk": {"diskURI": "u", "kind": "Dedicated"}});
        let error = "NodeVolumeLimits Error: converting volume(d) from inline to csi: kind(Dedicated) is not supported in csi migration";
        check(&[], &[], json!([disk]), "fits");
        check(&[csi_node(json!(1))], &[], json!([disk]), error);
        let objects = [&bound("x")[..], &[csi_node(json!(1))]].concat();
        check(&objects, &[disk], json!([uses("x")]), error);
    }

    #[test]
    fn an_ephemeral_claim_of_another_pod_is_an_error() {
        let mut claim = bound("p-e");
        let error = "NodeVolumeLimits Error: PVC a/p-e was not created for pod a/p (pod is not owner)";
        let pod = json!([{"name": "e", "ephemeral": {}}]);
        check(&claim, &[], pod.clone(), error);
        claim[0]["metadata"]["ownerReferences"] = json!([{"uid": "x"}, {"uid": "u", "controller": true}]);
        check(&claim, &[], pod, "fits");
    }

    #[test]
    fn unreadable_fields_are_named() {
        let node = "NodeVolumeLimits UnschedulableAndUnresolvable: CSINode n: spec.drivers[0].allocatable.count: \"x\" is not a 32-bit integer";
        check(&[&bound("x")[..], &[csi_node(json!("x"))]].concat(), &[], json!([uses("x")]), node);
        let nowhere = "NodeVolumeLimits UnschedulableAndUnresolvable: VolumeAttachment t: spec.nodeName: 1 is not a string";
        let objects = [&bound("x")[..], &[csi_node(json!(9)), attachment(json!(1), "x")]].concat();
        check(&objects, &[], json!([uses("x")]), nowhere);
        let mut objects = [&bound("x")[..], &bound("y"), &[csi_node(json!(9))]].concat();
        objects[3]["spec"]["csi"]["driver"] = 4.into();
        let volume = "NodeVolumeLimits UnschedulableAndUnresolvable: PersistentVolume y: spec.csi.driver: 4 is not a string";
        check(&objects, &[uses("y")], json!([uses("x")]), volume);
        check(&objects, &[], json!([uses("y")]), volume);
    }
}
