//! Tests of writes, with a store in memory.

use std::sync::Arc;

use kubernetes::kinds;
use model::{Kind, Moment, NamespacedName, Object};
use serde_json::{Value, json};

use super::{DeleteOptions, Deletion, Preconditions, PropagationPolicy, Registry, UpdatedPart, WriteOptions};
use crate::memory_store::MemoryStore;
use crate::resource::Resource;
use crate::service_account_token::{ISSUER, TokenSigner};
use crate::status::ApiError;
use crate::store::Store;

const NOW: &str = "2026-11-02T14:20:00Z";

struct Fixture {
    store: Arc<MemoryStore>,
    registry: Registry,
}

impl Fixture {
    /// A cluster with the namespace `default`.
    fn new() -> Fixture {
        let now: Moment = NOW.parse().unwrap();
        let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
        let fixture = Fixture { registry: Registry::new(store.clone(), 1), store };
        fixture
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
            .unwrap();
        fixture
    }

    fn create(&self, object: Value) -> Result<Value, ApiError> {
        Ok(self.registry.create_object(object)?.value().unwrap())
    }

    fn create_pod(&self, name: &str, metadata: Value) -> Value {
        let mut pod = pod(name);
        for (field, value) in metadata.as_object().unwrap() {
            pod["metadata"][field.as_str()] = value.clone();
        }
        self.create(pod).unwrap()
    }

    fn update(&self, resource: &str, name: &str, edit: impl Fn(&mut Value)) -> Result<Value, ApiError> {
        let (resource, name) = (resource_of(resource), NamespacedName::new("default", name));
        let options = WriteOptions::default();
        let updated = self.registry.update(&resource, &name, UpdatedPart::Object, options, |old| {
            let mut new = old.clone();
            edit(&mut new);
            Ok(new)
        })?;
        Ok(updated.value().unwrap())
    }

    fn delete(&self, resource: &str, name: &str, options: &DeleteOptions) -> Result<Deletion, ApiError> {
        let name = NamespacedName::new("default", name);
        self.registry.delete(&resource_of(resource), &name, options, WriteOptions::default())
    }

    fn exists(&self, name: &str) -> bool {
        self.store.objects(&Kind::new("", "Pod")).get(&NamespacedName::new("default", name)).is_some()
    }

    /// Binds a pod, so that it has a grace period.
    fn bind(&self, name: &str) -> Result<Object, ApiError> {
        self.registry.bind_pod(&NamespacedName::new("default", name), "", "n1")
    }
}

fn resource_of(name: &str) -> Resource {
    Resource::built_in(kinds::find(name).unwrap())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    })
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(outcome: Result<T, ApiError>, code: u64, message: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.status()["code"], code, "{error}");
    assert!(error.to_string().contains(message), "{error}");
}

#[test]
fn the_server_fills_in_metadata() {
    let fixture = Fixture::new();
    let mut pod = pod("a");
    pod["metadata"]["uid"] = "mine".into();
    pod["metadata"]["deletionTimestamp"] = NOW.into();
    let created = fixture.create(pod.clone()).unwrap();
    let metadata = &created["metadata"];
    assert_eq!((&metadata["creationTimestamp"], &metadata["namespace"]), (&json!(NOW), &json!("default")));
    assert!(metadata.get("deletionTimestamp").is_none() && metadata["uid"] != "mine");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    check_refused(fixture.create(pod.clone()), 409, "pods \"a\" already exists");
    pod["metadata"]["resourceVersion"] = "1".into();
    check_refused(fixture.create(pod), 400, "resourceVersion should not be set");
}

