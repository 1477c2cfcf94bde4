//! Benchmark of the time from an event until it is durable and readable.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use history::History;
use workload::churn::ChurnOptions;

use super::recorder::{self, Cores, RecordingStage, has_reached, versions};
use super::script::ServerScript;
use super::server::{ScriptedServer, WatchRate};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;

const LIVE_OBJECTS: usize = 10_000;
const PER_SECOND: usize = 2_000;
const SECONDS: usize = 20;
const BUDGET: f64 = 1.0;
/// How often the history is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let changes = (LIVE_OBJECTS + PER_SECOND * SECONDS) as u64;
    let script = Arc::new(ServerScript::new(ChurnOptions {
        live_objects: LIVE_OBJECTS,
        changes,
        ..ChurnOptions::default()
    })?);
    let server = ScriptedServer::start(script.clone(), WatchRate::PerSecond(PER_SECOND))?;
    let (path, mut recorder) = recorder::record(env, &server, Cores::All)?;
    recorder.wait(|| has_reached(&path, &script, RecordingStage::Listed))?;
    let history = History::open(&path)?;
    let began = server.start_watches();
    // Measured from when an event was due, so that a delayed server does not make the recorder look better.
    let mut lags = Vec::with_capacity(script.changes);
    let mut seen = vec![0; script.kinds.len()];
    while lags.len() < script.changes {
        let now = Instant::now();
        let versions = versions(&history)?;
        for (kind_script, seen) in script.kinds.iter().zip(&mut seen) {
            let version = versions.get(kind_script.info.kind).copied().unwrap_or_default();
            for event in kind_script.events[*seen..].iter().take_while(|event| event.version <= version) {
                let due = began + Duration::from_secs_f64(event.index as f64 / PER_SECOND as f64);
                lags.push(now.saturating_duration_since(due).as_secs_f64());
                *seen += 1;
            }
        }
        recorder.check_running()?;
        std::thread::sleep(POLL_INTERVAL);
    }
    recorder.stop()?;
    drop(history);
    fs::remove_file(&path)?;
    let lags = Samples::new(lags);
    let what = format!(
        "lag at {} changes/s, from an event to its being readable: p99",
        with_commas(PER_SECOND as f64)
    );
    results.add(
        Measurement::new(what, lags.percentile(99), Unit::Seconds)
            .budget(BUDGET)
            .detail("p50", lags.median(), Unit::Seconds)
            .detail("max", lags.max(), Unit::Seconds),
    );
    Ok(())
}
