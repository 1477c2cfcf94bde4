//! How fast the bytes of watches become a history, and how large that is.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use history::History;
use workload::churn::Churn;

use super::recorder::{self, Cores, Stage, has_come};
use super::script::Script;
use super::server::{Pace, Server};
use crate::figure::{Figure, Figures, Unit};
use crate::samples::Samples;
use crate::studio::Studio;
use crate::{Result, machine};

/// Of which the first tenth is listed: some 500 MB.
const CHANGES: u64 = 110_000;
const ALIVE: usize = 10_000;
const RUNS: usize = 3;
const BUDGET: f64 = 20_000.0;
const SIZE_BUDGET: f64 = 100.0;

/// What one recording came to.
struct Run {
    /// From the first event until all were durable.
    durable: Duration,
    /// Processor time from the first event until all were packed and the process had ended.
    time: Option<Duration>,
    bytes: u64,
    kept: u64,
}

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let script = Arc::new(Script::new(Churn { alive: ALIVE, changes: CHANGES, ..Churn::default() })?);
    let changes = script.changes as f64;
    let sent = script.reels.iter().map(|reel| reel.chunks.len()).sum::<usize>() as f64 / changes;
    let cores = if recorder::can_be_kept_to_one_core() { Cores::One } else { Cores::All };
    let runs = (0..RUNS).map(|_| record(studio, &script, cores)).collect::<Result<Vec<Run>>>()?;

    let rate = |what: &str, times: Vec<Duration>| {
        let rates = Samples::new(times.iter().map(|time| changes / time.as_secs_f64()).collect());
        Figure::new(what, rates.median(), Unit::ChangesPerSecond)
            .budget(BUDGET)
            .also("least", rates.least(), Unit::Count)
            .also("most", rates.most(), Unit::Count)
    };
    let on = if cores == Cores::One { "on one core" } else { "on all cores" };
    figures.add(
        rate(
            &format!("recording from a watch's bytes, {on}, wall clock until durable"),
            runs.iter().map(|run| run.durable).collect(),
        )
        .also("bytes sent a change", sent, Unit::Count),
    );
    let what = "recording, by the processor time of all threads until packed and closed";
    match runs.iter().map(|run| run.time).collect::<Option<_>>() {
        Some(times) => figures.add(rate(what, times)),
        None => figures.skip(what, "only Linux tells a process's time"),
    }
    let [.., last] = &runs[..] else { return Err("nothing was recorded".into()) };
    let what = "size of what was recorded, everything in the file";
    figures.add(
        Figure::new(what, last.bytes as f64 / last.kept as f64, Unit::BytesPerChange)
            .budget(SIZE_BUDGET)
            .also("% of changes kept", 100.0 * last.kept as f64 / CHANGES as f64, Unit::Count),
    );
    Ok(())
}

fn record(studio: &Studio, script: &Arc<Script>, cores: Cores) -> Result<Run> {
    let server = Server::start(script.clone(), Pace::Any)?;
    let (history, mut recorder) = recorder::record(studio, &server, cores)?;
    recorder.wait(|| has_come(&history, script, Stage::Listed))?;
    // The times of children that were waited for.
    let (before, so_far) = (machine::time_of_children(), recorder.time());
    let began = server.go();
    recorder.wait(|| has_come(&history, script, Stage::Told))?;
    let durable = began.elapsed();
    recorder.stop()?;
    let time = (|| machine::time_of_children()?.checked_sub(before?)?.checked_sub(so_far?))();

    let recorded = History::open(&history)?;
    if let Some(gap) = recorded.gaps()?.first() {
        return Err(format!("something was missed: {}", gap.why).into());
    }
    let sources = recorded.summary()?.sources;
    let kept = sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum();
    drop(recorded);
    let bytes = fs::metadata(&history)?.len();
    fs::remove_file(&history)?;
    Ok(Run { durable, time, bytes, kept })
}
