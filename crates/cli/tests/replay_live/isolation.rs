//! Tests that a live replay reaches neither the recorded cluster's storage nor anything else outside the target, and
//! does not change other objects in it.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

use crate::common::run;
use crate::server::start;
use crate::{file, line_count, replay, wait};

/// Volume sources, with `real0` in all fields that identify storage: those that pods may have too, and those of
/// PersistentVolumes only.
fn volume_sources() -> (Vec<Value>, Vec<Value>) {
    let secret = || json!({"name": "real0", "namespace": "real0"});
    let both = vec![
        json!({"awsElasticBlockStore": {"volumeID": "vol-real0"}}),
        json!({"gcePersistentDisk": {"pdName": "real0"}}),
        json!({"azureDisk": {"diskName": "real0", "kind": "Managed",
            "diskURI": "/subscriptions/real0/resourceGroups/g/providers/Microsoft.Compute/disks/d"}}),
        json!({"azureDisk": {"diskName": "real0", "diskURI": "https://real0.blob.core.windows.net/d.vhd"}}),
        json!({"azureFile": {"secretName": "real0", "shareName": "real0"}}),
        json!({"cinder": {"volumeID": "real0", "secretRef": secret()}}),
        json!({"vsphereVolume": {"volumePath": "[real0] a.vmdk"}}),
        json!({"rbd": {"monitors": ["real0:6789"], "image": "real0", "secretRef": secret()}}),
        json!({"cephfs": {"monitors": ["real0:6789"], "path": "/real0", "secretRef": secret()}}),
        json!({"glusterfs": {"endpoints": "real0", "path": "real0"}}),
        json!({"iscsi": {"targetPortal": "real0:3260", "portals": ["real0:3261"], "iqn": "iqn.2015-02.example:real0",
            "lun": 3, "initiatorName": "iqn.2015-02.example:real0"}}),
        json!({"fc": {"targetWWNs": ["real0"], "lun": 3}}),
        json!({"fc": {"wwids": ["real0"]}}),
        json!({"nfs": {"server": "real0", "path": "/real0"}}),
        json!({"portworxVolume": {"volumeID": "real0"}}),
        json!({"scaleIO": {"gateway": "https://real0", "system": "real0", "volumeName": "real0", "secretRef": secret()}}),
        json!({"storageos": {"volumeName": "real0", "secretRef": secret()}}),
        json!({"quobyte": {"registry": "real0:1,real0:2", "volume": "real0"}}),
        json!({"photonPersistentDisk": {"pdID": "real0"}}),
        json!({"flexVolume": {"driver": "x/real0", "options": {"id": "real0"}, "secretRef": secret()}}),
        json!({"flocker": {"datasetName": "real0"}}),
        json!({"hostPath": {"path": "/real0", "type": "Directory"}}),
    ];
    let volumes = vec![
        json!({"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-real0", "fsType": "ext4",
            "volumeAttributes": {"share": "real0"}}}),
        json!({"local": {"path": "/real0"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}]}}}),
    ];
    (both, volumes)
}

fn merged(one: Value, other: &Value) -> Value {
    let Value::Object(mut fields) = one else { panic!("{one}") };
    fields.extend(other.as_object().unwrap().clone());
    Value::Object(fields)
}

/// Imports these objects as a history, in order, all at one moment.
fn import_objects(folder: &Path, objects: &[Value]) {
    let mut text = String::new();
    for object in objects {
        let line = json!({"time": "2026-11-15T10:00:00Z", "event": "Add", "resource": object});
        writeln!(text, "{line}").unwrap();
    }
    file(folder, "record.jsonl", &text);
    let _ = std::fs::remove_file(folder.join("prod.kine"));
    run(folder, &["import", "record.jsonl", "--into", "prod.kine"]).success();
}

fn object(kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let object = testobjects::resource("v1", kind, name).uid(&format!("{kind}-{name}"));
    let object = if namespace.is_empty() { object } else { object.namespace(namespace) };
    merged(object.json(), rest)
}

