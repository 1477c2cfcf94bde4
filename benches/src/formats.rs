//! Benchmarks of reading and importing other systems' files.

use std::io::Cursor;
use std::time::Instant;

use formats::sktrace::{self, TraceFilters, TracerConfig};
use formats::{Format, ImportItem, ImportItems, Input, ReadOptions, Writer, jsonl, sched_record};
use history::BulkWriter;
use jiff::tz::Offset;
use model::{Change, IncomingChange, Moment, Window};
use workload::churn::{ChurnOptions, SOURCE, churn};

use crate::bench_env::BenchEnv;
use crate::results::{BenchResults, Measurement, Unit};
use crate::samples::Samples;
use crate::{Bench, Result};

/// The benchmarks of file formats.
pub(crate) const BENCHES: &[Bench] = &[
    Bench { name: "formats.jsonl", about: "reading and importing lines of watch events", run: jsonl },
    Bench {
        name: "formats.sched-record",
        about: "reading and importing kube-scheduler-simulator's recording",
        run: sched_record,
    },
    Bench { name: "formats.sktrace", about: "reading and importing SimKube's trace", run: sktrace },
];

const CHANGES: u64 = 50_000;
const RUNS: usize = 3;

fn jsonl(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let text = write_file(|out| Ok(Box::new(jsonl::JsonlWriter::new(out, Some(SOURCE.into())))))?;
    measure(env, results, Format::Jsonl, text, 100e6)
}

fn sched_record(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let text = write_file(|out| Ok(Box::new(sched_record::SchedRecordWriter::new(out, Offset::UTC, true))))?;
    measure(env, results, Format::SchedRecord, text, 100e6)
}

fn sktrace(env: &BenchEnv, results: &mut BenchResults) -> Result<()> {
    let text = write_file(|out| {
        let config = "trackedObjects: {v1.Pod: {trackLifecycle: true}, apps/v1.Deployment: {trackLifecycle: true}, \
                      v1.Event: {}, apps/v1.ReplicaSet: {}}";
        let (config, _) = TracerConfig::parse("tracer", config)?;
        Ok(Box::new(sktrace::SktraceWriter::new(out, config, Window::ALL, TraceFilters::default())?))
    })?;
    measure(env, results, Format::Sktrace, text, 50e6)
}

/// Measures how fast a file is read and imported, in bytes per second.
fn measure(
    env: &BenchEnv,
    results: &mut BenchResults,
    format: Format,
    text: Vec<u8>,
    budget: f64,
) -> Result<()> {
    let (mut read, mut imported) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = Instant::now();
        let mut changes = 0;
        for item in reader(&text, format)? {
            changes += u64::from(matches!(item?, ImportItem::Change(_)));
        }
        if changes == 0 {
            return Err(format!("there are no changes in the {} file", format.name()).into());
        }
        read.push(text.len() as f64 / start.elapsed().as_secs_f64());

        let path = env.path("imported.kine");
        let start = Instant::now();
        let mut bulk = BulkWriter::open(&path)?;
        for item in reader(&text, format)? {
            if let ImportItem::Change(observed) = item? {
                bulk.push(&observed)?;
            }
        }
        bulk.finish()?;
        imported.push(text.len() as f64 / start.elapsed().as_secs_f64());
        std::fs::remove_file(&path)?;
    }
    let name = format.name();
    for (what, rates) in
        [(format!("reading {name}"), read), (format!("importing {name} into a new history"), imported)]
    {
        let rates = Samples::new(rates);
        results.add(
            Measurement::new(what, rates.median(), Unit::BytesPerSecond)
                .budget(budget)
                .detail("least", rates.min(), Unit::BytesPerSecond)
                .detail("most", rates.max(), Unit::BytesPerSecond),
        );
    }
    Ok(())
}

/// A file of changes, written by our own exporter.
fn write_file(make: impl for<'a> FnOnce(&'a mut Vec<u8>) -> Result<Box<dyn Writer + 'a>>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut writer = make(&mut bytes)?;
    let changes = churn(ChurnOptions { changes: CHANGES, ..ChurnOptions::default() });
    for (seq, IncomingChange { seen, key, what, inferred }) in (1..).zip(changes) {
        writer.change(&Change { seq, at: seen, seen, key, what, inferred })?;
    }
    writer.finish()?;
    Ok(bytes)
}

fn reader(text: &[u8], format: Format) -> Result<ImportItems> {
    let input = Input::open("file", Box::new(Cursor::new(text.to_vec())))?;
    Ok(formats::read(input, format, ReadOptions { source: SOURCE.into(), at: None, now: Moment::MAX })?)
}
