//! What it takes to forget what is old, in a process that has little memory to spare: a recorder.

use std::fs;

use history::History;

use super::child;
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::studio::Studio;

/// Of the time that a history spans, in percent. The last two are small: most of what is read is what was alive.
const UP_TO: [i64; 3] = [50, 60, 70];
/// A recorder of 100,000 pods may take 200 MB, of which more than half holds what it knows of them.
const BUDGET: f64 = 64e6;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let large = studio.large()?;
    let path = studio.path("forgotten.kine");
    fs::copy(&large.path, &path)?;
    let (first, last) = History::open(&path)?.span()?.ok_or("the large history is empty")?;
    let length = last.nanos_since(first);
    for percent in UP_TO {
        let report = child::forget(&path, first.plus_nanos(length / 100 * percent))?;
        let of = format!("forgetting {percent} % of {} changes", with_commas(large.changes as f64));
        figures.add(
            Figure::new(format!("{of}, 100,000 objects alive"), report.seconds, Unit::Seconds)
                .also("changes before", report.changes.0 as f64, Unit::Count)
                .also("after", report.changes.1 as f64, Unit::Count),
        );
        let what = format!("memory for {of}");
        match report.memory {
            Some(memory) => figures.add(Figure::new(what, memory as f64, Unit::Bytes).budget(BUDGET)),
            None => figures.skip(what, "only Linux tells a process's memory"),
        }
    }
    fs::remove_file(&path)?;
    Ok(())
}
