//! Errors of `kinescope replay`: the message says why, and nothing is written.

use super::{FILES, GROUPS, RecordingBuilder, names, node, pod, replay, time, two_nodes};

/// Checks that a replay fails with this message and writes nothing.
#[track_caller]
fn check(arguments: &[&str], words: &str) {
    let folder = two_nodes().import();
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "kind: KubeSchedulerConfiguration\nprofile: 1\n").unwrap();
    let before = names(folder.path());
    let said = replay(folder.path(), arguments).wrong(1);
    assert!(said.contains(words), "{arguments:?}: {said}");
    assert_eq!(names(folder.path()), before, "{arguments:?}");
}

#[test]
fn a_window_must_be_in_the_history() {
    check(&["--from", "start+1h"], "is outside the history, which reaches from 2026-11-01T14:00:00Z to");
    check(&["--to", "2026-11-01T13:00Z"], "--to 2026-11-01T13:00:00Z is outside the history");
    check(&["--from", "end", "--to", "start"], "is after --to");
    check(&["--from", "start", "--to", "start"], "there is nothing between them");
    check(&["--from", "noon"], "noon");
    check(&["--source", "other"], "the history has no source \"other\"");
}

#[test]
fn settings_must_be_readable() {
    check(&["--scheduler-config", "none.yaml"], "cannot read none.yaml");
    check(&["--scheduler-config", "bad.yaml"], "bad.yaml: bad scheduler configuration: is missing");
    check(&["--node-groups", "none.yaml"], "cannot read none.yaml");
    check(&["--node-groups", "bad.yaml"], "bad.yaml: bad node groups");
    check(&["--node-groups", "groups.yaml", "--autoscaler", "--expandr=x"], "there is no such flag");
    check(&["--node-groups", "groups.yaml", "--autoscaler", "expander"], "it is no flag");
    check(&["--autoscaler", ""], "--autoscaler takes recorded, off, or flags");
}

#[test]
fn settings_must_not_contradict_each_other() {
    let groups = ["--node-groups", "groups.yaml"];
    let off = [&groups[..], &["--autoscaler", "off"]].concat();
    check(&[&off[..], &["--set", "autoscaler.expander=random"]].concat(), "contradict each other");
    check(&[&off[..], &["--autoscaler-version", "1.36"]].concat(), "contradict each other");
    check(&["--autoscaler", "off"], "nothing tells of node groups");
    check(&["--autoscaler", "--expander=random"], "nothing tells of node groups");
    check(&["--set", "autoscaler.expander=random"], "nothing tells of node groups");
    check(&[&groups[..], &["--set", "autoscaler.expander=price"]].concat(), "--expander=price needs prices");
    check(
        &[&groups[..], &["--set", "nodeGroups.large.min=5"]].concat(),
        "3 is less than min, 5 (groups[0].max)",
    );
}

#[test]
fn an_unknown_path_gets_the_valid_names() {
    let groups = ["--node-groups", "groups.yaml"];
    check(
        &["--set", "scheduler.profiles[0].plugin=1"],
        "there are schedulerName, percentageOfNodesToScore, plugins, pluginConfig (profiles[0].plugin)",
    );
    check(
        &[&groups[..], &["--set", "nodeGroups.larger.max=5"]].concat(),
        "there is no node group \"larger\"; there are: large",
    );
    check(
        &[&groups[..], &["--set", "nodeGroups.large.mx=5"]].concat(),
        "unknown field `mx`, expected one of",
    );
    check(&[&groups[..], &["--set", "autoscaler.expandr=random"]].concat(), "there is no such flag");
    // An invalid path is rejected by the argument parser.
    let folder = two_nodes().import();
    for (path, words) in [
        ("kubelet.x=1", "a path begins with one of scheduler, nodeGroups, autoscaler"),
        ("scheduler", "give path=value"),
        ("scheduler.a[0=1", "give path=value"),
    ] {
        let said = replay(folder.path(), &["--set", path]).wrong(2);
        assert!(said.contains(words), "{path}: {said}");
    }
    assert!(replay(folder.path(), &["--speed", "0"]).wrong(2).contains("give a number above 0, or max"));
    assert!(replay(folder.path(), &["--level", "clouds"]).wrong(2).contains("pods"));
}

#[test]
fn there_must_be_nodes_and_pods() {
    let no_pods =
        RecordingBuilder::default().add(0, node("a", "1", "1Gi")).add(9, node("b", "1", "1Gi")).import();
    let said = replay(no_pods.path(), &[]).wrong(1);
    assert!(said.contains("film.kine holds no pods: there is nothing to replay"), "{said}");
    let no_nodes = RecordingBuilder::default().add(0, pod("a", "1", 0)).add(9, pod("b", "1", 9)).import();
    let said = replay(no_nodes.path(), &[]).wrong(1);
    assert!(said.contains("film.kine holds no nodes: say with --node-groups FILE"), "{said}");
    let later = RecordingBuilder::default()
        .add(0, node("a", "1", "1Gi"))
        .add(9, node("b", "1", "1Gi"))
        .add(90, pod("c", "1", 90))
        .import();
    let said = replay(later.path(), &["--to", &time(30)]).wrong(1);
    assert!(said.contains("there is no pod from 2026-11-01T14:00:09Z to 2026-11-01T14:00:30Z"), "{said}");
    for folder in [no_pods, no_nodes, later] {
        assert_eq!(names(folder.path()), ["film.jsonl", "film.kine"]);
    }
}

#[test]
fn a_folder_that_holds_something_else_is_left_alone() {
    let folder = two_nodes().import();
    std::fs::create_dir(folder.path().join("mine")).unwrap();
    std::fs::write(folder.path().join("mine/letter.txt"), "dear").unwrap();
    let said = replay(folder.path(), &["--out", "mine"]).wrong(1);
    assert!(said.contains("mine holds letter.txt, which no replay wrote: name another folder"), "{said}");
    assert_eq!(names(&folder.path().join("mine")), ["letter.txt"]);
    let said = replay(folder.path(), &["--out", "film.kine"]).wrong(1);
    assert!(said.contains("film.kine is no folder that can be read"), "{said}");
    let said = replay(folder.path(), &["--out", "no/such/place"]).wrong(1);
    assert!(said.contains("there is no folder no/such to make"), "{said}");
    // A replay may replace an earlier one, but not the one that it reads.
    replay(folder.path(), &["--out", "r"]).fine();
    let said = replay(folder.path(), &["r/replay.kine", "--out", "r"]).wrong(1);
    assert!(said.contains("r holds the history that is to be replayed"), "{said}");
    replay(folder.path(), &["--out", "r", "--no-history"]).fine();
    assert_eq!(names(&folder.path().join("r")), [FILES[0], FILES[2]]);
    assert_eq!(names(folder.path()), ["film.jsonl", "film.kine", "mine", "r"]);
}
