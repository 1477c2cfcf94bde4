//! Benchmarks of decisions per second, compared with the thresholds of Kubernetes' CI and with the real scheduler's
//! code.

use super::child::{self, WorkloadReport};
use super::go_scheduler::{GoRate, GoScheduler};
use super::workloads::{WORKLOADS, Workload};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;

/// The minimum decisions per second, on each workload.
const BUDGET: f64 = 20_000.0;
/// The minimum ratio to the CI's threshold.
const THRESHOLD_BUDGET: f64 = 100.0;
/// The minimum ratio to the real code's rate.
const GO_BUDGET: f64 = 50.0;
/// How long a workload is measured.
const SECONDS: f64 = 1.0;
/// How long the real code is measured on a workload, twice.
const GO_SECONDS: u32 = 3;
const FULL_GO_SECONDS: u32 = 10;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let wanted: Vec<&Workload> = WORKLOADS.iter().filter(|workload| env.is_selected(workload.name)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        return Err(
            format!("no workload has this in its name; the workloads are {}", names.join("; ")).into()
        );
    }
    let go = GoScheduler::build()?;
    let seconds = if env.is_full() { FULL_GO_SECONDS } else { GO_SECONDS };
    for workload in wanted {
        eprintln!("  {}", workload.name);
        let rates = match go.as_ref().zip(workload.go) {
            Some((go, name)) => go.measure(name, seconds)?,
            None => Vec::new(),
        };
        let mut laps: Vec<usize> = rates.iter().map(|rate| rate.measured).collect();
        laps.sort_unstable();
        laps.dedup();
        let report = child::measure_workload(workload, SECONDS, &laps)?;
        results.add(measurement(workload, &report, &rates, &laps));
    }
    if go.is_none() {
        results.skip("the real scheduler's code on the same", "no go");
    }
    results.skip("workloads with resource claims", "pods with resource claims are not supported");
    Ok(())
}

fn measurement(
    workload: &Workload,
    report: &WorkloadReport,
    rates: &[GoRate],
    laps: &[usize],
) -> Measurement {
    let of_runs =
        |seconds: &dyn Fn(usize) -> f64| Samples::new((0..report.runs.len()).map(seconds).collect());
    let seconds = of_runs(&|run| report.runs[run].seconds);
    let pods = report.measured as f64;
    let rate = pods / seconds.median();
    let what = format!(
        "{}: {} nodes, {} pods on them, {} more",
        workload.name,
        with_commas(report.nodes as f64),
        with_commas(report.placed as f64),
        with_commas(pods)
    );
    let threshold_budget = workload.threshold.map_or(0.0, |threshold| threshold * THRESHOLD_BUDGET);
    let last = &report.runs[report.runs.len() - 1];
    // A pod that preempts others takes two decisions.
    let decisions_per_pod = last.attempts as f64 / pods;
    let mut measurement = Measurement::new(what, rate, Unit::PodsPerSecond)
        .budget(threshold_budget.max(BUDGET / decisions_per_pod));
    if let Some(threshold) = workload.threshold {
        measurement = measurement.detail("Kubernetes' threshold", rate / threshold, Unit::Times);
    }
    measurement = measurement.detail("best", pods / seconds.min(), Unit::PodsPerSecond);
    for (name, count) in [("found no node", last.unschedulable), ("pods that had to go", last.victims)] {
        if count > 0 {
            measurement = measurement.detail(name, count as f64, Unit::Count);
        }
    }
    for go in rates {
        let lap =
            laps.iter().position(|lap| *lap == go.measured).expect("every measured number of pods is a lap");
        let ours = go.measured as f64 / of_runs(&|run| report.runs[run].laps[lap]).median();
        let name = match (go.parallelism, go.cpu_seconds < go.seconds * 0.9) {
            (1, false) => "Go, one by one",
            (1, true) => "Go, one by one, disturbed",
            _ => "Go, side by side",
        };
        measurement =
            measurement.baseline_on_part(name, go.pods_per_second, ours).min_ratio_to_baselines(GO_BUDGET);
    }
    measurement
}
