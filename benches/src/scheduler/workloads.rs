//! scheduler_perf's workloads (Kubernetes 1.36, test/integration/scheduler_perf): those of the topics misc, affinity,
//! topology_spreading and volumes for which its CI demands a throughput, and those that the real scheduler's code
//! can be asked for beside ours.

use std::time::Duration;

use model::What;
use serde_json::json;

use super::manifest::{
    self, affine, anti, avoids, claiming, csi_volume, daemon, gated, gated_affine, green, high,
    in_tree_volume, inclusive_spread, light, low, plain, prefers, secret, served, soft_spread, spread,
    team_affine, team_anti, team_avoids, team_prefers, tenth_too_large, too_large, zonal,
};
use super::stage::Stage;

/// A workload.
pub(super) struct Workload {
    /// As scheduler_perf calls it.
    pub(super) name: &'static str,
    /// How many pods a second Kubernetes' CI demands; of several settings the highest.
    pub(super) threshold: Option<f64>,
    /// What the real scheduler's code knows the very same under.
    pub(super) go: Option<&'static str>,
    set: fn(&mut Stage),
}

const MOONS: [&str; 3] = ["moon-1", "moon-2", "moon-3"];
const DEFAULT: &str = "default";
/// The pace of what no CI demands a throughput of.
const USUAL_PACE: f64 = 100.0;

