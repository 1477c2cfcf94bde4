//! Tests that nothing in the target leads to the recorded cluster's storage. `REAL` marks every name of it.

use serde_json::{Value, json};

use super::super::*;
use super::{at, created, translate, with};
use crate::apply::RUN_LABEL;

/// All volume sources of PersistentVolumes, by the API of Kubernetes 1.36.
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

/// The volume sources of pods: without `local`, and with the CSI and git sources of pods.
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

fn transformed(options: TranslateOptions, object: &Value) -> Value {
    created(options, object).unwrap().1
}

#[test]
fn no_volume_refers_to_recorded_storage_or_is_reclaimed() {
    for (name, source) in volume_sources() {
        let object = transformed(TranslateOptions::default(), &volume(name, &source));
        assert!(!object.to_string().contains("REAL"), "{name}: {object}");
        assert!(object["spec"][name].is_object(), "{name}: {object}");
        assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{name}");
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}), "{name}");
        assert_eq!(object["metadata"].get("finalizers"), None, "{name}");
        // Volumes of the same disk still share one, and others do not.
        let other: Value = serde_json::from_str(&source.to_string().replace("REAL", "REAL2")).unwrap();
        assert_eq!(transformed(TranslateOptions::default(), &volume(name, &source)), object, "{name}");
        assert_ne!(transformed(TranslateOptions::default(), &volume(name, &other)), object, "{name}");
    }
    let csi = transformed(TranslateOptions::default(), &volume("csi", &volume_sources()[0].1));
    assert_eq!(csi["spec"]["csi"]["driver"], "ebs.csi.aws.com");
    let unknown = volume("newest", &json!({"handle": "REAL"}));
    assert_eq!(created(TranslateOptions::default(), &unknown), None);
}

#[test]
fn handles_are_kept_on_request_but_nothing_is_reclaimed() {
    let options = || TranslateOptions { keep_volume_handles: true, ..TranslateOptions::default() };
    for (name, source) in volume_sources() {
        let object = transformed(options(), &volume(name, &source));
        assert_eq!(object["spec"][name], source, "{name}");
        assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{name}");
        assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}), "{name}");
    }
}

#[test]
fn a_patch_of_a_volume_contains_no_handle() {
    let mut translator = Translator::default();
    let first = volume("csi", &volume_sources()[0].1);
    assert_eq!(translate(&mut translator, 1, What::Added, &first).len(), 1);
    let second = with(&first, "/spec/csi/volumeHandle", json!("vol-REAL-too"));
    let second =
        with(&second, "/metadata/annotations", json!({"pv.kubernetes.io/provisioned-by": "REAL-too"}));
    let second = with(&second, "/spec/persistentVolumeReclaimPolicy", json!("Recycle"));
    let operations = translate(&mut translator, 2, What::Modified, &second);
    assert!(
        !format!("{operations:?}").contains("REAL") && !format!("{operations:?}").contains("Recycle"),
        "{operations:?}"
    );
}

#[test]
fn no_pod_or_pod_template_refers_to_recorded_storage() {
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
    let options = || TranslateOptions { level: AppliedLevel::Workloads, ..TranslateOptions::default() };
    for (version, kind) in kinds {
        for (name, source) in pod_sources() {
            let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "shop"},
                "spec": within(kind, spec(name, &source))});
            let given = transformed(options(), &object).to_string();
            assert!(!given.contains("REAL"), "{kind} {name}: {given}");
            assert!(
                given.contains(&format!(r#""{name}":{{"#)) && given.contains("kept"),
                "{kind} {name}: {given}"
            );
            let kept = transformed(TranslateOptions { keep_volume_handles: true, ..options() }, &object);
            assert_eq!(kept["spec"], object["spec"], "{kind} {name}");
        }
    }
    let unknown = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
        "spec": spec("newest", &json!({"handle": "REAL"}))});
    assert_eq!(transformed(options(), &unknown)["spec"]["volumes"][1], json!({"name": "v", "emptyDir": {}}));
}

#[test]
fn no_disks_are_provisioned_for_replayed_claims() {
    let class = |provisioner: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
            "provisioner": provisioner, "reclaimPolicy": "Delete", "parameters": {"type": "gp3"},
            "volumeBindingMode": "WaitForFirstConsumer"})
    };
    let object = transformed(TranslateOptions::default(), &class("ebs.csi.aws.com"));
    let expected = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "replay.kinescope.io/no-provisioner", "reclaimPolicy": "Retain",
        "volumeBindingMode": "WaitForFirstConsumer"});
    assert_eq!(object, expected);
    let by_hand = class("kubernetes.io/no-provisioner");
    assert_eq!(transformed(TranslateOptions::default(), &by_hand), by_hand);
    let allowed = TranslateOptions { allow_external_effects: true, ..TranslateOptions::default() };
    assert_eq!(transformed(allowed, &class("ebs.csi.aws.com")), class("ebs.csi.aws.com"));
}

#[test]
fn claims_are_bound_only_to_volumes_of_the_run() {
    let options = || TranslateOptions {
        run: "prod".to_owned(),
        level: AppliedLevel::Workloads,
        ..TranslateOptions::default()
    };
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
    let (alone, set) = (transformed(options(), &alone), transformed(options(), &set));
    let ephemeral = "/spec/template/spec/volumes/0/ephemeral/volumeClaimTemplate";
    for claim in [&alone, &set["spec"]["volumeClaimTemplates"][0], set.pointer(ephemeral).unwrap()] {
        let expected =
            json!({"storageClassName": "fast", "selector": {"matchLabels": {"a": "b", RUN_LABEL: "prod"}}});
        assert_eq!((&claim["spec"], &claim["metadata"]["annotations"]), (&expected, &json!({})));
    }
    // Claims of a StatefulSet have no owner: `clean` finds them by their label.
    assert_eq!(set["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"], json!({RUN_LABEL: "prod"}));
}

#[test]
fn nodes_do_not_contain_recorded_instances_and_disks() {
    let node = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
        "spec": {"drivers": [{"name": "ebs.csi.aws.com", "nodeID": "i-REAL", "allocatable": {"count": 25}}]}});
    let node = transformed(TranslateOptions::default(), &node);
    assert!(!node.to_string().contains("REAL"), "{node}");
    assert_eq!(node["spec"]["drivers"][0]["allocatable"]["count"], 25);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {},
        "status": {"volumesAttached": [{"name": "REAL"}], "volumesInUse": ["REAL"], "capacity": {"cpu": "4"}}});
    let operations = Translator::default().begin(at(0), [super::parsed(&node)]);
    let [ApiOperation { verb: Verb::Create { object }, .. }] = &operations[..] else {
        panic!("{operations:?}")
    };
    assert_eq!(object["status"], json!({"capacity": {"cpu": "4"}}));
}
