//! Loops compared with loops in which nothing is cached and every removal is carried out in the snapshot.

use std::collections::BTreeMap;
use std::time::Duration;

use model::What;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::json;
use testobjects::{NodeBuilder, PodBuilder, case_count, resource};

use super::super::super::cloud::ObservedCloud;
use super::super::super::groups::{Membership, NodeGroup};
use super::super::super::settings::Version;
use super::super::super::testing::group;
use super::super::super::{Autoscaler, LoopResult};
use super::START;
use super::*;

const LOOPS: usize = 30;
const NODES: usize = 14;
const CONTROLLERS: usize = 4;

/// A random cluster with two autoscalers that see the same changes.
struct TwinAutoscalers {
    rng: Pcg64,
    now: Moment,
    cached: Autoscaler,
    uncached: Autoscaler,
    cloud: ObservedCloud,
    nodes: BTreeMap<String, NodeBuilder>,
    pods: BTreeMap<String, PodBuilder>,
    created_count: usize,
    /// Whether there are pods that depend on other pods.
    has_related_pods: bool,
}

impl TwinAutoscalers {
    fn new(seed: u64) -> TwinAutoscalers {
        let mut rng = Pcg64::seed_from_u64(seed);
        let versions = [Version::V1_32, Version::V1_35, Version::V1_36, Version::V1_37];
        let mut settings = Settings::for_version(versions[rng.random_range(0..versions.len())]);
        settings.max_scale_down_parallelism = rng.random_range(1..8);
        settings.unremovable_node_recheck_timeout = Duration::from_secs(rng.random_range(5..60));
        settings.skip_nodes_with_system_pods = rng.random();
        settings.group_defaults.scale_down_unneeded_time = Duration::from_secs(rng.random_range(30..900));
        let groups = (0..3).map(|number| NodeGroup {
            min: rng.random_range(0..3),
            members: Membership::Label { key: "pool".into(), value: format!("g{number}").into() },
            ..group(&format!("g{number}"))
        });
        let cloud = ObservedCloud::new(groups.collect(), None, "".into());
        let autoscaler = || Autoscaler::new(settings.clone(), START);
        let (cached, mut uncached) = (autoscaler(), autoscaler());
        uncached.scale_down.carry_out_all_removals();
        let mut twins = TwinAutoscalers {
            has_related_pods: rng.random(),
            rng,
            now: START,
            cached,
            uncached,
            cloud,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            created_count: 0,
        };
        for number in 0..CONTROLLERS {
            twins.apply_controller(number, 3);
        }
        for _ in 0..NODES {
            twins.add_node();
        }
        for _ in 0..NODES * 3 {
            twins.add_pod();
        }
        twins
    }

    fn below(&mut self, limit: usize) -> usize {
        self.rng.random_range(0..limit)
    }

    fn apply(&mut self, event: &What) {
        self.cloud.apply(event);
        self.cached.apply(event);
        self.uncached.apply(event);
    }

    fn apply_controller(&mut self, number: usize, replicas: i64) {
        let set = resource("apps/v1", "ReplicaSet", &format!("app-{number}")).namespace("default");
        self.apply(&set.set("spec.replicas", replicas).added());
    }

    fn apply_budget(&mut self) {
        let (number, allowed) = (self.below(CONTROLLERS), self.below(4));
        let budget = resource("policy/v1", "PodDisruptionBudget", &format!("budget-{number}"))
            .namespace("default")
            .set("spec.selector.matchLabels", json!({"app": format!("app-{number}")}))
            .set("status.disruptionsAllowed", allowed);
        let event = if self.below(4) == 0 { budget.deleted() } else { budget.added() };
        self.apply(&event);
    }

    fn new_name(&mut self, prefix: &str) -> String {
        self.created_count += 1;
        format!("{prefix}-{}", self.created_count)
    }

    fn some_node(&mut self) -> Option<String> {
        let index = self.below(self.nodes.len().max(1));
        self.nodes.keys().nth(index).cloned()
    }

    fn some_pod(&mut self) -> Option<String> {
        let index = self.below(self.pods.len().max(1));
        self.pods.keys().nth(index).cloned()
    }

    fn add_node(&mut self) {
        let name = self.new_name("node");
        let node = testobjects::node(&name)
            .created("2025-12-30T00:00:00Z")
            .label("pool", &format!("g{}", self.below(4)))
            .label("zone", &format!("z{}", self.below(3)))
            .provider_id(&format!("test://{name}"))
            .capacity("cpu", "4")
            .capacity("memory", "4Gi")
            .capacity("pods", ["4", "20"][self.below(2)])
            .ready_since("2025-12-31T00:00:00Z");
        self.apply(&node.clone().added());
        self.nodes.insert(name, node);
    }

    /// Changes a node's object, or deletes it.
    fn change_node(&mut self) {
        let Some(name) = self.some_node() else { return };
        let node = self.nodes[&name].clone();
        let node = match self.below(5) {
            0 => node.taint("dedicated:NoSchedule"),
            1 => node.capacity("cpu", ["1", "4", "8"][self.below(3)]),
            2 => node.label("zone", &format!("z{}", self.below(3))),
            3 => node.cordoned(),
            _ => {
                self.nodes.remove(&name);
                return self.apply(&node.deleted());
            }
        };
        self.apply(&node.clone().modified());
        self.nodes.insert(name, node);
    }

