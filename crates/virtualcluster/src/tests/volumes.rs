//! PersistentVolumeClaims in a virtual cluster: their volumes, and the Events about those that have none.

use apiserver::DeleteOptions;
use model::Kind;
use serde_json::{Value, json};

use super::{cluster, events_about, fields, name, phases, pod};
use crate::VirtualCluster;

fn claim(name: &str, spec: Value) -> Value {
    let mut claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    for (field, value) in spec.as_object().unwrap() {
        claim["spec"][field.as_str()] = value.clone();
    }
    claim
}

/// A pod that uses a claim.
fn user_of(name: &str, claim: &str) -> Value {
    let mut user = pod(name, "1");
    user["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    user
}

fn create_class(cluster: &VirtualCluster, name: &str, provisioner: &str, mode: &str) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode,
    });
    cluster.create(class).unwrap();
}

#[test]
fn claims_are_bound_and_provisioned() {
    let cluster = cluster(2);
    for (class, mode) in [("at-once", "Immediate"), ("later", "WaitForFirstConsumer")] {
        create_class(&cluster, class, "example.com/disk", mode);
        cluster.create(claim(class, json!({"storageClassName": class}))).unwrap();
    }
    cluster.settle();
    let claims = Kind::new("", "PersistentVolumeClaim");
    assert_eq!(fields(&cluster, &claims, "/status/phase"), ["Bound", "Pending"]);
    cluster.create(user_of("user", "later")).unwrap();
    cluster.settle();
    assert_eq!(fields(&cluster, &claims, "/status/phase"), ["Bound", "Bound"]);
    assert_eq!(phases(&cluster), ["Running"]);
    // A claim in use goes with its last pod, and its volume with it.
    cluster.registry().delete_object(&claims, &name("later"), &DeleteOptions::default()).unwrap();
    cluster.settle();
    assert_eq!(fields(&cluster, &claims, "/metadata/name").len(), 2);
    cluster
        .registry()
        .delete_object(&Kind::new("", "Pod"), &name("user"), &DeleteOptions::default())
        .unwrap();
    cluster.settle();
    assert_eq!(fields(&cluster, &claims, "/metadata/name"), ["at-once"]);
    assert_eq!(cluster.store().objects(&Kind::new("", "PersistentVolume")).len(), 1);
}

/// Messages of kube-controller-manager 1.36, by its sources.
#[test]
fn claims_without_a_volume_say_why() {
    let cluster = cluster(1);
    create_class(&cluster, "local", "kubernetes.io/no-provisioner", "Immediate");
    create_class(&cluster, "disk", "example.com/disk", "Immediate");
    create_class(&cluster, "later", "example.com/disk", "WaitForFirstConsumer");
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "theirs"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"},
            "claimRef": {"namespace": "default", "name": "other"},
        },
    });
    cluster.create(volume).unwrap();
    for (name, spec) in [
        ("classless", json!({})),
        ("lost", json!({"storageClassName": "nothere"})),
        ("local", json!({"storageClassName": "local"})),
        ("disk", json!({"storageClassName": "disk"})),
        ("later", json!({"storageClassName": "later"})),
        ("wanted", json!({"storageClassName": "later"})),
        ("taken", json!({"volumeName": "theirs"})),
    ] {
        cluster.create(claim(name, spec)).unwrap();
    }
    // No node has so many CPUs.
    let mut user = user_of("user", "wanted");
    user["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1000".into();
    cluster.create(user).unwrap();
    cluster.settle();
    let waiting = "waiting for first consumer to be created before binding";
    for (claim, expected) in [
        (
            "classless",
            &[(
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            )][..],
        ),
        ("lost", &[("ProvisioningFailed", "storageclass.storage.k8s.io \"nothere\" not found")]),
        ("local", &[("ProvisioningFailed", "no volume plugin matched name: kubernetes.io/no-provisioner")]),
        (
            "disk",
            &[(
                "ExternalProvisioning",
                "Waiting for a volume to be created either by the external provisioner 'example.com/disk' or manually by \
                 the system administrator. If volume creation is delayed, please verify that the provisioner is running \
                 and correctly registered.",
            )],
        ),
        ("later", &[("WaitForFirstConsumer", waiting)]),
        ("wanted", &[("WaitForPodScheduled", "waiting for pod user to be scheduled")]),
        ("taken", &[("FailedBinding", "volume \"theirs\" already bound to a different claim.")]),
    ] {
        let events = events_about(&cluster, "PersistentVolumeClaim", claim);
        let mut events: Vec<(&str, &str)> =
            events.iter().map(|(reason, message, _)| (&**reason, &**message)).collect();
        // Whether its pod is known when the claim is first seen depends on the order of the two.
        events.retain(|(_, message)| claim != "wanted" || *message != waiting);
        assert_eq!(events, expected, "{claim}");
    }
    let claims = Kind::new("", "PersistentVolumeClaim");
    let phases = fields(&cluster, &claims, "/status/phase");
    assert_eq!(phases.iter().filter(|phase| *phase == "Bound").count(), 1, "{phases:?}");
}
