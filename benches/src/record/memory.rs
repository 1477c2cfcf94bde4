//! The memory of a recorder of a large cluster, and how long it takes to go on after a restart.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use workload::churn::Churn;

use super::recorder::{self, Cores, Stage, has_come};
use super::script::Script;
use super::server::{Pace, Server};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::studio::Studio;

/// Seven tenths of it are pods.
const ALIVE: usize = 142_858;
const CHANGES: u64 = 50_000;
const BUDGET: f64 = 200e6;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let changes = ALIVE as u64 + CHANGES;
    let script = Arc::new(Script::new(Churn { alive: ALIVE, changes, ..Churn::default() })?);
    let of = format!("{} objects, 100,000 of them pods", with_commas(ALIVE as f64));
    let server = Server::start(script.clone(), Pace::Any)?;
    let start = Instant::now();
    let (path, mut recorder) = recorder::record(studio, &server, Cores::All)?;
    recorder.wait(|| has_come(&path, &script, Stage::Listed))?;
    let listed = start.elapsed();
    let after_list = recorder.memory();
    server.go();
    recorder.wait(|| has_come(&path, &script, Stage::Told))?;
    let what = format!("memory of a recorder of {of}: the most there was");
    match after_list.zip(recorder.memory()) {
        Some((after_list, memory)) => figures.add(
            Figure::new(what, memory.peak as f64, Unit::Bytes)
                .budget(BUDGET)
                .also("after the list", after_list.peak as f64, Unit::Bytes)
                .also("at the end", memory.now as f64, Unit::Bytes)
                .also("the list took", listed.as_secs_f64(), Unit::Seconds),
        ),
        None => figures.skip(what, "only Linux tells a process's memory"),
    }
    recorder.stop()?;

    // It goes on where it stopped as soon as it has read what was there then.
    let before = server.watches();
    let start = Instant::now();
    let (path, mut recorder) = recorder::record(studio, &server, Cores::All)?;
    recorder.wait(|| Ok(server.watches() >= 2 * before))?;
    let took = start.elapsed();
    std::thread::sleep(Duration::from_secs(1));
    let mut figure =
        Figure::new(format!("restart with {of}: until all is watched"), took.as_secs_f64(), Unit::Seconds);
    if let Some(memory) = recorder.memory() {
        figure = figure.also("most memory", memory.peak as f64, Unit::Bytes);
    }
    figures.add(figure);
    recorder.stop()?;
    fs::remove_file(&path)?;
    Ok(())
}
