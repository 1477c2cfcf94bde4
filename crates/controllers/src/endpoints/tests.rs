//! Tests of the endpoints of Services.

use model::{Object, What};
use serde_json::{Value, json};

use super::*;

/// The controllers, and the objects that they have written.
#[derive(Default)]
struct Fixture {
    controllers: EndpointControllers,
    objects: BTreeMap<(String, String), Value>,
    created: usize,
}

impl Fixture {
    fn apply(&mut self, object: &Value) {
        let object = Object::parse(&object.to_string()).unwrap();
        self.controllers.apply(&What::Modified(object));
    }

    fn delete(&mut self, object: &Value) {
        let object = Object::parse(&object.to_string()).unwrap();
        self.controllers.apply(&What::Deleted(object));
    }

    /// Syncs until nothing is left to do. Returns the number of calls.
    fn settle(&mut self) -> usize {
        let mut count = 0;
        loop {
            let calls = self.controllers.process_next_item();
            if calls.is_empty() {
                return count;
            }
            count += calls.len();
            assert!(count < 1000, "the controllers do not come to an end");
            calls.into_iter().for_each(|call| self.carry_out(call));
        }
    }

    fn carry_out(&mut self, call: ApiCall) {
        match call {
            ApiCall::Create(object) | ApiCall::Update(object) => {
                let mut value = object.value().unwrap();
                if value["metadata"]["name"].is_null() {
                    self.created += 1;
                    let prefix = value["metadata"]["generateName"].as_str().unwrap();
                    value["metadata"]["name"] = format!("{prefix}{}", self.created).into();
                }
                self.apply(&value);
                self.objects.insert(key_of(&value), value);
            }
            ApiCall::Delete { object, .. } => {
                let key = (object.kind.kind.to_string(), object.name.to_string());
                let value = self.objects.remove(&key).unwrap();
                self.delete(&value);
            }
            ApiCall::RemovePodFinalizer { .. } => {
                unreachable!("endpoints have nothing to do with finalizers")
            }
        }
    }

    fn endpoints(&self) -> &Value {
        &self.objects[&("Endpoints".to_owned(), "web".to_owned())]
    }

    fn slices(&self) -> Vec<&Value> {
        self.objects.iter().filter(|((kind, _), _)| kind == "EndpointSlice").map(|(_, value)| value).collect()
    }

    /// The numbers of endpoints of the slices, sorted.
    fn slice_sizes(&self) -> Vec<usize> {
        let size = |slice: &&Value| slice["endpoints"].as_array().map_or(0, Vec::len);
        let mut sizes: Vec<usize> = self.slices().iter().map(size).collect();
        sizes.sort_unstable();
        sizes
    }
}

fn key_of(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

fn service(spec: Value) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "s", "labels": {"tier": "front"},
            "creationTimestamp": "2026-11-02T14:20:00Z",
        },
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.96.0.7", "ipFamilies": ["IPv4"], "type": "ClusterIP",
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field.as_str()] = value.clone();
    }
    service
}

fn pod(name: &str, address: &str, is_ready: bool) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "labels": {"app": "web"}},
        "spec": {
            "nodeName": "n1", "hostname": name, "subdomain": "web",
            "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8081, "protocol": "TCP"}]}],
        },
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    });
    let status = if is_ready { "True" } else { "False" };
    pod["status"]["conditions"] =
        json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-11-02T14:30:00Z"}]);
    pod
}

fn node() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}},
    })
}