fn claim(name: &str, spec: &Value) -> Value {
    let usual = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    object("PersistentVolumeClaim", "shop", name, &json!({"spec": merged(usual, spec)}))
}

fn volume(name: &str, spec: &Value) -> Value {
    let usual = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "fast"});
    object("PersistentVolume", "", name, &json!({"spec": merged(usual, spec)}))
}

fn items(cluster: &Cluster, kind: &str) -> Vec<Value> {
    let list = cluster.kubectl(&["get", kind, "-A", "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    list["items"].as_array().unwrap().clone()
}

fn one(cluster: &Cluster, arguments: &[&str]) -> Value {
    let text = cluster.kubectl(&[&["get"], arguments, &["-o", "json"]].concat()).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Whether kubectl finds the object.
fn has(cluster: &Cluster, arguments: &[&str]) -> bool {
    cluster.kubectl(&[&["get"], arguments].concat()).is_ok()
}

#[test]
fn replayed_objects_have_no_external_effects() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (both, volumes) = volume_sources();
    let mut objects = vec![object("Namespace", "", "shop", &json!({}))];
    objects.push(json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast", "uid": "f"},
        "provisioner": "ebs.csi.aws.com", "reclaimPolicy": "Delete", "parameters": {"kmsKeyId": "real0"}}));
    objects.push(object("Node", "", "node-1", &json!({"spec": {"providerID": "aws:///eu-1a/real0"}})));
    objects.push(claim("data", &json!({"volumeName": "volume-0", "storageClassName": "fast"})));
    for (number, source) in volumes.iter().chain(&both).enumerate() {
        let mut volume = volume(&format!("volume-{number}"), source);
        volume["metadata"]["annotations"] = json!({"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"});
        if number == 0 {
            volume["spec"]["claimRef"] =
                json!({"namespace": "shop", "name": "data", "uid": "PersistentVolumeClaim-data"});
            volume["status"] = json!({"phase": "Bound"});
        }
        objects.push(volume);
    }
    let mut inline = both.clone();
    inline.push(json!({"csi": {"driver": "file.csi.azure.com", "volumeAttributes": {"server": "real0"}}}));
    inline.push(json!({"gitRepo": {"repository": "https://real0/x.git"}}));
    let inline = inline.iter().enumerate();
    let inline: Vec<Value> =
        inline.map(|(number, source)| merged(json!({"name": format!("v{number}")}), source)).collect();
    let annotations = json!({"external-dns.alpha.kubernetes.io/hostname": "real0.example"});
    let mut pod = object(
        "Pod",
        "shop",
        "web",
        &json!({"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": inline}}),
    );
    pod["metadata"]["annotations"] = annotations.clone();
    objects.push(pod);
    let mut service = object(
        "Service",
        "shop",
        "web",
        &json!({"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerClass": "x/real0",
            "externalIPs": ["192.0.2.1"], "externalTrafficPolicy": "Local", "healthCheckNodePort": 30081,
            "loadBalancerSourceRanges": ["192.0.2.0/24"]},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}}),
    );
    service["metadata"]["annotations"] = annotations;
    objects.push(service);
    let elsewhere = json!({"spec": {"type": "ExternalName", "externalName": "real0.example"}});
    objects.push(object("Service", "shop", "elsewhere", &elsewhere));
    objects.push(json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "hook", "uid": "h"}, "webhooks": [{"name": "a.example.io", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"url": "https://real0.example"}, "failurePolicy": "Ignore",
            "rules": [{"apiGroups": ["x.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["boxes"]}]}]}));
    objects.push(json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "out", "uid": "c"},
        "spec": {"controller": "x.io/real0"}}));
    objects.push(json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "out", "namespace": "shop", "uid": "i"},
        "spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}}));
    import_objects(folder.path(), &objects);

    // A real API server accepts all objects.
    let output = replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max"]).success();
    let volumes = items(&cluster, "persistentvolumes");
    assert_eq!(volumes.len(), both.len() + 2, "{output}");
    for volume in &volumes {
        assert!(!volume.to_string().contains("real0"), "{volume}");
        assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain", "{volume}");
        assert_eq!(
            volume["metadata"]["annotations"].get("pv.kubernetes.io/provisioned-by"),
            None,
            "{volume}"
        );
    }
    // A volume and its claim are still bound to each other.
    let (volume, claim) = (one(&cluster, &["pv", "volume-0"]), one(&cluster, &["pvc", "data", "-n", "shop"]));
    assert_eq!(volume["spec"]["csi"]["driver"], "ebs.csi.aws.com");
    assert_eq!(volume["spec"]["claimRef"]["uid"], claim["metadata"]["uid"]);
    assert_eq!(claim["spec"]["volumeName"], "volume-0");
    for kind in ["pods", "storageclasses", "nodes", "services"] {
        let found = items(&cluster, kind);
        let text = found.iter().map(ToString::to_string).collect::<String>();
        assert!(!found.is_empty() && !text.contains("real0"), "{kind}: {text}");
    }
    let service = one(&cluster, &["service", "web", "-n", "shop"]);
    assert_eq!((&service["spec"]["type"], service["spec"].get("externalIPs")), (&json!("ClusterIP"), None));
    assert_eq!(service["status"], json!({"loadBalancer": {}}));
    for kind in ["validatingwebhookconfigurations", "ingressclasses", "ingresses"] {
        assert_eq!(line_count(&cluster, &["get", kind, "-A"]), 0, "{kind}");
    }
    assert!(output.contains("that may act outside the cluster"), "{output}");

    // With their flags handles and external effects are applied, with a warning.
    let names = ["shop", "data", "volume-0", "web", "hook"];
    objects.retain(|object| {
        object["kind"] != "Pod" && names.iter().any(|name| object["metadata"]["name"] == *name)
    });
    import_objects(folder.path(), &objects);
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let arguments = ["prod.kine", "--speed", "max", "--keep-volume-handles", "--allow-external-effects"];
    let output = replay(folder.path(), cluster.kubeconfig(), &arguments);
    for message in ["write to disks of the recorded cluster", "load balancers, DNS names, certificates"] {
        assert!(output.err.contains("warning: ") && output.err.contains(message), "{}", output.err);
    }
    output.success();
    let volume = one(&cluster, &["pv", "volume-0"]);
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], "vol-real0");
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(one(&cluster, &["service", "web", "-n", "shop"])["spec"]["type"], "LoadBalancer");
    assert_eq!(line_count(&cluster, &["get", "validatingwebhookconfigurations"]), 1);
}

