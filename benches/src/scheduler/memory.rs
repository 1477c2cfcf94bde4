//! Benchmark of the memory of a scheduler with a large cluster in its cache.

use super::child;
use super::filled_scheduler::{NODES, PODS};
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::{Result, machine};

const BUDGET: f64 = 1e9;

pub(super) fn run(_: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let what = format!(
        "memory of a scheduler that knows {} nodes and {} pods",
        with_commas(NODES as f64),
        with_commas(PODS as f64)
    );
    if machine::memory().is_none() {
        results.skip(what, "process memory is only known on Linux");
        return Ok(());
    }
    let filled = child::measure_memory()?;
    results.add(
        Measurement::new(what, filled.peak as f64, Unit::Bytes)
            .budget(BUDGET)
            .detail("at the end", filled.after as f64, Unit::Bytes)
            .detail("before there was one", filled.before as f64, Unit::Bytes),
    );
    Ok(())
}
