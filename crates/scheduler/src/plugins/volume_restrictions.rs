//! VolumeRestrictions: disks that the pods of a node cannot share, and ReadWriteOncePod claims.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::registration::{FilterTraits, Registration};
use super::volume_context::{PodChanges, VolumeNode, VolumePod, unreadable_status};
use crate::events::{ClusterEvent, EventObjects, HintContext, TrackedObjectKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::status::Status;
use crate::storage::{PodVolumes, StorageCache, VolumeError};

pub(crate) const REGISTRATION: Registration =
    Registration::new("VolumeRestrictions", |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter])
        .filter(
            FilterTraits::CLUSTER_AND_PODS
                .with_missing_state_error(r#"cannot read "PreFilterVolumeRestrictions" from cycleState"#),
        )
        .events(&[
            ClusterEvent::NodeAdd,
            ClusterEvent::AssignedPodDelete,
            ClusterEvent::Add(TrackedObjectKind::PersistentVolumeClaim),
        ])
        .queueing_hint(queueing_hint);

const PLUGIN: Plugin = Plugin::VolumeRestrictions;

/// The PreFilter state of a pod that is not skipped.
#[derive(Clone, Debug)]
pub(crate) struct VolumeRestrictionsState {
    volumes: Arc<PodVolumes>,
    /// The ReadWriteOncePod claims of the pod.
    read_write_once_pod_claims: BTreeSet<Arc<str>>,
    /// The number of them that an assigned pod uses.
    claims_in_use: usize,
}

pub(crate) fn pre_filter(
    pod: VolumePod<'_>,
    storage: &StorageCache,
) -> Result<Option<VolumeRestrictionsState>, Status> {
    let mut own_claims = BTreeSet::new();
    for name in pod.volumes.named_claims() {
        let Some(claim) = storage.claim(pod.namespace, name) else {
            return Err(Status::unresolvable(PLUGIN, VolumeError::claim_not_found(name)));
        };
        let claim = claim.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?;
        if claim.is_read_write_once_pod() {
            own_claims.insert(name.clone());
        }
    }
    let in_use = own_claims.iter().filter(|claim| storage.is_mounted(pod.namespace, claim)).count();
    let is_needed = pod.volumes.has_disks() || in_use > 0;
    Ok(is_needed.then(|| VolumeRestrictionsState {
        volumes: pod.volumes.clone(),
        read_write_once_pod_claims: own_claims,
        claims_in_use: in_use,
    }))
}

pub(crate) fn filter(
    state: &VolumeRestrictionsState,
    node: &VolumeNode<'_>,
    pod_changes: &PodChanges<'_>,
    storage: &StorageCache,
) -> Result<(), Status> {
    if state.volumes.has_disks() && state.has_disk_conflict(node, pod_changes) {
        return Err(Status::unschedulable(PLUGIN, "node(s) had no available disk"));
    }
    if state.is_claim_in_use(pod_changes, storage) {
        return Err(Status::unschedulable(
            PLUGIN,
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
        ));
    }
    Ok(())
}

// === impl VolumeRestrictionsState ===

impl VolumeRestrictionsState {
    fn has_disk_conflict(&self, node: &VolumeNode<'_>, pod_changes: &PodChanges<'_>) -> bool {
        let assigned_volumes = node.volumes.into_iter().flat_map(|volumes| &volumes.disks);
        let assigned_volumes = assigned_volumes
            .filter(|(pod, _)| !pod_changes.removed.contains(pod))
            .map(|(_, volumes)| volumes);
        let mut other_volumes = assigned_volumes.chain(pod_changes.added.iter().map(|pod| pod.volumes));
        other_volumes
            .any(|other| self.volumes.disks().any(|disk| other.disks().any(|other| disk.conflicts(other))))
    }

    /// As in kube-scheduler the claims of added and removed pods are counted by name alone, in any namespace, and as
    /// often as a pod names them.
    fn is_claim_in_use(&self, pod_changes: &PodChanges<'_>, storage: &StorageCache) -> bool {
        if pod_changes.is_empty() || self.read_write_once_pod_claims.is_empty() {
            return self.claims_in_use > 0;
        }
        let uses = |volumes: &PodVolumes| {
            volumes.named_claims().filter(|claim| self.read_write_once_pod_claims.contains(*claim)).count()
        };
        let removed_uses = pod_changes.removed.iter().filter_map(|pod| storage.assigned_pod(*pod));
        let removed_uses: usize = removed_uses.map(|(_, volumes, _)| uses(volumes)).sum();
        let added_uses: usize = pod_changes.added.iter().map(|pod| uses(pod.volumes)).sum();
        self.claims_in_use + added_uses > removed_uses
    }
}

/// A pod with a conflicting disk or claim was deleted, or a claim of the pod was added.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let Some(own) = hint.volumes else { return true };
    match hint.event.objects {
        EventObjects::Node { .. } => true,
        EventObjects::Pod { old, volumes, .. } => {
            let Some(deleted_volumes) = volumes else { return true };
            if old.is_some_and(|deleted_pod| deleted_pod.name.namespace != hint.pod.name.namespace) {
                return false;
            }
            let has_disk_conflict =
                own.disks().any(|own| deleted_volumes.disks().any(|other| own.conflicts(other)));
            has_disk_conflict
                || own.named_claims().any(|own| deleted_volumes.named_claims().any(|other| own == other))
        }
        EventObjects::Tracked { old, new } => new.or(old).is_none_or(|claim| hint.names_claim(own, claim)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PodId;
    use crate::plugins::volume_context::describe;
    use kubernetes::labels::Labels;
    use serde_json::{Value, json};

    const TAKEN: &str = "VolumeRestrictions Unschedulable: node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
    const CONFLICT: &str = "VolumeRestrictions Unschedulable: node(s) had no available disk";

    fn claim(namespace: &str, name: &str, mode: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": name}, "spec": {"accessModes": [mode]}})
    }

    fn uses(claim: &str) -> Value {
        json!({"persistentVolumeClaim": {"claimName": claim}})
    }

    /// Filters a pod in namespace `a` on node `n`, with other pods (by index: 0, 1, …) on their nodes.
    #[track_caller]
    fn check(
        objects: &[Value],
        placed: &[(&str, &str, Value)],
        pod: Value,
        (without, with): (&[u32], &[Value]),
        expected: &str,
    ) {
        let mut storage = StorageCache::of(objects);
        for (id, (node, namespace, volumes)) in placed.iter().enumerate() {
            let volumes = PodVolumes::of(json!([volumes]));
            storage.add_pod(PodId(id as u32), &(*node).into(), &(*namespace).into(), &volumes);
        }
        let (namespace, volumes) = ("a".into(), PodVolumes::of(json!([pod])));
        let without: Vec<PodId> = without.iter().map(|id| PodId(*id)).collect();
        let with: Vec<Arc<PodVolumes>> = with.iter().map(|volume| PodVolumes::of(json!([volume]))).collect();
        let added_pods: Vec<VolumePod<'_>> =
            with.iter().map(|volumes| VolumePod { namespace: &namespace, volumes }).collect();
        let found = pre_filter(VolumePod { namespace: &namespace, volumes: &volumes }, &storage);
        let found = match found {
            Ok(None) => "skipped".to_owned(),
            Ok(Some(state)) => {
                let changes = PodChanges { removed: &without, added: &added_pods };
                let (name, labels) = ("n".into(), Labels::default());
                let node = VolumeNode::named(&name, &labels, &storage);
                match filter(&state, &node, &changes, &storage) {
                    Ok(()) => "fits".to_owned(),
                    Err(status) => describe(&status),
                }
            }
            Err(status) => describe(&status),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_read_write_once_pod_claim_is_in_use_on_any_node() {
        let objects = [claim("a", "c", "ReadWriteOncePod")];
        check(&objects, &[], uses("c"), (&[], &[]), "skipped");
        check(&objects, &[("far", "a", uses("c"))], uses("c"), (&[], &[]), TAKEN);
        check(&objects, &[("far", "b", uses("c"))], uses("c"), (&[], &[]), "skipped");
        let objects = [claim("a", "c", "ReadWriteOnce")];
        check(&objects, &[("far", "a", uses("c"))], uses("c"), (&[], &[]), "skipped");
    }

    #[test]
    fn added_and_removed_pods_count_claims_by_name_alone() {
        let objects = [claim("a", "c", "ReadWriteOncePod")];
        let placed = [("n", "a", uses("c")), ("n", "b", uses("c"))];
        check(&objects, &placed, uses("c"), (&[0], &[]), "fits");
        check(&objects, &placed, uses("c"), (&[1], &[]), "fits");
        check(&objects, &placed, uses("c"), (&[0], &[uses("c")]), TAKEN);
        check(&objects, &placed, uses("c"), (&[], &[uses("d")]), TAKEN);
    }

    #[test]
    fn a_disk_conflicts_only_on_its_node() {
        let disk = || json!({"awsElasticBlockStore": {"volumeID": "v"}});
        check(&[], &[("n", "b", disk())], disk(), (&[], &[]), CONFLICT);
        check(&[], &[("far", "b", disk())], disk(), (&[], &[]), "fits");
        check(&[], &[("n", "b", disk())], disk(), (&[0], &[]), "fits");
        check(&[], &[], disk(), (&[], &[disk()]), CONFLICT);
    }

    #[test]
    fn a_claim_must_exist_and_be_readable() {
        let missing =
            "VolumeRestrictions UnschedulableAndUnresolvable: persistentvolumeclaim \"c\" not found";
        check(&[], &[], uses("c"), (&[], &[]), missing);
        let bad = "VolumeRestrictions UnschedulableAndUnresolvable: PersistentVolumeClaim a/c: spec.accessModes: invalid type: integer `1`, expected a sequence";
        let mut claim = claim("a", "c", "");
        claim["spec"]["accessModes"] = 1.into();
        check(&[claim], &[], uses("c"), (&[], &[]), bad);
    }
}
