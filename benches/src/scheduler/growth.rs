//! Benchmarks of a decision's cost as the cluster grows: constant in the number of pods, of workloads and of disruption
//! budgets, at most linear in nodes; and of a node update's cost after topology keys went out of use.

use std::time::Instant;

use model::What;
use scheduler::{Scheduler, Settings};
use serde_json::json;

use super::manifest::{self, PodTemplate, affine, high, plain, prefers, replica, spread, twentieth};
use super::runner::run_workload;
use super::setup::{START, WorkloadSetup};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;

/// The sizes compared: nodes, and pods on them.
const SMALL: ClusterSize = ClusterSize { nodes: 1_000, pods: 5_000 };
const USUAL: ClusterSize = ClusterSize { nodes: 5_000, pods: 5_000 };
const FULL: ClusterSize = ClusterSize { nodes: 5_000, pods: 50_000 };
const LARGE: ClusterSize = ClusterSize { nodes: 15_000, pods: 5_000 };
/// The number of pods decided each time.
const MEASURED: usize = 2_000;
/// How often each size is measured, alternating, so that other load on the machine affects all alike.
const ROUNDS: usize = 5;
/// No growth, except for noise and processor cache misses.
const NO_GROWTH: f64 = 1.25;
/// Some growth: ten times as much is read, and a bounded number of unused topology keys is kept.
const SOME_GROWTH: f64 = 1.5;
/// The templates of running and measured pods.
const TEMPLATES: [(&str, PodTemplate); 4] = [
    ("plain pods", plain),
    ("required affinity", affine),
    ("preferred affinity", prefers),
    ("hard spreading", spread),
];

/// A cluster in use: nodes, and pods on them.
const BUSY: ClusterSize = ClusterSize { nodes: 5_000, pods: 100_000 };
/// How often a large setup is measured.
const FEW_ROUNDS: usize = 3;
/// The numbers of workloads compared, each with a service. Every pod belongs to one of them.
const WORKLOADS: [usize; 2] = [200, 2_000];
/// The numbers of disruption budgets compared.
const BUDGETS: [usize; 2] = [20, 2_000];
/// The number of pods that preempt others.
const PREEMPTORS: usize = 100;
/// The number of topology keys that come and go.
const RETIRED_KEYS: usize = 1_000;
/// The number of node updates measured.
const NODE_UPDATES: usize = 1_000;

#[derive(Clone, Copy)]
struct ClusterSize {
    nodes: usize,
    pods: usize,
}

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    growth_by_size(env, results)?;
    let mut compare = |what: String, [less, more]: [f64; 2], budget: f64| {
        results.add(
            Measurement::new(what, more / less, Unit::Times)
                .budget(budget)
                .detail("from", less, Unit::Seconds)
                .detail("to", more, Unit::Seconds),
        );
    };
    if env.is_selected("workloads") {
        let what = from_to(WORKLOADS[0], WORKLOADS[1], "workloads");
        compare(format!("growth of a decision's cost: {what}"), costs_by_workloads()?, SOME_GROWTH);
    }
    if env.is_selected("disruption budgets") {
        let what = from_to(BUDGETS[0], BUDGETS[1], "disruption budgets");
        compare(format!("growth of a preemption's cost: {what}"), costs_by_budgets()?, NO_GROWTH);
    }
    if env.is_selected("topology keys") {
        let keys = with_commas(RETIRED_KEYS as f64);
        let what = format!("growth of a node update's cost: after {keys} topology keys that no pod uses");
        compare(what, costs_by_retired_keys()?, SOME_GROWTH);
    }
    Ok(())
}

fn growth_by_size(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    for (kind, template) in TEMPLATES {
        if !env.is_selected(kind) {
            continue;
        }
        let [small, usual, full, large] = costs([SMALL, USUAL, FULL, LARGE], template)?;
        let mut compare = |what: &str, less: f64, more: f64, budget: f64| {
            results.add(
                Measurement::new(
                    format!("growth of a decision's cost, {kind}: {what}"),
                    more / less,
                    Unit::Times,
                )
                .budget(budget)
                .detail("from", less, Unit::Seconds)
                .detail("to", more, Unit::Seconds),
            );
        };
        compare(&from_to(USUAL.pods, FULL.pods, "pods"), usual, full, NO_GROWTH);
        for (less, more, costs) in [(SMALL, USUAL, (small, usual)), (USUAL, LARGE, (usual, large))] {
            let linear = more.nodes as f64 / less.nodes as f64;
            compare(&from_to(less.nodes, more.nodes, "nodes"), costs.0, costs.1, linear);
        }
    }
    Ok(())
}

/// Seconds per decision at each size.
fn costs<const N: usize>(sizes: [ClusterSize; N], template: PodTemplate) -> Result<[f64; N]> {
    let setups = sizes.map(|size| {
        let mut setup = WorkloadSetup::new(1_000.0);
        setup.add_nodes_in_zones(size.nodes, &["moon-1", "moon-2", "moon-3"]);
        setup.add_running_pods(size.pods, "sched-0", template);
        setup.add_measured_pods(MEASURED, "sched-0", template);
        setup
    });
    let mut costs = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (setup, costs) in setups.iter().zip(&mut costs) {
            costs.push(run_workload(setup, &[])?.seconds / MEASURED as f64);
        }
    }
    Ok(costs.map(|costs| Samples::new(costs).median()))
}

