//! The queue compared with kube-scheduler's event handlers and queue over random events, with a clock that stands still
//! between them.

use model::{Moment, Object, What};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::super::{Decision, Scheduler, Settings};
use super::{observe_binding, queue_states, scheduled_node};

const SCRIPTS: &str = include_str!("../../../../../testdata/scheduler/queue.jsonl");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Script<'a> {
    id: &'a str,
    initial_backoff_seconds: i64,
    max_backoff_seconds: i64,
    #[serde(borrow)]
    steps: Vec<ScriptStep<'a>>,
}

#[derive(Deserialize)]
struct ScriptStep<'a> {
    at: i64,
    #[serde(rename = "do")]
    action: &'a str,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    pod: Option<&'a str>,
    node: Option<String>,
    nominated: Option<String>,
    #[serde(default)]
    victims: Vec<String>,
    #[serde(rename = "places")]
    queue_states: &'a str,
}

#[test]
fn pods_move_between_queues_as_in_kube_scheduler() {
    let (mut steps, mut placed, mut failed) = (0, 0, 0);
    for line in SCRIPTS.lines() {
        let script: Script<'_> = serde_json::from_str(line).unwrap();
        let mut scheduler = Scheduler::new(Settings {
            initial_backoff_seconds: script.initial_backoff_seconds,
            max_backoff_seconds: script.max_backoff_seconds,
            ..Settings::default()
        });
        for (number, step) in script.steps.iter().enumerate() {
            let now = Moment::from_nanos(step.at);
            let location =
                format!("{} step {number} {} {:?} {:?}", script.id, step.action, step.pod, step.object);
            let object = || Object::parse(step.object.expect("an event has an object").get()).unwrap();
            match (step.action, step.pod) {
                ("ADDED", _) => scheduler.apply(now, &What::Added(object())),
                ("MODIFIED", _) => scheduler.apply(now, &What::Modified(object())),
                ("DELETED", _) => scheduler.apply(now, &What::Deleted(object())),
                ("bound", Some(pod)) => observe_binding(&mut scheduler, now, pod),
                ("bind failed", Some(pod)) => scheduler.bind_failed(now, "d", pod),
                ("schedule", _) => {
                    let attempted = scheduler.schedule_one(now);
                    let popped = attempted.as_ref().map(|attempted| &*attempted.pod.name);
                    assert_eq!(popped, step.pod, "{location}");
                    let chosen = attempted.as_ref().and_then(|attempted| scheduled_node(&attempted.decision));
                    assert_eq!(chosen, step.node, "{location}: {attempted:?}");
                    let (nominated, victims) = match attempted.map(|attempted| attempted.decision) {
                        Some(Decision::Unschedulable(rejection)) => {
                            (rejection.nominated_node, rejection.victims)
                        }
                        _ => (None, Vec::new()),
                    };
                    let victims: Vec<&str> = victims.iter().map(|pod| &*pod.name).collect();
                    assert_eq!(victims, step.victims, "{location}");
                    // Recorded only with victims: none is listed if all are terminating already.
                    let nominated = nominated.filter(|_| !victims.is_empty());
                    assert_eq!(nominated.as_deref(), step.nominated.as_deref(), "{location}");
                    placed += usize::from(step.node.is_some());
                    failed += usize::from(step.node.is_none() && step.pod.is_some());
                }
                ("wait", _) => scheduler.advance(now),
                (other, _) => panic!("{other}"),
            }
            assert_eq!(queue_states(&scheduler), step.queue_states, "{location}");
            steps += 1;
        }
    }
    assert!(steps > 1400 && placed > 60 && failed > 200, "{steps} {placed} {failed}");
}
