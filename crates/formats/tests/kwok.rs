//! Tests of KWOK's files: against KWOK's own code, and round trips.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

use std::collections::{BTreeMap, HashMap};
use std::io::{Cursor, Write};
use std::path::Path;

use apimachinery::strategic_merge::{diff, merge};
use formats::{Error, Format, ImportItem, Input, ReadOptions, WriteSummary, Writer, jsonl, kwok};
use model::{Change, Gap, IncomingChange, Key, Moment, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

const BASE: &str = "2026-11-01T12:00:00Z";

fn moment(text: &str) -> Moment {
    text.parse().unwrap()
}

fn read_options(at: Option<&str>) -> ReadOptions {
    ReadOptions { source: "s".into(), at: at.map(moment), now: moment("2030-01-01T00:00:00Z") }
}

fn try_read(text: &str, options: ReadOptions) -> Result<Vec<ImportItem>, Error> {
    let input = Input::open("file", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
    formats::read(input, Format::Kwok, options)?.collect()
}

/// The items of a file, one line each: the time after the base, the type of change, and the object.
fn read(text: &str, at: Option<&str>) -> Vec<String> {
    let base = moment(at.unwrap_or("2030-01-01T00:00:00Z"));
    let show = |item| match item {
        ImportItem::Change(IncomingChange { seen, what, inferred, .. }) => {
            let mark = if inferred { " inferred" } else { "" };
            let nanos = seen.nanos_since(base);
            format!("{nanos} {}{mark} {}", what.event_type(), what.object().as_str())
        }
        ImportItem::Object(object) => format!("object {}", object.as_str()),
        ImportItem::TimesInferred(source) => format!("times of {source} inferred"),
        ImportItem::Warning(text) => text,
        ImportItem::CaptureTime(time) => format!("captured at {time}"),
        ImportItem::Gap(_) => "gap".to_owned(),
    };
    try_read(text, read_options(at)).unwrap().into_iter().map(show).collect()
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(read(text, Some(BASE)), expected);
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let error = try_read(text, read_options(None)).expect_err(text).to_string();
    assert!(error.contains(message), "{error:?} should say {message:?}");
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: d\n";
const POD_JSON: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"d"}}"#;

fn patch(after: i64, method: &str, resource: &str, rest: &str) -> String {
    format!(
        "---\napiVersion: action.kwok.x-k8s.io/v1alpha1\ndurationNanosecond: {after}\nkind: ResourcePatch\n\
         method: {method}\nresource: {{{resource}, version: v1}}\ntarget: {{name: a, namespace: d}}\n{rest}"
    )
}

#[test]
fn a_recording_of_kwoks_own_code_is_read_as_its_replay_reads_it() {
    let recording = include_str!("../../../testdata/formats/kwok_recording.yaml");
    let expected = include_str!("../../../testdata/formats/kwok_recording.jsonl");
    let base = Moment::from_nanos(1_794_710_669_674_792_000);
    let mut items = try_read(recording, ReadOptions { at: Some(base), ..read_options(None) }).unwrap();
    assert_eq!(items.pop(), Some(ImportItem::TimesInferred("s".into())));
    assert_eq!(items.len(), expected.lines().count());
    for (item, line) in items.iter().zip(expected.lines()) {
        let ImportItem::Change(observed) = item else { panic!("{item:?}") };
        let expected: Value = serde_json::from_str(line).unwrap();
        let found = json!({
            "d": observed.seen.nanos_since(base),
            "type": observed.what.event_type(),
            "object": observed.what.object().value().unwrap(),
        });
        assert_eq!(found, expected);
    }
}

#[test]
fn without_patches_and_relative_times_it_is_manifests() {
    check(POD, &[&format!("object {POD_JSON}")]);
    check(POD_JSON, &[&format!("object {POD_JSON}")]);
    check("", &[]);
}

#[test]
fn relative_times_alone_make_it_a_recording() {
    let pod = format!("{POD}  creationTimestamp: $(time-offset-nanosecond -1500000000)\n");
    check(
        &pod,
        &[
            r#"0 ADDED inferred {"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"d","creationTimestamp":"2026-11-01T11:59:58.500000Z"}}"#,
            "times of s inferred",
        ],
    );
}

#[test]
fn objects_are_created_patched_and_deleted() {
    let text = [
        POD,
        &patch(5, "patch", "resource: pods", "template: {metadata: {labels: {b: c}}}\n"),
        &patch(7, "delete", "resource: pods", ""),
        &patch(9, "create", "resource: pods", &format!("template: {POD_JSON}\n")),
        &patch(9, "create", "resource: pods", &format!("template: {POD_JSON}\n")),
    ];
    let labeled =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"b":"c"},"name":"a","namespace":"d"}}"#;
    check(
        &text.concat(),
        &[
            &format!("0 ADDED {POD_JSON}"),
            &format!("5 MODIFIED inferred {labeled}"),
            &format!("7 DELETED inferred {labeled}"),
            &format!("9 ADDED {POD_JSON}"),
            &format!("9 MODIFIED {POD_JSON}"),
            "times of s inferred",
        ],
    );
}