/// All of them. Those with resource claims are left out: such pods are refused, not simulated.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload::new("SchedulingBasic", 270.0, |stage| {
        stage.nodes(5_000);
        stage.placed(1_000, DEFAULT, plain);
        stage.measured(10_000, DEFAULT, plain);
    })
    .beside_go(),
    Workload::new("SchedulingDaemonset", 390.0, |stage| {
        stage.the_node();
        stage.nodes(15_000);
        stage.measured(30_000, DEFAULT, daemon);
    }),
    Workload::new("PreemptionAsync", 160.0, |stage| {
        stage.nodes(5_000);
        stage.placed(20_000, DEFAULT, low);
        stage.measured(5_000, DEFAULT, plain);
        stage.churn(Duration::from_millis(200), |index| vec![What::Added(churned(index, high))]);
        stage.has_victims = true;
    }),
    Workload::new("Unschedulable", 170.0, |stage| {
        stage.nodes(5_000);
        stage.placed(100, DEFAULT, plain);
        stage.measured(10_000, DEFAULT, plain);
        stage.churn(Duration::from_millis(200), |index| vec![What::Added(churned(index, too_large))]);
    }),
    Workload::new("SchedulingWithMixedChurn", 265.0, |stage| {
        stage.nodes(5_000);
        stage.measured(10_000, DEFAULT, plain);
        stage.churn(Duration::from_secs(1), come_and_go);
    }),
    Workload::new("SchedulingWhileGated", 130.0, |stage| {
        stage.the_node();
        stage.held_back(10_000, DEFAULT, gated);
        stage.placed(20_000, DEFAULT, light);
        stage.measured(20_000, DEFAULT, light);
        stage.placed_pods_go(Duration::from_millis(20));
    }),
    Workload::new("SchedulingPodAntiAffinity", 60.0, |stage| {
        stage.nodes(5_000);
        stage.placed(1_000, "sched-0", anti);
        stage.measured(2_000, "sched-1", anti);
    })
    .beside_go(),
    Workload::new("SchedulingPodMatchingAntiAffinity", 600.0, |stage| {
        stage.nodes(5_000);
        stage.placed(1_000, "sched-0", anti);
        stage.measured(5_000, "sched-1", green);
    }),
    Workload::new("SchedulingPodAffinity", 35.0, |stage| {
        stage.nodes_in(5_000, &["zone1"]);
        stage.placed(5_000, "sched-0", affine);
        stage.measured(5_000, "sched-1", affine);
    })
    .beside_go(),
    Workload::new("SchedulingPreferredPodAffinity", 90.0, |stage| {
        stage.nodes(5_000);
        stage.placed(5_000, "sched-0", prefers);
        stage.measured(5_000, "sched-1", prefers);
    })
    .beside_go(),
    Workload::new("SchedulingPreferredPodAntiAffinity", 90.0, |stage| {
        stage.nodes(5_000);
        stage.placed(5_000, "sched-0", avoids);
        stage.measured(5_000, "sched-1", avoids);
    }),
    Workload::new("SchedulingNodeAffinity", 220.0, |stage| {
        stage.nodes_in(5_000, &["zone1"]);
        stage.placed(5_000, DEFAULT, zonal);
        stage.measured(10_000, DEFAULT, zonal);
    })
    .beside_go(),
    Workload::new("MixedSchedulingBasePod", 140.0, |stage| {
        stage.nodes_in(5_000, &["zone1"]);
        for template in [plain, affine, anti, prefers, avoids] {
            stage.placed(2_000, "sched-0", template);
        }
        stage.measured(5_000, DEFAULT, plain);
    }),
    Workload::new("SchedulingRequiredPodAntiAffinityWithNSSelector", 24.0, |stage| {
        stage.nodes(6_000);
        teams(stage, 40, team_anti);
        stage.measured(2_000, "measure-ns-0", team_anti);
    }),
    Workload::new("SchedulingPreferredAntiAffinityWithNSSelector", 55.0, |stage| {
        stage.nodes(5_000);
        teams(stage, 40, team_avoids);
        stage.measured(2_000, "measure-ns-0", team_avoids);
    }),
    Workload::new("SchedulingRequiredPodAffinityWithNSSelector", 35.0, |stage| {
        stage.nodes_in(5_000, &["zone1"]);
        teams(stage, 50, team_affine);
        stage.measured(2_000, "measure-ns-0", team_affine);
    }),
    Workload::new("SchedulingPreferredAffinityWithNSSelector", 90.0, |stage| {
        stage.nodes(5_000);
        teams(stage, 50, team_prefers);
        stage.measured(5_000, "measure-ns-0", team_prefers);
    }),
    Workload::new("SchedulingGatedPodsWithPodAffinityImpactForThroughput", 110.0, |stage| {
        stage.the_node();
        stage.held_back(10_000, DEFAULT, gated_affine);
        stage.measured(20_000, DEFAULT, served);
    }),
    Workload::new("TopologySpreading", 85.0, |stage| {
        stage.nodes_in(5_000, &MOONS);
        stage.placed(5_000, DEFAULT, plain);
        stage.measured(5_000, DEFAULT, spread);
    })
    .beside_go(),
    Workload::new("PreferredTopologySpreading", 125.0, |stage| {
        stage.nodes_in(5_000, &MOONS);
        stage.placed(5_000, DEFAULT, plain);
        stage.measured(5_000, DEFAULT, soft_spread);
    })
    .beside_go(),
    Workload::new("SchedulingWithNodeInclusionPolicy", 68.0, |stage| {
        stage.nodes(4_000);
        stage.tainted_nodes(1_000);
        stage.measured(4_000, DEFAULT, inclusive_spread);
    }),
    Workload::new("SchedulingSecrets", 260.0, |stage| {
        stage.nodes(5_000);
        stage.placed(1_000, DEFAULT, secret);
        stage.measured(10_000, DEFAULT, secret);
    }),
    Workload::new("SchedulingInTreePVs", 90.0, |stage| {
        stage.nodes(5_000);
        stage.claims(1_000, "namespace-1", in_tree_volume);
        stage.placed(1_000, "namespace-1", claiming);
        stage.claims(2_000, "namespace-2", in_tree_volume);
        stage.measured(2_000, "namespace-2", claiming);
    }),
    Workload::new("SchedulingMigratedInTreePVs", 35.0, |stage| {
        stage.nodes_with_driver(5_000, "kubernetes.io/aws-ebs");
        stage.claims(5_000, "namespace-1", in_tree_volume);
        stage.placed(5_000, "namespace-1", claiming);
        stage.claims(5_000, "namespace-2", in_tree_volume);
        stage.measured(5_000, "namespace-2", claiming);
    }),
    Workload::new("SchedulingCSIPVs", 48.0, |stage| {
        stage.nodes_with_driver(5_000, "");
        stage.claims(5_000, "namespace-1", csi_volume);
        stage.placed(5_000, "namespace-1", claiming);
        stage.claims(5_000, "namespace-2", csi_volume);
        stage.measured(5_000, "namespace-2", claiming);
    }),
    Workload::unbounded("DefaultTopologySpreading", "DefaultTopologySpreading", |stage| {
        stage.nodes_in(5_000, &MOONS);
        stage.object(&manifest::service("service-ns", "service", "scheduler-perf"));
        stage.placed(5_000, DEFAULT, plain);
        stage.measured(10_000, "service-ns", |pod, _| {
            pod["metadata"]["labels"] = json!({ "app": "scheduler-perf" });
        });
    }),
    Workload::unbounded("Unschedulable, every tenth pod", "Unschedulable", |stage| {
        stage.nodes(5_000);
        stage.placed(100, DEFAULT, plain);
        stage.measured(10_000, DEFAULT, tenth_too_large);
        stage.finds_none = 1_000;
    }),
    Workload::unbounded("PreemptionBasic", "PreemptionBasic", |stage| {
        stage.nodes(500);
        stage.placed(2_000, DEFAULT, low);
        stage.measured(500, DEFAULT, high);
        stage.tries_again_at_once = true;
        stage.has_victims = true;
    }),
];

