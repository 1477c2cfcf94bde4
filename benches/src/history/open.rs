//! Benchmarks of opening a history and of its summary.

use std::fs;
use std::path::Path;
use std::time::Instant;

use history::{History, Writer};

use super::child;
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;

const OPENINGS: usize = 100;
const KILLS: usize = 5;
const BUDGET: f64 = 0.05;
/// The budget of the summary, which `/metrics` and `/` read from each history.
const SUMMARY_BUDGET: f64 = 0.005;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let large = env.large_history()?;
    let of = format!("a history of {} changes", with_commas(large.changes as f64));
    let times = (0..OPENINGS).map(|_| open(&large.path)).collect::<Result<_>>()?;
    results.add(measurement(&format!("opening {of}: longest of {OPENINGS}"), &Samples::new(times)));
    let times = (0..OPENINGS).map(|_| summary(&large.path)).collect::<Result<_>>()?;
    let summaries = measurement(&format!("what {of} holds: longest of {OPENINGS}"), &Samples::new(times));
    results.add(summaries.budget(SUMMARY_BUDGET));

    let path = env.path("killed.kine");
    fs::copy(&large.path, &path)?;
    let (mut reading, mut writing, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..KILLS {
        child::append_until_killed(&path)?;
        logs.push(fs::metadata(env.path("killed.kine-wal"))?.len() as f64);
        reading.push(open(&path)?);
        let start = Instant::now();
        let writer = Writer::open(&path)?;
        writing.push(start.elapsed().as_secs_f64());
        writer.close()?;
    }
    fs::remove_file(&path)?;
    let logs = Samples::new(logs);
    let (reading, writing) = (Samples::new(reading), Samples::new(writing));
    results.add(measurement(&format!("opening {of} after kill -9: longest of {KILLS}"), &reading).detail(
        "largest log",
        logs.max(),
        Unit::Bytes,
    ));
    results.add(measurement(&format!("opening {of} after kill -9, to write: longest of {KILLS}"), &writing));
    Ok(())
}

fn measurement(what: &str, times: &Samples) -> Measurement {
    Measurement::new(what, times.max(), Unit::Seconds).budget(BUDGET).detail(
        "p50",
        times.median(),
        Unit::Seconds,
    )
}

/// Seconds to open a history and read its time span.
fn open(path: &Path) -> Result<f64> {
    let start = Instant::now();
    History::open(path)?.span()?;
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds to open a history and read its summary and gaps.
fn summary(path: &Path) -> Result<f64> {
    let start = Instant::now();
    let history = History::open(path)?;
    history.summary()?;
    history.gaps()?;
    Ok(start.elapsed().as_secs_f64())
}