#[test]
fn existing_volumes_claims_and_namespaces_are_kept() {
    let Some(mut cluster) = start(ClusterOptions { service_accounts: true, ..ClusterOptions::default() })
    else {
        return;
    };
    cluster.start_controller_manager().unwrap();
    let is_free =
        |cluster: &Cluster, name: &str| one(cluster, &["pv", name])["status"]["phase"] == "Available";
    // Existing volumes that claims of the recording would match, and an existing claim.
    let theirs = |name: &str| {
        volume(
            name,
            &json!({"storageClassName": "manual", "hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain"}),
        )
    };
    let mut wanting = claim(
        "wanting",
        &json!({"storageClassName": "manual", "resources": {"requests": {"storage": "5Gi"}}}),
    );
    wanting["metadata"]["namespace"] = "theirs".into();
    for object in [theirs("free"), theirs("named"), object("Namespace", "", "theirs", &json!({})), wanting] {
        cluster.kubectl_with_input(&["create", "-f", "-"], &object.to_string()).unwrap();
    }
    wait("the existing volumes are available", || is_free(&cluster, "free") && is_free(&cluster, "named"));
    let folder = tempfile::tempdir().unwrap();
    let mut reaching = volume(
        "reaching",
        &json!({"storageClassName": "manual", "capacity": {"storage": "5Gi"},
        "claimRef": {"namespace": "theirs", "name": "wanting"}}),
    );
    reaching["spec"]["nfs"] = json!({"server": "s", "path": "/"});
    import_objects(
        folder.path(),
        &[
            object("Namespace", "", "shop", &json!({})),
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "manual", "uid": "m"},
                "provisioner": "kubernetes.io/no-provisioner"}),
            claim("any", &json!({"storageClassName": "manual"})),
            claim("by-name", &json!({"storageClassName": "manual", "volumeName": "named"})),
            reaching,
            object("ConfigMap", "shop", "ours", &json!({})),
        ],
    );
    replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max"]).success();
    // The volume controller has looked for volumes, and reports that none matches.
    let has_events = |claim: &str| {
        let of_it = format!("involvedObject.name={claim}");
        line_count(&cluster, &["get", "events", "-n", "shop", "--field-selector", &of_it]) > 0
    };
    for claim in ["any", "by-name"] {
        wait(&format!("the volume controller has processed the claim {claim}"), || has_events(claim));
    }
    wait("the volume has its phase", || one(&cluster, &["pv", "reaching"])["status"]["phase"] == "Released");
    let check = |when: &str| {
        for name in ["free", "named"] {
            let volume = one(&cluster, &["pv", name]);
            assert_eq!(volume["spec"].get("claimRef"), None, "{name} {when}");
            assert!(is_free(&cluster, name), "{name} {when}");
        }
        let claim = one(&cluster, &["pvc", "wanting", "-n", "theirs"]);
        assert_eq!(claim["spec"].get("volumeName"), None, "{when}");
    };
    check("after the replay");

    // Another client has created an object in the namespace that the run created.
    cluster.kubectl(&["create", "configmap", "theirs", "-n", "shop"]).unwrap();
    let clean = ["replay", "clean", "--target", cluster.kubeconfig().to_str().unwrap(), "--run", "prod"];
    let output = run(folder.path(), &clean);
    assert_eq!(output.code, 1, "{}{}", output.out, output.err);
    assert!(
        output.out.contains("ConfigMap shop/theirs, which the run did not create, would be deleted with it"),
        "{}",
        output.out
    );
    assert!(has(&cluster, &["configmap", "theirs", "-n", "shop"]), "{}", output.out);
    assert!(one(&cluster, &["namespace", "shop"])["metadata"].get("deletionTimestamp").is_none());
    for object in [["configmap", "ours"], ["pvc", "any"], ["pvc", "by-name"]] {
        wait(&format!("{object:?} is deleted"), || !has(&cluster, &[&object[..], &["-n", "shop"]].concat()));
    }
    check("after the cleanup");

    // Once that is deleted the namespace is removed too.
    cluster.kubectl(&["delete", "configmap", "theirs", "-n", "shop"]).unwrap();
    run(folder.path(), &clean).success();
    wait("the namespace is deleted", || !has(&cluster, &["namespace", "shop"]));
}