/// Seconds per decision about pods of all workloads in turn, after each has been decided about once.
fn costs_by_workloads() -> Result<[f64; 2]> {
    let setups = WORKLOADS.map(|workloads| {
        let mut setup = WorkloadSetup::new(1_000.0);
        setup.add_nodes_in_zones(BUSY.nodes, &["moon-1", "moon-2", "moon-3"]);
        for workload in 0..workloads {
            let namespace = manifest::workload_namespace(workload);
            let app = manifest::workload_app(workload);
            setup.add_object(&manifest::service(&namespace, &app, &app));
        }
        for index in 0..BUSY.pods {
            setup.add_running_pod(&manifest::workload_namespace(index % workloads), |pod| {
                replica(pod, index % workloads);
            });
        }
        for index in 0..WORKLOADS[1] + 2 * WORKLOADS[1] {
            setup.add_measured_pod(&manifest::workload_namespace(index % workloads), |pod| {
                replica(pod, index % workloads);
            });
        }
        setup
    });
    let cost = |setup: &WorkloadSetup| {
        let run = run_workload(setup, &[WORKLOADS[1]])?;
        Ok((run.seconds - run.laps[0]) / (2 * WORKLOADS[1]) as f64)
    };
    medians(&setups, cost)
}

/// Seconds per pod that preempts others, on nodes with twenty pods each that a budget allows to be disrupted.
fn costs_by_budgets() -> Result<[f64; 2]> {
    let setups = BUDGETS.map(|budgets| {
        let mut setup = WorkloadSetup::new(1_000.0);
        setup.add_nodes(BUSY.nodes);
        for budget in 0..budgets {
            let namespace = manifest::workload_namespace(budget);
            setup.add_object(&manifest::disruption_budget(&namespace, &manifest::workload_app(budget)));
        }
        for index in 0..BUSY.pods {
            setup.add_running_pod(&manifest::workload_namespace(index % budgets), |pod| {
                twentieth(pod, index % budgets);
            });
        }
        setup.add_measured_pods(PREEMPTORS, "default", high);
        setup.retries_preemptor_at_once = true;
        setup.has_victims = true;
        setup
    });
    medians(&setups, |setup| Ok(run_workload(setup, &[])?.seconds / PREEMPTORS as f64))
}

/// Seconds per node update before topology keys were used, and after they went out of use.
fn costs_by_retired_keys() -> Result<[f64; 2]> {
    let mut setup = WorkloadSetup::new(1_000.0);
    setup.add_nodes_in_zones(BUSY.nodes, &["moon-1", "moon-2", "moon-3"]);
    setup.add_running_pods(BUSY.pods, "sched-0", spread);
    let mut scheduler = Scheduler::new(Settings::default());
    setup.initial.iter().for_each(|what| scheduler.apply(START, what));
    let before = node_update_cost(&mut scheduler);
    for index in 0..RETIRED_KEYS {
        let mut pod = manifest::pod("sched-0", "retired");
        manifest::spread_by(&mut pod, &format!("example.com/key-{index}"));
        let object = manifest::object(&pod);
        scheduler.apply(START, &What::Added(object.clone()));
        scheduler.attempt(START, "sched-0", "retired").ok_or("the scheduler does not know the pod")?;
        scheduler.apply(START, &What::Deleted(object));
    }
    Ok([before, node_update_cost(&mut scheduler)])
}

/// Seconds per update of a node's labels.
fn node_update_cost(scheduler: &mut Scheduler) -> f64 {
    let costs = (0..ROUNDS).map(|round| {
        let updates: Vec<What> = (0..NODE_UPDATES)
            .map(|index| {
                let mut node = manifest::node(&format!("node-{index:05}"));
                node["metadata"]["labels"][manifest::ZONE] = json!(format!("moon-{}", index % 3));
                node["metadata"]["labels"]["example.com/round"] = json!(round.to_string());
                What::Modified(manifest::object(&node))
            })
            .collect();
        let start = Instant::now();
        updates.iter().for_each(|update| scheduler.apply(START, update));
        start.elapsed().as_secs_f64() / NODE_UPDATES as f64
    });
    Samples::new(costs.collect()).median()
}

/// The median cost of each setup; they are measured in turn.
fn medians<const N: usize>(
    setups: &[WorkloadSetup; N],
    cost: impl Fn(&WorkloadSetup) -> Result<f64>,
) -> Result<[f64; N]> {
    let mut costs = [const { Vec::new() }; N];
    for _ in 0..FEW_ROUNDS {
        for (setup, costs) in setups.iter().zip(&mut costs) {
            costs.push(cost(setup)?);
        }
    }
    Ok(costs.map(|costs| Samples::new(costs).median()))
}

fn from_to(less: usize, more: usize, of: &str) -> String {
    format!("from {} to {} {of}", with_commas(less as f64), with_commas(more as f64))
}
