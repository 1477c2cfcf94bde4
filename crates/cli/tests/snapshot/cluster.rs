//! A small GPU cluster as a snapshot, and the files and runs that tests make of it.

use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{self, ProgramOutput};

/// The time of the cluster.
pub(crate) const NOW: &str = "2026-06-01T12:00:00Z";

/// Two nodes of four GPUs, full with jobs of team-b, which has a quota of four. In team-a, with the same quota, a job
/// of two GPUs waits. team-c has no quota, and a gang waits there that needs more than the cluster has.
pub(crate) fn cluster() -> Value {
    let mut pods: Vec<Value> = (0..8)
        .map(|number| {
            pod(
                &format!("run-{number}"),
                &format!("run-{number}-0"),
                1,
                Some(if number < 4 { "gpu-1" } else { "gpu-2" }),
            )
        })
        .collect();
    pods.push(pod("train", "train-0", 1, None));
    pods.push(pod("train", "train-1", 1, None));
    pods.extend((0..3).map(|number| pod("huge", &format!("huge-{number}"), 4, None)));
    let mut groups: Vec<Value> =
        (0..8).map(|number| pod_group(&format!("run-{number}"), "team-b", 1)).collect();
    groups.extend([pod_group("train", "team-a", 2), pod_group("huge", "team-c", 3)]);
    json!({
        "config": {
            "actions": "allocate, consolidation, reclaim, preempt, stalegangeviction",
            "tiers": [{"plugins": plugins()}],
            "scenarioSearchBudgets": {},
        },
        "schedulerParams": {
            "schedulerName": "kai-scheduler",
            "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""},
            "maxNumberConsolidationPreemptees": 16, "useSchedulingSignatures": true,
            "fullHierarchyFairness": true, "allowConsolidatingReclaim": true,
            "globalDefaultStalenessGracePeriod": 60_000_000_000_i64, "schedulePeriod": 1_000_000_000,
            "stuckInReleasingThreshold": 120_000_000_000_i64, "queueLabelKey": "kai.scheduler/queue",
        },
        "rawObjects": {
            "pods": pods,
            "nodes": [node("gpu-1"), node("gpu-2")],
            "queues": [queue("dept", "", 8), queue("team-a", "dept", 4), queue("team-b", "dept", 4), queue("team-c", "dept", 0)],
            "podGroups": groups,
            "bindRequests": [],
            "priorityClasses": [{"metadata": {"name": "train"}, "value": 50}],
            "configMaps": [{"metadata": {"name": "settings", "namespace": "ml"}, "data": {"token": "secret"}}],
        },
        "discovery": {"serverVersion": {"major": "1", "minor": "35"}, "resources": []},
    })
}

/// The plugins of the built-in configuration.
pub(crate) fn plugins() -> Vec<Value> {
    let names = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "kubeflow",
        "ray",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nominatednode",
        "dynamicresources",
        "nodeplacement",
        "minruntime",
        "topology",
        "snapshot",
        "sg-nodelocalgreedy",
        "sg-multinodegang",
    ];
    names
        .iter()
        .map(|name| match *name {
            "nodeplacement" => json!({"name": name, "arguments": {"cpu": "binpack", "gpu": "binpack"}}),
            _ => json!({"name": name}),
        })
        .collect()
}

pub(crate) fn queue(name: &str, parent: &str, gpus: i64) -> Value {
    let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let gpu = json!({"quota": gpus, "limit": -1, "overQuotaWeight": 1});
    json!({"metadata": {"name": name, "creationTimestamp": "2026-05-01T00:00:00Z"},
        "spec": {"parentQueue": parent, "resources": {"gpu": gpu, "cpu": unlimited, "memory": unlimited}}})
}

fn node(name: &str) -> Value {
    let labels = json!({"nvidia.com/gpu.memory": "80000", "nvidia.com/gpu.count": "4"});
    json!({"metadata": {"name": name, "labels": labels}, "status": {
        "allocatable": {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "4", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod_group(name: &str, queue: &str, min_member: i64) -> Value {
    json!({"metadata": {"name": name, "namespace": "ml", "creationTimestamp": "2026-06-01T11:00:00Z"},
        "spec": {"queue": queue, "minMember": min_member, "priorityClassName": "train"}})
}

fn pod(group: &str, name: &str, gpus: i64, node: Option<&str>) -> Value {
    let metadata = json!({"name": name, "namespace": "ml", "uid": name, "creationTimestamp": "2026-06-01T11:00:00Z",
        "annotations": {"pod-group-name": group}});
    let requests = json!({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": gpus.to_string()});
    let mut spec = json!({"schedulerName": "kai-scheduler",
        "containers": [{"name": "main", "image": "registry/team/image:1", "resources": {"requests": requests}}]});
    if let Some(node) = node {
        spec["nodeName"] = json!(node);
    }
    json!({"metadata": metadata, "spec": spec, "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}})
}

/// Writes the ZIP of a snapshot.
pub(crate) fn write_zip(path: &Path, snapshot: &Value) {
    write_zip_text(path, &snapshot.to_string());
}

pub(crate) fn write_zip_text(path: &Path, text: &str) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    zip.start_file("snapshot.json", zip::write::SimpleFileOptions::default()).unwrap();
    zip.write_all(text.as_bytes()).unwrap();
    zip.finish().unwrap();
}

/// A folder with the cluster in `cluster.zip`.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_zip(&folder.path().join("cluster.zip"), &cluster());
    folder
}

/// Runs `kinescope snapshot` with arguments separated by spaces.
pub(crate) fn snapshot(folder: &Path, arguments: &str) -> ProgramOutput {
    let arguments: Vec<&str> = ["snapshot"].into_iter().chain(arguments.split_whitespace()).collect();
    common::run(folder, &arguments)
}

/// The JSON that a successful run prints.
#[track_caller]
pub(crate) fn snapshot_json(folder: &Path, arguments: &str) -> Value {
    serde_json::from_str(&snapshot(folder, &format!("{arguments} -o json")).success()).unwrap()
}
