//! Benchmarks of a decision's cost as the cluster grows: constant in the number of pods, at most linear in nodes.

use super::manifest::{PodTemplate, affine, plain, prefers, spread};
use super::runner::run_workload;
use super::setup::WorkloadSetup;
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
/// The templates of running and measured pods.
const TEMPLATES: [(&str, PodTemplate); 4] = [
    ("plain pods", plain),
    ("required affinity", affine),
    ("preferred affinity", prefers),
    ("hard spreading", spread),
];

#[derive(Clone, Copy)]
struct ClusterSize {
    nodes: usize,
    pods: usize,
}

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
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

fn from_to(less: usize, more: usize, of: &str) -> String {
    format!("from {} to {} {of}", with_commas(less as f64), with_commas(more as f64))
}
