//! The figures of files that are read.

use std::io::Cursor;
use std::time::Instant;

use formats::Input;
use formats::jsonl::{Given, Item, Reader, Writer};
use history::Bulk;
use model::{Change, Moment, Observed};
use workload::churn::{Churn, SOURCE, churn};

use crate::figure::{Figure, Figures, Unit};
use crate::samples::Samples;
use crate::studio::Studio;
use crate::{Bench, Result};

/// What is measured of files that are read.
pub(crate) const BENCHES: &[Bench] =
    &[Bench { name: "formats.jsonl", about: "reading and importing lines of watch events", run: jsonl }];

const CHANGES: u64 = 50_000;
const RUNS: usize = 3;

/// Bytes a second, for an import from beginning to end.
const BUDGET: f64 = 100e6;

fn jsonl(studio: &Studio, figures: &mut Figures) -> Result<()> {
    let text = lines()?;
    let (mut read, mut imported) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut changes = 0;
        for item in reader(text.clone())? {
            item?;
            changes += 1;
        }
        if changes != CHANGES {
            return Err(format!("{CHANGES} lines were written and {changes} read").into());
        }
        read.push(text.len() as f64 / start.elapsed().as_secs_f64());

        let path = studio.path("jsonl.kine");
        let start = Instant::now();
        let mut bulk = Bulk::into(&path)?;
        for item in reader(text.clone())? {
            match item? {
                Item::Change(observed) => bulk.push(&observed)?,
                Item::Gap(gap) => bulk.push_gap(&gap)?,
            }
        }
        bulk.finish()?;
        imported.push(text.len() as f64 / start.elapsed().as_secs_f64());
        std::fs::remove_file(&path)?;
    }
    for (what, rates) in [("reading jsonl", read), ("importing jsonl into a new history", imported)] {
        let rates = Samples::new(rates);
        figures.add(
            Figure::new(what, rates.median(), Unit::BytesPerSecond)
                .budget(BUDGET)
                .also("least", rates.least(), Unit::BytesPerSecond)
                .also("most", rates.most(), Unit::BytesPerSecond),
        );
    }
    Ok(())
}

/// A file of changes, as our own export writes it.
fn lines() -> Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), Some(SOURCE.into()));
    let changes = churn(Churn { changes: CHANGES, ..Churn::default() });
    for (seq, Observed { seen, key, what, inferred }) in (1..).zip(changes) {
        writer.change(&Change { seq, at: seen, seen, key, what, inferred })?;
    }
    Ok(writer.into_inner())
}

fn reader(text: Vec<u8>) -> Result<Reader> {
    let input = Input::open("lines", Box::new(Cursor::new(text)))?;
    Ok(Reader::new(input, Given { source: SOURCE.into(), at: None::<Moment> }))
}
