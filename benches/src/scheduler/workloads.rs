//! scheduler_perf's workloads (Kubernetes 1.36, test/integration/scheduler_perf): those of the topics misc, affinity,
//! topology_spreading and volumes for which its CI has a threshold, and those that the real scheduler's code can run
//! for comparison.

use std::time::Duration;

use model::What;
use serde_json::json;

use super::manifest::{
    self, affine, anti, avoids, claiming, csi_volume, daemon, gated, gated_affine, green, high,
    in_tree_volume, inclusive_spread, light, low, plain, prefers, secret, served, soft_spread, spread,
    team_affine, team_anti, team_avoids, team_prefers, tenth_too_large, too_large, zonal,
};
use super::setup::WorkloadSetup;

/// A workload.
pub(super) struct Workload {
    /// Its name in scheduler_perf.
    pub(super) name: &'static str,
    /// The threshold of Kubernetes' CI in pods per second; of several settings the highest.
    pub(super) threshold: Option<f64>,
    /// The name of the same workload in the program with the real scheduler's code.
    pub(super) go: Option<&'static str>,
    add_objects: fn(&mut WorkloadSetup),
}

const MOONS: [&str; 3] = ["moon-1", "moon-2", "moon-3"];
const DEFAULT: &str = "default";
/// The virtual pods per second of workloads without a threshold.
const DEFAULT_RATE: f64 = 100.0;

