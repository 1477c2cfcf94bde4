//! The shop's day, looked at by someone who trusts nothing: each change must follow from those before.

use std::collections::{BTreeMap, BTreeSet};

use model::{Key, Moment, Object, What};
use serde_json::Value;

use super::{Day, day};
use crate::objects::SECOND;

/// The cluster as the changes so far have made it.
#[derive(Default)]
struct Ledger {
    alive: BTreeMap<Key, Value>,
    uids: BTreeSet<String>,
}

#[track_caller]
fn check(seed: u64) {
    let day = day(seed);
    assert!((5_000..=15_000).contains(&day.changes.len()), "{} changes", day.changes.len());
    let mut ledger = Ledger::default();
    let mut last_seen = day.story.begin;
    for change in &day.changes {
        let object = Object::parse(change.what.object().as_str()).unwrap();
        assert_eq!(object.key(&change.key.source), change.key);
        assert!(change.seen >= last_seen, "{} is seen before what came before", change.key);
        last_seen = change.seen;
        let value = serde_json::from_str(object.as_str()).unwrap();
        ledger.take(&change.key, &change.what, value);
    }
    assert!(last_seen < day.story.end.plus_nanos(SECOND));
    check_versions(&day);
    ledger.check_counts();
}

/// A list comes in any order; from then on versions only rise.
fn check_versions(day: &Day) {
    let versions: Vec<u64> = day
        .changes
        .iter()
        .map(|change| change.what.object().meta().resource_version.unwrap().parse().unwrap())
        .collect();
    let list = day.changes.iter().position(|change| !matches!(change.what, What::Added(_))).unwrap();
    assert_eq!(versions[..list].iter().collect::<BTreeSet<_>>().len(), list, "a version stands twice");
    assert!(versions[..list].iter().max() < versions.get(list));
    assert!(versions[list..].is_sorted_by(|a, b| a < b));
}

impl Ledger {
    fn take(&mut self, key: &Key, what: &What, now: Value) {
        let before = self.alive.get(key).cloned();
        match (what, &before) {
            (What::Added(_), None) => {}
            (What::Modified(_) | What::Deleted(_), Some(before)) => {
                assert_eq!(before["metadata"]["uid"], now["metadata"]["uid"], "{key} changed its uid");
            }
            _ => panic!("{} of {key}, which was {before:?}", what.word()),
        }
        for owner in list(&now["metadata"]["ownerReferences"]) {
            assert!(self.uids.contains(text(&owner["uid"])), "{key} belongs to what never was");
        }
        self.uids.insert(text(&now["metadata"]["uid"]).to_owned());
        if &*key.kind.kind == "Pod" {
            self.check_pod(key, before.as_ref(), &now);
        }
        let was = before.as_ref().map(|before| &before["spec"]["nodeName"]);
        let node = now["spec"]["nodeName"].as_str().filter(|node| was.is_none_or(|was| was != node));
        let node = node.map(str::to_owned);
        match what {
            What::Deleted(_) => self.alive.remove(key),
            What::Added(_) | What::Modified(_) => self.alive.insert(key.clone(), now),
        };
        if let Some(node) = node {
            self.check_room(&node);
        }
    }