/// The workload of that name.
pub(super) fn named(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

// === impl Workload ===

impl Workload {
    const fn new(name: &'static str, threshold: f64, set: fn(&mut Stage)) -> Workload {
        Workload { name, threshold: Some(threshold), go: None, set }
    }

    const fn unbounded(name: &'static str, go: &'static str, set: fn(&mut Stage)) -> Workload {
        Workload { name, threshold: None, go: Some(go), set }
    }

    const fn beside_go(mut self) -> Workload {
        self.go = Some(self.name);
        self
    }

    /// Its objects.
    pub(super) fn stage(&self) -> Stage {
        let mut stage = Stage::new(self.threshold.unwrap_or(USUAL_PACE));
        for name in [DEFAULT, "sched-0", "sched-1", "service-ns", "namespace-1", "namespace-2"] {
            stage.object(&manifest::namespace(name, &json!({})));
        }
        (self.set)(&mut stage);
        stage
    }
}

/// A hundred namespaces of a team with so many pods each, and the one of the measured pods.
fn teams(stage: &mut Stage, pods: usize, template: manifest::Template) {
    stage.team_namespaces("init-ns", 100);
    stage.team_namespaces("measure-ns", 1);
    for index in 0..100 {
        stage.placed(pods, &format!("init-ns-{index}"), template);
    }
}

fn churned(index: usize, template: manifest::Template) -> model::Object {
    let mut pod = manifest::pod(DEFAULT, &format!("churn-{index:05}"));
    template(&mut pod, index);
    manifest::object(&pod)
}

/// A node without room, a pod too large for any and a service come, and the next time they go.
fn come_and_go(index: usize) -> Vec<What> {
    let life = index / 2;
    let mut node = manifest::node(&format!("node-churn-{life}"));
    node["status"]["allocatable"] = json!({ "pods": "0" });
    let service = manifest::service(DEFAULT, &format!("service-churn-{life}"), "foo");
    let objects = [manifest::object(&node), churned(life, too_large), manifest::object(&service)];
    let what = if index.is_multiple_of(2) { What::Added } else { What::Deleted };
    objects.into_iter().map(what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_are_those_of_scheduler_perf() {
        for (name, nodes, placed, measured, events) in [
            ("SchedulingBasic", 5_000, 1_000, 10_000, 0),
            // 31 seconds at 160 pods a second, a pod every fifth of one.
            ("PreemptionAsync", 5_000, 20_000, 5_000, 156),
            ("SchedulingRequiredPodAntiAffinityWithNSSelector", 6_000, 4_000, 2_000, 0),
            ("MixedSchedulingBasePod", 5_000, 10_000, 5_000, 0),
        ] {
            let stage = named(name).unwrap().stage();
            let sizes = (stage.node_count(), stage.placed_count(), stage.measured.len(), stage.events.len());
            assert_eq!(sizes, (nodes, placed, measured, events), "{name}");
        }
    }
}
