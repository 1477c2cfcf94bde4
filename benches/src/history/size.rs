//! Benchmarks of the file size per change, everything in the file included.

use std::fs;
use std::path::Path;

use history::Writer;
use kubernetes::change_filter::{ChangeFilter, FilterOptions, FilterVerdict, RedactKey};
use model::IncomingChange;
use workload::churn::{ChurnOptions, churn};

use super::append::{self, batches};
use super::{baselines, recordings};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};

const BUDGET: f64 = 100.0;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    // With managed fields, as an API server sends objects: removing them is one of the recorder's rules.
    let settings = ChurnOptions { changes: append::CHANGES, managed_fields: true, ..ChurnOptions::default() };
    measure(env, "churn", churn(settings).collect(), results)?;

    let all_recordings = recordings::all();
    if all_recordings.is_empty() {
        results.skip("size of films", "no films");
    }
    for (name, path) in all_recordings {
        measure(env, &format!("film {name}"), recordings::read(&name, &path)?, results)?;
    }

    let large = env.large_history()?;
    let changes = large.changes as f64;
    let what = format!("size of {} changes, 100,000 objects alive, imported", with_commas(changes));
    let bytes = fs::metadata(&large.path)?.len() as f64 / changes;
    results.add(Measurement::new(what, bytes, Unit::BytesPerChange).budget(BUDGET));
    Ok(())
}

/// Measures a recording.
fn measure(
    env: &BenchEnv,
    name: &str,
    changes: Vec<IncomingChange>,
    results: &mut BenchResults,
) -> Result<()> {
    let all = changes.len() as f64;
    let unfiltered = measurement(env, &format!("size of {name}, every byte kept"), &changes)?;
    let kept = apply_recording_rules(changes);
    let what = format!("size of {name}, by the recorder's rules");
    let share = 100.0 * kept.len() as f64 / all;
    let filtered = measurement(env, &what, &kept)?;
    results.add(filtered.budget(BUDGET).detail("% of changes kept", share, Unit::Count));
    results.add(unfiltered);
    Ok(())
}

fn measurement(env: &BenchEnv, what: &str, changes: &[IncomingChange]) -> Result<Measurement> {
    let count = changes.len() as f64;
    let ours = write(&env.path("size.kine"), changes)? as f64;
    let naive = baselines::sqlite_rows(&env.path("size.sqlite"), changes)?.bytes as f64;
    let stream = baselines::zstd_stream(changes)? as f64;
    let raw = changes.iter().map(|change| change.what.object().as_str().len()).sum::<usize>() as f64;
    Ok(Measurement::new(what, ours / count, Unit::BytesPerChange)
        .detail("raw", raw / count, Unit::Count)
        .baseline(baselines::ZSTD, stream / count)
        .baseline(baselines::SQLITE, naive / count))
}

/// The size of the file that a recorder would write.
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

/// The changes that a recorder keeps.
fn apply_recording_rules(changes: Vec<IncomingChange>) -> Vec<IncomingChange> {
    let mut filter = ChangeFilter::new(FilterOptions { redact: Some(RedactKey([7; 16])) });
    changes
        .into_iter()
        .filter_map(|change| match filter.filter(&change.key, &change.what) {
            FilterVerdict::Keep(what) => Some(IncomingChange { what, ..change }),
            FilterVerdict::Drop(_) => None,
        })
        .collect()
}
