//! Small scripts for the queue, one behavior each.
//!
//! A line is a moment in seconds and an event: `node+ NAME CPU` adds or updates a node, `node- NAME` deletes
//! it, `pod+ NAME CPU WORDS` adds or updates a pod, `pod- NAME` deletes it, `bound NAME` and `unbound NAME`
//! report a binding, `preempts NAME` and `preempted NAME` begin and finish its preemption, `pop -> NAME` pops
//! the next pod (`NAME@NODE` if it is scheduled, `none` if none is ready), `wakes at MOMENT` checks the next
//! moment at which time moves a pod, and anything else is the expected state of all pods. Words of a pod:
//! `on=NODE`, `nominated=NODE`, `priority=N`, `app=LABEL`, `gate`, `anti-affinity` (to its own label),
//! `terminating`.

use model::Moment;
use proptest::prelude::*;
use serde_json::json;
use testobjects::{NodeBuilder, PodBuilder};

use super::super::super::{Scheduler, Settings, Version};
use super::{observe_binding, queue_states, scheduled_node};

const SECOND: i64 = 1_000_000_000;

#[track_caller]
fn check(script: &str) {
    check_with(Settings::default(), script);
}

#[track_caller]
fn check_with(settings: Settings, script: &str) {
    let mut scheduler = Scheduler::new(settings);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, rest) = line.split_once("s ").expect("a moment");
        let now = Moment::from_nanos((at.parse::<f64>().unwrap() * SECOND as f64) as i64);
        if let Some(expected) = rest.strip_prefix("pop -> ") {
            assert_eq!(pop(&mut scheduler, now), expected, "{line}");
        } else if let Some(expected) = rest.strip_prefix("wakes at ") {
            let wake = scheduler.next_wake(now).map(|moment| moment.nanos() / SECOND);
            assert_eq!(wake.map_or("never".to_owned(), |wake| format!("{wake}s")), expected, "{line}");
        } else if !apply_script_event(&mut scheduler, now, rest) {
            scheduler.advance(now);
            assert_eq!(queue_states(&scheduler), rest, "{line}");
        }
    }
}

fn pop(scheduler: &mut Scheduler, now: Moment) -> String {
    let Some(attempted) = scheduler.schedule_one(now) else { return "none".to_owned() };
    let name = attempted.pod.name.to_string();
    scheduled_node(&attempted.decision).map_or(name.clone(), |node| format!("{name}@{node}"))
}

/// Applies an event of a script; returns false if it is not one.
fn apply_script_event(scheduler: &mut Scheduler, now: Moment, words: &str) -> bool {
    let words: Vec<&str> = words.split(' ').collect();
    match words[..] {
        ["node+", name, cpu] => scheduler.apply(now, &node_object(name, cpu).modified()),
        ["node-", name] => scheduler.apply(now, &node_object(name, "0").deleted()),
        ["pod+", name, cpu, ref words @ ..] => {
            scheduler.apply(now, &pod_object(name, cpu, words).modified());
        }
        ["pod-", name] => scheduler.apply(now, &pod_object(name, "0", &[]).deleted()),
        ["bound", name] => observe_binding(scheduler, now, name),
        ["unbound", name] => scheduler.bind_failed(now, "d", name),
        ["preempts", name] => assert!(scheduler.begin_preemption("d", name)),
        ["preempted", name] => scheduler.finish_preemption("d", name),
        _ => return false,
    }
    true
}

fn node_object(name: &str, cpu: &str) -> NodeBuilder {
    testobjects::node(name).allocatable("cpu", cpu).allocatable("pods", "10")
}