    /// A pod gets a node once, goes from pending to running to its end, and is ready only in between.
    fn check_pod(&self, key: &Key, before: Option<&Value>, now: &Value) {
        let order = |pod: &Value| match text(&pod["status"]["phase"]) {
            "Pending" => 0,
            "Running" => 1,
            "Succeeded" | "Failed" => 2,
            other => panic!("{key} is {other}"),
        };
        let node = &now["spec"]["nodeName"];
        if let Some(before) = before {
            let was = &before["spec"]["nodeName"];
            assert!(was.is_null() || was == node, "{key} moved from {was} to {node}");
            assert!(order(before) <= order(now), "{key} went back to {}", now["status"]["phase"]);
        }
        if !node.is_null() && before.is_none_or(|before| before["spec"]["nodeName"].is_null()) {
            let there = self.alive.keys().any(|key| &*key.kind.kind == "Node" && &*key.name == text(node));
            assert!(there, "{key} was given to {node}, which is not there");
        }
        assert_eq!(condition(now, "PodScheduled") == Some("True"), !node.is_null(), "{key}");
        assert!(order(now) == 0 || now["status"]["startTime"].is_string(), "{key} runs without a start");
        // The garbage collector calls pods of vanished nodes failed and leaves the rest as it was.
        let runs = order(now) == 1 || condition(now, "DisruptionTarget") == Some("True");
        assert!(condition(now, "Ready") != Some("True") || runs, "{key} is ready too soon or late");
        let gone = now["metadata"]["deletionTimestamp"].is_string();
        let was_gone = before.is_some_and(|before| before["metadata"]["deletionTimestamp"].is_string());
        assert!(gone || !was_gone, "{key} was deleted and is not");
    }

    /// No node has more than it can hold.
    fn check_room(&self, node: &str) {
        let found = self.alive.iter().find(|(key, _)| &*key.kind.kind == "Node" && &*key.name == node);
        let Some((_, it)) = found else { return };
        let (mut cpu, mut memory, mut pods) = (0, 0, 0);
        for pod in self.of("Pod").filter(|pod| pod["spec"]["nodeName"] == node) {
            if matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed") {
                continue;
            }
            pods += 1;
            for container in list(&pod["spec"]["containers"]) {
                cpu += milli(&container["resources"]["requests"]["cpu"]);
                memory += mebi(&container["resources"]["requests"]["memory"]);
            }
        }
        let allocatable = &it["status"]["allocatable"];
        assert!(cpu <= milli(&allocatable["cpu"]), "{node}: {cpu}m");
        assert!(memory <= mebi(&allocatable["memory"]), "{node}: {memory}Mi");
        assert!(pods <= 110);
    }

    /// What controllers say at the end is what there is.
    fn check_counts(&self) {
        let owned = |owner: &Value| -> Vec<&Value> {
            let uid = owner["metadata"]["uid"].clone();
            self.alive
                .values()
                .filter(|it| list(&it["metadata"]["ownerReferences"]).iter().any(|owner| owner["uid"] == uid))
                .collect()
        };
        let active = |owner: &Value| -> (i64, i64) {
            let mut counts = (0, 0);
            for pod in owned(owner) {
                let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
                if !over && pod["metadata"]["deletionTimestamp"].is_null() {
                    counts.0 += 1;
                    counts.1 += i64::from(condition(pod, "Ready") == Some("True"));
                }
            }
            counts
        };
        for deployment in self.of("Deployment") {
            let mut real = (0, 0);
            for set in owned(deployment) {
                let (replicas, ready) = active(set);
                assert_eq!(number(&set["status"]["replicas"]), replicas, "{}", set["metadata"]["name"]);
                assert_eq!(number(&set["status"]["readyReplicas"]), ready, "{}", set["metadata"]["name"]);
                real = (real.0 + replicas, real.1 + ready);
            }
            let status = &deployment["status"];
            let said = (number(&status["replicas"]), number(&status["readyReplicas"]));
            assert_eq!(said, real, "{}", deployment["metadata"]["name"]);
            assert_eq!(number(&deployment["spec"]["replicas"]), real.0, "{}", deployment["metadata"]["name"]);
        }
        for set in self.of("StatefulSet") {
            assert_eq!(
                (number(&set["spec"]["replicas"]), number(&set["status"]["readyReplicas"])),
                active(set)
            );
        }
        let nodes = self.of("Node").count() as i64;
        for daemon in self.of("DaemonSet") {
            assert_eq!((nodes, number(&daemon["status"]["numberReady"])), active(daemon));
        }
        for pod in self.of("Pod") {
            assert!(!pod["spec"]["nodeName"].is_null(), "{} still waits", pod["metadata"]["name"]);
        }
    }

    fn of(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.alive.iter().filter(move |(key, _)| &*key.kind.kind == kind).map(|(_, value)| value)
    }
}

