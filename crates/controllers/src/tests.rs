//! Tests of the controllers in a fake cluster that carries out their API calls as an API server would.

mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod garbage_collector;
mod job;
mod replica_set;
mod stateful_set;
mod template_hashes;

use std::collections::BTreeMap;

use model::{Moment, Object, ObjectRef, What};
use serde_json::{Value, json};
use testobjects::node;

use super::{ApiCall, Controller, Controllers};

const START: i64 = 1_794_700_800_000_000_000;
const SECOND: i64 = 1_000_000_000;
const ALL: [Controller; 8] = Controller::ALL;

/// A cluster without a scheduler or kubelets: tests set the status of pods.
struct FakeCluster {
    controllers: Controllers,
    now: Moment,
    /// By kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// Whether deleted pods stay until they are removed.
    is_graceful: bool,
    /// The API calls since they were last taken, such as `create Pod`.
    api_calls: Vec<String>,
}

impl FakeCluster {
    fn new(which: &[Controller]) -> FakeCluster {
        FakeCluster {
            controllers: Controllers::new(which, 7),
            now: Moment::from_nanos(START),
            objects: BTreeMap::new(),
            is_graceful: false,
            api_calls: Vec::new(),
        }
    }

    /// Creates or replaces an object, and lets the controllers sync.
    fn put(&mut self, object: impl Into<Value>) {
        self.set(object.into());
        self.settle();
    }

    fn set(&mut self, object: Value) {
        let key = key(&object);
        let is_gone =
            !object["metadata"]["deletionTimestamp"].is_null() && object["metadata"]["finalizers"].is_null();
        let parsed = testobjects::object(&object);
        let event =
            match (is_gone && self.objects.contains_key(&key), self.objects.insert(key.clone(), object)) {
                (true, _) => What::Deleted(parsed),
                (false, None) => What::Added(parsed),
                (false, Some(_)) => What::Modified(parsed),
            };
        if is_gone && matches!(event, What::Deleted(_)) && !(self.is_graceful && key.0 == "Pod") {
            self.objects.remove(&key);
            self.controllers.apply(self.now, &event);
        } else if let What::Deleted(object) = event {
            self.controllers.apply(self.now, &What::Modified(object));
        } else {
            self.controllers.apply(self.now, &event);
        }
    }

