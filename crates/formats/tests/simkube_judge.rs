//! Comparison with SimKube's own code: it must read the traces written here, and its own traces must round-trip.
//!
//! SimKube's crates are built once into the cache folder. KINESCOPE_SKIP_SIMKUBE skips these tests where that is not
//! possible.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]
#![allow(clippy::disallowed_methods, reason = "a test is told by its environment where its cache is")]

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::shared_file;
use formats::sktrace::{self, TraceFilters, TracerConfig};
use formats::{ImportItem, Input, ReadOptions, Writer};
use model::{Change, Moment, Object, Window};
use serde_json::Value;

/// The tracer's configuration when it recorded `small.sktrace`.
const CONFIG: &str = "
trackedObjects:
  apps/v1.Deployment: {trackLifecycle: true}
  apps/v1.StatefulSet: {trackLifecycle: true}
  batch/v1.Job: {trackLifecycle: true}
  v1.Pod: {trackLifecycle: true}
";

/// The program that runs SimKube's code.
struct Judge(PathBuf);

/// Builds the program if needed. `None`, with a message, if these tests are skipped.
fn judge() -> Option<Judge> {
    if std::env::var_os("KINESCOPE_SKIP_SIMKUBE").is_some() {
        let _ = std::io::stderr().write_all(b"skipped: KINESCOPE_SKIP_SIMKUBE is set\n");
        return None;
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("KINESCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("kinescope")))
        .or_else(|| Some(set("HOME")?.join(".cache/kinescope")))
        .expect("some folder for what is built once");
    let target = cache.join("simkube-judge");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/simkube/Cargo.toml");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status()
        .unwrap();
    assert!(built.success(), "SimKube's crates do not build; KINESCOPE_SKIP_SIMKUBE=1 goes without them");
    Some(Judge(target.join("debug/simkube-judge")))
}

impl Judge {
    /// A trace as SimKube's code parses it.
    fn of(&self, file: &Path) -> Value {
        let output = Command::new(&self.0).arg(file).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "{}", file.display());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn changes(path: &Path) -> Vec<Change> {
    let input = Input::open("file", Box::new(File::open(path).unwrap())).unwrap();
    let format = input.format.unwrap();
    let options = ReadOptions { source: "s".into(), at: None, now: Moment::from_nanos(0) };
    let (mut seq, mut at) = (0, Moment::MIN);
    let items = formats::read(input, format, options).unwrap();
    items
        .filter_map(|item| match item.unwrap() {
            ImportItem::Change(seen) => {
                seq += 1;
                at = at.max(seen.seen);
                let inferred = seen.inferred;
                Some(Change { seq, at, seen: seen.seen, key: seen.key, what: seen.what, inferred })
            }
            _ => None,
        })
        .collect()
}

fn written(changes: &[Change], config: TracerConfig) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let out = file.reopen().unwrap();
    let mut writer =
        Box::new(sktrace::SktraceWriter::new(out, config, Window::ALL, TraceFilters::default()).unwrap());
    for change in changes {
        writer.change(change).unwrap();
    }
    writer.finish().unwrap();
    file
}

/// The hashes of an index by kind and name.
fn index(judge_output: &Value) -> BTreeMap<String, u64> {
    let kinds = judge_output["index"].as_object().unwrap().iter();
    kinds
        .flat_map(|(kind, names)| {
            let names = names.as_object().unwrap().iter();
            names.map(move |(name, hash)| (format!("{kind} {name}"), hash.as_u64().unwrap()))
        })
        .collect()
}

/// Every lifecycle with owner and hash, duplicates included.
fn lifecycles(judge_output: &Value) -> Vec<String> {
    let mut lives = Vec::new();
    for (owner, hashes) in judge_output["lifecycles"].as_object().unwrap() {
        for (hash, all) in hashes.as_object().unwrap() {
            lives.extend(all.as_array().unwrap().iter().map(|life| format!("{owner} {hash} {life}")));
        }
    }
    lives
}

/// The hash of the spec that each object was applied with last, computed by SimKube.
fn applied(judge_output: &Value) -> BTreeMap<String, u64> {
    let events = judge_output["events"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    events
        .flat_map(|event| event["applied"].as_array().unwrap())
        .map(|object| {
            let name = format!("{} {}", text(&object["kind"]), text(&object["name"]));
            (name, object["hash"].as_u64().unwrap())
        })
        .collect()
}

/// The applied and deleted objects of each second.
fn events(judge_output: &Value) -> Vec<String> {
    let mut events = Vec::new();
    for event in judge_output["events"].as_array().unwrap() {
        for what in ["applied", "deleted"] {
            for object in event[what].as_array().unwrap() {
                let mut object = object.clone();
                if what == "deleted" {
                    // Older traces have the whole object, newer ones a stub.
                    object.as_object_mut().unwrap().remove("hash");
                }
                events.push(format!("{} {what} {object}", event["ts"]));
            }
        }
    }
    events
}

#[test]
fn our_trace_of_a_recording_agrees_with_simkubes() {
    let (Some(recording), Some(trace)) =
        (shared_file("data/films/small.jsonl.gz"), shared_file("data/films/small.sktrace"))
    else {
        return;
    };
    let Some(judge) = judge() else { return };
    let config = TracerConfig::parse("config", CONFIG).unwrap().0;
    let ours = judge.of(written(&changes(&recording), config).path());
    let theirs = judge.of(&trace);
    assert_eq!(ours["config"], theirs["config"]);
    assert_eq!(index(&ours), applied(&ours), "an index that is not of its events");

    // SimKube looks up owners in the API server when it exports. Pods whose ReplicaSet is gone by then seem to have no
    // owner, so it exports them in addition to their Deployment; of the pods only the bare ones are right.
    let (our_index, mut their_index) = (index(&ours), index(&theirs));
    their_index.retain(|name, _| !name.starts_with("v1.Pod shop/app-"));
    let names = |index: &BTreeMap<String, u64>| index.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&our_index), names(&their_index));
    assert_eq!(our_index, their_index);

    let (mut our_lives, mut missing) = (lifecycles(&ours), Vec::new());
    for life in lifecycles(&theirs) {
        match our_lives.iter().position(|ours| *ours == life) {
            Some(place) => drop(our_lives.swap_remove(place)),
            None => missing.push(life),
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    // There are more here: SimKube drops a pod that it receives before its owner, or whose owner no longer exists.
    assert!(!our_lives.is_empty());
}

#[test]
fn traces_of_simkube_round_trip() {
    let Some(judge) = judge() else { return };
    for name in ["cronjob", "bare-pods", "dsb-scaling"] {
        let Some(path) = shared_file(&format!("data/simkube/{name}.sktrace")) else { return };
        let theirs = judge.of(&path);
        let mut changes = changes(&path);
        // Once with the pods' hashes from the trace, and once with hashes computed from their specs.
        for told in [true, false] {
            if !told {
                changes.iter_mut().for_each(remove_hash_annotations);
            }
            let config = TracerConfig::from_object(changes[0].what.object()).unwrap();
            let ours = judge.of(written(&changes, config).path());
            assert_eq!(ours["config"], theirs["config"], "{name}");
            assert_eq!(events(&ours), events(&theirs), "{name}");
            assert_eq!(ours["lifecycles"], theirs["lifecycles"], "{name}");
            assert_eq!(index(&ours), applied(&theirs), "{name}");
            // `bare-pods` was edited after it was recorded, but its index was not.
            if name != "bare-pods" {
                assert_eq!(index(&ours), index(&theirs), "{name}");
            }
        }
    }
}

/// Removes the annotations with a pod's hash that the import added.
fn remove_hash_annotations(change: &mut Change) {
    let text = change.what.object().as_str().replace("kinescope.io/simkube-", "forgotten/");
    change.what = change.what.with_object(Object::parse(&text).unwrap());
}

#[test]
fn traces_in_json_become_traces_that_simkube_reads() {
    let Some(judge) = judge() else { return };
    for name in ["trace", "validation_trace"] {
        let Some(path) = shared_file(&format!("data/simkube/{name}.json")) else { return };
        let changes = changes(&path);
        let config = TracerConfig::from_object(changes[0].what.object()).unwrap();
        let ours = judge.of(written(&changes, config).path());
        let text: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let objects = text["events"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|event| event["applied_objs"].as_array().unwrap());
        let names = |index: BTreeMap<String, u64>| index.into_keys().collect::<Vec<_>>();
        let mut expected: Vec<String> = objects
            .filter(|object| text["config"]["trackedObjects"].get(kind(object)).is_some())
            .map(|object| {
                let part = |name: &str| object["metadata"][name].as_str().unwrap();
                format!("{} {}/{}", kind(object), part("namespace"), part("name"))
            })
            .collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(names(index(&ours)), expected, "{name}");
        assert_eq!(index(&ours), applied(&ours), "{name}");
    }
}

fn kind(object: &Value) -> String {
    format!("{}.{}", object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap())
}

#[test]
fn the_expected_hashes_are_simkubes() {
    let Some(judge) = judge() else { return };
    let rows = include_str!("../../../testdata/formats/sktrace_hashes.jsonl").lines();
    let rows: Vec<Value> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    let (specs, hashes): (Vec<String>, Vec<String>) = rows
        .iter()
        .filter_map(|row| Some((row["spec"].to_string(), row["hash"].as_str()?.to_owned())))
        .unzip();
    assert!(hashes.len() > 100);
    let mut asked =
        Command::new(judge.0).arg("hash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut specs_in = asked.stdin.take().unwrap();
    let writing = std::thread::spawn(move || writeln!(specs_in, "{}", specs.join("\n")).unwrap());
    let output = asked.wait_with_output().unwrap();
    writing.join().unwrap();
    let judge_output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(judge_output.lines().collect::<Vec<_>>(), hashes);
}
