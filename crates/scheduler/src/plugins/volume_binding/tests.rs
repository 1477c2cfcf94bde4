//! Tests of VolumeBinding on one node.

use serde_json::{Value, json};

use super::*;
use crate::VolumeChange;
use crate::plugins::volume_context::describe;
use crate::storage::PodVolumes;

fn claim(name: &str, size: &str, more: Value) -> Value {
    let mut spec = json!({"storageClassName": "s", "resources": {"requests": {"storage": size}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec,
        "metadata": {"namespace": "a", "name": name, "uid": name}})
}

/// A claim that is bound to the volume.
fn bound(name: &str, volume: &str) -> Value {
    let mut claim = claim(name, "1", json!({"volumeName": volume}));
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim
}

fn volume(name: &str, size: &str, more: Value) -> Value {
    let mut spec = json!({"storageClassName": "s", "capacity": {"storage": size}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec,
        "status": {"phase": "Available"}})
}

fn class(provisioner: &str, mode: Value) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
        "provisioner": provisioner, "volumeBindingMode": mode})
}

fn local() -> Value {
    class("kubernetes.io/no-provisioner", json!("WaitForFirstConsumer"))
}

/// Node affinity to the host of that name.
fn on(host: &str) -> Value {
    let host = json!({"key": "host", "operator": "In", "values": [host]});
    json!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}}})
}

/// Filters a pod with these claims on node `n`, which has the label `host=n`, and compares the reservation.
#[track_caller]
fn check(objects: &[Value], claims: &[&str], expected: &str) {
    let claims: Vec<Value> =
        claims.iter().map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}})).collect();
    assert_eq!(reserve_on_node(&mut StorageCache::of(objects), json!(claims)), expected);
}

fn reserve_on_node(storage: &mut StorageCache, volumes: Value) -> String {
    let labels: Labels = serde_json::from_value(json!({"host": "n"})).unwrap();
    let name = "n".into();
    let node = VolumeNode::named(&name, &labels, storage);
    let volumes = PodVolumes::of(volumes);
    let state = match pre_filter(VolumePod { namespace: &"a".into(), volumes: &volumes }, storage) {
        Ok(None) => return "skipped".to_owned(),
        Ok(Some(state)) => state,
        Err(status) => return describe(&status),
    };
    if let Err(status) = filter(&state, &node) {
        return describe(&status);
    }
    let reservation = reserve(&state, &node).unwrap();
    storage.assume(&reservation);
    let changes = reservation.changes().into_iter().map(|change| match change {
        VolumeChange::Bind { claim, volume } => format!("{claim}={volume}"),
        VolumeChange::Provision { claim, node } => format!("{claim}@{node}"),
    });
    format!("fits {}", changes.collect::<Vec<_>>().join(" "))
}

const NONE: &str =
    "VolumeBinding UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind";

#[test]
fn the_smallest_matching_volume_is_bound_and_of_equals_the_first_by_name() {
    let volumes =
        [volume("d", "3Gi", json!({})), volume("c", "2Gi", json!({})), volume("b", "2048Mi", json!({}))];
    let objects = [&volumes[..], &[local(), claim("x", "1500Mi", json!({}))]].concat();
    check(&objects, &["x"], "fits x=b");
    check(&[local(), claim("x", "4Gi", json!({})), volumes[0].clone()], &["x"], NONE);
}

#[test]
fn the_claim_with_the_smallest_request_is_matched_first() {
    let objects = [
        local(),
        claim("large", "2Gi", json!({})),
        claim("small", "1Gi", json!({})),
        volume("a", "2Gi", json!({})),
        volume("b", "3Gi", json!({})),
    ];
    check(&objects, &["large", "small"], "fits small=a large=b");
}

#[test]
fn the_next_pod_sees_assumed_bindings() {
    let objects = [
        local(),
        claim("x", "1Gi", json!({})),
        claim("y", "1Gi", json!({})),
        volume("a", "1Gi", json!({})),
        volume("b", "2Gi", json!({})),
    ];
    let mut storage = StorageCache::of(&objects);
    let uses = |claim: &str| json!([{"persistentVolumeClaim": {"claimName": claim}}]);
    assert_eq!(reserve_on_node(&mut storage, uses("x")), "fits x=a");
    assert_eq!(reserve_on_node(&mut storage, uses("y")), "fits y=b");
    assert_eq!(reserve_on_node(&mut storage, uses("x")), "fits x=a", "the volume is for this claim now");
}

