//! Storage of the recorded cluster that nothing in the target may lead to. `REAL` stands in all that names it.

use serde_json::{Value, json};

use super::super::*;
use super::{at, given, seen, with};
use crate::applying::RUN;

/// All sources that PersistentVolumes have, by the API of Kubernetes 1.36.
fn volume_sources() -> Vec<(&'static str, Value)> {
    let secret = || json!({"name": "REAL", "namespace": "REAL"});
    vec![
        (
            "csi",
            json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-REAL", "fsType": "ext4", "readOnly": true,
                "volumeAttributes": {"share": "REAL"}, "nodeStageSecretRef": secret(), "nodePublishSecretRef": secret(),
                "controllerPublishSecretRef": secret(), "controllerExpandSecretRef": secret(),
                "nodeExpandSecretRef": secret()}),
        ),
        ("awsElasticBlockStore", json!({"volumeID": "aws://a/vol-REAL", "fsType": "ext4", "partition": 1})),
        ("gcePersistentDisk", json!({"pdName": "REAL", "partition": 1})),
        (
            "azureDisk",
            json!({"diskName": "REAL", "kind": "Managed",
                "diskURI": "/subscriptions/REAL/resourceGroups/g/providers/Microsoft.Compute/disks/d"}),
        ),
        ("azureFile", json!({"secretName": "REAL", "secretNamespace": "REAL", "shareName": "REAL"})),
        ("cinder", json!({"volumeID": "REAL", "secretRef": secret()})),
        (
            "vsphereVolume",
            json!({"volumePath": "[REAL] a.vmdk", "storagePolicyName": "REAL", "fsType": "ext4"}),
        ),
        (
            "rbd",
            json!({"monitors": ["REAL:6789", "REAL-2:6789"], "image": "REAL", "pool": "rbd", "user": "REAL",
                "keyring": "/REAL", "secretRef": secret()}),
        ),
        (
            "cephfs",
            json!({"monitors": ["REAL:6789"], "path": "/REAL", "user": "REAL", "secretRef": secret()}),
        ),
        ("glusterfs", json!({"endpoints": "REAL", "endpointsNamespace": "REAL", "path": "REAL"})),
        (
            "iscsi",
            json!({"targetPortal": "REAL:3260", "portals": ["REAL:3261"], "iqn": "iqn.2015-02.example:REAL", "lun": 3,
                "chapAuthSession": true, "initiatorName": "iqn.2015-02.example:REAL", "secretRef": secret()}),
        ),
        ("fc", json!({"targetWWNs": ["REAL"], "lun": 3})),
        ("nfs", json!({"server": "REAL", "path": "/REAL", "readOnly": true})),
        ("portworxVolume", json!({"volumeID": "REAL"})),
        (
            "scaleIO",
            json!({"gateway": "https://REAL", "system": "REAL", "volumeName": "REAL", "protectionDomain": "REAL",
                "storagePool": "REAL", "secretRef": secret()}),
        ),
        ("storageos", json!({"volumeName": "REAL", "volumeNamespace": "REAL", "secretRef": secret()})),
        ("quobyte", json!({"registry": "REAL:1,REAL:2", "volume": "REAL", "tenant": "REAL", "user": "REAL"})),
        ("photonPersistentDisk", json!({"pdID": "REAL", "fsType": "ext4"})),
        ("flexVolume", json!({"driver": "x/REAL", "options": {"id": "REAL"}, "secretRef": secret()})),
        ("flocker", json!({"datasetUUID": "REAL"})),
        ("hostPath", json!({"path": "/REAL", "type": "Directory"})),
        ("local", json!({"path": "/REAL"})),
    ]
}

/// Those of pods: without `local`, and with CSI and git as they are there.
fn pod_sources() -> Vec<(&'static str, Value)> {
    let mut sources = volume_sources();
    sources.retain(|(name, _)| !["local", "csi"].contains(name));
    sources.push((
        "csi",
        json!({"driver": "file.csi.REAL", "volumeAttributes": {"server": "REAL"}, "nodePublishSecretRef": {"name": "REAL"}}),
    ));
    sources.push(("gitRepo", json!({"repository": "https://REAL/x.git", "revision": "REAL"})));
    sources
}