#[test]
fn existing_objects_own_nothing_that_is_replayed() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    cluster.kubectl(&["create", "configmap", "owner", "-n", "default"]).unwrap();
    let child = |name: &str, owner: &str| {
        let mut child = object("ConfigMap", "default", name, &json!({}));
        child["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": owner,
            "uid": format!("ConfigMap-{owner}"), "controller": true, "blockOwnerDeletion": true}]);
        child
    };
    import_objects(
        folder.path(),
        &[
            object("ConfigMap", "default", "owner", &json!({})),
            object("ConfigMap", "default", "own", &json!({})),
            child("of-theirs", "owner"),
            child("of-ours", "own"),
        ],
    );
    let output = replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max"]).success();
    assert!(output.contains("already existed"), "{output}");
    let owners = |name: &str| one(&cluster, &["configmap", name])["metadata"].get("ownerReferences").cloned();
    assert_eq!(owners("of-theirs"), None);
    assert_eq!(owners("of-ours").unwrap()[0]["uid"], one(&cluster, &["configmap", "own"])["metadata"]["uid"]);
}

#[test]
fn custom_kinds_that_the_target_already_had_are_applied_if_named() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let definition = |plural: &str, kind: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.x.io"), "uid": plural}, "spec": {"group": "x.io", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind}, "conversion": {"strategy": "Webhook", "webhook":
                    {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://outside.example/"}}},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
    };
    let custom =
        |kind: &str| merged(object(kind, "default", "a", &json!({})), &json!({"apiVersion": "x.io/v1"}));
    let mut before = definition("boxes", "Box");
    before["spec"].as_object_mut().unwrap().remove("conversion");
    cluster.kubectl_with_input(&["create", "-f", "-"], &before.to_string()).unwrap();
    cluster.kubectl(&["wait", "--for=condition=Established", "crd/boxes.x.io", "--timeout=60s"]).unwrap();
    wait("boxes are served", || has(&cluster, &["boxes"]));
    import_objects(
        folder.path(),
        &[definition("boxes", "Box"), definition("tins", "Tin"), custom("Box"), custom("Tin")],
    );
    let output = replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max"]).success();
    assert!(output.contains("custom resource whose controller in the target may act outside it"), "{output}");
    assert_eq!((line_count(&cluster, &["get", "boxes"]), line_count(&cluster, &["get", "tins"])), (0, 1));
    let conversion = |name: &str| one(&cluster, &["crd", name])["spec"]["conversion"].clone();
    assert_eq!(conversion("tins.x.io"), json!({"strategy": "None"}));

    // The CustomResourceDefinition that the run created stays while it has other objects.
    let theirs =
        r#"{"apiVersion": "x.io/v1", "kind": "Tin", "metadata": {"name": "theirs", "namespace": "default"}}"#;
    cluster.kubectl_with_input(&["create", "-f", "-"], theirs).unwrap();
    let clean = ["replay", "clean", "--target", cluster.kubeconfig().to_str().unwrap(), "--run", "prod"];
    let output = run(folder.path(), &clean);
    assert!(
        output.code == 1 && output.out.contains("Tin.x.io default/theirs, which the run did not create"),
        "{}",
        output.out
    );
    assert!(has(&cluster, &["tins", "theirs"]) && !has(&cluster, &["tins", "a"]));

    let arguments = ["prod.kine", "--speed", "max", "--kinds", "boxes.x.io", "--run", "named"];
    replay(folder.path(), cluster.kubeconfig(), &arguments).success();
    assert_eq!(line_count(&cluster, &["get", "boxes"]), 1);
}