/// All workloads, except those with resource claims: such pods are not supported.
pub(super) const WORKLOADS: &[Workload] = &[
    Workload::new("SchedulingBasic", 270.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(1_000, DEFAULT, plain);
        setup.add_measured_pods(10_000, DEFAULT, plain);
    })
    .compared_with_go(),
    Workload::new("SchedulingDaemonset", 390.0, |setup| {
        setup.add_single_node();
        setup.add_nodes(15_000);
        setup.add_measured_pods(30_000, DEFAULT, daemon);
    }),
    Workload::new("PreemptionAsync", 160.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(20_000, DEFAULT, low);
        setup.add_measured_pods(5_000, DEFAULT, plain);
        setup.add_churn(Duration::from_millis(200), |index| vec![What::Added(churned_pod(index, high))]);
        setup.has_victims = true;
    }),
    Workload::new("Unschedulable", 170.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(100, DEFAULT, plain);
        setup.add_measured_pods(10_000, DEFAULT, plain);
        setup.add_churn(Duration::from_millis(200), |index| vec![What::Added(churned_pod(index, too_large))]);
    }),
    Workload::new("SchedulingWithMixedChurn", 265.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_measured_pods(10_000, DEFAULT, plain);
        setup.add_churn(Duration::from_secs(1), mixed_churn);
    }),
    Workload::new("SchedulingWhileGated", 130.0, |setup| {
        setup.add_single_node();
        setup.add_gated_pods(10_000, DEFAULT, gated);
        setup.add_running_pods(20_000, DEFAULT, light);
        setup.add_measured_pods(20_000, DEFAULT, light);
        setup.delete_running_pods(Duration::from_millis(20));
    }),
    Workload::new("SchedulingPodAntiAffinity", 60.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(1_000, "sched-0", anti);
        setup.add_measured_pods(2_000, "sched-1", anti);
    })
    .compared_with_go(),
    Workload::new("SchedulingPodMatchingAntiAffinity", 600.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(1_000, "sched-0", anti);
        setup.add_measured_pods(5_000, "sched-1", green);
    }),
    Workload::new("SchedulingPodAffinity", 35.0, |setup| {
        setup.add_nodes_in_zones(5_000, &["zone1"]);
        setup.add_running_pods(5_000, "sched-0", affine);
        setup.add_measured_pods(5_000, "sched-1", affine);
    })
    .compared_with_go(),
    Workload::new("SchedulingPreferredPodAffinity", 90.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(5_000, "sched-0", prefers);
        setup.add_measured_pods(5_000, "sched-1", prefers);
    })
    .compared_with_go(),
    Workload::new("SchedulingPreferredPodAntiAffinity", 90.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(5_000, "sched-0", avoids);
        setup.add_measured_pods(5_000, "sched-1", avoids);
    }),
    Workload::new("SchedulingNodeAffinity", 220.0, |setup| {
        setup.add_nodes_in_zones(5_000, &["zone1"]);
        setup.add_running_pods(5_000, DEFAULT, zonal);
        setup.add_measured_pods(10_000, DEFAULT, zonal);
    })
    .compared_with_go(),
    Workload::new("MixedSchedulingBasePod", 140.0, |setup| {
        setup.add_nodes_in_zones(5_000, &["zone1"]);
        for template in [plain, affine, anti, prefers, avoids] {
            setup.add_running_pods(2_000, "sched-0", template);
        }
        setup.add_measured_pods(5_000, DEFAULT, plain);
    }),
    Workload::new("SchedulingRequiredPodAntiAffinityWithNSSelector", 24.0, |setup| {
        setup.add_nodes(6_000);
        add_teams(setup, 40, team_anti);
        setup.add_measured_pods(2_000, "measure-ns-0", team_anti);
    }),
    Workload::new("SchedulingPreferredAntiAffinityWithNSSelector", 55.0, |setup| {
        setup.add_nodes(5_000);
        add_teams(setup, 40, team_avoids);
        setup.add_measured_pods(2_000, "measure-ns-0", team_avoids);
    }),
    Workload::new("SchedulingRequiredPodAffinityWithNSSelector", 35.0, |setup| {
        setup.add_nodes_in_zones(5_000, &["zone1"]);
        add_teams(setup, 50, team_affine);
        setup.add_measured_pods(2_000, "measure-ns-0", team_affine);
    }),
    Workload::new("SchedulingPreferredAffinityWithNSSelector", 90.0, |setup| {
        setup.add_nodes(5_000);
        add_teams(setup, 50, team_prefers);
        setup.add_measured_pods(5_000, "measure-ns-0", team_prefers);
    }),
    Workload::new("SchedulingGatedPodsWithPodAffinityImpactForThroughput", 110.0, |setup| {
        setup.add_single_node();
        setup.add_gated_pods(10_000, DEFAULT, gated_affine);
        setup.add_measured_pods(20_000, DEFAULT, served);
    }),
    Workload::new("TopologySpreading", 85.0, |setup| {
        setup.add_nodes_in_zones(5_000, &MOONS);
        setup.add_running_pods(5_000, DEFAULT, plain);
        setup.add_measured_pods(5_000, DEFAULT, spread);
    })
    .compared_with_go(),
    Workload::new("PreferredTopologySpreading", 125.0, |setup| {
        setup.add_nodes_in_zones(5_000, &MOONS);
        setup.add_running_pods(5_000, DEFAULT, plain);
        setup.add_measured_pods(5_000, DEFAULT, soft_spread);
    })
    .compared_with_go(),
    Workload::new("SchedulingWithNodeInclusionPolicy", 68.0, |setup| {
        setup.add_nodes(4_000);
        setup.add_tainted_nodes(1_000);
        setup.add_measured_pods(4_000, DEFAULT, inclusive_spread);
    }),
    Workload::new("SchedulingSecrets", 260.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(1_000, DEFAULT, secret);
        setup.add_measured_pods(10_000, DEFAULT, secret);
    }),
    Workload::new("SchedulingInTreePVs", 90.0, |setup| {
        setup.add_nodes(5_000);
        setup.add_claims(1_000, "namespace-1", in_tree_volume);
        setup.add_running_pods(1_000, "namespace-1", claiming);
        setup.add_claims(2_000, "namespace-2", in_tree_volume);
        setup.add_measured_pods(2_000, "namespace-2", claiming);
    }),
    Workload::new("SchedulingMigratedInTreePVs", 35.0, |setup| {
        setup.add_nodes_with_driver(5_000, "kubernetes.io/aws-ebs");
        setup.add_claims(5_000, "namespace-1", in_tree_volume);
        setup.add_running_pods(5_000, "namespace-1", claiming);
        setup.add_claims(5_000, "namespace-2", in_tree_volume);
        setup.add_measured_pods(5_000, "namespace-2", claiming);
    }),
    Workload::new("SchedulingCSIPVs", 48.0, |setup| {
        setup.add_nodes_with_driver(5_000, "");
        setup.add_claims(5_000, "namespace-1", csi_volume);
        setup.add_running_pods(5_000, "namespace-1", claiming);
        setup.add_claims(5_000, "namespace-2", csi_volume);
        setup.add_measured_pods(5_000, "namespace-2", claiming);
    }),
    Workload::without_threshold("DefaultTopologySpreading", "DefaultTopologySpreading", |setup| {
        setup.add_nodes_in_zones(5_000, &MOONS);
        setup.add_object(&manifest::service("service-ns", "service", "scheduler-perf"));
        setup.add_running_pods(5_000, DEFAULT, plain);
        setup.add_measured_pods(10_000, "service-ns", |pod, _| {
            pod["metadata"]["labels"] = json!({ "app": "scheduler-perf" });
        });
    }),
    Workload::without_threshold("Unschedulable, every tenth pod", "Unschedulable", |setup| {
        setup.add_nodes(5_000);
        setup.add_running_pods(100, DEFAULT, plain);
        setup.add_measured_pods(10_000, DEFAULT, tenth_too_large);
        setup.unschedulable = 1_000;
    }),
    Workload::without_threshold("PreemptionBasic", "PreemptionBasic", |setup| {
        setup.add_nodes(500);
        setup.add_running_pods(2_000, DEFAULT, low);
        setup.add_measured_pods(500, DEFAULT, high);
        setup.retries_preemptor_at_once = true;
        setup.has_victims = true;
    }),
];