#[test]
fn names_are_generated_until_one_is_free() {
    let fixture = Fixture::new();
    let pod = || {
        let mut pod = pod("");
        pod["metadata"] = json!({"generateName": "web-"});
        pod
    };
    let names: Vec<String> = (0..50)
        .map(|_| fixture.create(pod()).unwrap()["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.iter().all(|name| name.len() == 9 && name.starts_with("web-")));
    let mut nameless = pod();
    nameless["metadata"] = json!({});
    check_refused(fixture.create(nameless), 422, "name or generateName is required");
}

#[test]
fn objects_need_a_namespace_that_lives() {
    let fixture = Fixture::new();
    let in_namespace = |namespace: &str| {
        let mut pod = pod("a");
        pod["metadata"]["namespace"] = namespace.into();
        pod
    };
    check_refused(fixture.create(in_namespace("shop")), 404, "namespaces \"shop\" not found");
    fixture.create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})).unwrap();
    fixture.create(in_namespace("shop")).unwrap();
    let deleted = fixture.registry.delete_object(
        &Kind::new("", "Namespace"),
        &NamespacedName::new("", "shop"),
        &DeleteOptions::default(),
    );
    // It waits for its finalizer.
    assert!(matches!(deleted, Ok(Deletion::Terminating(_))));
    check_refused(fixture.create(in_namespace("shop")), 403, "because it is being terminated");
}