#[test]
fn every_change_follows_from_those_before() {
    for seed in [1, 0xC0FFEE] {
        check(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_day() {
    let (one, other) = (day(7), day(7));
    assert_eq!(one.story, other.story);
    assert!(one.changes == other.changes, "the changes differ");
    assert!(day(8).changes != one.changes);
}

#[test]
fn the_story_is_there_to_be_seen() {
    for seed in [1, 2, 3] {
        let Day { changes, story } = day(seed);
        let between = |from: Moment, to: Moment| {
            changes.iter().filter(move |change| from <= change.seen && change.seen < to)
        };
        let events = |reason: &str, from: Moment, to: Moment| {
            let reason = format!(r#""reason":"{reason}""#);
            between(from, to)
                .filter(|change| {
                    &*change.key.kind.kind == "Event" && !matches!(change.what, What::Deleted(_))
                })
                .filter(|change| change.what.object().as_str().contains(&reason))
                .count()
        };
        assert!(story.bad_moment < story.worst_from && story.worst_from < story.worst_to, "seed {seed}");
        assert!(story.worst_to < story.rollback.plus_nanos(480 * SECOND), "seed {seed}");
        assert!(events("FailedScheduling", story.worst_from, story.worst_to) >= 5, "seed {seed}");
        assert!(events("Preempted", story.bad_rollout, story.rollback) >= 1, "seed {seed}");
        assert!(events("TriggeredScaleUp", story.push, story.worst_to) >= 1, "seed {seed}");
        assert!(events("TaintManagerEviction", story.bad_moment, story.worst_to) >= 3, "seed {seed}");
        assert!(events("BackOff", story.bad_rollout, story.rollback) >= 3, "seed {seed}");
        let lost = between(story.bad_moment, story.node_returns).find(|change| change.key == story.lost_node);
        assert!(lost.unwrap().what.object().as_str().contains("Kubelet stopped posting node status."));
        let life: Vec<&str> = changes
            .iter()
            .filter(|change| change.key == story.unlucky_pod)
            .map(|change| change.what.object().as_str())
            .collect();
        for stage in
            [r#""reason":"Unschedulable""#, r#""nodeName":"node-a2""#, r#""type":"DisruptionTarget""#]
        {
            assert!(life.iter().any(|version| version.contains(stage)), "seed {seed}: no {stage}");
        }
    }
}

#[test]
fn nodes_send_heartbeats_that_say_nothing_else() {
    let Day { changes, story } = day(1);
    let mut last: BTreeMap<Key, String> = BTreeMap::new();
    let mut beats = 0;
    for change in changes.iter().filter(|change| &*change.key.kind.kind == "Node") {
        let mut node: Value = serde_json::from_str(change.what.object().as_str()).unwrap();
        node["metadata"]["resourceVersion"] = Value::Null;
        node["metadata"]["managedFields"] = Value::Null;
        for condition in node["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastHeartbeatTime"] = Value::Null;
        }
        let rest = node.to_string();
        beats += usize::from(last.get(&change.key) == Some(&rest));
        last.insert(change.key.clone(), rest);
    }
    let hours = story.end.nanos_since(story.begin) / SECOND / 3_600;
    assert!(beats as i64 > 6 * hours * 10, "{beats} heartbeats");
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Counts that are zero are not printed.
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = list(&object["status"]["conditions"]);
    conditions.iter().find(|condition| condition["type"] == kind).map(|condition| text(&condition["status"]))
}

fn milli(quantity: &Value) -> i64 {
    let text = text(quantity);
    text.strip_suffix('m')
        .map_or_else(|| text.parse::<i64>().unwrap() * 1_000, |milli| milli.parse().unwrap())
}

fn mebi(quantity: &Value) -> i64 {
    let text = text(quantity);
    match text.strip_suffix("Mi") {
        Some(mebi) => mebi.parse().unwrap(),
        None => text.strip_suffix("Gi").unwrap().parse::<i64>().unwrap() * 1_024,
    }
}