#[test]
fn a_target_with_other_nodes_is_rejected_unless_they_are_kwok_nodes() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let folder = tempfile::tempdir().unwrap();
    import_objects(folder.path(), &[object("Node", "", "node-1", &json!({}))]);
    let create = |metadata: &str| {
        let node = format!("{{apiVersion: v1, kind: Node, metadata: {metadata}}}");
        cluster.kubectl_with_input(&["create", "-f", "-"], &node).unwrap();
    };
    create("{name: played, annotations: {kwok.x-k8s.io/node: fake}}");
    replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max"]).success();
    // Nodes of another run may be managed by another program by now.
    let error_of = |run: &str| {
        let output =
            replay(folder.path(), cluster.kubeconfig(), &["prod.kine", "--speed", "max", "--run", run]);
        output.failure(1)
    };
    let error = error_of("another");
    assert!(error.contains("node node-1 of") && error.contains("use --yes"), "{error}");
    cluster.kubectl(&["delete", "node", "node-1"]).unwrap();
    // A node without a kubelet may still get one.
    create("{name: idle}");
    let error = error_of("another");
    assert!(error.contains("node idle of") && error.contains("use --yes"), "{error}");
    let arguments = ["prod.kine", "--speed", "max", "--run", "another", "--yes"];
    let output = replay(folder.path(), cluster.kubeconfig(), &arguments);
    assert!(
        output.err.contains("warning: node idle of") && output.err.contains("recorded containers would run"),
        "{}",
        output.err
    );
    output.success();
}