#[test]
fn an_update_of_an_old_version_is_refused() {
    let fixture = Fixture::new();
    let created = fixture.create_pod("a", json!({}));
    let label = |key: &'static str| move |pod: &mut Value| pod["metadata"]["labels"] = json!({key: "1"});
    let updated = fixture.update("pods", "a", label("x")).unwrap();
    let version = |pod: &Value| pod["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(version(&updated) > version(&created));
    let stale = |pod: &mut Value| {
        label("y")(pod);
        pod["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    };
    check_refused(fixture.update("pods", "a", stale), 409, "the object has been modified");
    let replaced = |pod: &mut Value| pod["metadata"]["uid"] = "other".into();
    check_refused(fixture.update("pods", "a", replaced), 409, "UID in precondition: other");
    let renamed = |pod: &mut Value| pod["metadata"]["name"] = "b".into();
    check_refused(fixture.update("pods", "a", renamed), 400, "does not match the name on the URL");
    // An update that changes nothing writes nothing.
    let same = fixture.update("pods", "a", label("x")).unwrap();
    assert_eq!(version(&same), version(&updated));
    check_refused(fixture.update("pods", "none", label("x")), 404, "pods \"none\" not found");
}

#[test]
fn a_dry_run_writes_nothing() {
    let fixture = Fixture::new();
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    fixture.registry.create(&resource_of("pods"), Some("default"), pod("a"), options).unwrap();
    assert!(!fixture.exists("a"));
    fixture.create_pod("a", json!({}));
    let options = DeleteOptions { dry_run: vec!["All".to_owned()], ..DeleteOptions::default() };
    fixture.delete("pods", "a", &options).unwrap();
    assert!(fixture.exists("a"));
}

#[test]
fn a_bound_pod_has_a_grace_period() {
    let fixture = Fixture::new();
    fixture.create_pod("pending", json!({}));
    fixture.create_pod("bound", json!({}));
    fixture.bind("bound").unwrap();
    let deleted = fixture.delete("pods", "pending", &DeleteOptions::default());
    assert!(matches!(deleted, Ok(Deletion::Gone(_))));
    let Ok(Deletion::Terminating(pod)) = fixture.delete("pods", "bound", &DeleteOptions::default()) else {
        panic!()
    };
    let pod = pod.value().unwrap();
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-11-02T14:20:30Z");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    // A longer period does not count any more, a shorter one does.
    let with_grace =
        |seconds| DeleteOptions { grace_period_seconds: Some(seconds), ..DeleteOptions::default() };
    let Ok(Deletion::Terminating(same)) = fixture.delete("pods", "bound", &with_grace(60)) else { panic!() };
    assert_eq!(same.value().unwrap(), pod);
    assert!(matches!(fixture.delete("pods", "bound", &with_grace(0)), Ok(Deletion::Gone(_))));
    assert!(!fixture.exists("bound"));
}

#[test]
fn finalizers_delay_a_deletion() {
    let fixture = Fixture::new();
    fixture.create_pod("a", json!({"finalizers": ["example.com/wait"]}));
    let deleted = fixture.delete("pods", "a", &DeleteOptions::default());
    assert!(matches!(deleted, Ok(Deletion::Terminating(_))) && fixture.exists("a"));
    fixture.update("pods", "a", |pod| pod["metadata"]["finalizers"] = json!([])).unwrap();
    assert!(!fixture.exists("a"));
}

#[test]
fn preconditions_and_propagation_are_heeded() {
    let fixture = Fixture::new();
    fixture.create_pod("a", json!({}));
    let preconditions = Some(Preconditions { uid: Some("other".to_owned()), resource_version: None });
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    check_refused(fixture.delete("pods", "a", &options), 409, "the UID in the precondition (other)");
    let policy = Some(PropagationPolicy::Foreground);
    let options = DeleteOptions { propagation_policy: policy, ..DeleteOptions::default() };
    let Ok(Deletion::Terminating(pod)) = fixture.delete("pods", "a", &options) else { panic!() };
    assert_eq!(pod.value().unwrap()["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[test]
fn a_pod_is_bound_once() {
    let fixture = Fixture::new();
    let labels = json!({"topology.kubernetes.io/zone": "a", "other": "x"});
    fixture
        .create(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": labels}}))
        .unwrap();
    fixture.create_pod("a", json!({}));
    let bound = fixture.bind("a").unwrap().value().unwrap();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "a"}));
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    check_refused(fixture.bind("a"), 409, "pod a is already assigned to node \"n1\"");
    let mut gated = pod("gated");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    fixture.create(gated).unwrap();
    check_refused(fixture.bind("gated"), 409, "non-empty .spec.schedulingGates");
    let name = NamespacedName::new("default", "a");
    check_refused(fixture.registry.bind_pod(&name, "other", "n1"), 409, "UID in precondition: other");
}

#[test]
fn a_budget_refuses_an_eviction() {
    let fixture = Fixture::new();
    fixture.create_pod("a", json!({"labels": {"app": "web"}}));
    fixture.bind("a").unwrap();
    let pods = Kind::new("", "Pod");
    let name = NamespacedName::new("default", "a");
    fixture
        .registry
        .update_object(&pods, &name, UpdatedPart::Status, |pod| {
            pod["status"]["phase"] = "Running".into();
            pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            true
        })
        .unwrap();
    fixture
        .create(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }))
        .unwrap();
    let evict = || {
        fixture.registry.evict(&resource_of("pods"), &name, DeleteOptions::default(), WriteOptions::default())
    };
    check_refused(evict(), 429, "violate the pod's disruption budget");
    let allow = |allowed: i64| {
        let kind = Kind::new("policy", "PodDisruptionBudget");
        let name = NamespacedName::new("default", "web");
        let budget = fixture.registry.update_object(&kind, &name, UpdatedPart::Status, |budget| {
            budget["status"] = json!({
                "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1,
                "expectedPods": 1,
            });
            true
        });
        budget.unwrap();
    };
    allow(0);
    check_refused(evict(), 429, "violate the pod's disruption budget");
    allow(1);
    assert!(matches!(evict(), Ok(Deletion::Terminating(_))));
    let budget = fixture.store.objects(&Kind::new("policy", "PodDisruptionBudget"));
    let budget = budget.iter().next().unwrap().value().unwrap();
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(budget["status"]["disruptedPods"], json!({"a": NOW}));
}

#[test]
fn a_workload_is_scaled_through_its_subresource() {
    let fixture = Fixture::new();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod("x")["spec"].clone()},
        },
    });
    fixture.create(deployment).unwrap();
    let (resource, name) = (resource_of("deployments"), NamespacedName::new("default", "web"));
    let scale = fixture.registry.scale(&resource, &name).unwrap();
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["selector"]), (&json!(3), &json!("app=web")));
    let options = WriteOptions::default();
    let scaled = fixture.registry.update_scale(&resource, &name, options, |scale| {
        let mut scale = scale.clone();
        scale["spec"]["replicas"] = 5.into();
        Ok(scale)
    });
    assert_eq!(scaled.unwrap()["spec"]["replicas"], 5);
    let pods = resource_of("pods");
    check_refused(fixture.registry.scale(&pods, &name), 404, "could not find");
}

