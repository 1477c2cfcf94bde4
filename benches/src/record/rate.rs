//! Benchmarks of the rate at which watch events are recorded, and of the size of the history.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use history::History;
use workload::churn::ChurnOptions;

use super::recorder::{self, Cores, RecordingStage, has_reached};
use super::script::ServerScript;
use super::server::{ScriptedServer, WatchRate};
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit};
use crate::samples::Samples;
use crate::{Result, machine};

/// The first 10,000 are listed: some 500 MB in all.
const CHANGES: u64 = 110_000;
const LIVE_OBJECTS: usize = 10_000;
const RUNS: usize = 3;
const BUDGET: f64 = 40_000.0;
const SIZE_BUDGET: f64 = 100.0;

/// The measurements of one recording.
struct RecordingRun {
    /// From the first event until all were durable.
    durable: Duration,
    /// Processor time from the first event until all were packed and the process had ended.
    cpu_time: Option<Duration>,
    bytes: u64,
    kept: u64,
}

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let script = Arc::new(ServerScript::new(ChurnOptions {
        live_objects: LIVE_OBJECTS,
        changes: CHANGES,
        ..ChurnOptions::default()
    })?);
    let changes = script.changes as f64;
    let sent =
        script.kinds.iter().map(|kind_script| kind_script.chunks.len()).sum::<usize>() as f64 / changes;
    let cores = if recorder::can_pin_to_one_core() { Cores::One } else { Cores::All };
    let runs = (0..RUNS).map(|_| record(env, &script, cores)).collect::<Result<Vec<RecordingRun>>>()?;

    let rate = |what: &str, times: Vec<Duration>| {
        let rates = Samples::new(times.iter().map(|time| changes / time.as_secs_f64()).collect());
        Measurement::new(what, rates.median(), Unit::ChangesPerSecond)
            .budget(BUDGET)
            .detail("least", rates.min(), Unit::Count)
            .detail("most", rates.max(), Unit::Count)
    };
    let on = if cores == Cores::One { "on one core" } else { "on all cores" };
    results.add(
        rate(
            &format!("recording from a watch's bytes, {on}, wall clock until durable"),
            runs.iter().map(|run| run.durable).collect(),
        )
        .detail("bytes sent a change", sent, Unit::Count),
    );
    let what = "recording, by the processor time of all threads until packed and closed";
    match runs.iter().map(|run| run.cpu_time).collect::<Option<_>>() {
        Some(times) => results.add(rate(what, times)),
        None => results.skip(what, "processor time of processes is only known on Linux"),
    }
    let [.., last] = &runs[..] else { return Err("nothing was recorded".into()) };
    let what = "size of what was recorded, everything in the file";
    results.add(
        Measurement::new(what, last.bytes as f64 / last.kept as f64, Unit::BytesPerChange)
            .budget(SIZE_BUDGET)
            .detail("% of changes kept", 100.0 * last.kept as f64 / CHANGES as f64, Unit::Count),
    );
    Ok(())
}

fn record(env: &BenchEnv, script: &Arc<ServerScript>, cores: Cores) -> Result<RecordingRun> {
    let server = ScriptedServer::start(script.clone(), WatchRate::Unlimited)?;
    let (history, mut recorder) = recorder::record(env, &server, cores)?;
    recorder.wait(|| has_reached(&history, script, RecordingStage::Listed))?;
    // Processor time of children that were waited for, and of the recorder so far.
    let (before, so_far) = (machine::children_cpu_time(), recorder.cpu_time());
    let began = server.start_watches();
    recorder.wait(|| has_reached(&history, script, RecordingStage::Watched))?;
    let durable = began.elapsed();
    recorder.stop()?;
    let time = (|| machine::children_cpu_time()?.checked_sub(before?)?.checked_sub(so_far?))();

    let recorded = History::open(&history)?;
    if let Some(gap) = recorded.gaps()?.first() {
        return Err(format!("the recording has a gap: {}", gap.why).into());
    }
    let sources = recorded.summary()?.sources;
    let kept = sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum();
    drop(recorded);
    let bytes = fs::metadata(&history)?.len();
    fs::remove_file(&history)?;
    Ok(RecordingRun { durable, cpu_time: time, bytes, kept })
}
