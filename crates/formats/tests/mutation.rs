//! Damaged files of every format: seeded mutations of valid files must be read or refused, without a panic.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

use std::io::Cursor;

use formats::sktrace::{self, TraceFilters, TracerConfig};
use formats::{Format, ImportItem, Input, ReadOptions, Writer, kai_snapshot, scaling_history};
use model::{Change, IncomingChange, Moment, Window};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

const JSONL: &str = r#"{"at":"2026-11-01T14:00:00.5Z","type":"ADDED","source":"east","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","labels":{"a/b":"c"}},"status":{"x":[1,-2.5e3,null,true,"é\n"]}}}
{"at":1794710669674792,"seen":"2026-11-01T14:00:00Z","inferred":true,"type":"DELETED","object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"shop","uid":"u"}}}
{"at":"2026-11-01T14:10:00Z","type":"GAP","to":"2026-11-01T14:12:00Z","kinds":["Pod","Deployment.apps"],"why":"away"}
"#;

const WATCH: &str = r#"{
    "type": "ADDED",
    "object": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web",
            "creationTimestamp": "2026-11-01T14:00:00Z"
        }
    }
}
{
    "type": "BOOKMARK",
    "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "5"}}
}
"#;

const YAML: &str = "apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: a\n  labels: {b: yes, c: 012}\nspec:\n  text: |\n    two\n    lines\n---\napiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: b}\n";

const LIST: &str =
    r#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;

const RECORD: &str = r#"{"time":"2026-11-01T23:03:28.123456789+09:00","event":"Add","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop"},"spec":{"priority":0}}}
{"time":"2026-11-01T23:09:02.000417+09:00","event":"Delete","resource":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","namespace":""}}}
"#;

const EXPORT: &str = r#"{"pods":[{"metadata":{"name":"web-1","namespace":"shop"},"spec":{"nodeName":"n1"}}],"nodes":[{"metadata":{"name":"n1"}}],"pvs":null,"schedulerConfig":{"parallelism":16},"namespaces":[{"metadata":{"name":"shop"}}]}"#;

const KAI: &str = r#"{"config":{"actions":"allocate"},"schedulerParams":{"schedulerName":"s"},"rawObjects":{"pods":[{"metadata":{"name":"a","namespace":"d"}}],"nodes":null,"topologies":[{"metadata":{"name":"t"}}],"extra":[1]},"discovery":null}"#;

const SNAPSHOTZ: &str = r#"{"NodeList":[{"Node":{"metadata":{"name":"n1"}},"Pods":[{"metadata":{"name":"a","namespace":"d"},"spec":{"nodeName":"n1"}}]}],"UnscheduledPodsCanBeScheduled":null,"TemplateNodes":{"big":{"Node":{"metadata":{"name":"t"}},"Pods":null}},"Error":"","StartTimestamp":"2026-11-01T14:00:00Z","EndTimestamp":"2026-11-01T14:00:01Z"}"#;

const AUDIT: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"1d2c","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/web/pods","verb":"create","user":{"username":"alice"},"impersonatedUser":{"username":"bob"},"sourceIPs":["192.0.2.7"],"userAgent":"kubectl/v1.36.4","objectRef":{"resource":"pods","namespace":"web","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":201},"responseObject":{"metadata":{"name":"a-x7","uid":"u","resourceVersion":"12"}},"requestReceivedTimestamp":"2026-11-02T14:00:00.1Z","stageTimestamp":"2026-11-02T14:00:00.2Z"}
{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"stage":"ResponseComplete","verb":"delete","user":{},"objectRef":{"resource":"nodes","name":"n"},"responseStatus":{"code":200},"stageTimestamp":"2026-11-02T14:00:01Z"}]}
"#;

/// Fragments that are difficult for parsers.
const DIFFICULT_FRAGMENTS: [&[u8]; 16] = [
    b"{",
    b"}",
    b"[[[[[[[[[[[[[[[[[[[[",
    b"\"",
    b"\\",
    b"\\ud800",
    b"\xff\xfe",
    b"1e999",
    b"99999999999999999999",
    b"\0",
    b"\n---\n",
    b"&a *a",
    b"!!binary",
    b": ",
    b"\t",
    b"\"at\":",
];

