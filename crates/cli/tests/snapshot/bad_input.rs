//! Files that are broken, malicious or not supported, and settings that are wrong.

use serde_json::json;

use super::cluster::{cluster, folder, queue, snapshot, write_zip, write_zip_text};

#[track_caller]
fn check(snapshot_json: &serde_json::Value, expected: &str) {
    let folder = folder();
    write_zip(&folder.path().join("bad.zip"), snapshot_json);
    let error = snapshot(folder.path(), "run bad.zip").failure(1);
    assert!(error.contains(expected), "{expected:?} is missing: {error}");
}

#[test]
fn what_the_scheduler_cannot_run_is_named() {
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut snapshot = cluster();
        change(&mut snapshot);
        snapshot
    };
    check(&with(&|it| it["config"]["actions"] = json!("allocate, backfill")), "unknown action \"backfill\"");
    check(
        &with(&|it| it["config"]["tiers"][0]["plugins"][0]["name"] = json!("gang")),
        "unknown plugin \"gang\"",
    );
    check(&with(&|it| it["rawObjects"]["queues"][0] = queue("dept", "team-a", 1)), "invalid Queue");
    check(&with(&|it| it["rawObjects"]["queues"][1] = queue("team-a", "dept", -2)), "invalid Queue team-a");
    let claims = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    check(
        &with(&|it| it["rawObjects"]["pods"][8]["spec"]["resourceClaims"] = claims.clone()),
        "dynamic resource allocation",
    );
}

#[test]
fn damage_of_the_zip_is_told_from_damage_of_its_content() {
    let folder = folder();
    let path = folder.path().join("bad.zip");
    let whole = cluster().to_string();
    write_zip_text(&path, &whole[..whole.len() / 2]);
    let error = snapshot(folder.path(), "run bad.zip").failure(1);
    assert!(error.contains("the ZIP is valid, but snapshot.json is truncated"), "{error}");
    let bytes = std::fs::read(folder.path().join("cluster.zip")).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let error = snapshot(folder.path(), "run bad.zip").failure(1);
    assert!(error.contains("invalid ZIP"), "{error}");
    write_zip_text(&path, "[]");
    assert!(snapshot(folder.path(), "run bad.zip").failure(1).contains("bad.zip"));
    std::fs::write(&path, "").unwrap();
    snapshot(folder.path(), "run bad.zip").failure(1);
    std::fs::write(&path, "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n").unwrap();
    let error = snapshot(folder.path(), "run bad.zip").failure(1);
    assert!(error.contains("not a KAI snapshot"), "{error}");
}

#[test]
fn missing_lists_are_empty_ones() {
    let folder = folder();
    let mut empty = cluster();
    empty["rawObjects"] = json!({"pods": null, "queues": []});
    write_zip(&folder.path().join("empty.zip"), &empty);
    let text = snapshot(folder.path(), "run empty.zip").success();
    assert!(text.contains("nothing to do"), "{text}");
    write_zip(&folder.path().join("bare.zip"), &json!({"rawObjects": {}}));
    let output = snapshot(folder.path(), "run bare.zip");
    assert!(output.err.contains("config (defaults of v0.17): missing in the snapshot"), "{}", output.err);
    output.success();
}

#[test]
fn configurations_without_generators_run_as_in_their_release() {
    let folder = folder();
    let mut old = cluster();
    old["config"].as_object_mut().unwrap().remove("scenarioSearchBudgets");
    let plugins = old["config"]["tiers"][0]["plugins"].as_array_mut().unwrap();
    plugins.retain(|plugin| !plugin["name"].as_str().unwrap().starts_with("sg-"));
    write_zip(&folder.path().join("old.zip"), &old);
    let output = snapshot(folder.path(), "run old.zip");
    assert!(output.err.contains("lists no scenario generators, like those before v0.16"), "{}", output.err);
    assert!(output.success().contains("reclaim: 2 pipelined, 2 evicted"));
}

#[test]
fn arguments_are_checked() {
    let folder = folder();
    for (arguments, code, expected) in [
        ("run cluster.zip --set queue/team-a.gpu.qouta=1", 1, "did you mean gpu.quota?"),
        ("run cluster.zip --set queue/team-a.parentQueue=nope", 1, "unknown Queue \"nope\""),
        ("run cluster.zip --set quota", 2, "expected PATH=VALUE"),
        ("run cluster.zip --actions alocate", 2, "did you mean allocate?"),
        ("run cluster.zip --cycles 0", 2, "--cycles"),
        ("run cluster.zip --at 12:00", 1, "--at is for histories"),
        ("run cluster.zip --now never", 1, "invalid time"),
        ("run", 1, "no .kine file in the current directory"),
        ("take", 1, "no .kine file in the current directory"),
        ("explain pod/a", 1, "no .kine file in the current directory"),
    ] {
        let error = snapshot(folder.path(), arguments).failure(code);
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}
