//! Tests that compare histories of real control planes with a naive replay of their jsonl lines.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use common::{recordings, run};
use history::{History, Selection};
use model::Moment;
use rand::{RngExt, SeedableRng};
use serde::Deserialize;
use serde_json::value::RawValue;

/// A line, parsed independently of the code under test.
#[derive(Deserialize)]
struct Line {
    at: i64,
    r#type: String,
    object: Box<RawValue>,
}

type Name = (String, String, String, String);

fn lines(recording: &Path) -> Vec<(i64, String, Name, String)> {
    let file = flate2::read::GzDecoder::new(std::fs::File::open(recording).unwrap());
    let read = |line: std::io::Result<String>| {
        let line: Line = serde_json::from_str(&line.unwrap()).unwrap();
        let object: serde_json::Value = serde_json::from_str(line.object.get()).unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let version = text(&object["apiVersion"]);
        let group = version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
        let metadata = &object["metadata"];
        let name = (group, text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        (line.at * 1_000, line.r#type, name, line.object.get().to_owned())
    };
    BufReader::new(file).lines().map(read).collect()
}

#[test]
fn every_moment_has_the_state_of_the_lines_up_to_it() {
    let all_recordings = recordings();
    let seed = 11;
    println!("seed {seed}");
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    for recording in &all_recordings {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.kine");
        run(folder.path(), &["import", recording.to_str().unwrap(), "--into", "film.kine"]).success();
        let history = History::open(&path).unwrap();
        let lines = lines(recording);
        let (first, last) = (lines[0].0, lines[lines.len() - 1].0);
        let count = testobjects::case_count(500, 5_000).div_ceil(all_recordings.len());
        let mut moments: Vec<i64> =
            (0..count).map(|_| rng.random_range(first - 1_000..last + 1_000)).collect();
        moments.extend([first, last]);
        moments.sort_unstable();
        let mut state: BTreeMap<&Name, &str> = BTreeMap::new();
        // A line with an earlier time than the one before takes effect with that one.
        let (mut next, mut reached) = (0, i64::MIN);
        for moment in moments {
            while next < lines.len() && lines[next].0.max(reached) <= moment {
                let (at, event_type, name, object) = &lines[next];
                reached = reached.max(*at);
                match event_type.as_str() {
                    "DELETED" => state.remove(name),
                    _ => state.insert(name, object),
                };
                next += 1;
            }
            let cluster = history.at(Moment::from_nanos(moment), &Selection::default()).unwrap();
            assert_eq!(cluster.objects().len(), state.len(), "{} at {moment}", recording.display());
            for version in cluster.objects() {
                let key = &version.key;
                let text = |part: &str| part.to_owned();
                let name =
                    (text(&key.kind.group), text(&key.kind.kind), text(&key.namespace), text(&key.name));
                assert_eq!(state.get(&name).copied(), Some(version.object.as_str()), "{key} at {moment}");
            }
        }
    }
}

#[test]
fn a_recording_is_exported_as_it_was_imported() {
    for recording in recordings() {
        let folder = tempfile::tempdir().unwrap();
        run(
            folder.path(),
            &["import", recording.to_str().unwrap(), "--into", "film.kine", "--source", "film"],
        )
        .success();
        run(folder.path(), &["export", "film.kine", "--format", "jsonl", "--out", "out.jsonl.zst"]).success();
        run(folder.path(), &["import", "out.jsonl.zst", "--into", "again.kine"]).success();
        let open = |name: &str| History::open(&folder.path().join(name)).unwrap();
        let changes = |history: &History| {
            history
                .between(model::Window::ALL, &Selection::default())
                .unwrap()
                .map(Result::unwrap)
                .collect::<Vec<_>>()
        };
        let (one, other) = (changes(&open("film.kine")), changes(&open("again.kine")));
        assert_eq!(one.len(), other.len());
        assert!(one == other, "{} changed on the way", recording.display());
        let original: Vec<String> = lines(&recording).into_iter().map(|(_, _, _, object)| object).collect();
        let kept: Vec<&str> = one.iter().map(|change| change.what.object().as_str()).collect();
        assert!(kept == original, "{} lost bytes", recording.display());
    }
}

#[test]
fn a_change_takes_no_more_than_its_budget() {
    for recording in recordings() {
        let folder = tempfile::tempdir().unwrap();
        let arguments =
            ["import", recording.to_str().unwrap(), "--into", "film.kine", "--strip", "-o", "json"];
        let report: serde_json::Value =
            serde_json::from_str(&run(folder.path(), &arguments).success()).unwrap();
        let (bytes, changes) = (report["fileBytes"].as_f64().unwrap(), report["changes"].as_f64().unwrap());
        println!("{}: {:.1} bytes a change", recording.display(), bytes / changes);
        assert!(bytes / changes <= 100.0, "{}: {} bytes a change", recording.display(), bytes / changes);
        assert!(run(folder.path(), &["doctor", "film.kine"]).success().starts_with("no damage found"));
    }
}
