//! Consistency of the shop's day: every change must follow from the earlier ones.

use std::collections::{BTreeMap, BTreeSet};

use model::{IncomingChange, Key, Moment, Object, What};
use serde_json::Value;

use super::{DayHighlights, day, first_changes};

/// The cluster's state after the changes so far.
#[derive(Default)]
struct ClusterState {
    objects: BTreeMap<Key, Value>,
    uids: BTreeSet<String>,
}

fn recorded_day(seed: u64) -> (Vec<IncomingChange>, DayHighlights) {
    let mut changes = Vec::new();
    let highlights = day(seed, |observed| changes.push(observed));
    (changes, highlights)
}

#[track_caller]
fn check_day(seed: u64) {
    let (changes, highlights) = recorded_day(seed);
    assert!((40_000..=100_000).contains(&changes.len()), "{} changes", changes.len());
    let mut cluster = ClusterState::default();
    let mut last_seen = highlights.begin;
    for change in changes.iter().take_while(|change| change.seen == highlights.begin) {
        // A list is in any order.
        cluster.uids.extend(change.what.object().meta().uid.as_deref().map(str::to_owned));
    }
    for change in &changes {
        let object = Object::parse(change.what.object().as_str()).unwrap();
        assert_eq!(object.key(&change.key.source), change.key);
        assert!(change.seen >= last_seen, "{} is observed before the previous change", change.key);
        last_seen = change.seen;
        let value = serde_json::from_str(object.as_str()).unwrap();
        cluster.apply(&change.key, &change.what, value);
    }
    assert!(last_seen < highlights.end);
    check_versions(&changes);
    cluster.check_counts();
}

/// Checks that resource versions are unique in the list and rise afterwards.
fn check_versions(changes: &[IncomingChange]) {
    let versions: Vec<u64> = changes
        .iter()
        .map(|change| change.what.object().meta().resource_version.unwrap().parse().unwrap())
        .collect();
    let list = changes.iter().position(|change| change.seen > changes[0].seen).unwrap();
    assert_eq!(
        versions[..list].iter().collect::<BTreeSet<_>>().len(),
        list,
        "a resource version is used twice"
    );
    assert!(versions[..list].iter().max() < versions.get(list));
    assert!(versions[list..].is_sorted_by(|a, b| a < b));
}

impl ClusterState {
    fn apply(&mut self, key: &Key, what: &What, now: Value) {
        let before = self.objects.get(key).cloned();
        match (what, &before) {
            (What::Added(_), None) => {}
            (What::Modified(_) | What::Deleted(_), Some(before)) => {
                assert_eq!(before["metadata"]["uid"], now["metadata"]["uid"], "{key} changed its uid");
            }
            _ => panic!("{} of {key}, which was {before:?}", what.event_type()),
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
            What::Deleted(_) => self.objects.remove(key),
            What::Added(_) | What::Modified(_) => self.objects.insert(key.clone(), now),
        };
        if let Some(node) = node {
            self.check_capacity(&node);
        }
    }

