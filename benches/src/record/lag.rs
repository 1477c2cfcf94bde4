//! How long it takes from an event to its being durable and readable.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use history::History;
use workload::churn::Churn;

use super::recorder::{self, Cores, Stage, has_come, versions};
use super::script::Script;
use super::server::{Pace, Server};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;

const ALIVE: usize = 10_000;
const PER_SECOND: usize = 2_000;
const SECONDS: usize = 20;
const BUDGET: f64 = 1.0;
/// How often the history is looked at.
const LOOK: Duration = Duration::from_millis(5);

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let changes = (ALIVE + PER_SECOND * SECONDS) as u64;
    let script = Arc::new(Script::new(Churn { alive: ALIVE, changes, ..Churn::default() })?);
    let server = Server::start(script.clone(), Pace::PerSecond(PER_SECOND))?;
    let (path, mut recorder) = recorder::record(studio, &server, Cores::All)?;
    recorder.wait(|| has_come(&path, &script, Stage::Listed))?;
    let history = History::open(&path)?;
    let began = server.go();
    // From when an event was due, so that a server that is held up does not make the recorder look better.
    let mut lags = Vec::with_capacity(script.changes);
    let mut seen = vec![0; script.reels.len()];
    while lags.len() < script.changes {
        let now = Instant::now();
        let versions = versions(&history)?;
        for (reel, seen) in script.reels.iter().zip(&mut seen) {
            let version = versions.get(reel.info.kind).copied().unwrap_or_default();
            for event in reel.events[*seen..].iter().take_while(|event| event.version <= version) {
                let due = began + Duration::from_secs_f64(event.turn as f64 / PER_SECOND as f64);
                lags.push(now.saturating_duration_since(due).as_secs_f64());
                *seen += 1;
            }
        }
        recorder.must_run()?;
        std::thread::sleep(LOOK);
    }
    recorder.stop()?;
    drop(history);
    fs::remove_file(&path)?;
    let lags = Samples::new(lags);
    let what = format!(
        "lag at {} changes/s, from an event to its being readable: p99",
        with_commas(PER_SECOND as f64)
    );
    figures.add(
        Figure::new(what, lags.percentile(99), Unit::Seconds)
            .budget(BUDGET)
            .also("p50", lags.median(), Unit::Seconds)
            .also("max", lags.most(), Unit::Seconds),
    );
    Ok(())
}
