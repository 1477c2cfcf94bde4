//! Benchmarks of KAI-Scheduler's cycle on snapshots of a large GPU cluster: loading one, each action, and the memory.

pub(crate) mod child;
mod cluster;
mod cycle;
mod file;
mod free_nodes;
mod objects;

use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::{Bench, Result};
use cluster::{ClusterOptions, PendingJobs};

/// The benchmarks of KAI-Scheduler.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        name: "kai.tenth",
        about: "a cycle on 4,000 nodes that are 10 % full, with 2,000 jobs that wait",
        run: |env, results| measure(env, results, "10 % full", 0.10, 2000, PendingJobs::Mixed),
    },
    Bench {
        name: "kai.half",
        about: "a cycle on 4,000 nodes that are half full, with 2,000 jobs that wait",
        run: |env, results| measure(env, results, "50 % full", 0.50, 2000, PendingJobs::Mixed),
    },
    Bench {
        name: "kai.full",
        about: "a cycle on 4,000 nodes that are 95 % full, with 2,000 jobs that wait",
        run: |env, results| measure(env, results, "95 % full", 0.95, 2000, PendingJobs::Mixed),
    },
    Bench {
        name: "kai.gang",
        about: "a gang of 512 pods on 4,000 nodes that finds too few victims",
        run: |env, results| measure(env, results, "a large gang", 0.95, 200, PendingJobs::LargeGang),
    },
    Bench {
        name: "kai.reclaim",
        about: "1,000 jobs on 4,000 nodes that reclaim from two departments",
        run: |env, results| measure(env, results, "a reclaim storm", 0.95, 1000, PendingJobs::ReclaimStorm),
    },
];

const NODES: usize = 4000;
/// Running pods of a full node, so that the cluster has 140,000.
const PODS_PER_NODE: usize = 33;
const SEED: u64 = 1;
/// From the file to a session, in seconds.
const LOAD_BUDGET: f64 = 5.0;
/// All actions, in seconds.
const CYCLE_BUDGET: f64 = 2.5;
/// Peak resident memory.
const MEMORY_BUDGET: f64 = 2e9;

fn measure(
    env: &BenchEnv,
    results: &mut BenchResults,
    title: &str,
    fill: f64,
    pending_jobs: usize,
    pending: PendingJobs,
) -> Result<()> {
    let path = env.path("kai-snapshot.zip");
    let options = ClusterOptions {
        nodes: NODES,
        fill,
        pods_per_node: PODS_PER_NODE,
        pending_jobs,
        pending,
        seed: SEED,
    };
    file::write_snapshot(&path, &options)?;
    let report = child::measure_cycle(&path)?;
    let cycle = &report.cycle;
    let size = format!("{} nodes, {} pods", with_commas(cycle.nodes as f64), with_commas(cycle.pods as f64));
    results.add(
        Measurement::new(format!("{title}: load, {size}"), cycle.read + cycle.open, Unit::Seconds)
            .budget(LOAD_BUDGET)
            .detail("read", cycle.read, Unit::Seconds)
            .detail("open", cycle.open, Unit::Seconds),
    );
    let total = cycle.actions.iter().map(|action| action.seconds).sum();
    let mut measurement =
        Measurement::new(format!("{title}: cycle"), total, Unit::Seconds).budget(CYCLE_BUDGET);
    for action in &cycle.actions {
        measurement = measurement.detail(action.name.as_str(), action.seconds, Unit::Seconds);
    }
    let sum = |count: fn(&cycle::ActionReport) -> u64| cycle.actions.iter().map(count).sum::<u64>() as f64;
    let scenarios = sum(|action| action.scenarios);
    measurement = measurement
        .detail("bound", sum(|action| action.bound as u64), Unit::Count)
        .detail("pipelined", sum(|action| action.pipelined as u64), Unit::Count)
        .detail("evicted", sum(|action| action.evicted as u64), Unit::Count)
        .detail("scenarios", scenarios, Unit::Count);
    if scenarios > 0.0 {
        let searches = cycle.actions.iter().filter(|action| action.scenarios > 0);
        let seconds: f64 = searches.map(|action| action.seconds).sum();
        measurement = measurement.detail("each", seconds / scenarios, Unit::Seconds).detail(
            "evictions in each",
            sum(|action| action.simulated_evictions) / scenarios,
            Unit::Count,
        );
    }
    results.add(measurement);
    let title = format!("{title}: memory");
    match report.peak_memory {
        Some(peak) => results.add(Measurement::new(title, peak as f64, Unit::Bytes).budget(MEMORY_BUDGET)),
        None => results.skip(title, "process memory is only known on Linux"),
    }
    Ok(())
}
