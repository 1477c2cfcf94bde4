//! Clusters for the autoscaler benchmarks.

use autoscaler::{Autoscaler, LoopResult, Membership, NodeGroup, ObservedCloud, Provisioning, Settings};
use model::{Moment, What};
use serde_json::json;
use testobjects::{NodeBuilder, PodBuilder, resource};

/// An autoscaler with a cluster and its cloud.
pub(super) struct AutoscalerBench {
    autoscaler: Autoscaler,
    cloud: ObservedCloud,
    now: i64,
    /// Running pods that may be changed, and the index of the last one.
    running_pods: Vec<PodBuilder>,
    last_changed: usize,
    replaced_count: usize,
}

const GROUPS: usize = 50;
const CONTROLLERS: usize = 50;
/// The number of pods changed between two loops of a calm cluster.
const CHANGED_PODS: usize = 100;
const SCAN_SECONDS: i64 = 10;

/// Full nodes and thirty thousand pending pods of several sizes, some of them only for certain groups.
pub(super) fn pending_burst() -> AutoscalerBench {
    let mut bench = AutoscalerBench::new(1_000, 2);
    for node in 0..1_000 {
        bench.apply(&pod(&format!("filler-{node}"), node % CONTROLLERS, 7_600, Some(node)).added());
    }
    for number in 0..30_000 {
        let controller = number % CONTROLLERS;
        let cpu = [100, 250, 500, 1_000, 2_000][controller % 5];
        bench.apply(&pod(&format!("waiting-{number}"), controller, cpu, None).added());
    }
    bench
}

/// Thirty pods per node; every tenth node has a low utilization.
pub(super) fn calm_cluster() -> AutoscalerBench {
    let mut bench = AutoscalerBench::new(5_000, 100);
    for node in 0..5_000_usize {
        let cpu = if node.is_multiple_of(10) { 50 } else { 200 };
        for number in 0..30 {
            let pod = pod(&format!("app-{node}-{number}"), number % CONTROLLERS, cpu, Some(node));
            bench.running_pods.push(pod.clone());
            bench.apply(&pod.added());
        }
    }
    bench
}

impl AutoscalerBench {
    fn new(nodes: usize, most: i64) -> AutoscalerBench {
        let groups = (0..GROUPS).map(|group| NodeGroup {
            name: format!("group-{group}").into(),
            min: 0,
            max: nodes as i64 / GROUPS as i64 * most + 1_000,
            target: None,
            members: Membership::Label { key: "pool".into(), value: format!("group-{group}").into() },
            template: node("template", group, group % 4).object(),
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        });
        let cloud = ObservedCloud::new(groups.collect(), None, "".into());
        let now = 1_767_225_600;
        let autoscaler = Autoscaler::new(Settings::default(), moment(now));
        let mut bench = AutoscalerBench {
            autoscaler,
            cloud,
            now,
            running_pods: Vec::new(),
            last_changed: 0,
            replaced_count: 0,
        };
        for controller in 0..CONTROLLERS {
            let set = resource("apps/v1", "ReplicaSet", &format!("app-{controller}"))
                .namespace("default")
                .uid(&format!("rs-{controller}"))
                .set("spec.replicas", 3_000)
                .set("status.replicas", 3_000);
            bench.apply(&set.added());
        }
        for number in 0..nodes {
            bench.apply(&node(&format!("node-{number}"), number % GROUPS, 0).added());
        }
        bench
    }

    fn apply(&mut self, what: &What) {
        self.cloud.apply(what);
        self.autoscaler.apply(what);
    }

    /// Updates a few pods without a change that matters, as happens in any active cluster.
    pub(super) fn update_some_pods(&mut self) {
        for _ in 0..CHANGED_PODS {
            let index = self.next_changed();
            self.autoscaler.apply(&self.running_pods[index].clone().modified());
        }
    }

    /// Deletes a few pods, and creates others like them on the same nodes.
    pub(super) fn replace_some_pods(&mut self) {
        for _ in 0..CHANGED_PODS {
            let index = self.next_changed();
            let old = self.running_pods[index].clone();
            self.autoscaler.apply(&old.clone().deleted());
            self.replaced_count += 1;
            let name = format!("new-{}", self.replaced_count);
            let new = old.set("metadata.name", name.clone()).uid(&name);
            self.autoscaler.apply(&new.clone().added());
            self.running_pods[index] = new;
        }
    }

    fn next_changed(&mut self) -> usize {
        self.last_changed = (self.last_changed + 1_499) % self.running_pods.len();
        self.last_changed
    }

    /// Runs the next loop.
    pub(super) fn run_loop(&mut self) -> LoopResult {
        self.now += SCAN_SECONDS;
        self.cloud.begin_loop();
        self.autoscaler.run_once(moment(self.now), &mut self.cloud)
    }
}

fn node(name: &str, group: usize, size: usize) -> NodeBuilder {
    let (cpu, memory) = [("8", "32Gi"), ("4", "16Gi"), ("16", "64Gi"), ("32", "64Gi")][size];
    testobjects::node(name)
        .created("2025-12-31T00:00:00Z")
        .label("pool", &format!("group-{group}"))
        .label("tier", if group.is_multiple_of(10) { "special" } else { "usual" })
        .label("topology.kubernetes.io/zone", &format!("zone-{}", group % 3))
        .provider_id(&format!("bench://{name}"))
        .capacity("cpu", cpu)
        .capacity("memory", memory)
        .capacity("pods", "110")
        .capacity("ephemeral-storage", "100Gi")
        .ready_since("2025-12-31T00:00:00Z")
}

fn pod(name: &str, controller: usize, cpu: usize, on: Option<usize>) -> PodBuilder {
    let app = format!("app-{controller}");
    let pod = testobjects::pod(name)
        .created("2025-12-31T12:00:00Z")
        .label("app", &app)
        .owner_with_uid("ReplicaSet", &app, &format!("rs-{controller}"))
        .set("spec.schedulerName", "default-scheduler")
        .set("spec.containers.0.image", "app")
        .request("cpu", format!("{cpu}m"))
        .request("memory", format!("{}Mi", cpu * 2));
    let pod = if controller % 10 == 9 { pod.node_selector("tier", "special") } else { pod };
    match on {
        Some(node) => pod.on(&format!("node-{node}")).phase("Running"),
        None => {
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "lastTransitionTime": "2025-12-31T12:00:01Z",
            });
            pod.phase("Pending").set("status.conditions", json!([condition]))
        }
    }
}

fn moment(seconds: i64) -> Moment {
    Moment::from_nanos(seconds * 1_000_000_000)
}
