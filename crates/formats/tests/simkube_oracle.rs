//! Comparison with SimKube's own code: it must read the traces written here, and its own traces must round-trip.
//!
//! SimKube's crates are built once into the cache folder. KINESCOPE_SKIP_SIMKUBE skips these tests where that is not
//! possible.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the environment configures the cache folder")]

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
struct SimkubeOracle(PathBuf);

/// Builds the program if needed. `None`, with a message, if these tests are skipped.
fn start_oracle() -> Option<SimkubeOracle> {
    if std::env::var_os("KINESCOPE_SKIP_SIMKUBE").is_some() {
        let _ = std::io::stderr().write_all(b"skipped: KINESCOPE_SKIP_SIMKUBE is set\n");
        return None;
    }
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("KINESCOPE_CACHE")
        .or_else(|| Some(set("XDG_CACHE_HOME")?.join("kinescope")))
        .or_else(|| Some(set("HOME")?.join(".cache/kinescope")))
        .expect("there is a cache folder");
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
    Some(SimkubeOracle(target.join("debug/simkube-judge")))
}

impl SimkubeOracle {
    /// A trace as SimKube's code parses it.
    fn parse(&self, file: &Path) -> Value {
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
            ImportItem::Change(observed) => {
                seq += 1;
                at = at.max(observed.seen);
                let inferred = observed.inferred;
                Some(Change {
                    seq,
                    at,
                    seen: observed.seen,
                    key: observed.key,
                    what: observed.what,
                    inferred,
                })
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
fn index(oracle_output: &Value) -> BTreeMap<String, u64> {
    let kinds = oracle_output["index"].as_object().unwrap().iter();
    kinds
        .flat_map(|(kind, names)| {
            let names = names.as_object().unwrap().iter();
            names.map(move |(name, hash)| (format!("{kind} {name}"), hash.as_u64().unwrap()))
        })
        .collect()
}

/// Every lifecycle with owner and hash, duplicates included.
fn lifecycles(oracle_output: &Value) -> Vec<String> {
    let mut lifecycles = Vec::new();
    for (owner, hashes) in oracle_output["lifecycles"].as_object().unwrap() {
        for (hash, all) in hashes.as_object().unwrap() {
            lifecycles.extend(
                all.as_array().unwrap().iter().map(|lifecycle| format!("{owner} {hash} {lifecycle}")),
            );
        }
    }
    lifecycles
}

/// The hash of the spec that each object was applied with last, computed by SimKube.
fn applied(oracle_output: &Value) -> BTreeMap<String, u64> {
    let events = oracle_output["events"].as_array().unwrap().iter();
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
fn events(oracle_output: &Value) -> Vec<String> {
    let mut events = Vec::new();
    for event in oracle_output["events"].as_array().unwrap() {
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
    let Some(oracle) = start_oracle() else { return };
    let config = TracerConfig::parse("config", CONFIG).unwrap().0;
    let ours = oracle.parse(written(&changes(&recording), config).path());
    let theirs = oracle.parse(&trace);
    assert_eq!(ours["config"], theirs["config"]);
    assert_eq!(index(&ours), applied(&ours), "an index that is not of its events");

    // SimKube looks up owners in the API server when it exports. Pods whose ReplicaSet is gone by then seem to have no
    // owner, so it exports them in addition to their Deployment; of the pods only the bare ones are right.
    let (our_index, mut their_index) = (index(&ours), index(&theirs));
    their_index.retain(|name, _| !name.starts_with("v1.Pod shop/app-"));
    let names = |index: &BTreeMap<String, u64>| index.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&our_index), names(&their_index));
    assert_eq!(our_index, their_index);

    let (mut our_lifecycles, mut missing) = (lifecycles(&ours), Vec::new());
    for lifecycle in lifecycles(&theirs) {
        match our_lifecycles.iter().position(|ours| *ours == lifecycle) {
            Some(position) => drop(our_lifecycles.swap_remove(position)),
            None => missing.push(lifecycle),
        }
    }
    assert_eq!(missing, Vec::<String>::new());
    // There are more here: SimKube drops a pod that it receives before its owner, or whose owner no longer exists.
    assert!(!our_lifecycles.is_empty());
}

#[test]
fn traces_of_simkube_round_trip() {
    let Some(oracle) = start_oracle() else { return };
    for name in ["cronjob", "bare-pods", "dsb-scaling"] {
        let Some(path) = shared_file(&format!("data/simkube/{name}.sktrace")) else { return };
        let theirs = oracle.parse(&path);
        let mut changes = changes(&path);
        // Once with the pods' hashes from the trace, and once with hashes computed from their specs.
        for has_hashes in [true, false] {
            if !has_hashes {
                changes.iter_mut().for_each(remove_hash_annotations);
            }
            let config = TracerConfig::from_object(changes[0].what.object()).unwrap();
            let ours = oracle.parse(written(&changes, config).path());
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
    let Some(oracle) = start_oracle() else { return };
    for name in ["trace", "validation_trace"] {
        let Some(path) = shared_file(&format!("data/simkube/{name}.json")) else { return };
        let changes = changes(&path);
        let config = TracerConfig::from_object(changes[0].what.object()).unwrap();
        let ours = oracle.parse(written(&changes, config).path());
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
    let Some(oracle) = start_oracle() else { return };
    let rows = include_str!("../../../testdata/formats/sktrace_hashes.jsonl").lines();
    let rows: Vec<Value> = rows.map(|row| serde_json::from_str(row).unwrap()).collect();
    let (specs, hashes): (Vec<String>, Vec<String>) = rows
        .iter()
        .filter_map(|row| Some((row["spec"].to_string(), row["hash"].as_str()?.to_owned())))
        .unzip();
    assert!(hashes.len() > 100);
    let mut child =
        Command::new(oracle.0).arg("hash").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut specs_in = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || writeln!(specs_in, "{}", specs.join("\n")).unwrap());
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap();
    let oracle_output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(oracle_output.lines().collect::<Vec<_>>(), hashes);
}
