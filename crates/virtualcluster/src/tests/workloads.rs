//! The controllers of workloads, Services and namespaces in a virtual cluster: their Events and what they write.

use super::*;

fn deployment(replicas: u64) -> Value {
    let selector = json!({"matchLabels": {"app": "web"}});
    workload("Deployment", "web", json!({"replicas": replicas, "selector": selector}))
}

fn replica_set_name(cluster: &VirtualCluster) -> String {
    fields(cluster, &Kind::new("apps", "ReplicaSet"), "/metadata/name").remove(0)
}

#[test]
fn a_deployment_and_its_replica_set_have_the_events_of_their_controllers() {
    let cluster = cluster(2);
    cluster.create(deployment(2)).unwrap();
    cluster.settle();
    let set = replica_set_name(&cluster);
    assert_eq!(
        events_about(&cluster, "Deployment", "web"),
        [("ScalingReplicaSet".to_owned(), format!("Scaled up replica set {set} from 0 to 2"), 1)]
    );
    let created = events_about(&cluster, "ReplicaSet", &set);
    let pods = fields(&cluster, &Kind::new("", "Pod"), "/metadata/name");
    let mut messages: Vec<&str> = created.iter().map(|(_, message, _)| &**message).collect();
    messages.sort_unstable();
    assert_eq!(messages, pods.iter().map(|pod| format!("Created pod: {pod}")).collect::<Vec<_>>());
    assert!(created.iter().all(|(reason, _, _)| reason == "SuccessfulCreate"));
}

#[test]
fn similar_events_are_combined_and_their_number_is_bounded() {
    let cluster = cluster(4);
    cluster.create(deployment(200)).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster).len(), 200);
    let set = replica_set_name(&cluster);
    let events = events_about(&cluster, "ReplicaSet", &set);
    // Nine with their messages, and one for the others, which is written until there were 25.
    let combined: Vec<_> = events
        .iter()
        .filter(|(_, message, _)| message.starts_with("(combined from similar events): "))
        .collect();
    assert_eq!((events.len(), combined.len(), combined[0].2), (10, 1, 16));
    // More may be written later.
    cluster.advance(AdvanceTarget::By(Duration::from_secs(300))).unwrap();
    cluster
        .registry()
        .update_object(&Kind::new("apps", "Deployment"), &name("web"), UpdatedPart::Object, |deployment| {
            deployment["spec"]["replicas"] = 201.into();
            true
        })
        .unwrap();
    cluster.settle();
    let events = events_about(&cluster, "ReplicaSet", &set);
    assert_eq!((events.len(), events[9].2), (10, 192));
}

#[test]
fn pods_that_are_forbidden_are_reported_and_tried_again_later() {
    let cluster = cluster(1);
    let kind = Kind::new("", "LimitRange");
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "bounds"},
            "spec": {"limits": [{"type": "Container", "min": {"cpu": "100m"}}]},
        }))
        .unwrap();
    let mut small = deployment(3);
    small["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "50m"}});
    cluster.create(small).unwrap();
    cluster.settle();
    let set = replica_set_name(&cluster);
    let refused = events_about(&cluster, "ReplicaSet", &set);
    // The first pod only: the others would be refused like it.
    let [(reason, message, 1)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(reason, "FailedCreate");
    assert!(
        message.starts_with("Error creating: pods \"web-") && message.contains("is forbidden: "),
        "{message}"
    );
    cluster.registry().delete_object(&kind, &name("bounds"), &DeleteOptions::default()).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster).len(), 0);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(2))).unwrap();
    assert_eq!(phases(&cluster), ["Running", "Running", "Running"]);
}

#[test]
fn jobs_and_stateful_sets_have_events() {
    let cluster = cluster(1);
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}});
    cluster.create(workload("Job", "once", json!({"template": template}))).unwrap();
    let selector = json!({"matchLabels": {"app": "db"}});
    cluster
        .create(workload("StatefulSet", "db", json!({"selector": selector, "serviceName": "db"})))
        .unwrap();
    cluster.advance(AdvanceTarget::By(Duration::from_secs(10))).unwrap();
    let reasons: Vec<String> =
        events_about(&cluster, "Job", "once").into_iter().map(|(reason, _, _)| reason).collect();
    assert_eq!(reasons, ["SuccessfulCreate", "Completed"]);
    let created = "Create Pod db-0 in StatefulSet db successful".to_owned();
    assert_eq!(events_about(&cluster, "StatefulSet", "db"), [("SuccessfulCreate".to_owned(), created, 1)]);
}

#[test]
fn a_service_has_endpoints_as_long_as_it_exists() {
    let cluster = cluster(2);
    cluster.create(deployment(2)).unwrap();
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }))
        .unwrap();
    cluster.settle();
    let slice = Kind::new("discovery.k8s.io", "EndpointSlice");
    // The first ones are those of the Service `kubernetes`.
    let endpoints = || fields(&cluster, &Kind::new("", "Endpoints"), "/subsets/0/addresses/1/ip");
    assert_eq!(endpoints(), ["-", "10.128.0.2"]);
    assert_eq!(fields(&cluster, &slice, "/endpoints/1/conditions/ready"), ["-", "true"]);
    cluster
        .registry()
        .delete_object(&Kind::new("", "Service"), &name("web"), &DeleteOptions::default())
        .unwrap();
    cluster.settle();
    assert_eq!(endpoints(), ["-"]);
    assert_eq!(fields(&cluster, &slice, "/metadata/name"), ["kubernetes"]);
}

#[test]
fn a_namespace_says_what_keeps_it() {
    let cluster = cluster(1);
    cluster.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    cluster
        .create(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "held", "namespace": "shop", "finalizers": ["example.com/wait"]},
        }))
        .unwrap();
    cluster.settle();
    let kind = Kind::new("", "Namespace");
    let shop = NamespacedName::new("", "shop");
    cluster.registry().delete_object(&kind, &shop, &DeleteOptions::default()).unwrap();
    cluster.settle();
    let namespace = cluster.registry().get(&kind, &shop).unwrap().value().unwrap();
    let conditions: Vec<(&str, &str, &str)> = namespace["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["status", "reason", "message"].map(|field| one[field].as_str().unwrap()).into())
        .collect();
    assert_eq!(
        conditions,
        [
            ("False", "ResourcesDiscovered", "All resources successfully discovered"),
            ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
            ("False", "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            (
                "True",
                "SomeResourcesRemain",
                "Some resources are remaining: configmaps. has 1 resource instances"
            ),
            (
                "True",
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: example.com/wait in 1 resource instances"
            ),
        ]
    );
    cluster
        .registry()
        .update_object(
            &Kind::new("", "ConfigMap"),
            &NamespacedName::new("shop", "held"),
            UpdatedPart::Object,
            |map| {
                map["metadata"]["finalizers"] = json!([]);
                true
            },
        )
        .unwrap();
    cluster.settle();
    assert!(cluster.registry().get(&kind, &shop).is_none());
}