#[test]
fn patches_a_little_out_of_order_are_put_in_order() {
    let text: Vec<String> =
        (0..3000).map(|n| patch(n ^ 511, "patch", "resource: pods", "template: {a: 1}\n")).collect();
    let times: Vec<i64> = read(&(POD.to_owned() + &text.concat()), Some(BASE))[1..3001]
        .iter()
        .map(|line| line.split(' ').next().unwrap().parse().unwrap())
        .collect();
    assert!(times.is_sorted());
}

#[test]
fn patches_that_cannot_be_applied_are_skipped_with_a_warning() {
    let text = [
        POD,
        &patch(1, "patch", "resource: services", "template: {a: 1}\n"),
        &patch(2, "delete", "group: example.com, resource: gadgets", ""),
        &patch(3, "patch", "resource: pods", "template: {metadata: {name: b}}\n"),
        &patch(4, "patch", "resource: pods", "template: {metadata: {$patch: merge}}\n"),
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: late}\n",
    ];
    let found = read(&text.concat(), Some(BASE));
    for (line, expected) in found[1..6].iter().zip([
        "file, line 38: skipped: expected a ResourcePatch",
        "file, line 7: skipped: services d/a: object not found",
        "file, line 15: skipped: gadgets d/a: unknown resource type",
        "file, line 22: skipped: pods d/a: the patch changes the object's identity",
        "file, line 30: skipped: pods d/a: invalid directive",
    ]) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert_eq!(found.len(), 7);
}