    fn add_pod(&mut self) {
        let (name, app) = (self.new_name("pod"), format!("app-{}", self.below(CONTROLLERS)));
        let cpu = [0, 50, 200, 400, 1500][self.below(5)];
        let pod = testobjects::pod(&name)
            .uid(&format!("uid-of-{name}"))
            .created("2025-12-31T00:00:00Z")
            .label("app", &app)
            .owner("ReplicaSet", &app)
            .request("cpu", format!("{cpu}m"))
            .request("memory", "100Mi")
            .priority(self.below(2) as i64 * 10);
        let mut pod = match self.below(12) {
            0 => pod.owner("DaemonSet", "agent"),
            1 => pod.namespace("kube-system"),
            2 => pod.annotation("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
            3 => pod.node_selector("zone", "z1"),
            4 => pod.set("spec.tolerations", json!([{"operator": "Exists"}])),
            _ => pod,
        };
        if self.has_related_pods && self.below(4) == 0 {
            pod = self.relate(pod, &app);
        }
        let pod = match self.some_node().filter(|_| !self.created_count.is_multiple_of(7)) {
            Some(node) => pod.on(&node).phase("Running"),
            None => pod.phase("Pending").unschedulable("no room"),
        };
        self.apply(&pod.clone().added());
        self.pods.insert(name, pod);
    }

    /// Makes a pod depend on other pods.
    fn relate(&mut self, pod: PodBuilder, app: &str) -> PodBuilder {
        let selector = json!({"matchLabels": {"app": app}});
        match self.below(3) {
            0 => {
                let constraint = json!({"maxSkew": 2, "topologyKey": "zone", "labelSelector": selector,
                    "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"});
                pod.set("spec.topologySpreadConstraints", json!([constraint]))
            }
            1 => {
                let term = json!({"topologyKey": "zone", "labelSelector": selector});
                let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                pod.set("spec.affinity.podAntiAffinity", required)
            }
            _ => pod.host_port(80),
        }
    }

    /// Changes a pod, or deletes it.
    fn change_pod(&mut self) {
        let Some(name) = self.some_pod() else { return };
        let pod = self.pods[&name].clone();
        let pod = match self.below(6) {
            0 => pod.annotation("cluster-autoscaler.kubernetes.io/safe-to-evict", "true"),
            1 => pod.terminating(self.now.timestamp()),
            2 => pod.label("app", &format!("app-{}", self.below(CONTROLLERS))),
            // Irrelevant.
            3 => pod.set("status.podIP", format!("10.0.0.{}", self.below(200))),
            _ => {
                self.pods.remove(&name);
                return self.apply(&pod.deleted());
            }
        };
        self.apply(&pod.clone().modified());
        self.pods.insert(name, pod);
    }

    fn change(&mut self) {
        match self.below(20) {
            0 => self.add_node(),
            1 | 2 => self.change_node(),
            3 => {
                let (number, replicas) = (self.below(CONTROLLERS), self.below(3) as i64);
                self.apply_controller(number, replicas);
            }
            4 => self.apply_budget(),
            5..=10 => self.add_pod(),
            _ => self.change_pod(),
        }
    }

    /// Runs a loop of both autoscalers and the work between two loops, and compares them.
    fn run_loop(&mut self, what: &str) -> LoopResult {
        self.now = self.now.plus_nanos(kubernetes::time::seconds(1 + self.below(20) as i64));
        self.uncached.scale_down.clear_caches();
        let run = |autoscaler: &mut Autoscaler, cloud: &ObservedCloud, now: Moment| {
            let mut cloud = cloud.clone();
            cloud.begin_loop();
            let background = autoscaler.background(now, &mut cloud);
            (autoscaler.run_once(now, &mut cloud), background, autoscaler.status(), autoscaler.may_repeat())
        };
        let found = run(&mut self.cached, &self.cloud, self.now);
        let expected = run(&mut self.uncached, &self.cloud, self.now);
        assert_eq!(found, expected, "{what}");
        found.0
    }
}

#[test]
fn caches_do_not_change_decisions() {
    let (mut unneeded_count, mut drained_count) = (0, 0);
    for seed in 0..case_count(60, 2_000) as u64 {
        let mut twins = TwinAutoscalers::new(seed);
        for number in 0..LOOPS {
            // In some loops nothing has changed.
            for _ in 0..[0, 1, 1, 4][twins.below(4)] {
                twins.change();
            }
            let result = twins.run_loop(&format!("seed {seed}, loop {number}"));
            unneeded_count += result.scale_down.unneeded.len();
            let removed_nodes = result.scale_down.removed_nodes.iter();
            drained_count += removed_nodes.filter(|node| !node.evicted_pods.is_empty()).count();
        }
    }
    assert!(unneeded_count > 1_000 && drained_count > 10, "{unneeded_count} {drained_count}");
}