/// The workload of this name.
pub(super) fn named(name: &str) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|workload| workload.name == name)
}

// === impl Workload ===

impl Workload {
    const fn new(name: &'static str, threshold: f64, add_objects: fn(&mut WorkloadSetup)) -> Workload {
        Workload { name, threshold: Some(threshold), go: None, add_objects }
    }

    const fn without_threshold(
        name: &'static str,
        go: &'static str,
        add_objects: fn(&mut WorkloadSetup),
    ) -> Workload {
        Workload { name, threshold: None, go: Some(go), add_objects }
    }

    const fn compared_with_go(mut self) -> Workload {
        self.go = Some(self.name);
        self
    }

    /// Its setup.
    pub(super) fn setup(&self) -> WorkloadSetup {
        let mut setup = WorkloadSetup::new(self.threshold.unwrap_or(DEFAULT_RATE));
        for name in [DEFAULT, "sched-0", "sched-1", "service-ns", "namespace-1", "namespace-2"] {
            setup.add_object(&manifest::namespace(name, &json!({})));
        }
        (self.add_objects)(&mut setup);
        setup
    }
}

/// Adds a hundred namespaces of a team with `pods` pods each, and the namespace of the measured pods.
fn add_teams(setup: &mut WorkloadSetup, pods: usize, template: manifest::PodTemplate) {
    setup.add_team_namespaces("init-ns", 100);
    setup.add_team_namespaces("measure-ns", 1);
    for index in 0..100 {
        setup.add_running_pods(pods, &format!("init-ns-{index}"), template);
    }
}

fn churned_pod(index: usize, template: manifest::PodTemplate) -> model::Object {
    let mut pod = manifest::pod(DEFAULT, &format!("churn-{index:05}"));
    template(&mut pod, index);
    manifest::object(&pod)
}

/// Alternately creates and deletes a node without capacity, a pod too large for any node and a service.
fn mixed_churn(index: usize) -> Vec<What> {
    let number = index / 2;
    let mut node = manifest::node(&format!("node-churn-{number}"));
    node["status"]["allocatable"] = json!({ "pods": "0" });
    let service = manifest::service(DEFAULT, &format!("service-churn-{number}"), "foo");
    let objects = [manifest::object(&node), churned_pod(number, too_large), manifest::object(&service)];
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
            let setup = named(name).unwrap().setup();
            let sizes =
                (setup.node_count(), setup.running_pod_count(), setup.measured.len(), setup.events.len());
            assert_eq!(sizes, (nodes, placed, measured, events), "{name}");
        }
    }
}