#[test]
fn custom_resources_are_found_by_the_plural_they_were_created_or_guessed_with() {
    let gadget = |kind: &str| {
        format!(
            "apiVersion: example.com/v1\nkind: {kind}\nmetadata: {{name: a, namespace: d, finalizers: [x, z]}}\nl: [1]\n"
        )
    };
    let template = "template: {l: [2], metadata: {$deleteFromPrimitiveList/finalizers: [x]}}\n";
    for (kind, plural) in [("Policy", "policies"), ("Policy", "policys"), ("Gadget", "gadgets")] {
        let resource = format!("group: example.com, resource: {plural}");
        let text = gadget(kind) + &patch(1, "patch", &resource, template);
        let found = read(&text, Some(BASE));
        assert!(found[1].contains(r#""l":[2],"metadata":{"finalizers":["z"]"#), "{plural}: {found:?}");
    }
    let strange = "group: example.com, resource: gatewayses";
    let create = format!("template:\n  {}", gadget("Gateway").replace('\n', "\n  "));
    let text = patch(0, "create", strange, &create) + "\n" + &patch(1, "delete", strange, "");
    assert!(read(&text, Some(BASE))[1].starts_with("1 DELETED "));
}

#[test]
fn the_beginning_is_that_of_the_options_or_the_newest_time_in_the_objects_or_now() {
    let text = |time: &str| {
        let delete = patch(1, "delete", "resource: pods", "");
        format!("{POD}  creationTimestamp: {time}\n{delete}")
    };
    let begin = |time: &str, at| match &try_read(&text(time), read_options(at)).unwrap()[0] {
        ImportItem::Change(observed) => observed.seen.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(begin("'2026-10-01T00:00:00Z'", Some(BASE)), BASE);
    assert_eq!(begin("'2026-10-01T00:00:00Z'", None), "2026-10-01T00:00:00Z");
    assert_eq!(begin("$(time-offset-nanosecond -7)", None), "2030-01-01T00:00:00Z");
}

#[test]
fn broken_documents_are_refused_with_their_line() {
    refused(&(POD.to_owned() + &patch(0, "replace", "resource: pods", "")), "line 7: not a ResourcePatch");
    refused(
        &(POD.to_owned() + &patch(0, "patch", "resource: pods", "")),
        "line 7: a ResourcePatch with method",
    );
    refused(
        &(POD.to_owned() + &patch(0, "create", "resource: pods", "template: {kind: Pod}\n")),
        "line 7: template: ",
    );
    refused(&(POD.to_owned() + "---\nkind: [\n"), "not YAML");
}

#[test]
fn mutated_recordings_are_read_or_refused() {
    let seed = 5;
    println!("seed {seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    let sample = include_str!("../../../testdata/formats/kwok_recording.yaml");
    let documents: Vec<&str> = sample.split("---\n").collect();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1_500 {
        // Documents are dropped and swapped, and bytes within them replaced.
        let mut chosen: Vec<&str> =
            documents.iter().copied().filter(|_| rng.random_range(0..10) > 0).collect();
        let (a, b) = (rng.random_range(0..chosen.len()), rng.random_range(0..chosen.len()));
        chosen.swap(a, b);
        let mut bytes = chosen.join("---\n").into_bytes();
        for _ in 0..rng.random_range(0..3) {
            let index = rng.random_range(0..bytes.len());
            bytes[index] = b" -:$\"{}[]0a"[rng.random_range(0..11)];
        }
        match try_read(&String::from_utf8(bytes).unwrap(), read_options(None)) {
            Ok(items) => {
                let trees = items.iter().filter_map(|item| match item {
                    ImportItem::Change(observed) => Some(observed.what.object()),
                    _ => None,
                });
                trees.for_each(|object| drop(object.value().unwrap()));
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("line "), "{error}");
                refused += 1;
            }
        }
    }
    assert!(read > 300 && refused > 100, "all harmless or all alike: {read}, {refused}");
}

// Writing.

fn write(changes: &[Change], gaps: &[Gap], recording: bool) -> (String, WriteSummary) {
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let bytes = std::sync::Arc::default();
    let mut writer = Box::new(kwok::KwokWriter::new(Shared(std::sync::Arc::clone(&bytes)), recording));
    for change in changes {
        writer.change(change).unwrap();
    }
    for gap in gaps {
        writer.gap(gap).unwrap();
    }
    let written = writer.finish().unwrap();
    let text = String::from_utf8(bytes.lock().unwrap().clone()).unwrap();
    (text, written)
}

fn changes(observed: impl IntoIterator<Item = IncomingChange>) -> Vec<Change> {
    let mut at = Moment::MIN;
    let change = |(seq, observed): (usize, IncomingChange)| {
        let IncomingChange { seen, key, what, inferred } = observed;
        at = at.max(seen);
        Change { seq: seq as i64, at, seen, key, what, inferred }
    };
    observed.into_iter().enumerate().map(change).collect()
}

fn observed(nanos: i64, make: fn(Object) -> What, json: &str) -> IncomingChange {
    IncomingChange::received(Moment::from_nanos(nanos), &"s".into(), make(Object::parse(json).unwrap()))
}

const DEPLOYMENT: &str = r#"{"kind":"Deployment","apiVersion":"apps/v1","spec":{"replicas":1},"metadata":{"name":"w","namespace":"d","resourceVersion":"1"}}"#;
const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","resourceVersion":"2"}}"#;

#[test]
fn a_recording_is_written_as_kwok_writes_it() {
    let changes = changes([
        observed(100, What::Added, DEPLOYMENT),
        observed(100, What::Added, NODE),
        observed(105, What::Modified, &DEPLOYMENT.replace("\"replicas\":1", "\"replicas\":3")),
        observed(106, What::Modified, &NODE.replace("\"2\"", "\"3\"")),
        observed(107, What::Deleted, NODE),
        observed(108, What::Added, NODE),
        observed(109, What::Deleted, POD_JSON),
    ]);
    let (text, written) = write(&changes, &[], true);
    let node = "apiVersion: v1\nkind: Node\nmetadata:\n  name: n1\n";
    let head = |after: i64, method: &str| {
        format!(
            "---\napiVersion: action.kwok.x-k8s.io/v1alpha1\ndurationNanosecond: {after}\nkind: ResourcePatch\nmethod: {method}\n"
        )
    };
    let node_resource = "resource:\n  resource: nodes\n  version: v1\ntarget:\n  name: n1\n";
    let expected = [
        node,
        "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: w\n  namespace: d\nspec:\n  replicas: 1\n",
        &head(5, "patch"),
        "resource:\n  group: apps\n  resource: deployments\n  version: v1\ntarget:\n  name: w\n  namespace: d\ntemplate:\n  spec:\n    replicas: 3\n",
        &head(7, "delete"),
        node_resource,
        &head(8, "create"),
        node_resource,
        "template:\n  apiVersion: v1\n  kind: Node\n  metadata:\n    name: n1\n",
    ];
    assert_eq!(text, expected.concat());
    assert_eq!(written.count, 5);
    let left_out: Vec<(&str, u64)> = written.left_out.iter().collect();
    assert_eq!(left_out, [("changes of only resourceVersion", 1), ("deletions of unknown objects", 1)]);
}

#[test]
fn a_snapshot_is_in_the_order_of_kwoks_kinds() {
    let changes = changes([
        observed(1, What::Added, DEPLOYMENT),
        observed(1, What::Added, r#"{"apiVersion":"a.io/v1","kind":"Gadget","metadata":{"name":"g"}}"#),
        observed(1, What::Added, POD_JSON),
        observed(2, What::Added, NODE),
    ]);
    let gap =
        Gap { source: "s".into(), kinds: Vec::new(), from: Moment::MIN, to: Moment::MAX, why: String::new() };
    let (text, written) = write(&changes, &[gap], false);
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["Node", "Deployment", "Pod", "Gadget"]);
    assert!(!text.starts_with("---") && !text.contains("resourceVersion"));
    assert_eq!(written.count, 4);
    assert_eq!(written.left_out.iter().collect::<Vec<_>>(), [("gaps", 1)]);
}

/// The changes that a recording should hold: time after the first, type, key and object, without changes of
/// resourceVersion alone.
fn recorded_changes(changes: &[Change], begin: Moment) -> Vec<(i64, &'static str, Key, Value)> {
    let mut there: HashMap<&Key, Value> = HashMap::new();
    let mut found = Vec::new();
    for change in changes {
        let mut object = change.what.object().value().unwrap();
        object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        let after = change.at.nanos_since(begin);
        let key = change.key.clone();
        match change.what.state() {
            // In a recording a deleted object has its previous content.
            None => found.push((after, "DELETED", key, there.remove(&change.key).unwrap())),
            Some(_) => match there.insert(&change.key, object.clone()) {
                None => found.push((after, "ADDED", key, object)),
                Some(before) if before != object => found.push((after, "MODIFIED", key, object)),
                Some(_) => {}
            },
        }
    }
    found
}

fn assert_round_trip(changes: &[Change]) {
    let (text, written) = write(changes, &[], true);
    let begin = changes[0].at;
    let options = ReadOptions { source: changes[0].key.source.clone(), at: Some(begin), now: begin };
    let items = try_read(&text, options).unwrap();
    let observed = items.into_iter().filter_map(|item| match item {
        ImportItem::Change(observed) => Some(observed),
        ImportItem::TimesInferred(_) => None,
        other => panic!("{other:?}"),
    });
    let back: Vec<Change> = self::changes(observed);
    let (mut expected, mut found) = (recorded_changes(changes, begin), recorded_changes(&back, begin));
    assert_eq!(written.count, found.len() as u64);
    // The initial objects come in KWOK's order.
    for list in [&mut expected, &mut found] {
        list.sort_by_cached_key(|(after, _, key, _)| (*after, (*after == 0).then(|| key.clone())));
    }
    assert_eq!(expected.len(), found.len());
    for (expected, found) in expected.iter().zip(&found) {
        assert_eq!(expected, found);
    }
}

#[test]
fn a_simulated_day_round_trips() {
    assert_round_trip(&changes(workload::shop::first_changes(3, 3_000)));
}

fn cluster_recording() -> Option<Vec<Change>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films/small.jsonl.gz");
    let Ok(file) = std::fs::File::open(path) else {
        // Not with a macro, whose output the test runner captures.
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
        return None;
    };
    let input = Input::open("film", Box::new(file)).unwrap();
    let observed = jsonl::JsonlReader::new(input, read_options(None)).map(|item| match item.unwrap() {
        ImportItem::Change(observed) => observed,
        other => panic!("{other:?}"),
    });
    Some(changes(observed))
}

#[test]
fn a_recording_round_trips() {
    if let Some(recording) = cluster_recording() {
        assert_round_trip(&recording);
    }
}

#[test]
fn every_version_in_a_recording_is_the_previous_one_with_a_patch() {
    let Some(recording) = cluster_recording() else { return };
    let mut there: BTreeMap<Key, Value> = BTreeMap::new();
    let mut pairs = 0;
    for change in recording {
        let Some(object) = change.what.state() else { continue };
        let new = object.value().unwrap();
        if let Some(old) = there.insert(change.key.clone(), new.clone()) {
            let patch = diff(&change.key.kind, &old, &new);
            assert_eq!(merge(&change.key.kind, &old, &patch).unwrap(), new, "{patch}");
            pairs += 1;
        }
    }
    assert!(pairs > 2_000, "only {pairs} pairs");
}
