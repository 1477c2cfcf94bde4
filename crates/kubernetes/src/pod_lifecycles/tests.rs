use super::*;
use proptest::prelude::*;
use serde_json::json;
use testobjects::pod;

const SECOND: i64 = 1_000_000_000;

fn at(second: i64) -> Moment {
    Moment::from_nanos(second * SECOND)
}

fn seconds(ran: PodLifecycleData) -> Vec<i64> {
    let second = |moment: Moment| moment.nanos().div_euclid(SECOND);
    match ran {
        PodLifecycleData::Empty => vec![],
        PodLifecycleData::Running(start) => vec![second(start)],
        PodLifecycleData::Finished(start, end) => vec![second(start), second(end)],
    }
}

#[test]
fn one_version_is_read_as_simkube_reads_it() {
    for line in include_str!("../../../../testdata/kubernetes/pod_ran.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let pod = testobjects::object(&case["pod"]);
        assert_eq!(json!(seconds(lifecycle_data(&pod))), case["ran"], "{line}");
    }
}

#[test]
fn malformed_fields_count_as_absent() {
    let statuses = [
        json!("x"),
        json!([]),
        json!({"containerStatuses": {"state": {}}}),
        json!({"containerStatuses": [1, null, {"state": [1]}, {"state": {"running": {"startedAt": 7}}}]}),
        json!({"containerStatuses": [{"state": {"running": {"startedAt": "yesterday"}}}]}),
    ];
    for status in statuses {
        let pod = pod("p").set("status", status).object();
        assert_eq!(lifecycle_data(&pod), PodLifecycleData::Empty, "{}", pod.as_str());
    }
}

/// The changes of pods of one name, one per line: the second, the uid, then the phase and the state of each
/// container, or `deleted`, alone or followed by these.
///
/// States: `10-` running since then, `10-20` ended, `?` waiting, `10-?` ended at an unknown time; after a comma the
/// previous run. `init:` marks an init container.
fn parse_changes(lines: &str) -> Vec<(Moment, What)> {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).map(parse_change).collect()
}

fn parse_change(line: &str) -> (Moment, What) {
    let mut words = line.split_whitespace();
    let (second, uid) = (words.next().unwrap(), words.next().unwrap());
    let mut words = words.peekable();
    let deleted = words.next_if_eq(&"deleted").is_some();
    let mut status = json!({});
    if let Some(phase) = words.next() {
        status = json!({"phase": phase, "containerStatuses": [], "initContainerStatuses": []});
    }
    let mut containers = 0;
    for container in words {
        let (list, states) = match container.strip_prefix("init:") {
            Some(states) => ("initContainerStatuses", states),
            None => ("containerStatuses", container),
        };
        containers += usize::from(list == "containerStatuses");
        let (now, before) = states.split_once(',').unwrap_or((states, "?"));
        status[list]
            .as_array_mut()
            .unwrap()
            .push(json!({"state": container_state(now), "lastState": container_state(before)}));
    }
    // A version without container statuses still has a container in its spec.
    let pod =
        pod("p").uid(uid).set("spec.containers", vec![json!({}); containers.max(1)]).set("status", status);
    // `a5` was created at second 5.
    let pod = match uid.get(1..).and_then(|second| second.parse().ok()) {
        Some(second) => pod.created(at(second)),
        None => pod,
    };
    (at(second.parse().unwrap()), if deleted { pod.deleted() } else { pod.modified() })
}

fn container_state(text: &str) -> Value {
    let time = |second: &str| second.parse().ok().map(|second| at(second).to_string());
    match text.split_once('-') {
        None => json!({"waiting": {"reason": "CrashLoopBackOff"}}),
        Some((start, "")) => json!({"running": {"startedAt": time(start)}}),
        Some((start, end)) => json!({"terminated": {"startedAt": time(start), "finishedAt": time(end)}}),
    }
}

fn lifecycles(changes: &[(Moment, What)]) -> Vec<PodLifecycle> {
    let mut tracker = PodLifecycleTracker::new();
    let mut ended = Vec::new();
    for (at, what) in changes {
        ended.extend(tracker.apply(*at, &what.object().key(&"east".into()), what));
    }
    ended.extend(tracker.finish());
    ended
}