fn pod_object(name: &str, cpu: &str, words: &[&str]) -> PodBuilder {
    let value = |key: &str| words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    let app = value("app").unwrap_or(name);
    let mut pod = testobjects::pod(name).namespace("d").label("app", app).request("cpu", cpu);
    for word in words {
        pod = match word.split_once('=').unwrap_or((word, "")) {
            ("on", node) => pod.on(node),
            ("nominated", node) => pod.set("status.nominatedNodeName", node),
            ("priority", priority) => pod.priority(priority.parse().unwrap()),
            ("app", _) => pod,
            ("gate", _) => pod.set("spec.schedulingGates", json!([{"name": "g"}])),
            ("anti-affinity", _) => {
                let term = json!({"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"app": app}}});
                let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                pod.set("spec.affinity.podAntiAffinity", required)
            }
            ("terminating", _) => pod.terminating("2026-01-01T00:00:00Z"),
            _ => panic!("unknown word {word}"),
        };
    }
    pod
}

#[test]
fn higher_priority_pops_first_then_the_earlier_timestamp() {
    check(
        "0s pod+ a 1
         0s pod+ b 1
         0s pod+ c 1 priority=5
         0s node+ n 8
         1s pop -> c@n
         1s pop -> a@n
         1s pop -> b@n
         1s pop -> none",
    );
}

#[test]
fn a_pod_that_preempts_for_longer_than_the_flush_interval_is_flushed_when_it_is_done() {
    check(
        "0s node+ n 1
         0s pod+ a 2
         1s pop -> a
         1s preempts a
         1s wakes at 330s
         330s a refused by DefaultPreemption NodeResourcesFit
         330s wakes at 360s
         1000s a refused by DefaultPreemption NodeResourcesFit
         1001s preempted a
         1001s wakes at 1020s
         1019s a refused by DefaultPreemption NodeResourcesFit
         1020s a active",
    );
}

#[test]
fn an_unschedulable_pod_waits_for_an_event_that_may_help() {
    check(
        "0s node+ n 1
         0s pod+ a 2
         1s pop -> a
         1s a refused by NodeResourcesFit
         2s pop -> none
         3s node+ m 1
         3s a refused by NodeResourcesFit
         4s node+ m 2
         4s a active
         4s pop -> a@m",
    );
}

#[test]
fn backoff_ends_after_its_last_whole_second_and_doubles() {
    check(
        "0s node+ n 1
         0s pod+ a 2
         0s pod+ b 2 priority=1
         1.5s pop -> b
         1.5s node+ m 1
         1.5s pod+ x 1 on=m
         1.5s pod- x
         1.5s a active, b backoff until 2
         1.5s wakes at 3s
         2.9s a active, b backoff until 2
         3s a active, b active
         3s pop -> b
         3s pod+ x 1 on=m
         3s pod- x
         3s a active, b backoff until 5",
    );
}

#[test]
fn an_unschedulable_pod_pops_from_backoff_while_active_q_is_empty() {
    let script = |last: &str| {
        format!(
            "0s node+ n 1
             0s pod+ a 2
             1s pop -> a
             1s node+ n 2
             1s a backoff until 2
             1s pop -> {last}"
        )
    };
    check(&script("a@n"));
    let older = Settings::for_version(Version::V1_32);
    check_with(older.clone(), &script("none"));
    // And a backoff does not last until the end of its second there.
    let longer = Settings { initial_backoff_seconds: 3, ..older };
    let script = "0s node+ n 1
         0s pod+ a 2
         1.5s pop -> a
         1.5s node+ n 2
         4.4s a backoff until 4
         5s a active";
    check_with(longer, script);
}

#[test]
fn after_an_error_a_pod_always_waits_out_its_backoff() {
    check(
        "0s pod+ a 1
         1s pop -> a
         1s a backoff until 2
         1s pop -> none
         1s node+ n 1
         1s pop -> none
         1s wakes at 3s
         3s pop -> a@n
         3s unbound a
         3s a backoff until 5
         6s pop -> a@n
         6s unbound a
         6s a backoff until 10
         11s pop -> a@n
         11s bound a
         11s wakes at never",
    );
}

#[test]
fn a_failed_binding_requeues_other_pods() {
    check(
        "0s node+ n 2
         0s pod+ a 2 priority=1
         0s pod+ b 2
         1s pop -> a@n
         1s pop -> b
         1s b refused by NodeResourcesFit
         9s unbound a
         9s a backoff until 10, b active
         9s pop -> b@n",
    );
}

#[test]
fn a_pod_deleted_while_binding_frees_its_resources() {
    let script = |goes: &str| {
        format!(
            "0s node+ n 2
             0s pod+ a 2
             0s pod+ b 2
             1s pop -> a@n
             1s pop -> b
             9s {goes}
             9s b active
             9s pop -> b@n"
        )
    };
    check(&script("pod- a"));
    check(&script("pod+ a 2 terminating"));
}

#[test]
fn a_pod_that_is_being_deleted_is_not_tried() {
    check(
        "0s node+ n 2
         0s pod+ a 1 terminating
         0s pod+ b 1
         1s pop -> a
         1s pop -> b@n
         1s pop -> none",
    );
}

#[test]
fn a_gated_pod_waits_until_its_gates_are_gone() {
    check(
        "0s node+ n 2
         0s pod+ a 1 gate
         0s a gated by SchedulingGates
         0s pop -> none
         700s node+ n 4
         700s a gated by SchedulingGates
         700s wakes at never
         701s pod+ a 1
         701s pop -> a@n",
    );
}

#[test]
fn unschedulable_pods_are_flushed_after_five_minutes() {
    check(
        "0s node+ n 1
         0s pod+ a 2
         10s pop -> a
         10s wakes at 330s
         329s a refused by NodeResourcesFit
         330s a active",
    );
    // After exactly five minutes it is not flushed yet.
    check(
        "0s node+ n 1
         0s pod+ a 2
         30s pop -> a
         30s wakes at 360s
         330s a refused by NodeResourcesFit",
    );
}

#[test]
fn a_cleared_nomination_requeues_pods_of_no_higher_priority() {
    let script = |goes: &str| {
        format!(
            "0s pod+ a 2 priority=5 nominated=n
             0s pop -> a
             0s pod+ a 2 priority=5 nominated=n
             0s node+ n 2
             0s pod+ s 2 priority=9 nominated=m
             0s pod+ w 2
             0s pod+ v 4 priority=7
             1s pop -> s@n
             1s pop -> v
             1s pop -> w
             9s a active, v refused by NodeResourcesFit, w refused by NodeResourcesFit
             9s {goes}"
        )
    };
    check(&script("pod- a\n 9s v refused by NodeResourcesFit, w active"));
    check(&script("pod+ a 2 priority=5\n 9s a active, v refused by NodeResourcesFit, w active"));
    check(&script("pod+ a 2 priority=5 nominated=m\n 9s a active, v refused by NodeResourcesFit, w active"));
}

#[test]
fn a_pod_bound_by_another_scheduler_leaves_the_queue() {
    check(
        "0s node+ n 1
         0s pod+ a 2
         0s pod+ b 1
         1s pop -> a
         1s pod+ a 2 on=n
         1s pod+ b 1 on=n
         1s pop -> none",
    );
}

#[test]
fn a_pod_on_a_deleted_node_may_be_updated() {
    check(
        "0s node+ n 2
         0s pod+ a 1 on=n
         0s node- n
         0s pod+ a 1 on=n app=x
         0s node+ m 4
         0s pod+ b 3
         1s pop -> b@m
         1s node+ n 2
         1s pod+ c 2
         1s pop -> c
         1s pod- a
         9s pop -> c@n",
    );
}

#[test]
fn an_unreadable_object_may_become_readable_after_an_update() {
    check(
        "0s node+ n nonsense
         0s pod+ a 1
         0s pod+ b nonsense
         1s pop -> a
         1s pop -> b
         1s a refused by Unreadable, b refused by Unreadable
         9s node+ n 4
         9s a active, b active
         9s pop -> a@n
         9s pop -> b
         20s pod+ b 1
         20s pop -> b@n",
    );
}

#[test]
fn without_backoff_no_pod_waits() {
    let settings = Settings { max_backoff_seconds: 0, ..Settings::default() };
    check_with(settings, "0s pod+ a 1\n 1s pop -> a\n 1s a active\n 1s pop -> a\n 1s a active");
}

#[test]
fn an_absurd_backoff_is_as_absurd_as_in_go() {
    // Nanoseconds wrap: this is a backoff of minus one second.
    let settings = Settings { max_backoff_seconds: i64::MAX, ..Settings::default() };
    check_with(settings, "0s pod+ a 1\n 1s pop -> a\n 1s a active");
    let settings = Settings {
        initial_backoff_seconds: i64::MAX / SECOND,
        max_backoff_seconds: i64::MAX / SECOND,
        ..Settings::default()
    };
    let until = (i64::MAX / SECOND).to_string();
    check_with(
        settings,
        &format!("9s pod+ a 1\n 9s pop -> a\n 9s a backoff until {until}\n 9s wakes at never"),
    );
}

#[test]
fn gated_pods_are_in_no_index() {
    let mut scheduler = Scheduler::new(Settings::default());
    let now = Moment::from_nanos(0);
    apply_script_event(&mut scheduler, now, "node+ n 1");
    for number in 0..2000 {
        apply_script_event(&mut scheduler, now, &format!("pod+ g{number} 1 gate"));
    }
    apply_script_event(&mut scheduler, now, "pod+ a 1");
    assert_eq!(pop(&mut scheduler, now), "a@n");
    // Gated pods are in no index.
    assert!(
        scheduler.queue.unschedulable_by_plugin.is_empty() && scheduler.queue.unschedulable_since.is_empty()
    );
    assert_eq!(scheduler.queued_pods().count(), 2000);
}

fn step() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "d", "e"]);
    let node = prop::sample::select(vec!["n", "m"]);
    let words = prop::sample::select(vec![
        "",
        " gate",
        " priority=5",
        " nominated=n",
        " on=n",
        " app=x anti-affinity",
        " terminating",
    ]);
    prop_oneof![
        (name.clone(), 1..4, words).prop_map(|(name, cpu, words)| format!("pod+ {name} {cpu}{words}")),
        (name.clone(),).prop_map(|(name,)| format!("pod- {name}")),
        (name.clone(),).prop_map(|(name,)| format!("bound {name}")),
        (name,).prop_map(|(name,)| format!("unbound {name}")),
        (node.clone(), 0..5).prop_map(|(node, cpu)| format!("node+ {node} {cpu}")),
        (node,).prop_map(|(node,)| format!("node- {node}")),
        Just("pop".to_owned()),
        Just("pop".to_owned()),
        Just("pop".to_owned()),
    ]
}

