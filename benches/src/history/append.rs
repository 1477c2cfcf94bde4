//! Benchmarks of appending and importing changes.

use std::path::Path;
use std::time::{Duration, Instant};

use history::{Batch, BulkWriter, Writer};
use model::IncomingChange;
use workload::churn::{ChurnOptions, churn};

use super::baselines;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;
use crate::{Result, machine};

/// All changes are generated before the measurement: some 400 MB.
pub(super) const CHANGES: u64 = 100_000;
/// The batch size of a busy watch.
const BATCH: usize = 256;
/// The result is the median, with minimum and maximum as the noise.
const RUNS: usize = 3;

/// The times of one run of the writer.
struct AppendRun {
    /// Until all changes were durable.
    appended: Duration,
    /// Until all changes were packed and the file was closed.
    closed: Duration,
    /// Processor time of the writer thread until all changes were durable.
    writer_cpu: Option<Duration>,
    /// Processor time of all threads until the end.
    all_cpu: Option<Duration>,
}

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let changes: Vec<IncomingChange> =
        churn(ChurnOptions { changes: CHANGES, ..ChurnOptions::default() }).collect();
    let (mut runs, mut bulk, mut naive) = (Vec::new(), Vec::new(), Vec::new());
    // Alternating, so that other load on the machine affects all alike.
    for _ in 0..RUNS {
        runs.push(write(&env.path("append.kine"), &changes)?);
        bulk.push(import(&env.path("bulk.kine"), &changes)?);
        naive.push(baselines::sqlite_rows(&env.path("naive.sqlite"), &changes)?.took);
    }
    let rates = |times: Vec<Duration>| {
        Samples::new(times.iter().map(|time| CHANGES as f64 / time.as_secs_f64()).collect())
    };
    let noisy = |what: &str, rates: &Samples| {
        Measurement::new(what, rates.median(), Unit::ChangesPerSecond)
            .detail("least", rates.min(), Unit::Count)
            .detail("most", rates.max(), Unit::Count)
    };
    let naive = rates(naive);
    let (name, peer) = (baselines::SQLITE, naive.median());

    let appended = rates(runs.iter().map(|run| run.appended).collect());
    results.add(noisy("append, wall clock until durable", &appended).budget(50_000.0).baseline(name, peer));
    let what = "append, by the writer thread's processor time";
    match runs.iter().map(|run| run.writer_cpu).collect::<Option<_>>() {
        Some(times) => results.add(noisy(what, &rates(times)).budget(50_000.0)),
        None => results.skip(what, "processor time of threads is only known on Linux"),
    }
    let closed = rates(runs.iter().map(|run| run.closed).collect());
    results.add(noisy("packing, wall clock from first append to closed file", &closed).budget(20_000.0));
    let what = "packing, by the processor time of all threads";
    match runs.iter().map(|run| run.all_cpu).collect::<Option<_>>() {
        Some(times) => results.add(noisy(what, &rates(times))),
        None => results.skip(what, "processor time of processes is only known on Linux"),
    }
    results.add(noisy("bulk import", &rates(bulk)).baseline(name, peer));
    results.add(noisy(&format!("peer: append to {name}"), &naive));
    if let Some(import) = env.large_history()?.import_time {
        let changes = env.large_history()?.changes as f64;
        let what = format!("bulk import of {} changes, 100,000 objects alive", with_commas(changes));
        results.add(Measurement::new(what, changes / import.as_secs_f64(), Unit::ChangesPerSecond));
    }
    Ok(())
}

fn write(path: &Path, changes: &[IncomingChange]) -> Result<AppendRun> {
    let batches = batches(changes);
    let time_before = machine::process_cpu_time();
    let writer = Writer::open(path)?;
    let start = Instant::now();
    for batch in batches {
        writer.append(batch)?;
    }
    writer.flush()?;
    let appended = start.elapsed();
    let thread = machine::thread_cpu_time("writer");
    writer.close()?;
    let closed = start.elapsed();
    let all =
        machine::process_cpu_time().zip(time_before).map(|(after, before)| after.saturating_sub(before));
    std::fs::remove_file(path)?;
    Ok(AppendRun { appended, closed, writer_cpu: thread, all_cpu: all })
}

fn import(path: &Path, changes: &[IncomingChange]) -> Result<Duration> {
    let start = Instant::now();
    let mut bulk = BulkWriter::open(path)?;
    for observed in changes {
        bulk.push(observed)?;
    }
    bulk.finish()?;
    let took = start.elapsed();
    std::fs::remove_file(path)?;
    Ok(took)
}

/// The changes in batches, as a recorder appends them.
pub(super) fn batches(changes: &[IncomingChange]) -> Vec<Batch> {
    changes.chunks(BATCH).map(|chunk| Batch { changes: chunk.to_vec(), ..Batch::default() }).collect()
}
