//! Tests of reading and writing kube-scheduler-simulator's recordings.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and reports what it skipped"
)]

use std::io::Cursor;
use std::path::Path;

use formats::{Format, ImportItem, Input, ReadOptions, Result, WriteSummary, Writer, sched_record};
use jiff::tz::{Offset, offset};
use model::{Change, Gap, IncomingChange, Moment, What};

/// The output of a recorder on a machine nine hours ahead of UTC.
const RECORD: &str = r#"{"time":"2026-11-01T23:03:28.123456789+09:00","event":"Add","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"note":"a\u003cb \u0026\u0026 c\u003ed"},"creationTimestamp":"2026-11-01T14:03:28Z","labels":{"app":"web"},"managedFields":[{"apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:labels":{".":{},"f:app":{}}}},"manager":"kubectl","operation":"Update","time":"2026-11-01T14:03:28Z"}],"name":"web-0","namespace":"shop","resourceVersion":"48123","uid":"7a1c0d5e-6e0b-4b0d-9d0e-4f7c6a0c1b11"},"spec":{"containers":[{"image":"web:1","name":"c","resources":{"requests":{"cpu":"250m","memory":"128Mi"}}}],"priority":0},"status":{"phase":"Pending","qosClass":"Burstable"}}}
{"time":"2026-11-01T23:03:28.2+09:00","event":"Update","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop","resourceVersion":"48127"},"spec":{"nodeName":"node-3"},"status":{"conditions":[{"lastProbeTime":null,"status":"True","type":"PodScheduled"}],"phase":"Pending"}}}
{"time":"2026-11-01T23:09:02.000417+09:00","event":"Delete","resource":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"shop"}}}
{"time":"2026-11-02T00:00:00+09:00","event":"Delete","resource":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-3","namespace":""}}}
"#;

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}"#;

fn input(bytes: impl Into<Vec<u8>>) -> Input {
    Input::open("record", Box::new(Cursor::new(bytes.into()))).unwrap()
}

fn read_options(at: Option<&str>) -> ReadOptions {
    let moment = |text: &str| text.parse::<Moment>().unwrap();
    ReadOptions { source: "east".into(), at: at.map(moment), now: moment("2030-01-01T00:00:00Z") }
}

fn items(bytes: impl Into<Vec<u8>>) -> Result<Vec<ImportItem>> {
    sched_record::SchedRecordReader::new(input(bytes), read_options(None)).collect()
}

/// The changes of a valid file.
fn read(bytes: impl Into<Vec<u8>>) -> Vec<IncomingChange> {
    let change = |item| match item {
        ImportItem::Change(observed) => observed,
        other => panic!("{other:?} is not a change"),
    };
    items(bytes).unwrap().into_iter().map(change).collect()
}

fn written(changes: &[IncomingChange], offset: Offset, every_kind: bool) -> (String, WriteSummary) {
    let mut out = Vec::new();
    let mut writer = Box::new(sched_record::SchedRecordWriter::new(&mut out, offset, every_kind));
    for (index, observed) in changes.iter().cloned().enumerate() {
        let IncomingChange { seen, key, what, inferred } = observed;
        // In a history `at` may be later than the time on the observer's clock.
        let change = Change { seq: index as i64, at: seen.plus_nanos(1), seen, key, what, inferred };
        writer.change(&change).unwrap();
    }
    let written = writer.finish().unwrap();
    (String::from_utf8(out).unwrap(), written)
}

#[track_caller]
fn refused(bytes: impl Into<Vec<u8>>, message: &str) {
    let error = items(bytes).unwrap_err().to_string();
    assert!(error.contains(message), "{error:?} should say {message:?}");
}

