//! Decisions a second, beside what Kubernetes' CI demands and beside the real scheduler's own code.

use super::child::{self, Report};
use super::go::{Go, Rate};
use super::workloads::{WORKLOADS, Workload};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;

/// Decisions a second, on each workload.
const BUDGET: f64 = 20_000.0;
/// How many times what the CI demands.
const THRESHOLDS: f64 = 100.0;
/// How many times the real code's own rate.
const GO_BUDGET: f64 = 20.0;
/// How long a workload is measured.
const SECONDS: f64 = 1.0;
/// How long the real code has for one, twice.
const GO_SECONDS: u32 = 3;
const FULL_GO_SECONDS: u32 = 10;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let wanted: Vec<&Workload> =
        WORKLOADS.iter().filter(|workload| studio.is_wanted(workload.name)).collect();
    if wanted.is_empty() {
        let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
        return Err(format!("no workload's name has that in it; there are {}", names.join("; ")).into());
    }
    let go = Go::find()?;
    let seconds = if studio.is_full() { FULL_GO_SECONDS } else { GO_SECONDS };
    for workload in wanted {
        eprintln!("  {}", workload.name);
        let rates = match go.as_ref().zip(workload.go) {
            Some((go, name)) => go.measure(name, seconds)?,
            None => Vec::new(),
        };
        let mut laps: Vec<usize> = rates.iter().map(|rate| rate.measured).collect();
        laps.sort_unstable();
        laps.dedup();
        let report = child::workload(workload, SECONDS, &laps)?;
        figures.add(figure(workload, &report, &rates, &laps));
    }
    if go.is_none() {
        figures.skip("the real scheduler's code on the same", "skipped: no go");
    }
    figures.skip("workloads with resource claims", "pods with claims are refused, not simulated");
    Ok(())
}

fn figure(workload: &Workload, report: &Report, rates: &[Rate], laps: &[usize]) -> Figure {
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
    let demanded = workload.threshold.map_or(0.0, |threshold| threshold * THRESHOLDS);
    let last = &report.runs[report.runs.len() - 1];
    // A pod for which room is made takes two decisions.
    let decisions_a_pod = last.attempts as f64 / pods;
    let mut figure =
        Figure::new(what, rate, Unit::PodsPerSecond).budget(demanded.max(BUDGET / decisions_a_pod));
    if let Some(threshold) = workload.threshold {
        figure = figure.also("Kubernetes' threshold", rate / threshold, Unit::Times);
    }
    figure = figure.also("best", pods / seconds.least(), Unit::PodsPerSecond);
    for (name, count) in [("found no node", last.refused), ("pods that had to go", last.victims)] {
        if count > 0 {
            figure = figure.also(name, count as f64, Unit::Count);
        }
    }
    for go in rates {
        let lap = laps.iter().position(|lap| *lap == go.measured).expect("every rate's pods are a lap");
        let ours = go.measured as f64 / of_runs(&|run| report.runs[run].laps[lap]).median();
        let name = match (go.parallelism, go.cpu_seconds < go.seconds * 0.9) {
            (1, false) => "Go, one by one",
            (1, true) => "Go, one by one, disturbed",
            _ => "Go, side by side",
        };
        figure = figure.peer_on_part(name, go.pods_per_second, ours).times_peers(GO_BUDGET);
    }
    figure
}