/// Each lifecycle: the uid, when it ran, `gone` and when it was deleted.
#[track_caller]
fn check(lines: &str, expected: &[&str]) {
    let found: Vec<String> = lifecycles(&parse_changes(lines)).iter().map(lifecycle_text).collect();
    assert_eq!(found, expected);
}

fn lifecycle_text(lifecycle: &PodLifecycle) -> String {
    let ran = match seconds(lifecycle.data)[..] {
        [start] => format!("{start}-"),
        [start, end] => format!("{start}-{end}"),
        _ => "not".to_owned(),
    };
    let gone = lifecycle.deleted.map(|at| format!(" gone {}", at.nanos().div_euclid(SECOND)));
    format!("{} {ran}{}", lifecycle.uid.as_deref().unwrap_or_default(), gone.unwrap_or_default())
}

#[test]
fn a_pod_runs_from_its_first_start_to_its_last_end() {
    check("1 a1 Pending ? ?\n3 a1 Running 2- 3-", &["a1 2-"]);
    check("1 a1 Running 2- 3-\n9 a1 Succeeded 2-8 3-5\n20 a1 deleted Succeeded 2-8 3-5", &["a1 2-8 gone 20"]);
    check("1 a1 Pending init:2-3 4-\n9 a1 Failed init:2-3 4-8", &["a1 2-8"]);
    check("8 a1 Succeeded 2-7\n20 a1 Succeeded 2-19\n21 a1 deleted Succeeded 2-19", &["a1 2-7 gone 21"]);
}

#[test]
fn a_pod_that_never_started_did_not_run() {
    check("1 a1 Pending ?\n9 a1 deleted Pending ?", &["a1 not gone 9"]);
    check("1 a1 Pending", &["a1 not"]);
    check("1 a1 Pending ?\n4 a1 Failed 0-3", &["a1 not"]);
}

#[test]
fn a_pod_deleted_while_it_runs_ends_with_its_delete() {
    check("1 a1 Running 2-\n9 a1 deleted Running 2-", &["a1 2-9 gone 9"]);
    check("1 a1 Running 2-\n9 a1 deleted", &["a1 2-9 gone 9"]);
    check("1 a1 Running 2-\n9 a1 deleted Running 2-7", &["a1 2-7 gone 9"]);
    check("1 a1 Running 20-\n9 a1 deleted", &["a1 20-20 gone 9"]);
}

#[test]
fn a_crash_loop_is_one_lifecycle() {
    let loops = "1 a1 Running 2-\n4 a1 Running 2-3\n5 a1 Running ?,2-3\n6 a1 Running 6-,2-3";
    check(loops, &["a1 2-"]);
    check(&format!("{loops}\n8 a1 Failed 6-7,2-3"), &["a1 2-7"]);
    check(&format!("{loops}\n8 a1 Running ?,6-7\n9 a1 deleted"), &["a1 2-7 gone 9"]);
    check(&format!("{loops}\n9 a1 deleted"), &["a1 2-9 gone 9"]);
}

#[test]
fn a_run_before_the_recording_counts() {
    check("10 a1 Running 6-,2-3", &["a1 2-"]);
}

#[test]
fn the_phase_gives_the_end_where_the_containers_do_not() {
    // Evicted: there are no container statuses any more. Lost with its node: containers still seem to run.
    check("1 a1 Running 2- 2-5\n8 a1 Failed\n9 a1 Failed\n20 a1 deleted Failed", &["a1 2-8 gone 20"]);
    check("1 a1 Running 2-\n8 a1 Failed 2-\n20 a1 deleted Failed 2-", &["a1 2-8 gone 20"]);
    check("1 a1 Running 2- 2-5\n8 a1 Failed 2-? 2-5", &["a1 2-8"]);
}

#[test]
fn a_sidecar_does_not_keep_a_pod_from_finishing() {
    check("1 a1 Running init:2- 3-\n8 a1 Succeeded init:2- 3-7", &["a1 2-7"]);
    check("1 a1 Running init:2- 3-\n8 a1 Succeeded init:2- 3-7\n9 a1 Succeeded init:2-9 3-7", &["a1 2-9"]);
    check("1 a1 Pending init:2- ?\n9 a1 deleted Pending init:2- ?", &["a1 2-9 gone 9"]);
}

