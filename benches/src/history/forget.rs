//! Benchmarks of removing old changes in a process with little memory, as a recorder does.

use std::fs;

use history::History;

use super::child;
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};

/// Up to which percentage of its time span the history is removed. The last two steps are small: they mostly read live
/// objects.
const FORGET_PERCENTS: [i64; 3] = [50, 60, 70];
/// A recorder of 100,000 pods may take 200 MB, of which its state of the pods takes more than half.
const BUDGET: f64 = 64e6;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let large = env.large_history()?;
    let path = env.path("forgotten.kine");
    fs::copy(&large.path, &path)?;
    let (first, last) = History::open(&path)?.span()?.ok_or("the large history is empty")?;
    let length = last.nanos_since(first);
    for percent in FORGET_PERCENTS {
        let report = child::forget(&path, first.plus_nanos(length / 100 * percent))?;
        let of = format!("forgetting {percent} % of {} changes", with_commas(large.changes as f64));
        results.add(
            Measurement::new(format!("{of}, 100,000 objects alive"), report.seconds, Unit::Seconds)
                .detail("changes before", report.changes.0 as f64, Unit::Count)
                .detail("after", report.changes.1 as f64, Unit::Count),
        );
        let what = format!("memory for {of}");
        match report.memory {
            Some(memory) => results.add(Measurement::new(what, memory as f64, Unit::Bytes).budget(BUDGET)),
            None => results.skip(what, "process memory is only known on Linux"),
        }
    }
    fs::remove_file(&path)?;
    Ok(())
}