#[test]
fn endpoints_have_the_pods_that_a_service_selects() {
    let mut fixture = Fixture::default();
    fixture.apply(&node());
    fixture.apply(&service(json!({})));
    fixture.apply(&pod("b", "10.1.0.2", false));
    fixture.apply(&pod("a", "10.1.0.1", true));
    fixture.settle();
    let target =
        |name: &str| json!({"kind": "Pod", "namespace": "shop", "name": name, "uid": format!("uid-{name}")});
    let endpoints = fixture.endpoints();
    assert_eq!(
        endpoints["subsets"],
        json!([{
            "addresses": [{"ip": "10.1.0.1", "hostname": "a", "nodeName": "n1", "targetRef": target("a")}],
            "notReadyAddresses": [{"ip": "10.1.0.2", "hostname": "b", "nodeName": "n1", "targetRef": target("b")}],
            "ports": [{"port": 8080, "protocol": "TCP"}],
        }])
    );
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"tier": "front", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    // The first time it is that of the Service.
    assert_eq!(endpoints["metadata"]["annotations"], json!({TRIGGER_TIME: "2026-11-02T14:20:00Z"}));
    let [slice] = fixture.slices()[..] else { panic!("one slice") };
    assert_eq!(
        slice["metadata"]["labels"],
        json!({
            "tier": "front", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        })
    );
    assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "s");
    assert_eq!(slice["ports"], json!([{"name": "", "port": 8080, "protocol": "TCP"}]));
    assert_eq!(
        slice["endpoints"][1],
        json!({
            "addresses": ["10.1.0.2"], "conditions": {"ready": false, "serving": false, "terminating": false},
            "hostname": "b", "nodeName": "n1", "zone": "a", "targetRef": target("b"),
        })
    );
    assert_eq!(fixture.settle(), 0);
    // A pod that becomes ready.
    let mut ready = pod("b", "10.1.0.2", true);
    ready["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-02T14:31:00Z".into();
    fixture.apply(&ready);
    assert_eq!(fixture.settle(), 2);
    assert_eq!(fixture.endpoints()["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(fixture.endpoints()["metadata"]["annotations"], json!({TRIGGER_TIME: "2026-11-02T14:31:00Z"}));
    // The EndpointSlices are the garbage collector's.
    fixture.delete(&service(json!({})));
    assert_eq!(fixture.settle(), 1);
    assert!(!fixture.objects.contains_key(&("Endpoints".to_owned(), "web".to_owned())));
}

#[test]
fn terminating_pods_are_in_slices_and_finished_ones_nowhere() {
    let mut fixture = Fixture::default();
    fixture.apply(&node());
    fixture.apply(&service(json!({})));
    let mut leaving = pod("a", "10.1.0.1", true);
    leaving["metadata"]["deletionTimestamp"] = "2026-11-02T14:32:00Z".into();
    fixture.apply(&leaving);
    let mut finished = pod("b", "10.1.0.2", false);
    finished["status"]["phase"] = "Succeeded".into();
    fixture.apply(&finished);
    fixture.settle();
    assert_eq!(fixture.endpoints().get("subsets"), None);
    let conditions = &fixture.slices()[0]["endpoints"][0]["conditions"];
    assert_eq!(*conditions, json!({"ready": false, "serving": true, "terminating": true}));
    // Published all the same.
    fixture.apply(&service(json!({"publishNotReadyAddresses": true})));
    fixture.settle();
    assert_eq!(fixture.endpoints()["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
    assert_eq!(fixture.slices()[0]["endpoints"][0]["conditions"]["ready"], true);
}

#[test]
fn ports_are_found_by_name_and_a_headless_service_needs_none() {
    let mut fixture = Fixture::default();
    fixture.apply(&node());
    let ports =
        json!([{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP", "appProtocol": "http"}]);
    fixture.apply(&service(json!({"ports": ports})));
    let mut without = pod("b", "10.1.0.2", true);
    without["spec"]["containers"][0]["ports"] = json!([]);
    fixture.apply(&pod("a", "10.1.0.1", true));
    fixture.apply(&without);
    fixture.settle();
    let subsets = &fixture.endpoints()["subsets"];
    assert_eq!(subsets.as_array().unwrap().len(), 1);
    assert_eq!(
        subsets[0]["ports"],
        json!([{"name": "web", "port": 8081, "protocol": "TCP", "appProtocol": "http"}])
    );
    fixture.apply(&service(json!({"clusterIP": "None", "ports": []})));
    fixture.settle();
    let endpoints = fixture.endpoints();
    assert_eq!(endpoints["subsets"][0].get("ports"), None);
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().unwrap().len(), 2);
    assert_eq!(endpoints["metadata"]["labels"]["service.kubernetes.io/headless"], "");
    let [slice] = fixture.slices()[..] else { panic!("one slice") };
    assert_eq!((&slice["ports"], slice["endpoints"].as_array().unwrap().len()), (&Value::Null, 2));
}

#[test]
fn services_without_selector_have_no_endpoints_and_others_an_empty_slice() {
    let mut fixture = Fixture::default();
    fixture.apply(&service(json!({"selector": {}})));
    assert_eq!(fixture.settle(), 0);
    fixture.apply(&service(json!({"type": "ExternalName"})));
    assert_eq!(fixture.settle(), 0);
    fixture.apply(&service(json!({})));
    assert_eq!(fixture.settle(), 2);
    assert_eq!(fixture.slice_sizes(), [0]);
    assert_eq!(fixture.endpoints().get("subsets"), None);
    // A pod on a node that is not known yet is not in a slice until the node is there.
    fixture.apply(&pod("a", "10.1.0.1", true));
    fixture.settle();
    assert_eq!(fixture.slice_sizes(), [0]);
    fixture.apply(&node());
    fixture.settle();
    assert_eq!(fixture.slice_sizes(), [1]);
}

#[test]
fn slices_have_a_hundred_endpoints_and_are_filled_up() {
    let mut fixture = Fixture::default();
    fixture.apply(&node());
    fixture.apply(&service(json!({})));
    let address = |index: usize| format!("10.1.{}.{}", index / 200, index % 200);
    for index in 0..250 {
        fixture.apply(&pod(&format!("p{index}"), &address(index), true));
    }
    fixture.settle();
    assert_eq!(fixture.slice_sizes(), [50, 100, 100]);
    // One more goes where there is room.
    fixture.apply(&pod("p250", &address(250), true));
    assert_eq!(fixture.settle(), 2);
    assert_eq!(fixture.slice_sizes(), [51, 100, 100]);
    // A slice that becomes empty goes.
    let mut all: Vec<String> = (0..251).map(|index| format!("p{index}")).collect();
    all.sort();
    for name in all.iter().skip(1) {
        fixture.delete(&pod(name, "10.1.0.1", true));
    }
    fixture.settle();
    assert_eq!(fixture.slice_sizes(), [1]);
}

#[test]
fn endpoints_have_at_most_a_thousand_addresses() {
    let mut fixture = Fixture::default();
    fixture.apply(&service(json!({})));
    for index in 0..1010_usize {
        let address = format!("10.1.{}.{}", index / 200, index % 200);
        fixture.apply(&pod(&format!("p{index}"), &address, true));
    }
    fixture.settle();
    let endpoints = fixture.endpoints();
    assert_eq!(endpoints["subsets"][0]["addresses"].as_array().unwrap().len(), 1000);
    let annotation = &endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"];
    assert_eq!(annotation, "truncated");
    assert_eq!(fixture.settle(), 0);
}