    /// Changes an object, and its generation if the spec changed.
    fn change(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(kind, name).clone();
        let spec = object["spec"].clone();
        change(&mut object);
        if object["spec"] != spec && kind != "Pod" {
            object["metadata"]["generation"] =
                (object["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        }
        self.put(object);
    }

    /// Removes an object at once, in spite of finalizers.
    fn remove(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), namespace(kind).to_owned(), name.to_owned());
        let object = self.objects.remove(&key).expect("it is there");
        self.controllers.apply(self.now, &What::Deleted(testobjects::object(&object)));
        self.settle();
    }

    /// Lets the controllers sync until nothing is left.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            let done = self.controllers.process_next_item(self.now);
            if done.is_empty() {
                return;
            }
            for call in done {
                self.carry_out(call);
            }
        }
        panic!("the controllers do not become idle: {:?}", &self.api_calls[self.api_calls.len() - 20..]);
    }

    fn carry_out(&mut self, call: ApiCall) {
        match call {
            ApiCall::Create(object) => {
                let object =
                    Object::parse(object.as_str()).expect("the created object is valid").value().unwrap();
                let key = key(&object);
                assert!(!self.objects.contains_key(&key), "{key:?} is there already");
                self.api_calls.push(format!("create {} {}", key.0, key.2));
                self.set(object);
            }
            ApiCall::Update(object) => {
                let object =
                    Object::parse(object.as_str()).expect("the updated object is valid").value().unwrap();
                let key = key(&object);
                assert!(self.objects.contains_key(&key), "{key:?} is not there");
                self.api_calls.push(format!("update {} {}", key.0, key.2));
                self.set(object);
            }
            ApiCall::RemovePodFinalizer { pod, uid, finalizer } => {
                let key = ("Pod".to_owned(), pod.namespace.to_string(), pod.name.to_string());
                let mut object = self.objects[&key].clone();
                assert_eq!(object["metadata"]["uid"], *uid);
                self.api_calls.push(format!("update {} {}", key.0, key.2));
                let finalizers = object["metadata"]["finalizers"].as_array_mut().expect("it has finalizers");
                finalizers.retain(|own| own != finalizer);
                if finalizers.is_empty() {
                    object["metadata"].as_object_mut().unwrap().remove("finalizers");
                }
                self.set(object);
            }
            ApiCall::Delete { object: ObjectRef { kind, namespace, name }, uid } => {
                let key = (kind.kind.to_string(), namespace.to_string(), name.to_string());
                let mut object = self.objects[&key].clone();
                assert_eq!(object["metadata"]["uid"], *uid);
                self.api_calls.push(format!("delete {} {}", key.0, key.2));
                object["metadata"]["deletionTimestamp"] = self.now.to_string().into();
                self.set(object);
            }
        }
    }

    /// Advances the clock, with all syncs that are due meanwhile.
    fn wait(&mut self, seconds: i64) {
        let end = self.now.plus_nanos(seconds * SECOND);
        while let Some(at) = self.controllers.next_wake().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn get(&self, kind: &str, name: &str) -> &Value {
        let key = (kind.to_owned(), namespace(kind).to_owned(), name.to_owned());
        self.objects.get(&key).unwrap_or_else(|| panic!("there is no {kind} {name}"))
    }

    fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.iter().filter(|(key, _)| key.0 == kind).map(|(_, object)| object).collect()
    }

    fn names(&self, kind: &str) -> Vec<String> {
        self.all(kind).iter().map(|object| text(&object["metadata"]["name"])).collect()
    }

    /// Makes a pod Running and ready, on its target node or on `node`.
    fn run_pod(&mut self, pod: &str) {
        let now = self.now;
        self.change("Pod", pod, |pod| {
            let target = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
            let node = pod.pointer(target).cloned().unwrap_or_else(|| "node".into());
            pod["spec"]["nodeName"] = node;
            pod["status"] = ready(now);
        });
    }

    fn run_all_pods(&mut self) {
        for _ in 0..100 {
            let waiting: Vec<String> = self
                .all("Pod")
                .iter()
                .filter(|pod| {
                    pod["status"]["phase"] == "Pending" && pod["metadata"]["deletionTimestamp"].is_null()
                })
                .map(|pod| text(&pod["metadata"]["name"]))
                .collect();
            if waiting.is_empty() {
                return;
            }
            for pod in waiting {
                if self.objects.contains_key(&("Pod".to_owned(), "shop".to_owned(), pod.clone())) {
                    self.run_pod(&pod);
                }
            }
        }
    }

    /// Finishes a pod.
    fn finish_pod(&mut self, pod: &str, phase: &str) {
        let now = self.now;
        self.change("Pod", pod, |pod| {
            pod["status"] = json!({"phase": phase, "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": now.to_string()}]});
        });
    }

    /// The API calls since they were last taken.
    fn take_api_calls(&mut self) -> Vec<String> {
        std::mem::take(&mut self.api_calls)
    }
}

fn key(object: &Value) -> (String, String, String) {
    let metadata = &object["metadata"];
    (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn namespace(kind: &str) -> &'static str {
    if kind == "Node" { "" } else { "shop" }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn ready(now: Moment) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now.to_string()}]})
}

/// A workload called `w` with pods that have a container and the label `app`.
fn workload(api_version: &str, kind: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "w", "namespace": "shop", "uid": "w-uid", "generation": 1,
            "creationTimestamp": "2026-11-15T00:00:00Z"},
        "spec": {"selector": {"matchLabels": {"app": "w"}},
            "template": {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    object
}

#[test]
fn the_same_seed_gives_the_same_api_calls() {
    let run_cluster = || {
        let mut cluster = FakeCluster::new(&ALL);
        cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 3})));
        cluster.run_all_pods();
        cluster.change("Deployment", "w", |object| {
            object["spec"]["template"]["spec"]["containers"][0]["image"] = "i:2".into()
        });
        cluster.run_all_pods();
        (
            cluster.take_api_calls(),
            serde_json::to_string(&cluster.objects.values().collect::<Vec<_>>()).unwrap(),
        )
    };
    assert_eq!(run_cluster(), run_cluster());
}

#[test]
fn invalid_objects_are_reported_and_count_as_deleted() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": "many"})));
    cluster.put(workload("batch/v1", "Job", json!({"parallelism": []})));
    cluster.put(node("n").set("spec.taints", 7));
    assert_eq!(cluster.take_api_calls(), [""; 0]);
    let unsupported: Vec<_> = cluster.controllers.unsupported().collect();
    assert_eq!(unsupported.len(), 3, "{unsupported:?}");
    assert!(unsupported.iter().any(|(feature, count)| {
        feature.starts_with("invalid Deployment, treated as deleted") && *count == 1
    }));
}

#[test]
fn controllers_that_are_not_enabled_do_nothing() {
    let mut cluster = FakeCluster::new(&[Controller::Disruption]);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 3})));
    cluster.put(workload("apps/v1", "DaemonSet", json!({})));
    cluster.put(node("n"));
    assert_eq!(cluster.take_api_calls(), [""; 0]);
}
