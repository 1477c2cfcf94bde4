//! Errors of `kinescope replay`: the message says why, and nothing is written.

use super::{FILES, GROUPS, RecordingBuilder, names, node, pod, replay, time, two_nodes};

/// Checks that a replay fails with this message and writes nothing.
#[track_caller]
fn check(arguments: &[&str], message: &str) {
    let folder = two_nodes().import();
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "kind: KubeSchedulerConfiguration\nprofile: 1\n").unwrap();
    let before = names(folder.path());
    let output = replay(folder.path(), arguments).failure(1);
    assert!(output.contains(message), "{arguments:?}: {output}");
    assert_eq!(names(folder.path()), before, "{arguments:?}");
}

#[test]
fn a_window_must_be_in_the_history() {
    check(&["--from", "start+1h"], "is outside the history, which is from 2026-11-01T14:00:00Z to");
    check(&["--to", "2026-11-01T13:00Z"], "--to=2026-11-01T13:00:00Z is outside the history");
    check(&["--from", "end", "--to", "start"], "is after --to=");
    check(&["--from", "start", "--to", "start"], "--from must be before --to; both are 2026-11-01T14:00:00Z");
    check(&["--from", "noon"], "noon");
    check(&["--source", "other"], "source \"other\" not found");
}

#[test]
fn settings_must_be_readable() {
    check(&["--scheduler-config", "none.yaml"], "cannot read none.yaml");
    check(
        &["--scheduler-config", "bad.yaml"],
        "bad.yaml: invalid scheduler configuration: apiVersion: missing",
    );
    check(&["--node-groups", "none.yaml"], "cannot read none.yaml");
    check(&["--node-groups", "bad.yaml"], "bad.yaml: invalid node groups");
    check(&["--node-groups", "groups.yaml", "--autoscaler", "--expandr=x"], "unknown flag");
    check(&["--node-groups", "groups.yaml", "--autoscaler", "expander"], "not a flag");
    check(&["--autoscaler", ""], "--autoscaler must be recorded, off, or flags");
}

#[test]
fn settings_must_not_contradict_each_other() {
    let groups = ["--node-groups", "groups.yaml"];
    let off = [&groups[..], &["--autoscaler", "off"]].concat();
    check(
        &[&off[..], &["--set", "autoscaler.expander=random"]].concat(),
        "--autoscaler=off conflicts with --set autoscaler.expander=random: remove one",
    );
    check(
        &[&off[..], &["--autoscaler-version", "1.36"]].concat(),
        "--autoscaler=off conflicts with --autoscaler-version=1.36: remove one",
    );
    check(&["--autoscaler", "off"], "--autoscaler=off requires node groups");
    check(&["--autoscaler", "--expander=random"], "no node groups: specify them with --node-groups");
    check(&["--set", "autoscaler.expander=random"], "no node groups: specify them with --node-groups");
    check(
        &[&groups[..], &["--set", "autoscaler.expander=price"]].concat(),
        "--set autoscaler: --expander=price requires prices",
    );
    check(
        &[&groups[..], &["--set", "nodeGroups.large.min=5"]].concat(),
        "groups[0].max: 3 is less than min, 5",
    );
}

#[test]
fn an_unknown_path_gets_the_valid_names() {
    let groups = ["--node-groups", "groups.yaml"];
    check(
        &["--set", "scheduler.profiles[0].plugin=1"],
        "profiles[0].plugin: unknown field; expected schedulerName, percentageOfNodesToScore, plugins, pluginConfig",
    );
    check(
        &[&groups[..], &["--set", "nodeGroups.larger.max=5"]].concat(),
        "node group \"larger\" not found; available: large",
    );
    check(
        &[&groups[..], &["--set", "nodeGroups.large.mx=5"]].concat(),
        "unknown field `mx`, expected one of",
    );
    check(&[&groups[..], &["--set", "autoscaler.expandr=random"]].concat(), "unknown flag");
    // An invalid path is rejected by the argument parser.
    let folder = two_nodes().import();
    for (path, message) in [
        ("kubelet.x=1", "a path must start with one of scheduler, nodeGroups, autoscaler"),
        ("scheduler", "expected PATH=VALUE"),
        ("scheduler.a[0=1", "expected PATH=VALUE"),
    ] {
        let output = replay(folder.path(), &["--set", path]).failure(2);
        assert!(output.contains(message), "{path}: {output}");
    }
    assert!(replay(folder.path(), &["--speed", "0"]).failure(2).contains("must be a number above 0, or max"));
    assert!(replay(folder.path(), &["--level", "clouds"]).failure(2).contains("pods"));
}

#[test]
fn there_must_be_nodes_and_pods() {
    let no_pods =
        RecordingBuilder::default().add(0, node("a", "1", "1Gi")).add(9, node("b", "1", "1Gi")).import();
    let output = replay(no_pods.path(), &[]).failure(1);
    assert!(output.contains("film.kine has no pods: nothing to replay"), "{output}");
    let no_nodes = RecordingBuilder::default().add(0, pod("a", "1", 0)).add(9, pod("b", "1", 9)).import();
    let output = replay(no_nodes.path(), &[]).failure(1);
    assert!(
        output
            .contains("film.kine has no nodes: specify the node groups of an autoscaler with --node-groups"),
        "{output}"
    );
    let later = RecordingBuilder::default()
        .add(0, node("a", "1", "1Gi"))
        .add(9, node("b", "1", "1Gi"))
        .add(90, pod("c", "1", 90))
        .import();
    let output = replay(later.path(), &["--to", &time(30)]).failure(1);
    assert!(output.contains("no pods from 2026-11-01T14:00:09Z to 2026-11-01T14:00:30Z"), "{output}");
    for folder in [no_pods, no_nodes, later] {
        assert_eq!(names(folder.path()), ["film.jsonl", "film.kine"]);
    }
}

#[test]
fn a_folder_that_holds_something_else_is_left_alone() {
    let folder = two_nodes().import();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    std::fs::write(folder.path().join("mine/letter.txt"), "dear").unwrap();
    let output = replay(folder.path(), &["--out", "mine"]).failure(1);
    assert!(
        output.contains("mine contains letter.txt, which is not a file of a replay: specify another folder"),
        "{output}"
    );
    assert_eq!(names(&folder.path().join("mine")), ["letter.txt"]);
    let output = replay(folder.path(), &["--out", "film.kine"]).failure(1);
    assert!(output.contains("film.kine is not a readable folder"), "{output}");
    let output = replay(folder.path(), &["--out", "no/such/place"]).failure(1);
    assert!(output.contains("cannot create no/such/place: folder no/such not found"), "{output}");
    // A replay may replace an earlier one, but not the one that it reads.
    replay(folder.path(), &["--out", "r"]).success();
    let output = replay(folder.path(), &["r/replay.kine", "--out", "r"]).failure(1);
    assert!(output.contains("r contains the history to replay"), "{output}");
    let again = replay(folder.path(), &["--out", "r", "--no-history"]);
    assert!(again.err.contains("the earlier replay in r will be replaced"), "{}", again.err);
    again.success();
    assert_eq!(names(&folder.path().join("r")), [FILES[0], FILES[2]]);
    assert_eq!(names(folder.path()), ["film.jsonl", "film.kine", "mine", "r"]);
}