    /// Checks that a pod is bound once, that its phase never goes back, and that it is ready only while running.
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
        // A simulation keeps finished pods, though the pod garbage collector would delete them with their node.
        let outlives_node = before.is_none() && order(now) == 2;
        let is_bound = !node.is_null() && before.is_none_or(|before| before["spec"]["nodeName"].is_null());
        if is_bound && !outlives_node {
            let there = self.objects.keys().any(|key| &*key.kind.kind == "Node" && &*key.name == text(node));
            assert!(there, "{key} was given to {node}, which is not there");
        }
        assert_eq!(condition(now, "PodScheduled") == Some("True"), !node.is_null(), "{key}");
        let ran = order(now) == 1 || text(&now["status"]["phase"]) == "Succeeded";
        assert!(!ran || now["status"]["startTime"].is_string(), "{key} runs without a start");
        // The pod garbage collector sets the phase of pods on deleted nodes to Failed and changes nothing else.
        let runs = order(now) == 1 || condition(now, "DisruptionTarget") == Some("True");
        assert!(condition(now, "Ready") != Some("True") || runs, "{key} is ready too soon or late");
        let gone = now["metadata"]["deletionTimestamp"].is_string();
        let was_gone = before.is_some_and(|before| before["metadata"]["deletionTimestamp"].is_string());
        assert!(gone || !was_gone, "{key} was deleted and is not");
    }

    /// Checks that the pods of a node fit into its allocatable resources.
    fn check_capacity(&self, node: &str) {
        let found = self.objects.iter().find(|(key, _)| &*key.kind.kind == "Node" && &*key.name == node);
        let Some((_, it)) = found else { return };
        let (mut cpu, mut memory, mut pods) = (0, 0, 0);
        for pod in self.objects_of_kind("Pod").filter(|pod| pod["spec"]["nodeName"] == node) {
            if matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed") {
                continue;
            }
            pods += 1;
            for container in list(&pod["spec"]["containers"]) {
                cpu += milli_cpu(&container["resources"]["requests"]["cpu"]);
                memory += mebibytes(&container["resources"]["requests"]["memory"]);
            }
        }
        let allocatable = &it["status"]["allocatable"];
        assert!(cpu <= milli_cpu(&allocatable["cpu"]), "{node}: {cpu}m");
        assert!(memory <= mebibytes(&allocatable["memory"]), "{node}: {memory}Mi");
        assert!(pods <= 110);
    }

    /// Checks that the counts in the final statuses are right.
    fn check_counts(&self) {
        let owned = |owner: &Value| -> Vec<&Value> {
            let uid = owner["metadata"]["uid"].clone();
            self.objects
                .values()
                .filter(|it| list(&it["metadata"]["ownerReferences"]).iter().any(|owner| owner["uid"] == uid))
                .collect()
        };
        let active = |owner: &Value| -> (i64, i64) {
            let mut counts = (0, 0);
            for pod in owned(owner).into_iter().filter(|it| it["kind"] == "Pod") {
                let over = matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed");
                if !over && pod["metadata"]["deletionTimestamp"].is_null() {
                    counts.0 += 1;
                    counts.1 += i64::from(condition(pod, "Ready") == Some("True"));
                }
            }
            counts
        };
        for deployment in self.objects_of_kind("Deployment") {
            let mut real = (0, 0);
            for set in owned(deployment) {
                let (replicas, ready) = active(set);
                assert_eq!(number(&set["status"]["replicas"]), replicas, "{}", set["metadata"]["name"]);
                assert_eq!(number(&set["status"]["readyReplicas"]), ready, "{}", set["metadata"]["name"]);
                real = (real.0 + replicas, real.1 + ready);
            }
            let status = &deployment["status"];
            let reported = (number(&status["replicas"]), number(&status["readyReplicas"]));
            assert_eq!(reported, real, "{}", deployment["metadata"]["name"]);
            assert_eq!(number(&deployment["spec"]["replicas"]), real.0, "{}", deployment["metadata"]["name"]);
        }
        for set in self.objects_of_kind("StatefulSet") {
            assert_eq!(
                (number(&set["spec"]["replicas"]), number(&set["status"]["readyReplicas"])),
                active(set)
            );
        }
        let nodes = self.objects_of_kind("Node").count() as i64;
        for daemon in self.objects_of_kind("DaemonSet") {
            assert_eq!((nodes, number(&daemon["status"]["numberReady"])), active(daemon));
        }
        for pod in self.objects_of_kind("Pod") {
            assert!(!pod["spec"]["nodeName"].is_null(), "{} is still pending", pod["metadata"]["name"]);
        }
    }

    fn objects_of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |(key, _)| &*key.kind.kind == kind).map(|(_, value)| value)
    }
}

#[test]
fn every_change_follows_from_the_earlier_ones() {
    for seed in [1, 0xC0FFEE] {
        check_day(seed);
    }
}

#[test]
fn the_same_seed_gives_the_same_day() {
    let (one, other) = (recorded_day(7), recorded_day(7));
    assert_eq!(one.1, other.1);
    assert!(one.0 == other.0, "the changes differ");
    let beginning = first_changes(7, 3_000);
    assert!(beginning == one.0[..3_000], "the first changes differ");
    assert!(super::first_changes(8, 3_000) != beginning);
}

