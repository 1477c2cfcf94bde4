//! How fast changes go in.

use std::path::Path;
use std::time::{Duration, Instant};

use history::{Batch, BulkWriter, Writer};
use model::IncomingChange;
use workload::churn::{Churn, churn};

use super::peers;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;
use crate::{Result, machine};

/// All are made before anything is measured: some 400 MB.
pub(super) const CHANGES: u64 = 100_000;
/// As many as a busy watch hands over at once.
const BATCH: usize = 256;
/// What is shown is the median, with the least and the most as the noise seen.
const RUNS: usize = 3;

/// What one run of the writer took.
struct Run {
    /// Until everything was durable.
    appended: Duration,
    /// Until everything was packed and the file closed.
    closed: Duration,
    /// Processor time of the thread that writes, up to where everything was durable.
    writer: Option<Duration>,
    /// Processor time of all threads, up to the end.
    all: Option<Duration>,
}

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let changes: Vec<IncomingChange> = churn(Churn { changes: CHANGES, ..Churn::default() }).collect();
    let (mut runs, mut bulk, mut naive) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that what else the machine does falls on all alike.
    for _ in 0..RUNS {
        runs.push(write(&studio.path("append.kine"), &changes)?);
        bulk.push(import(&studio.path("bulk.kine"), &changes)?);
        naive.push(peers::sqlite_rows(&studio.path("naive.sqlite"), &changes)?.took);
    }
    let rates = |times: Vec<Duration>| {
        Samples::new(times.iter().map(|time| CHANGES as f64 / time.as_secs_f64()).collect())
    };
    let noisy = |what: &str, rates: &Samples| {
        Figure::new(what, rates.median(), Unit::ChangesPerSecond)
            .also("least", rates.least(), Unit::Count)
            .also("most", rates.most(), Unit::Count)
    };
    let naive = rates(naive);
    let (name, peer) = (peers::SQLITE, naive.median());

    let appended = rates(runs.iter().map(|run| run.appended).collect());
    figures.add(noisy("append, wall clock until durable", &appended).budget(50_000.0).peer(name, peer));
    let what = "append, by the writer thread's processor time";
    match runs.iter().map(|run| run.writer).collect::<Option<_>>() {
        Some(times) => figures.add(noisy(what, &rates(times)).budget(50_000.0)),
        None => figures.skip(what, "only Linux tells a thread's time"),
    }
    let closed = rates(runs.iter().map(|run| run.closed).collect());
    figures.add(noisy("packing, wall clock from first append to closed file", &closed).budget(20_000.0));
    let what = "packing, by the processor time of all threads";
    match runs.iter().map(|run| run.all).collect::<Option<_>>() {
        Some(times) => figures.add(noisy(what, &rates(times))),
        None => figures.skip(what, "only Linux tells a process's time"),
    }
    figures.add(noisy("bulk import", &rates(bulk)).peer(name, peer));
    figures.add(noisy(&format!("peer: append to {name}"), &naive));
    if let Some(import) = studio.large()?.import {
        let changes = studio.large()?.changes as f64;
        let what = format!("bulk import of {} changes, 100,000 objects alive", with_commas(changes));
        figures.add(Figure::new(what, changes / import.as_secs_f64(), Unit::ChangesPerSecond));
    }
    Ok(())
}

fn write(path: &Path, changes: &[IncomingChange]) -> Result<Run> {
    let batches = batches(changes);
    let time_before = machine::process_time();
    let writer = Writer::open(path)?;
    let start = Instant::now();
    for batch in batches {
        writer.append(batch)?;
    }
    writer.flush()?;
    let appended = start.elapsed();
    let thread = machine::thread_time("writer");
    writer.close()?;
    let closed = start.elapsed();
    let all = machine::process_time().zip(time_before).map(|(after, before)| after.saturating_sub(before));
    std::fs::remove_file(path)?;
    Ok(Run { appended, closed, writer: thread, all })
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

/// Changes as a recorder hands them over.
pub(super) fn batches(changes: &[IncomingChange]) -> Vec<Batch> {
    changes.chunks(BATCH).map(|chunk| Batch { changes: chunk.to_vec(), ..Batch::default() }).collect()
}