fn volume(source: &str, of: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v", "uid": "v",
        "finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"],
        "annotations": {"pv.kubernetes.io/provisioned-by": "REAL", "pv.kubernetes.io/migrated-to": "REAL",
            "volume.kubernetes.io/provisioner-deletion-secret-name": "REAL",
            "volume.kubernetes.io/provisioner-deletion-secret-namespace": "REAL", "kept": "yes"}},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], source: of,
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast"}})
}

fn shaped(manner: Manner, object: &Value) -> Value {
    given(manner, object).unwrap().1
}

#[test]
fn no_volume_leads_to_recorded_storage_or_is_reclaimed() {
    for (name, source) in volume_sources() {
        let object = shaped(Manner::default(), &volume(name, &source));
        assert!(!object.to_string().contains("REAL"), "{name}: {object}");
        assert!(object["spec"][name].is_object(), "{name}: {object}");
        assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{name}");
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}), "{name}");
        assert_eq!(object["metadata"].get("finalizers"), None, "{name}");
        // Two volumes of one disk are still of one, and others of others.
        let other: Value = serde_json::from_str(&source.to_string().replace("REAL", "REAL2")).unwrap();
        assert_eq!(shaped(Manner::default(), &volume(name, &source)), object, "{name}");
        assert_ne!(shaped(Manner::default(), &volume(name, &other)), object, "{name}");
    }
    let csi = shaped(Manner::default(), &volume("csi", &volume_sources()[0].1));
    assert_eq!(csi["spec"]["csi"]["driver"], "ebs.csi.aws.com");
    let unknown = volume("newest", &json!({"handle": "REAL"}));
    assert_eq!(given(Manner::default(), &unknown), None);
}

#[test]
fn handles_are_kept_where_that_is_asked_for_but_nothing_is_reclaimed() {
    let manner = || Manner { keep_volume_handles: true, ..Manner::default() };
    for (name, source) in volume_sources() {
        let object = shaped(manner(), &volume(name, &source));
        assert_eq!(object["spec"][name], source, "{name}");
        assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{name}");
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}), "{name}");
    }
}

#[test]
fn a_change_of_a_volume_tells_no_handle_either() {
    let mut transplant = Transplant::default();
    let first = volume("csi", &volume_sources()[0].1);
    assert_eq!(seen(&mut transplant, 1, What::Added, &first).len(), 1);
    let second = with(&first, "/spec/csi/volumeHandle", json!("vol-REAL-too"));
    let second =
        with(&second, "/metadata/annotations", json!({"pv.kubernetes.io/provisioned-by": "REAL-too"}));
    let second = with(&second, "/spec/persistentVolumeReclaimPolicy", json!("Recycle"));
    let deeds = seen(&mut transplant, 2, What::Modified, &second);
    assert!(!format!("{deeds:?}").contains("REAL") && !format!("{deeds:?}").contains("Recycle"), "{deeds:?}");
}

#[test]
fn no_pod_names_recorded_storage_wherever_it_is_described() {
    let spec = |name: &str, source: &Value| {
        json!({"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "inner", "configMap": {"name": "kept"}},
            {"name": "v", name: source}]})
    };
    let within = |kind: &str, spec: Value| match kind {
        "Deployment" => json!({"template": {"spec": spec}}),
        "CronJob" => json!({"jobTemplate": {"spec": {"template": {"spec": spec}}}}),
        _ => spec,
    };
    let kinds = [("v1", "Pod"), ("apps/v1", "Deployment"), ("batch/v1", "CronJob")];
    let manner = || Manner { level: Level::Workloads, ..Manner::default() };
    for (version, kind) in kinds {
        for (name, source) in pod_sources() {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "shop"},
                "spec": within(kind, spec(name, &source))});
            let given = shaped(manner(), &object).to_string();
            assert!(!given.contains("REAL"), "{kind} {name}: {given}");
            assert!(
                given.contains(&format!(r#""{name}":{{"#)) && given.contains("kept"),
                "{kind} {name}: {given}"
            );
            let kept = shaped(Manner { keep_volume_handles: true, ..manner() }, &object);
            assert_eq!(kept["spec"], object["spec"], "{kind} {name}");
        }
    }
    let unknown = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
        "spec": spec("newest", &json!({"handle": "REAL"}))});
    assert_eq!(shaped(manner(), &unknown)["spec"]["volumes"][1], json!({"name": "v", "emptyDir": {}}));
}

