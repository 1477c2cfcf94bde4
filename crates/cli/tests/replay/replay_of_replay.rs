//! Tests that a replay of a replay, with its own settings, makes the same decisions.

use std::path::Path;

use super::common::{demo_history, recordings, run};
use super::{replay, report};

/// Replays a history, and then the replay's history: all bindings and evictions must be the same.
#[track_caller]
fn check(folder: &Path, arguments: &[&str]) {
    replay(folder, &[arguments, &["--out", "one"]].concat()).success();
    replay(folder, &["one/replay.kine", "--out", "two"]).success();
    let fidelity = &report(folder, "two")["fidelity"];
    let (placements, evictions) = (&fidelity["placements"], &fidelity["evictions"]);
    assert!(placements["recorded"].as_u64().unwrap() > 50, "{fidelity}");
    assert_eq!(placements["sameNode"], placements["recorded"], "{fidelity}");
    assert_eq!(evictions["same"], evictions["recorded"], "{fidelity}");
}

#[test]
fn the_demo_is_replayed_identically() {
    let folder = demo_history("shop.kine");
    for (from, to) in [("13:20", "15:00"), ("14:10", "15:30")] {
        let [from, to] = [from, to].map(|time| format!("2026-11-02T{time}Z"));
        check(folder.path(), &["shop.kine", "--from", &from, "--to", &to]);
    }
}

#[test]
fn recordings_are_replayed_identically() {
    for recording in recordings() {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["import", recording.to_str().unwrap(), "--into", "film.kine", "--strip"])
            .success();
        check(folder.path(), &["film.kine"]);
        check(folder.path(), &["film.kine", "--from", "start+20s"]);
    }
}