proptest! {
    #[test]
    fn no_pod_is_lost(steps in prop::collection::vec((0_i64..40_000, step()), 1..80)) {
        let mut scheduler = Scheduler::new(Settings::default());
        let mut now = Moment::from_nanos(0);
        for (millis, step) in &steps {
            now = now.plus_nanos(millis * 1_000_000);
            if !apply_script_event(&mut scheduler, now, step) {
                pop(&mut scheduler, now);
            }
            let waiting: Vec<String> = scheduler.queued_pods().map(|queued| queued.pod.name.to_string()).collect();
            for (id, pod) in scheduler.cache.pods() {
                let placed = scheduler.cache.node_of(id).is_some() || scheduler.queue.is_in_flight(id);
                let waits = waiting.iter().filter(|name| **name == *pod.name.name).count();
                // A terminating pod leaves the queue when it is popped.
                let given_up = pod.terminating && !placed && waits == 0;
                prop_assert!(given_up || usize::from(placed) + waits == 1, "{} after {step}", pod.name.name);
            }
            let queue = &scheduler.queue;
            let indexed = queue.active_q.len() + queue.backoff_q.len() + queue.error_backoff_q.len() + queue.unschedulable_since.len();
            let of = |state: &dyn Fn(&super::super::EntryState) -> bool| {
                queue.entries.values().filter(|entry| state(&entry.state)).count()
            };
            let elsewhere = of(&|state| {
                matches!(state, super::super::EntryState::Gated(_) | super::super::EntryState::InFlight)
            });
            prop_assert_eq!(indexed + elsewhere, queue.entries.len());
        }
    }
}