#[test]
fn services_have_addresses_of_their_own() {
    let fixture = Fixture::new();
    let service = |name: &str, spec: Value| {
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
        });
        for (field, value) in spec.as_object().unwrap() {
            service["spec"][field.as_str()] = value.clone();
        }
        fixture.create(service)
    };
    let address = |service: Result<Value, ApiError>| service.unwrap()["spec"]["clusterIP"].clone();
    assert_eq!(address(service("a", json!({}))), "10.96.0.2");
    assert_eq!(address(service("b", json!({}))), "10.96.0.3");
    assert_eq!(address(service("c", json!({"clusterIP": "None"}))), "None");
    for (spec, message) in [
        (
            json!({"clusterIP": "10.96.0.2"}),
            r#"Service "d" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.2"]: failed to allocate IP 10.96.0.2: provided IP is already allocated"#,
        ),
        (
            json!({"clusterIP": "10.96.0.1"}),
            r#"Service "d" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated"#,
        ),
        (
            json!({"clusterIP": "10.97.0.1"}),
            r#"Service "d" is invalid: spec.clusterIPs: Invalid value: ["10.97.0.1"]: failed to allocate IP 10.97.0.1: the provided network does not match the current range"#,
        ),
        (
            json!({"clusterIP": "10.96.0.0"}),
            r#"Service "d" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.0"]: failed to allocate IP 10.96.0.0: the provided IP (10.96.0.0) is not in the valid range. The range of valid IPs is 10.96.0.0/16"#,
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            r#"Service "d" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            r#"Service "d" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#,
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            r#"Service "d" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"#,
        ),
    ] {
        let refused = service("d", spec).unwrap_err();
        assert_eq!((refused.status()["code"].as_u64(), refused.to_string().as_str()), (Some(422), message));
    }
    let exposed = service("e", json!({"type": "NodePort"})).unwrap();
    assert_eq!(exposed["spec"]["ports"][0]["nodePort"], 30_000);
    let taken = service("f", json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_000}]}));
    check_refused(
        taken,
        422,
        "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated",
    );
    // The same port of two protocols has one node port.
    let ports = json!([
        {"name": "a", "port": 53, "protocol": "TCP"}, {"name": "b", "port": 53, "protocol": "UDP", "nodePort": 30_053},
    ]);
    let both = service("g", json!({"type": "NodePort", "ports": ports})).unwrap();
    let node_ports: Vec<&Value> =
        both["spec"]["ports"].as_array().unwrap().iter().map(|port| &port["nodePort"]).collect();
    assert_eq!(node_ports, [30_053, 30_053]);
    let balanced = service("h", json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"})).unwrap();
    assert_eq!(
        (&balanced["spec"]["ports"][0]["nodePort"], &balanced["spec"]["healthCheckNodePort"]),
        (&json!(30_001), &json!(30_002))
    );
    let any = service("i", json!({"clusterIP": "None", "selector": {}})).unwrap();
    assert_eq!(
        (&any["spec"]["ipFamilies"], &any["spec"]["ipFamilyPolicy"]),
        (&json!(["IPv4", "IPv6"]), &json!("RequireDualStack"))
    );
}

#[test]
fn a_restored_snapshot_ends_watches_and_keeps_versions_growing() {
    let fixture = Fixture::new();
    let base = fixture.store.snapshot();
    fixture.create_pod("a", json!({}));
    let version = fixture.store.version();
    fixture.store.restore(&base);
    assert!(!fixture.exists("a") && fixture.store.version() > version);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut watch = fixture.store.watch(&resource_of("pods"), version);
    assert!(runtime.block_on(watch.next()).is_err());
    let mut watch = fixture.store.watch(&resource_of("pods"), fixture.store.version());
    fixture.create_pod("b", json!({}));
    let events = runtime.block_on(watch.next()).unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].new.meta().name, "b");
}