/// A file of each format, and its number of mutations: formats that need a file on disk are slower.
fn samples() -> Vec<(Format, Vec<u8>, usize)> {
    let text = |format, text: &str| (format, text.as_bytes().to_vec(), 20_000);
    let recording = include_str!("../../../testdata/formats/kwok_recording.yaml");
    let head: Vec<&str> = recording.split_inclusive("---\n").take(12).collect();
    vec![
        text(Format::Jsonl, JSONL),
        text(Format::Jsonl, WATCH),
        text(Format::Manifests, YAML),
        text(Format::Manifests, LIST),
        (Format::Jsonl, zstd::encode_all(JSONL.as_bytes(), 3).unwrap(), 20_000),
        text(Format::SchedRecord, RECORD),
        text(Format::KssSnapshot, EXPORT),
        (Format::Kwok, head.concat().into_bytes(), 2_000),
        text(Format::Snapshotz, SNAPSHOTZ),
        (
            Format::ScalingScenario,
            include_bytes!("../../../testdata/formats/gardener_scenario.json").to_vec(),
            2_000,
        ),
        text(Format::Dlrm, include_str!("../../../testdata/formats/dlrm.csv")),
        text(Format::KaiSnapshot, KAI),
        text(Format::Audit, AUDIT),
        (
            Format::KaiSnapshot,
            written_file(|out| Box::new(kai_snapshot::KaiSnapshotWriter::new(out, None))),
            5_000,
        ),
        (Format::Sktrace, written_file(trace_writer), 10_000),
        (Format::ScalingHistory, database(), 3_000),
    ]
}

fn trace_writer(out: &mut Vec<u8>) -> Box<dyn Writer + '_> {
    let config = TracerConfig::default();
    Box::new(sktrace::SktraceWriter::new(out, config, Window::ALL, TraceFilters::default()).unwrap())
}

/// The file that a writer makes of a small cluster.
fn written_file(writer: impl for<'a> FnOnce(&'a mut Vec<u8>) -> Box<dyn Writer + 'a>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = writer(&mut bytes);
    write_changes(&mut *writer);
    writer.finish().unwrap();
    bytes
}

fn database() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    let mut writer = Box::new(scaling_history::ScalingHistoryWriter::create(&path).unwrap());
    write_changes(&mut *writer);
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn write_changes(writer: &mut dyn Writer) {
    for (seq, observed) in (1..).zip(workload::shop::first_changes(1, 400)) {
        let IncomingChange { seen, key, what, inferred } = observed;
        writer.change(&Change { seq, at: seen, seen, key, what, inferred }).unwrap();
    }
}

#[test]
fn mutated_files_are_read_or_refused() {
    let seed = 3;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    for (format, sample, rounds) in samples() {
        let (mut read, mut refused) = (0, 0);
        assert_eq!(format_of(&sample), Some(format));
        read_all(&sample).unwrap_or_else(|error| panic!("the {} sample: {error}", format.name()));
        for _ in 0..rounds {
            let mut bytes = sample.clone();
            for _ in 0..rng.random_range(1..4) {
                mutate(&mut bytes, &mut rng);
            }
            match read_all(&bytes) {
                Ok(()) => read += 1,
                Err(message) => {
                    assert!(!message.is_empty());
                    refused += 1;
                }
            }
        }
        println!("{}: {read} read, {refused} refused", format.name());
        assert!(
            refused > rounds / 20,
            "the mutations of {} are all harmless: {read}, {refused}",
            format.name()
        );
    }
}

fn format_of(bytes: &[u8]) -> Option<Format> {
    Input::open("sample", Box::new(Cursor::new(bytes.to_vec()))).unwrap().format
}

fn mutate(bytes: &mut Vec<u8>, rng: &mut Pcg64) {
    let index = rng.random_range(0..bytes.len().max(1)).min(bytes.len());
    match rng.random_range(0..5) {
        0 if index < bytes.len() => bytes[index] ^= 1 << rng.random_range(0..8),
        1 => bytes.truncate(index),
        2 => {
            let end = (index + rng.random_range(1..30)).min(bytes.len());
            bytes.drain(index..end);
        }
        3 => {
            let end = (index + rng.random_range(1..60)).min(bytes.len());
            let again = bytes[index..end].to_vec();
            bytes.splice(index..index, again);
        }
        _ => {
            let piece = DIFFICULT_FRAGMENTS[rng.random_range(0..DIFFICULT_FRAGMENTS.len())];
            bytes.splice(index..index, piece.iter().copied());
        }
    }
}

fn read_all(bytes: &[u8]) -> Result<(), String> {
    let input =
        Input::open("mutant", Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| error.to_string())?;
    let Some(format) = input.format else { return Err("unknown".to_owned()) };
    let start = Moment::from_nanos(0);
    let options = ReadOptions { source: "s".into(), at: Some(start), now: start };
    for item in formats::read(input, format, options).map_err(|error| error.to_string())? {
        match item.map_err(|error| error.to_string())? {
            ImportItem::Change(observed) => {
                drop(observed.what.object().value().expect("an accepted object parses as JSON"))
            }
            ImportItem::Object(object) => drop(object.value().expect("an accepted object parses as JSON")),
            _ => {}
        }
    }
    Ok(())
}