/// Checks the times of these records, and whether some of them are inferred.
#[track_caller]
fn check_times(lines: &[String], at: Option<&str>, expected: &[&str], inferred: bool) {
    let reader = sched_record::SchedRecordReader::new(input(lines.join("\n")), read_options(at));
    let mut items: Vec<ImportItem> = reader.map(Result::unwrap).collect();
    if inferred {
        assert_eq!(items.pop(), Some(ImportItem::TimesInferred("east".into())));
    }
    let seen: Vec<String> = items
        .iter()
        .map(|item| match item {
            ImportItem::Change(observed) => observed.seen.to_string(),
            other => panic!("{other:?} is not a change"),
        })
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_recording_round_trips_byte_for_byte() {
    assert_eq!(input(RECORD).format, Some(Format::SchedRecord));
    let changes = read(RECORD);
    assert_eq!(
        written(&changes, offset(9), false),
        (RECORD.to_owned(), WriteSummary { count: 4, ..WriteSummary::default() })
    );
}

#[test]
fn times_are_written_with_the_requested_offset() {
    let changes = read(RECORD);
    let times = |offset| -> Vec<String> {
        let (text, _) = written(&changes, offset, false);
        text.lines().map(|line| line.split('"').nth(3).unwrap().to_owned()).collect()
    };
    assert_eq!(
        times(Offset::UTC),
        [
            "2026-11-01T14:03:28.123456789Z",
            "2026-11-01T14:03:28.2Z",
            "2026-11-01T14:09:02.000417Z",
            "2026-11-01T15:00:00Z"
        ]
    );
    assert_eq!(
        times(Offset::from_seconds(-(3 * 3600 + 1800)).unwrap()),
        [
            "2026-11-01T10:33:28.123456789-03:30",
            "2026-11-01T10:33:28.2-03:30",
            "2026-11-01T10:39:02.000417-03:30",
            "2026-11-01T11:30:00-03:30"
        ]
    );
}

#[test]
fn an_object_keeps_its_bytes_and_has_the_key_of_its_deletion() {
    let spaced = r#"{ "kind":"Node", "apiVersion":"v1",  "metadata": {"name":"node-3"}, "x": 1.50 }"#;
    let line = format!(r#"{{"time":"2026-11-01T14:00:00Z","event":"Add","resource":{spaced}}}"#);
    let changes = read(format!("{line}\n{RECORD}"));
    assert_eq!(changes[0].what.object().as_str(), spaced);
    assert_eq!(changes[0].key, changes[4].key);
    assert_eq!(changes[0].key.to_string(), "Node node-3");
    assert!(matches!(changes[4].what, What::Deleted(_)));
    let (text, _) = written(&changes[..1], Offset::UTC, false);
    let sorted = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-3"},"x":1.5}"#;
    assert_eq!(text, format!("{}\n", line.replace(spaced, sorted)));
}

#[test]
fn envelopes_are_read_as_go_reads_them() {
    let line = format!(
        r#"{{"TIME":"2026-11-01T14:00:00Z","extra":[1],"Event":"Update","event":null,"resource":{{}},"Resource":{NODE}}}"#
    );
    let changes = read(format!("\u{feff}\n{line}\r\n\n{line}"));
    assert_eq!(changes.len(), 2);
    assert!(matches!(&changes[0].what, What::Modified(node) if node.as_str() == NODE));
}

#[test]
fn a_record_without_time_has_that_of_the_previous_one() {
    let at = |time: &str| format!(r#"{{"time":"{time}","event":"Update","resource":{NODE}}}"#);
    let without = format!(r#"{{"event":"Update","resource":{NODE}}}"#);
    let zero = at("0001-01-01T00:00:00Z");
    let timed = at("2026-11-01T14:00:00.5-01:00");
    let born = NODE.replace(r#""name":"n1""#, r#""name":"n1","creationTimestamp":"2026-10-01T00:00:00Z""#);
    let born = format!(r#"{{"event":"Add","resource":{born}}}"#);
    check_times(std::slice::from_ref(&timed), None, &["2026-11-01T15:00:00.5Z"], false);
    check_times(
        &[timed.clone(), without.clone(), zero.clone(), born.clone()],
        Some("2026-01-01T00:00:00Z"),
        &["2026-11-01T15:00:00.5Z"; 4],
        true,
    );
    // Without a previous record the time is that of the options, the object, or the current one.
    check_times(
        &[born.clone(), zero.clone(), timed],
        None,
        &["2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z", "2026-11-01T15:00:00.5Z"],
        true,
    );
    check_times(&[born, without], Some("2026-01-01T00:00:00Z"), &["2026-01-01T00:00:00Z"; 2], true);
    check_times(&[zero], None, &["2030-01-01T00:00:00Z"], true);
}

#[test]
fn a_truncated_last_line_is_skipped_with_a_warning() {
    let first = RECORD.lines().next().unwrap();
    for end in 1..first.len() {
        let mut bytes = format!("{RECORD}{RECORD}").into_bytes();
        bytes.truncate(RECORD.len() + end);
        let items = items(bytes).unwrap();
        assert_eq!(items.len(), 5);
        let Some(ImportItem::Warning(warning)) = items.last() else { panic!("{end}: {:?}", items.last()) };
        assert!(
            warning.starts_with(&format!(
                "record, line 5: the last line is truncated; its {end} bytes were skipped"
            )),
            "{warning}"
        );
    }
    // An incomplete UTF-8 character.
    let items = items([RECORD.as_bytes(), b"{\"time\":\"\xc3"].concat()).unwrap();
    assert!(matches!(items.last(), Some(ImportItem::Warning(_))));
    // Complete except for the final line end.
    assert_eq!(read(RECORD.trim_end()).len(), 4);
}

#[test]
fn errors_have_their_line() {
    let cut = &RECORD[..RECORD.find('\n').unwrap() - 30];
    refused(format!("{RECORD}{cut}\n{RECORD}"), "record, line 5: not a record: EOF");
    refused(format!("{RECORD}{cut}\n"), "record, line 5: not a record: EOF");
    refused(
        RECORD.replace("Update\"", "Patch\""),
        "line 2: unknown event \"Patch\": expected Add, Update or Delete",
    );
    refused(
        RECORD.replacen("\"Add\"", "\"add\"", 1),
        "line 1: unknown event \"add\": expected Add, Update or Delete",
    );
    refused(RECORD.replacen("\"Add\"", "7", 1), "line 1: not a record: invalid type");
    refused(r#"{"event":"Add"}"#, "line 1: a record requires a \"resource\"");
    refused(format!(r#"{{"resource":{NODE}}}"#), "line 1: a record requires an \"event\"");
    refused(r#"{"event":"Add","resource":null}"#, "line 1: resource: not a Kubernetes object");
    refused(RECORD.replace("2026-11-01T23:03:28.2+", "25:"), "line 2: time: ");
    refused(
        RECORD.replacen("\"web-0\"", "\"\"", 1),
        "line 1: resource: not a Kubernetes object: metadata.name is empty",
    );
    refused(b"{\"event\":\"\xff\"}\n".to_vec(), "line 1: byte 10 is not UTF-8");
    refused("[]\n", "line 1: not a record");
    refused(vec![b' '; formats::MAX_VALUE_BYTES + 1], "line 1: longer than 64 MiB");
}

#[test]
fn kinds_the_recorder_does_not_watch_are_counted() {
    let deployment = NODE.replace("v1", "apps/v1").replace("Node", "Deployment");
    let line = |event: &str, object: &str| {
        format!(r#"{{"time":"2026-11-01T14:00:00Z","event":"{event}","resource":{object}}}"#) + "\n"
    };
    let text = line("Add", NODE) + &line("Add", &deployment) + &line("Update", &deployment);
    let changes = read(text.as_str());
    assert_eq!(written(&changes, Offset::UTC, true).0, text);
    let mut out = Vec::new();
    let mut writer = Box::new(sched_record::SchedRecordWriter::new(&mut out, Offset::UTC, false));
    let at = changes[0].seen;
    let gap = Gap { source: "east".into(), kinds: Vec::new(), from: at, to: at, why: String::new() };
    writer.gap(&gap).unwrap();
    assert_eq!(writer.finish().unwrap().left_out.iter().collect::<Vec<_>>(), [("gaps", 1)]);
    let (text, written) = written(&changes, Offset::UTC, false);
    assert_eq!(text, line("Add", NODE));
    assert_eq!(written.left_out.iter().collect::<Vec<_>>(), [("changes of Deployment", 2)]);
}

#[test]
fn a_cluster_recording_round_trips_byte_for_byte_after_the_first_write() {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films/small.jsonl.gz");
    let Ok(file) = std::fs::File::open(&recording) else {
        println!("left out: there is no film beside the workspace");
        return;
    };
    let recording = Input::open("film", Box::new(file)).unwrap();
    let changes: Vec<IncomingChange> = formats::read(recording, Format::Jsonl, read_options(None))
        .unwrap()
        .map(|item| match item.unwrap() {
            ImportItem::Change(observed) => observed,
            other => panic!("{other:?} is not a change"),
        })
        .collect();
    for zone in [Offset::UTC, offset(9), Offset::from_seconds(-(3 * 3600 + 1800)).unwrap()] {
        let (text, summary) = written(&changes, zone, true);
        let again = read(text.as_str());
        assert_eq!(summary.count as usize, changes.len());
        for (before, after) in changes.iter().zip(&again) {
            assert_eq!((before.seen, &before.key), (after.seen, &after.key));
            assert_eq!(
                before.what.state().map(|o| o.value().unwrap()),
                after.what.state().map(|o| o.value().unwrap())
            );
        }
        assert!(written(&again, zone, true).0 == text, "the second writing differs");
    }
}
