//! How many bytes a change takes, everything in the file counted.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use history::{History, Writer};
use kubernetes::rules::{RedactKey, Rules, Sieve, Verdict};
use model::{Kind, Observed};
use rusqlite::Connection;
use workload::churn::{Churn, churn};

use super::append::{self, batches};
use super::{films, peers};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::studio::Studio;

/// How fast changes come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As fast as they are packed, as in every recording that lasts.
    Packing,
    /// As fast as they are taken: what is packed later leaves its room free in the file.
    Burst,
}

/// A closed history.
struct Closed {
    bytes: u64,
    /// Of these, pages that hold nothing, for changes to come.
    free: u64,
}

/// So many changes of one kind may wait to be packed, for one more to make a block of them.
const WAITING: u64 = 255;
const BUDGET: f64 = 100.0;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    // With managed fields, as an API server sends objects: cutting those out is one of the rules.
    let settings = Churn { changes: append::CHANGES, managed_fields: true, ..Churn::default() };
    let kept = measure(studio, "churn", churn(settings).collect(), figures)?;
    let what = "size of churn, by the recorder's rules, in one burst";
    figures.add(figure(studio, what, &kept, Pace::Burst)?);

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

/// Adds the figures of a recording. Gives what a recorder keeps of it.
fn measure(
    studio: &Studio,
    name: &str,
    changes: Vec<Observed>,
    figures: &mut Figures,
) -> Result<Vec<Observed>> {
    let all = changes.len() as f64;
    let whole = figure(studio, &format!("size of {name}, every byte kept"), &changes, Pace::Packing)?;
    let kept = sift(changes);
    let what = format!("size of {name}, by the recorder's rules");
    let share = 100.0 * kept.len() as f64 / all;
    let sifted = figure(studio, &what, &kept, Pace::Packing)?;
    figures.add(sifted.budget(BUDGET).also("% of changes kept", share, Unit::Count));
    figures.add(whole);
    Ok(kept)
}

fn figure(studio: &Studio, what: &str, changes: &[Observed], pace: Pace) -> Result<Figure> {
    let count = changes.len() as f64;
    let ours = write(&studio.path("size.kine"), changes, pace)?;
    let naive = peers::sqlite_rows(&studio.path("size.sqlite"), changes)?.bytes as f64;
    let stream = peers::zstd_stream(changes)? as f64;
    let raw = changes.iter().map(|change| change.what.object().as_str().len()).sum::<usize>() as f64;
    Ok(Figure::new(what, ours.bytes as f64 / count, Unit::BytesPerChange)
        .also("free", ours.free as f64 / count, Unit::Count)
        .also("raw", raw / count, Unit::Count)
        .peer(peers::ZSTD, stream / count)
        .peer(peers::SQLITE, naive / count))
}

/// What a recorder would leave.
fn write(path: &Path, changes: &[Observed], pace: Pace) -> Result<Closed> {
    let writer = Writer::open(path)?;
    let history = History::open(path)?;
    let mut appended: HashMap<Kind, u64> = HashMap::new();
    for batch in batches(changes) {
        for change in &batch.changes {
            *appended.entry(change.key.kind.clone()).or_default() += 1;
        }
        writer.append(batch)?;
        if pace == Pace::Packing {
            writer.flush()?;
            let most: u64 = appended.values().map(|changes| WAITING.min(*changes)).sum();
            while history.summary()?.rows > most {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    drop(history);
    writer.close()?;
    let connection = Connection::open(path)?;
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let free = (pragma("freelist_count")? * pragma("page_size")?).unsigned_abs();
    drop(connection);
    let bytes = fs::metadata(path)?.len();
    fs::remove_file(path)?;
    Ok(Closed { bytes, free })
}

/// What a recorder keeps.
fn sift(changes: Vec<Observed>) -> Vec<Observed> {
    let mut sieve = Sieve::new(Rules { redact: Some(RedactKey([7; 16])) });
    changes
        .into_iter()
        .filter_map(|change| match sieve.pass(&change.key, &change.what) {
            Verdict::Keep(what) => Some(Observed { what, ..change }),
            Verdict::Drop(_) => None,
        })
        .collect()
}