#[test]
fn nobody_makes_disks_for_replayed_claims() {
    let class = |provisioner: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": provisioner, "reclaimPolicy": "Delete", "parameters": {"type": "gp3"},
            "volumeBindingMode": "WaitForFirstConsumer"})
    };
    let object = shaped(Manner::default(), &class("ebs.csi.aws.com"));
    let expected = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "replay.kinescope.io/no-provisioner", "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer"});
    assert_eq!(object, expected);
    let by_hand = class("kubernetes.io/no-provisioner");
    assert_eq!(shaped(Manner::default(), &by_hand), by_hand);
    let allowed = Manner { allow_external_effects: true, ..Manner::default() };
    assert_eq!(shaped(allowed, &class("ebs.csi.aws.com")), class("ebs.csi.aws.com"));
}

#[test]
fn claims_are_bound_to_volumes_of_the_run_alone() {
    let manner = || Manner { run: "prod".to_owned(), level: Level::Workloads, ..Manner::default() };
    let marks = json!({"volume.beta.kubernetes.io/storage-provisioner": "REAL",
        "volume.kubernetes.io/storage-provisioner": "REAL", "volume.kubernetes.io/storage-resizer": "REAL"});
    let claim = || {
        json!({"metadata": {"name": "data", "annotations": marks}, "spec": {"storageClassName": "fast",
            "selector": {"matchLabels": {"a": "b"}}, "dataSource": {"kind": "VolumeSnapshot", "name": "REAL"},
            "dataSourceRef": {"kind": "VolumeSnapshot", "name": "REAL"}}})
    };
    let mut alone = claim();
    alone["apiVersion"] = "v1".into();
    alone["kind"] = "PersistentVolumeClaim".into();
    alone["metadata"]["namespace"] = "shop".into();
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"volumeClaimTemplates": [claim()], "template": {"spec": {"volumes": [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim()}}]}}}});
    let (alone, set) = (shaped(manner(), &alone), shaped(manner(), &set));
    let ephemeral = "/spec/template/spec/volumes/0/ephemeral/volumeClaimTemplate";
    for claim in [&alone, &set["spec"]["volumeClaimTemplates"][0], set.pointer(ephemeral).unwrap()] {
        let expected =
            json!({"storageClassName": "fast", "selector": {"matchLabels": {"a": "b", RUN: "prod"}}});
        assert_eq!((&claim["spec"], &claim["metadata"]["annotations"]), (&expected, &json!({})));
    }
    // What a StatefulSet makes has no owner: `clean` finds it by its label.
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"], json!({RUN: "prod"}));
}

#[test]
fn nodes_do_not_tell_which_instances_and_disks_they_were() {
    let node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-REAL", "allocatable": {"count": 25}}]}});
    let node = shaped(Manner::default(), &node);
    assert!(!node.to_string().contains("REAL"), "{node}");
    assert_eq!(node["spec"]["drivers"][0]["allocatable"]["count"], 25);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {},
        "status": {"volumesAttached": [{"name": "REAL"}], "volumesInUse": ["REAL"], "capacity": {"cpu": "4"}}});
    let deeds = Transplant::default().begin(at(0), [super::parsed(&node)]);
    let [Deed { doing: Doing::Create { object }, .. }] = &deeds[..] else { panic!("{deeds:?}") };
    assert_eq!(object["status"], json!({"capacity": {"cpu": "4"}}));
}
