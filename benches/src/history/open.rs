//! How long a history takes to open, and to say what it holds.

use std::fs;
use std::path::Path;
use std::time::Instant;

use history::{History, Writer};

use super::child;
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;

const OPENINGS: usize = 100;
const KILLS: usize = 5;
const BUDGET: f64 = 0.05;
/// What `/metrics` and `/` ask of each history.
const SUMMARY_BUDGET: f64 = 0.005;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let large = studio.large()?;
    let of = format!("a history of {} changes", with_commas(large.changes as f64));
    let times = (0..OPENINGS).map(|_| open(&large.path)).collect::<Result<_>>()?;
    figures.add(figure(&format!("opening {of}: longest of {OPENINGS}"), &Samples::new(times)));
    let times = (0..OPENINGS).map(|_| summary(&large.path)).collect::<Result<_>>()?;
    let summaries = figure(&format!("what {of} holds: longest of {OPENINGS}"), &Samples::new(times));
    figures.add(summaries.budget(SUMMARY_BUDGET));

    let path = studio.path("killed.kine");
    fs::copy(&large.path, &path)?;
    let (mut reading, mut writing, mut logs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..KILLS {
        child::append_until_killed(&path)?;
        logs.push(fs::metadata(studio.path("killed.kine-wal"))?.len() as f64);
        reading.push(open(&path)?);
        let start = Instant::now();
        let writer = Writer::open(&path)?;
        writing.push(start.elapsed().as_secs_f64());
        writer.close()?;
    }
    fs::remove_file(&path)?;
    let logs = Samples::new(logs);
    let (reading, writing) = (Samples::new(reading), Samples::new(writing));
    figures.add(figure(&format!("opening {of} after kill -9: longest of {KILLS}"), &reading).also(
        "largest log",
        logs.most(),
        Unit::Bytes,
    ));
    figures.add(figure(&format!("opening {of} after kill -9, to write: longest of {KILLS}"), &writing));
    Ok(())
}

fn figure(what: &str, times: &Samples) -> Figure {
    Figure::new(what, times.most(), Unit::Seconds).budget(BUDGET).also("p50", times.median(), Unit::Seconds)
}

/// How many seconds it takes until a history has said what time it spans.
fn open(path: &Path) -> Result<f64> {
    let start = Instant::now();
    History::open(path)?.span()?;
    Ok(start.elapsed().as_secs_f64())
}

/// How many seconds it takes until a history has said what it holds.
fn summary(path: &Path) -> Result<f64> {
    let start = Instant::now();
    let history = History::open(path)?;
    history.summary()?;
    history.gaps()?;
    Ok(start.elapsed().as_secs_f64())
}
