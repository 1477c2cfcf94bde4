//! Benchmarks of reading the cluster's state, and single objects, at random moments.

use std::time::Instant;

use history::{History, Selection};
use model::{Key, Moment};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::child::{self, StateMode};
use crate::Result;
use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit, with_commas};
use crate::samples::Samples;

const MOMENTS: usize = 20;
/// The number of objects looked up at each moment.
const OBJECTS: usize = 50;
const SEED: u64 = 11;

pub(super) fn run(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let large = env.large_history()?;
    let history = History::open(&large.path)?;
    let mut rng = Pcg64::seed_from_u64(SEED);
    let (first, last) = history.span()?.ok_or("the large history is empty")?;
    // During the initial list the state is smaller.
    let from = first.plus_nanos(last.nanos_since(first) / 5);
    let moments: Vec<Moment> =
        (0..MOMENTS).map(|_| Moment::from_nanos(rng.random_range(from.nanos()..=last.nanos()))).collect();

    let of = format!("of {} changes", with_commas(large.changes as f64));
    for (how, mode) in [("streamed", StateMode::Streamed), ("as a whole, sorted", StateMode::Whole)] {
        let report = child::state(&large.path, mode, &moments)?;
        let times = Samples::new(report.seconds);
        results.add(
            Measurement::new(
                format!("state at a moment {of}, {how}: longest of {MOMENTS}"),
                times.max(),
                Unit::Seconds,
            )
            .budget(1.0)
            .detail("p50", times.median(), Unit::Seconds)
            .detail("objects", report.objects as f64, Unit::Count)
            .detail("their bytes", report.bytes as f64, Unit::Bytes),
        );
        let what = format!("memory for a state, {how}: beyond the objects' bytes");
        match report.memory {
            Some(memory) => {
                results.add(Measurement::new(what, memory.beyond as f64, Unit::Bytes).budget(200e6).detail(
                    "mapped pages of the file at the end",
                    memory.files as f64,
                    Unit::Bytes,
                ))
            }
            None => results.skip(what, "process memory is only known on Linux"),
        }
    }

    let mut wanted = Vec::new();
    for moment in moments {
        let mut keys = Vec::new();
        history.for_each_at(moment, &Selection::default(), |version| keys.push(version.key))?;
        for _ in 0..OBJECTS {
            wanted.push((moment, keys.swap_remove(rng.random_range(0..keys.len()))));
        }
    }
    // In random order, so that no lookup benefits from the previous one.
    for position in (1..wanted.len()).rev() {
        wanted.swap(position, rng.random_range(0..=position));
    }
    let times = wanted.iter().map(|(moment, key)| look_up(&history, *moment, key)).collect::<Result<_>>()?;
    let times = Samples::new(times);
    results.add(
        Measurement::new(
            format!("one object at a moment {of}: p99 of {}", with_commas(wanted.len() as f64)),
            times.percentile(99),
            Unit::Seconds,
        )
        .budget(0.003)
        .detail("p50", times.median(), Unit::Seconds)
        .detail("max", times.max(), Unit::Seconds),
    );
    Ok(())
}

/// Seconds to find one object, which must exist.
fn look_up(history: &History, moment: Moment, key: &Key) -> Result<f64> {
    let selection = Selection {
        kinds: Some(vec![key.kind.clone()]),
        source: Some(key.source.clone()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
    };
    let start = Instant::now();
    let cluster = history.at(moment, &selection)?;
    let took = start.elapsed();
    match cluster.objects() {
        [only] if only.key == *key => Ok(took.as_secs_f64()),
        other => Err(format!("{key} at {moment} was found {} times", other.len()).into()),
    }
}
