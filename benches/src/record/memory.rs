//! Benchmarks of a recorder of a large cluster: its memory, and the time to resume after a restart.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use workload::churn::ChurnOptions;

use super::recorder::{self, Cores, RecordingStage, has_reached};
use super::script::ServerScript;
use super::server::{ScriptedServer, WatchRate};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};

/// Seven tenths of the objects are pods.
const LIVE_OBJECTS: usize = 142_858;
const CHANGES: u64 = 50_000;
const BUDGET: f64 = 200e6;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let changes = LIVE_OBJECTS as u64 + CHANGES;
    let script = Arc::new(ServerScript::new(ChurnOptions {
        live_objects: LIVE_OBJECTS,
        changes,
        ..ChurnOptions::default()
    })?);
    let of = format!("{} objects, 100,000 of them pods", with_commas(LIVE_OBJECTS as f64));
    let server = ScriptedServer::start(script.clone(), WatchRate::Unlimited)?;
    let start = Instant::now();
    let (path, mut recorder) = recorder::record(env, &server, Cores::All)?;
    recorder.wait(|| has_reached(&path, &script, RecordingStage::Listed))?;
    let listed = start.elapsed();
    let after_list = recorder.memory();
    server.start_watches();
    recorder.wait(|| has_reached(&path, &script, RecordingStage::Watched))?;
    let what = format!("memory of a recorder of {of}: the most there was");
    match after_list.zip(recorder.memory()) {
        Some((after_list, memory)) => results.add(
            Measurement::new(what, memory.peak as f64, Unit::Bytes)
                .budget(BUDGET)
                .detail("after the list", after_list.peak as f64, Unit::Bytes)
                .detail("at the end", memory.now as f64, Unit::Bytes)
                .detail("the list took", listed.as_secs_f64(), Unit::Seconds),
        ),
        None => results.skip(what, "process memory is only known on Linux"),
    }
    recorder.stop()?;

    // It resumes where it stopped, as soon as it has read the state at that point.
    let before = server.watches();
    let start = Instant::now();
    let (path, mut recorder) = recorder::record(env, &server, Cores::All)?;
    recorder.wait(|| Ok(server.watches() >= 2 * before))?;
    let took = start.elapsed();
    std::thread::sleep(Duration::from_secs(1));
    let mut measurement = Measurement::new(
        format!("restart with {of}: until all is watched"),
        took.as_secs_f64(),
        Unit::Seconds,
    );
    if let Some(memory) = recorder.memory() {
        measurement = measurement.detail("most memory", memory.peak as f64, Unit::Bytes);
    }
    results.add(measurement);
    recorder.stop()?;
    fs::remove_file(&path)?;
    Ok(())
}
