//! Clusters for the autoscaler to look at.

use autoscaler::{Autoscaler, Loop, Membership, NodeGroup, ObservedCloud, Provisioning, Settings};
use model::{Moment, Object, What};
use serde_json::{Value, json};

/// A cluster, its cloud, and an autoscaler that looks at them.
pub(super) struct Stage {
    autoscaler: Autoscaler,
    cloud: ObservedCloud,
    now: i64,
    /// Pods that may be changed, and whose turn it is.
    placed: Vec<Value>,
    turn: usize,
}

const GROUPS: usize = 50;
const CONTROLLERS: usize = 50;
/// Pods that change between two loops of a calm cluster.
const CHANGED: usize = 100;
const SCAN_SECONDS: i64 = 10;

/// Full nodes, and thirty thousand pods that wait for others: by turns small and large ones, some for certain groups.
pub(super) fn burst() -> Stage {
    let mut stage = Stage::new(1_000, 2);
    for node in 0..1_000 {
        stage.add(pod(&format!("filler-{node}"), node % CONTROLLERS, 7_600, Some(node)));
    }
    for number in 0..30_000 {
        let controller = number % CONTROLLERS;
        let cpu = [100, 250, 500, 1_000, 2_000][controller % 5];
        stage.add(pod(&format!("waiting-{number}"), controller, cpu, None));
    }
    stage
}

/// Thirty pods a node; every tenth node is hardly used.
pub(super) fn calm() -> Stage {
    let mut stage = Stage::new(5_000, 100);
    for node in 0..5_000_usize {
        let cpu = if node.is_multiple_of(10) { 50 } else { 200 };
        for number in 0..30 {
            let pod = pod(&format!("app-{node}-{number}"), number % CONTROLLERS, cpu, Some(node));
            stage.placed.push(pod.clone());
            stage.add(pod);
        }
    }
    stage
}

impl Stage {
    fn new(nodes: usize, most: i64) -> Stage {
        let groups = (0..GROUPS).map(|group| NodeGroup {
            name: format!("group-{group}").into(),
            min: 0,
            max: nodes as i64 / GROUPS as i64 * most + 1_000,
            target: None,
            members: Membership::Label { key: "pool".into(), value: format!("group-{group}").into() },
            template: object(&node("template", group, group % 4)),
            pods: Vec::new(),
            believed: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        });
        let cloud = ObservedCloud::new(groups.collect(), None, "".into());
        let now = 1_767_225_600;
        let autoscaler = Autoscaler::new(Settings::default(), moment(now));
        let mut stage = Stage { autoscaler, cloud, now, placed: Vec::new(), turn: 0 };
        for controller in 0..CONTROLLERS {
            stage.add(json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": { "name": format!("app-{controller}"), "namespace": "default", "uid": format!("rs-{controller}") },
                "spec": { "replicas": 3_000 }, "status": { "replicas": 3_000 },
            }));
        }
        for number in 0..nodes {
            stage.add(node(&format!("node-{number}"), number % GROUPS, 0));
        }
        stage
    }

    fn add(&mut self, value: Value) {
        let what = What::Added(object(&value));
        self.cloud.see(&what);
        self.autoscaler.apply(&what);
    }

    /// A few pods are renewed, as in any cluster that lives.
    pub(super) fn change_some(&mut self) {
        for _ in 0..CHANGED {
            self.turn = (self.turn + 1_499) % self.placed.len();
            let what = What::Modified(object(&self.placed[self.turn]));
            self.autoscaler.apply(&what);
        }
    }

    /// The next loop.
    pub(super) fn run(&mut self) -> Loop {
        self.now += SCAN_SECONDS;
        self.cloud.begin();
        self.autoscaler.run_once(moment(self.now), &mut self.cloud)
    }
}

fn node(name: &str, group: usize, size: usize) -> Value {
    let (cpu, memory) = [("8", "32Gi"), ("4", "16Gi"), ("16", "64Gi"), ("32", "64Gi")][size];
    let resources = json!({ "cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "100Gi" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "creationTimestamp": "2025-12-31T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name,
                "pool": format!("group-{group}"),
                "tier": if group.is_multiple_of(10) { "special" } else { "usual" },
                "topology.kubernetes.io/zone": format!("zone-{}", group % 3),
            },
        },
        "spec": { "providerID": format!("bench://{name}") },
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2025-12-31T00:00:00Z" }],
        },
    })
}

fn pod(name: &str, controller: usize, cpu: usize, on: Option<usize>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": name,
            "creationTimestamp": "2025-12-31T12:00:00Z",
            "labels": { "app": format!("app-{controller}") },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("app-{controller}"),
                "uid": format!("rs-{controller}"), "controller": true,
            }],
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{
                "name": "main", "image": "app",
                "resources": { "requests": { "cpu": format!("{cpu}m"), "memory": format!("{}Mi", cpu * 2) } },
            }],
        },
        "status": { "phase": "Pending" },
    });
    if controller % 10 == 9 {
        pod["spec"]["nodeSelector"] = json!({ "tier": "special" });
    }
    match on {
        Some(node) => {
            pod["spec"]["nodeName"] = format!("node-{node}").into();
            pod["status"]["phase"] = "Running".into();
        }
        None => {
            pod["status"]["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "lastTransitionTime": "2025-12-31T12:00:01Z",
            }]);
        }
    }
    pod
}

fn object(value: &Value) -> Object {
    Object::parse(&value.to_string()).expect("it has an apiVersion, a kind and a name")
}

fn moment(seconds: i64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}
