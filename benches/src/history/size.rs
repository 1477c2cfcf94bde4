//! How many bytes a change takes, everything in the file counted.

use std::fs;
use std::path::Path;

use history::Writer;
use kubernetes::change_filter::{ChangeFilter, FilterOptions, FilterVerdict, RedactKey};
use model::IncomingChange;
use workload::churn::{Churn, churn};

use super::append::{self, batches};
use super::{films, peers};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::studio::Studio;

const BUDGET: f64 = 100.0;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    // With managed fields, as an API server sends objects: cutting those out is one of the rules.
    let settings = Churn { changes: append::CHANGES, managed_fields: true, ..Churn::default() };
    measure(studio, "churn", churn(settings).collect(), figures)?;

    let films = films::all();
    if films.is_empty() {
        figures.skip("size of films", "no films");
    }
    for (name, path) in films {
        measure(studio, &format!("film {name}"), films::read(&name, &path)?, figures)?;
    }

    let large = studio.large()?;
    let changes = large.changes as f64;
    let what = format!("size of {} changes, 100,000 objects alive, imported", with_commas(changes));
    let bytes = fs::metadata(&large.path)?.len() as f64 / changes;
    figures.add(Figure::new(what, bytes, Unit::BytesPerChange).budget(BUDGET));
    Ok(())
}

/// Adds the figures of a recording.
fn measure(studio: &Studio, name: &str, changes: Vec<IncomingChange>, figures: &mut Figures) -> Result<()> {
    let all = changes.len() as f64;
    let whole = figure(studio, &format!("size of {name}, every byte kept"), &changes)?;
    let kept = sift(changes);
    let what = format!("size of {name}, by the recorder's rules");
    let share = 100.0 * kept.len() as f64 / all;
    let sifted = figure(studio, &what, &kept)?;
    figures.add(sifted.budget(BUDGET).also("% of changes kept", share, Unit::Count));
    figures.add(whole);
    Ok(())
}

fn figure(studio: &Studio, what: &str, changes: &[IncomingChange]) -> Result<Figure> {
    let count = changes.len() as f64;
    let ours = write(&studio.path("size.kine"), changes)? as f64;
    let naive = peers::sqlite_rows(&studio.path("size.sqlite"), changes)?.bytes as f64;
    let stream = peers::zstd_stream(changes)? as f64;
    let raw = changes.iter().map(|change| change.what.object().as_str().len()).sum::<usize>() as f64;
    Ok(Figure::new(what, ours / count, Unit::BytesPerChange)
        .also("raw", raw / count, Unit::Count)
        .peer(peers::ZSTD, stream / count)
        .peer(peers::SQLITE, naive / count))
}

/// The size of the file that a recorder would leave.
fn write(path: &Path, changes: &[IncomingChange]) -> Result<u64> {
    let writer = Writer::open(path)?;
    for batch in batches(changes) {
        writer.append(batch)?;
    }
    writer.close()?;
    let bytes = fs::metadata(path)?.len();
    fs::remove_file(path)?;
    Ok(bytes)
}

/// What a recorder keeps.
fn sift(changes: Vec<IncomingChange>) -> Vec<IncomingChange> {
    let mut sieve = ChangeFilter::new(FilterOptions { redact: Some(RedactKey([7; 16])) });
    changes
        .into_iter()
        .filter_map(|change| match sieve.filter(&change.key, &change.what) {
            FilterVerdict::Keep(what) => Some(IncomingChange { what, ..change }),
            FilterVerdict::Drop(_) => None,
        })
        .collect()
}