#[test]
fn a_pre_bound_volume_is_used_or_none() {
    let own = |host: &str| {
        let mut more = on(host);
        more["claimRef"] = json!({"namespace": "a", "name": "x"});
        volume("own", "5Gi", more)
    };
    let other_objects = [local(), claim("x", "1Gi", json!({})), volume("a", "1Gi", json!({}))];
    check(&[&other_objects[..], &[own("n")]].concat(), &["x"], "fits x=own");
    check(&[&other_objects[..], &[own("m")]].concat(), &["x"], NONE);
    let other = volume("a", "1Gi", json!({"claimRef": {"namespace": "b", "name": "x"}}));
    check(&[local(), claim("x", "1Gi", json!({})), other], &["x"], NONE);
}

#[test]
fn a_volume_must_match_the_claim() {
    let fits = |claim_spec: Value, volume_spec: Value, phase: &str| {
        let mut volume = volume("v", "1Gi", volume_spec);
        volume["status"]["phase"] = phase.into();
        let mut storage = StorageCache::of(&[local(), claim("x", "1Gi", claim_spec), volume]);
        reserve_on_node(&mut storage, json!([{"persistentVolumeClaim": {"claimName": "x"}}]))
            .starts_with("fits")
    };
    assert!(fits(json!({}), json!({}), "Available"));
    assert!(!fits(json!({}), json!({}), "Released"));
    assert!(!fits(json!({}), on("m"), "Available"));
    assert!(!fits(json!({"volumeMode": "Block"}), json!({}), "Available"));
    assert!(fits(json!({"volumeMode": "Filesystem"}), json!({}), "Available"));
    assert!(!fits(json!({"volumeAttributesClassName": "g"}), json!({}), "Available"));
    assert!(!fits(json!({"selector": {"matchLabels": {"t": "a"}}}), json!({}), "Available"));
    let modes = json!({"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]});
    assert!(fits(json!({"accessModes": ["ReadOnlyMany"]}), modes.clone(), "Available"));
    assert!(!fits(json!({"accessModes": ["ReadWriteMany"]}), modes, "Available"));
}

#[test]
fn a_claim_without_a_matching_volume_is_provisioned() {
    let wait = || class("d", json!("WaitForFirstConsumer"));
    check(&[wait(), claim("x", "1Gi", json!({}))], &["x"], "fits x@n");
    let mut with_selected_node = claim("x", "1Gi", json!({}));
    with_selected_node["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "n"});
    let available_volume = volume("v", "1Gi", json!({}));
    check(&[wait(), with_selected_node.clone(), available_volume.clone()], &["x"], "fits x@n");
    with_selected_node["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "m"});
    check(&[wait(), with_selected_node, available_volume], &["x"], NONE);
    let mut elsewhere = wait();
    elsewhere["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": "host", "values": ["m"]}]}, {}]);
    check(&[elsewhere, claim("x", "1Gi", json!({}))], &["x"], NONE);
}

#[test]
fn a_driver_that_tracks_capacity_must_have_enough() {
    let driver = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"},
        "spec": {"storageCapacity": true}});
    let storage_capacity = |capacity: Value| {
        let mut storage_capacity = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
            "metadata": {"namespace": "k", "name": "k"}, "storageClassName": "s"});
        storage_capacity.as_object_mut().unwrap().extend(capacity.as_object().unwrap().clone());
        storage_capacity
    };
    let check_capacity = |capacity: Value, expected: &str| {
        let class = class("d", json!("WaitForFirstConsumer"));
        let objects = [driver.clone(), class, claim("x", "2Gi", json!({})), storage_capacity(capacity)];
        check(&objects, &["x"], expected);
    };
    let full = "VolumeBinding UnschedulableAndUnresolvable: node(s) did not have enough free storage";
    check_capacity(json!({"nodeTopology": {}, "capacity": "2Gi"}), "fits x@n");
    check_capacity(json!({"nodeTopology": {}, "capacity": "1Gi"}), full);
    check_capacity(json!({"nodeTopology": {}, "capacity": "9Gi", "maximumVolumeSize": "1Gi"}), full);
    check_capacity(json!({"capacity": "9Gi"}), full);
    check_capacity(json!({"nodeTopology": {"matchLabels": {"host": "m"}}, "capacity": "9Gi"}), full);
    let bad = "VolumeBinding UnschedulableAndUnresolvable: CSIStorageCapacity k/k: capacity: invalid type: boolean `true`, expected a quantity such as \"500m\" or 2";
    check_capacity(json!({"nodeTopology": {}, "capacity": true}), bad);
}

