//! The cluster, and one object of it, as they were at random moments.

use std::time::Instant;

use history::{History, Selection};
use model::{Key, Moment};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::child::{self, Whole};
use crate::Result;
use crate::figure::{Figure, Figures, Unit, with_commas};
use crate::samples::Samples;
use crate::studio::Studio;

const MOMENTS: usize = 20;
/// So many objects are looked up at each moment.
const OBJECTS: usize = 50;
const SEED: u64 = 11;

pub(super) fn run(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let large = studio.large()?;
    let history = History::open(&large.path)?;
    let mut chance = Pcg64::seed_from_u64(SEED);
    let (first, last) = history.span()?.ok_or("the large history is empty")?;
    // The beginning is a list that only grows to the size meant.
    let from = first.plus_nanos(last.nanos_since(first) / 5);
    let moments: Vec<Moment> =
        (0..MOMENTS).map(|_| Moment::from_nanos(chance.random_range(from.nanos()..=last.nanos()))).collect();

    let of = format!("of {} changes", with_commas(large.changes as f64));
    for (how, whole) in [("streamed", Whole::No), ("as a whole, sorted", Whole::Yes)] {
        let report = child::state(&large.path, whole, &moments)?;
        let times = Samples::new(report.seconds);
        figures.add(
            Figure::new(
                format!("state at a moment {of}, {how}: longest of {MOMENTS}"),
                times.most(),
                Unit::Seconds,
            )
            .budget(1.0)
            .also("p50", times.median(), Unit::Seconds)
            .also("objects", report.objects as f64, Unit::Count)
            .also("their bytes", report.bytes as f64, Unit::Bytes),
        );
        let what = format!("memory for a state, {how}: beyond the objects' bytes");
        match report.memory {
            Some(memory) => {
                figures.add(Figure::new(what, memory.beyond as f64, Unit::Bytes).budget(200e6).also(
                    "mapped pages of the file at the end",
                    memory.files as f64,
                    Unit::Bytes,
                ))
            }
            None => figures.skip(what, "only Linux tells a process's memory"),
        }
    }

    let mut wanted = Vec::new();
    for moment in moments {
        let mut keys = Vec::new();
        history.for_each_at(moment, &Selection::default(), |version| keys.push(version.key))?;
        for _ in 0..OBJECTS {
            wanted.push((moment, keys.swap_remove(chance.random_range(0..keys.len()))));
        }
    }
    // In an order that leaves nothing at hand from the one before.
    for place in (1..wanted.len()).rev() {
        wanted.swap(place, chance.random_range(0..=place));
    }
    let times = wanted.iter().map(|(moment, key)| look_up(&history, *moment, key)).collect::<Result<_>>()?;
    let times = Samples::new(times);
    figures.add(
        Figure::new(
            format!("one object at a moment {of}: p99 of {}", with_commas(wanted.len() as f64)),
            times.percentile(99),
            Unit::Seconds,
        )
        .budget(0.005)
        .also("p50", times.median(), Unit::Seconds)
        .also("max", times.most(), Unit::Seconds),
    );
    Ok(())
}

/// How many seconds it takes to find one object, which must be there.
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