#[test]
fn a_recreated_pod_has_its_own_lifecycle() {
    check("1 a1 Running 2-\n9 a1 deleted Running 2-8\n10 b10 Running 11-", &["a1 2-8 gone 9", "b10 11-"]);
    check("1 a1 Running 2-\n12 b10 Running 11-", &["a1 2-10 gone 10", "b10 11-"]);
    check("1 a1 Running 2-\n12 b10 Running 11-\n13 a1 deleted Running 2-8", &["a1 2-10 gone 10", "b10 11-"]);
    check("1 a1 Running 2-\n14 b10 deleted Running 11-13", &["a1 2-10 gone 10", "b10 11-13 gone 14"]);
}

#[test]
fn a_pod_known_by_its_delete_alone_has_a_lifecycle() {
    check("9 a1 deleted Running 2-8\n9 a1 deleted Running 2-8", &["a1 2-8 gone 9"]);
}

#[test]
fn a_lifecycle_holds_the_version_with_which_it_started() {
    let versions = parse_changes("1 a1 Pending ?\n2 a1 Running 2-\n3 a1 Running 2-,1-2\n9 a1 deleted");
    assert_eq!(lifecycles(&versions)[0].pod, *versions[1].1.object());
    let versions = parse_changes("1 a1 Pending ?\n2 a1 Pending ?,?");
    assert_eq!(lifecycles(&versions)[0].pod, *versions[1].1.object());
}

/// Successive pods of one name: how long each waits, how often it starts and for how long, how it ends, and whether
/// its delete is seen.
fn change_sequences() -> impl Strategy<Value = (String, usize)> {
    let lifecycle = (0..3_i64, prop::collection::vec(1..4_i64, 0..4), 0..4_u8, any::<bool>());
    prop::collection::vec(lifecycle, 1..5).prop_map(|pods| {
        let mut now = 1;
        let mut lines = String::new();
        let count = pods.len();
        for (wait, runs, end, delete_seen) in pods {
            let uid = format!("u{now}");
            lines += &format!("{now} {uid} Pending ?\n");
            now += wait;
            let mut before = "?".to_owned();
            for length in &runs {
                lines += &format!("{now} {uid} Running {now}-,{before}\n");
                before = format!("{now}-{}", now + length);
                now += length;
                lines += &format!("{now} {uid} Running ?,{before}\n");
            }
            let last = match end {
                0 => format!("Succeeded {before}"),
                1 => "Failed".to_owned(),
                2 => format!("Running {now}-,{before}"),
                _ => format!("Running ?,{before}"),
            };
            lines += &format!("{now} {uid} {last}\n");
            now += 2;
            if delete_seen {
                lines += &format!("{now} {uid} deleted {last}\n");
            }
            now += 1;
        }
        (lines, count)
    })
}

proptest! {
    #[test]
    fn lifecycles_of_one_name_follow_each_other((lines, count) in change_sequences()) {
        let changes = parse_changes(&lines);
        let found = lifecycles(&changes);
        let mut uids: Vec<&Option<String>> = found.iter().map(|lifecycle| &lifecycle.uid).collect();
        uids.sort_unstable();
        uids.dedup();
        prop_assert_eq!((uids.len(), found.len()), (count, count), "{}", lines);
        let mut end = Moment::MIN;
        for lifecycle in &found {
            match lifecycle.data {
                PodLifecycleData::Empty => {}
                PodLifecycleData::Running(start) => {
                    prop_assert!(end <= start && lifecycle.deleted.is_none(), "{}", lines);
                    end = Moment::MAX;
                }
                PodLifecycleData::Finished(start, stop) => {
                    prop_assert!(end <= start && start <= stop, "{}", lines);
                    end = stop;
                }
            }
        }
        let twice: Vec<(Moment, What)> = changes.iter().flat_map(|change| [change.clone(), change.clone()]).collect();
        prop_assert_eq!(lifecycles(&twice), found, "{}", lines);
    }
}