#[test]
fn reasons_are_in_kube_schedulers_order() {
    let waiting =
        [class("kubernetes.io/no-provisioner", json!("WaitForFirstConsumer")), claim("x", "1Gi", json!({}))];
    let objects = [&waiting[..], &[bound("far", "v"), volume("v", "1", on("m"))]].concat();
    check(
        &objects,
        &["far", "x"],
        "VolumeBinding UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity, node(s) didn't find available persistent volumes to bind",
    );
    let objects = [&waiting[..], &[bound("lost", "w")]].concat();
    check(
        &objects,
        &["lost", "x"],
        "VolumeBinding UnschedulableAndUnresolvable: node(s) didn't find available persistent volumes to bind, node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
    );
}

#[test]
fn immediate_claims_must_be_bound() {
    let rejected = |objects: &[Value], why: &str| check(objects, &["x"], &format!("VolumeBinding {why}"));
    let immediate = "UnschedulableAndUnresolvable: pod has unbound immediate PersistentVolumeClaims";
    rejected(&[claim("x", "1", json!({})), class("d", json!("Immediate"))], immediate);
    rejected(&[claim("x", "1", json!({}))], immediate);
    rejected(&[claim("x", "1", json!({"volumeName": "v"})), local()], immediate);
    let unset = "Error: VolumeBindingMode not set for StorageClass \"s\"";
    rejected(&[claim("x", "1", json!({})), class("d", json!(null))], unset);
    rejected(&[], "UnschedulableAndUnresolvable: persistentvolumeclaim \"x\" not found");
    let mut lost = claim("x", "1", json!({"volumeName": "v"}));
    lost["status"] = json!({"phase": "Lost"});
    rejected(
        &[lost],
        "UnschedulableAndUnresolvable: persistentvolumeclaim \"x\" bound to non-existent persistentvolume \"v\"",
    );
    let mut deleting = claim("x", "1", json!({}));
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    rejected(&[deleting], "UnschedulableAndUnresolvable: persistentvolumeclaim \"x\" is being deleted");
}

#[test]
fn an_ephemeral_claim_must_be_owned_by_the_pod() {
    let pod = json!([{"name": "e", "ephemeral": {}}]);
    let rejected = |objects: &[Value], why: &str| {
        let expected = format!("VolumeBinding UnschedulableAndUnresolvable: {why}");
        assert_eq!(reserve_on_node(&mut StorageCache::of(objects), pod.clone()), expected);
    };
    rejected(&[], "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-e\"");
    rejected(&[claim("p-e", "1", json!({}))], "PVC a/p-e was not created for pod a/p (pod is not owner)");
}

#[test]
fn a_migrated_volume_has_its_drivers_topology() {
    let mut disk = volume("v", "1", json!({"cinder": {"volumeID": "c"}}));
    disk["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "z"});
    let csi_node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {"name": "n", "annotations": {
            "storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/aws-ebs,kubernetes.io/cinder"}}});
    check(&[bound("x", "v"), disk.clone()], &["x"], "fits ");
    let conflict =
        "VolumeBinding UnschedulableAndUnresolvable: node(s) didn't match PersistentVolume's node affinity";
    check(&[bound("x", "v"), disk, csi_node.clone()], &["x"], conflict);
    let odd = volume("v", "1", json!({"awsElasticBlockStore": {"volumeID": "aws://z/x"}}));
    let error = "VolumeBinding Error: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/x)";
    check(&[bound("x", "v"), odd, csi_node], &["x"], error);
}

#[test]
fn unreadable_fields_are_named() {
    let bad = "VolumeBinding UnschedulableAndUnresolvable: PersistentVolume v: spec.capacity.storage: invalid quantity \"x\": not a number followed by a suffix; expected a number with an optional suffix, such as 500m, 1.5Gi or 12e6";
    check(&[local(), claim("x", "1Gi", json!({})), volume("v", "x", json!({}))], &["x"], bad);
    check(&[bound("x", "v"), volume("v", "x", json!({}))], &["x"], bad);
    let other = volume("v", "x", json!({"storageClassName": "t"}));
    check(&[local(), claim("x", "1Gi", json!({})), other], &["x"], NONE);
    let selector = json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Like"}]}});
    let error = "VolumeBinding Error: error creating internal label selector for claim: a/x: invalid selector: unknown operator \"Like\": expected In, NotIn, Exists, DoesNotExist (matchExpressions[0])";
    check(&[local(), claim("x", "1Gi", selector)], &["x"], error);
}