#[test]
fn an_update_of_some_kinds_names_the_version_that_it_is_based_on() {
    let fixture = Fixture::new();
    let metadata = json!({"name": "x", "namespace": "default"});
    fixture
        .create(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}))
        .unwrap();
    fixture.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).unwrap();
    let without_version = |object: &mut Value| {
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        object["metadata"]["labels"] = json!({"a": "b"});
    };
    assert!(fixture.update("configmaps", "x", without_version).is_ok());
    assert_eq!(
        fixture.update("leases", "x", without_version).unwrap_err().to_string(),
        "leases.coordination.k8s.io \"x\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an \
         update"
    );
}

#[test]
fn an_update_may_leave_out_what_admission_added_to_a_pod() {
    let fixture = Fixture::new();
    let created = fixture.create_pod("p", json!({}));
    let updated = fixture.update("pods", "p", |pod| {
        for field in ["priority", "preemptionPolicy", "tolerations"] {
            pod["spec"].as_object_mut().unwrap().remove(field);
        }
        pod["metadata"]["labels"] = json!({"a": "b"});
    });
    assert_eq!(updated.unwrap()["spec"], created["spec"]);
}

/// The answers are those of kube-apiserver 1.36.
#[test]
fn service_accounts_get_tokens() {
    let mut fixture = Fixture::new();
    fixture.registry = fixture.registry.with_token_signer(TokenSigner::generate().unwrap());
    for account in ["robot", "other"] {
        let metadata = json!({"name": account, "namespace": "default"});
        fixture.create(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})).unwrap();
    }
    let accounts = resource_of("serviceaccounts");
    let robot = NamespacedName::new("default", "robot");
    let create = |request: Value| fixture.registry.create_token(&accounts, &robot, request);
    let refused = |request: Value| create(request).unwrap_err().to_string();
    let to = |kind: &str, name: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": kind, "name": name}}});
    fixture.create_pod("p", json!({}));
    let invalid =
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: ";
    for (request, expected) in [
        (
            json!({"spec": {"expirationSeconds": 60}}),
            format!("{invalid}60: may not specify a duration less than 10 minutes"),
        ),
        (
            json!({"spec": {"expirationSeconds": 9_999_999_999_u64}}),
            format!("{invalid}9999999999: may not specify a duration larger than 2^32 seconds"),
        ),
        (
            json!({"metadata": {"name": "x"}, "spec": {}}),
            "TokenRequest.authentication.k8s.io \"robot\" is invalid: metadata.name: Invalid value: \"x\": must match \
             the service account name if specified"
                .to_owned(),
        ),
        (
            json!({"metadata": {"namespace": "x"}, "spec": {}}),
            "the namespace of the provided object does not match the namespace sent on the request".to_owned(),
        ),
        (to("ConfigMap", "x"), "cannot bind token to object of type /v1, Kind=ConfigMap".to_owned()),
        (to("Secret", "x"), "secrets \"x\" not found".to_owned()),
        (
            to("Pod", "p"),
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
                .to_owned(),
        ),
    ] {
        assert_eq!(refused(request.clone()), expected, "{request}");
    }
    let created = create(json!({"spec": {}})).unwrap();
    assert_eq!(
        created["spec"],
        json!({"audiences": [ISSUER], "expirationSeconds": 3600, "boundObjectRef": null})
    );
    assert_eq!(created["status"]["expirationTimestamp"], "2026-11-02T15:20:00Z");
    let user = |created: &Value| fixture.registry.user_of_token(created["status"]["token"].as_str().unwrap());
    assert_eq!(user(&created).unwrap().username, "system:serviceaccount:default:robot");
    let for_others = create(json!({"spec": {"audiences": ["vault"]}})).unwrap();
    assert_eq!(user(&for_others), None);
    // A token ends with the objects that it belongs to.
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}});
    fixture.create(secret).unwrap();
    let bound = create(to("Secret", "s")).unwrap();
    assert!(user(&bound).is_some());
    fixture.delete("secrets", "s", &DeleteOptions::default()).unwrap();
    assert_eq!(user(&bound), None);
    fixture.delete("serviceaccounts", "robot", &DeleteOptions::default()).unwrap();
    assert_eq!(user(&created), None);
}