#[test]
fn the_incidents_are_visible_in_the_history() {
    for seed in [1, 2, 3] {
        let (changes, highlights) = recorded_day(seed);
        let events = |reason: &str, about: &str, from: Moment, to: Moment| {
            let (reason, about) = (format!(r#""reason":"{reason}""#), format!(r#""name":"{about}"#));
            let between = changes.iter().filter(|change| from <= change.seen && change.seen < to);
            let added = between
                .filter(|change| &*change.key.kind.kind == "Event" && matches!(change.what, What::Added(_)));
            let texts = added.map(|change| change.what.object().as_str());
            texts.filter(|text| text.contains(&reason) && text.contains(&about)).count()
        };
        let versions_of = |key: &Key| -> Vec<&str> {
            let of_key = changes.iter().filter(|change| change.key == *key);
            of_key.map(|change| change.what.object().as_str()).collect()
        };
        // The bad version: no node matches, and the autoscaler cannot help.
        let misplaced = highlights.unmatched_pod.expect("a pod of the bad version is pending");
        let versions = versions_of(&misplaced).join(" ");
        assert!(versions.contains("didn't match Pod's node affinity/selector"), "seed {seed}: {versions}");
        assert!(!versions.contains("nodeName"), "seed {seed}: {versions}");
        assert!(
            events("NotTriggerScaleUp", &misplaced.name, highlights.bad_rollout, highlights.rollout_fixed)
                > 0,
            "seed {seed}"
        );
        // The sale: the node group is at its maximum, some pods are pending and some are preempted.
        let waiting = highlights.waiting_pod.expect("a pod is pending");
        let versions = versions_of(&waiting).join(" ");
        assert!(versions.contains("Insufficient cpu"), "seed {seed}: {versions}");
        assert!(events("FailedScheduling", "", highlights.sale, highlights.sale_over) > 20, "seed {seed}");
        assert!(events("Preempted", "", highlights.sale, highlights.sale_over) > 3, "seed {seed}");
        assert!(events("TriggeredScaleUp", "", highlights.sale, highlights.sale_over) > 5, "seed {seed}");
        let preempted = versions_of(&highlights.preempted_pod.expect("a pod is preempted")).join(" ");
        assert!(preempted.contains("PreemptionByScheduler"), "seed {seed}: {preempted}");
        let unreachable = versions_of(&highlights.lost_node.expect("a node is unreachable")).join(" ");
        assert!(unreachable.contains("Kubelet stopped posting node status."), "seed {seed}: {unreachable}");
        assert!(
            events("ScaleDown", "", highlights.sale_over, highlights.end) > 5,
            "seed {seed}: nodes are scaled down"
        );
        let nodes = max_node_count(&changes);
        assert!((90..=115).contains(&nodes), "seed {seed}: {nodes} nodes");
    }
}

fn max_node_count(changes: &[IncomingChange]) -> usize {
    let mut there = BTreeSet::new();
    let nodes = changes.iter().filter(|change| &*change.key.kind.kind == "Node");
    let counts = nodes.map(|change| {
        match change.what {
            What::Deleted(_) => there.remove(&change.key),
            What::Added(_) | What::Modified(_) => there.insert(change.key.clone()),
        };
        there.len()
    });
    counts.max().unwrap_or(0)
}

/// The autoscaler's status and Deployment, from which a reader derives its node groups and settings.
#[test]
fn the_history_contains_the_autoscalers_settings() {
    let changes = first_changes(1, 3_000);
    let objects: Vec<Object> = changes.iter().filter_map(|change| change.what.state().cloned()).collect();
    let derived = calibration::derive_node_groups(objects.iter());
    assert_eq!(derived.origin, Some(calibration::NodeGroupsOrigin::Status), "{:?}", derived.assumptions);
    let groups: Vec<(&str, i64, i64)> =
        derived.groups.iter().map(|group| (&*group.name, group.min, group.max)).collect();
    assert_eq!(groups, [("general", 20, 64), ("memory", 6, 20), ("batch", 2, 20)]);
    let settings = derived.settings.expect("the Deployment has its settings");
    assert_eq!(settings.expander, [autoscaler::Expander::LeastWaste]);
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Counts of zero are omitted in the JSON.
fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = list(&object["status"]["conditions"]);
    conditions.iter().find(|condition| condition["type"] == kind).map(|condition| text(&condition["status"]))
}

fn milli_cpu(quantity: &Value) -> i64 {
    let text = text(quantity);
    text.strip_suffix('m')
        .map_or_else(|| text.parse::<i64>().unwrap() * 1_000, |milli| milli.parse().unwrap())
}

fn mebibytes(quantity: &Value) -> i64 {
    let text = text(quantity);
    match text.strip_suffix("Mi") {
        Some(mebi) => mebi.parse().unwrap(),
        None => text.strip_suffix("Gi").unwrap().parse::<i64>().unwrap() * 1_024,
    }
}
