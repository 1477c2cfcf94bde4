//! Snapshots of any content: errors say what is wrong where, nothing panics, and equal snapshots give equal decisions.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use kai::{ActionDecisions, Report, Result, Session, Settings, Snapshot};
use model::{Moment, Object};
use serde_json::{Value, json};

const ACTIONS: &str = "allocate, consolidation, reclaim, preempt, stalegangeviction";

fn settings(actions: &str, plugins: &[&str]) -> Result<Settings> {
    let plugins: Vec<Value> = plugins.iter().map(|name| json!({"name": name})).collect();
    let config = json!({"actions": actions, "tiers": [{"plugins": plugins}]});
    let params = json!({"schedulerName": "kai-scheduler", "allowConsolidatingReclaim": true,
        "maxNumberConsolidationPreemptees": -1, "fullHierarchyFairness": true});
    Settings::parse(&config.to_string(), &params.to_string())
}

fn run_with(settings: Settings, objects: &[Value]) -> Result<(Vec<ActionDecisions>, Report)> {
    let mut snapshot = Snapshot::new(settings);
    for object in objects {
        snapshot.add(&Object::parse(&object.to_string()).unwrap())?;
    }
    let now: Moment = "2026-06-01T12:00:00Z".parse().unwrap();
    let mut session = Session::open(&snapshot, now)?;
    Ok((session.run().to_vec(), session.report()))
}

fn run(objects: &[Value]) -> Result<(Vec<ActionDecisions>, Report)> {
    let plugins = [
        "predicates",
        "proportion",
        "priority",
        "elastic",
        "nodeavailability",
        "gpusharingorder",
        "gpupack",
        "resourcetype",
        "subgrouporder",
        "taskorder",
        "nodeplacement",
        "minruntime",
        "topology",
        "sg-nodelocalgreedy",
        "sg-multinodegang",
    ];
    run_with(settings(ACTIONS, &plugins)?, objects)
}

#[track_caller]
fn assert_rejected(objects: &[Value], expected: &str) {
    let error = run(objects).unwrap_err().to_string();
    assert!(error.contains(expected), "{error:?} should say {expected:?}");
}

fn queue(name: &str, parent: &str, quota: f64) -> Value {
    let resource = json!({"quota": quota, "limit": -1, "overQuotaWeight": 1});
    json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {
        "parentQueue": parent, "resources": {"cpu": resource, "memory": resource, "gpu": resource}}})
}

fn node(name: &str, gpus: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {
        "allocatable": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": gpus, "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn pod_group(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"}, "spec": spec})
}

fn pod(name: &str, group: &str, requests: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "annotations": {"pod-group-name": group}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"}})
}

/// A cluster in which a pod of two GPUs finds a node.
fn cluster() -> Vec<Value> {
    vec![
        queue("all", "", 8.0),
        queue("team", "all", 8.0),
        node("node-a", "2"),
        node("node-b", "4"),
        pod_group("job", json!({"queue": "team", "minMember": 1})),
        pod("job-0", "job", json!({"nvidia.com/gpu": "2"})),
    ]
}

fn bound(objects: &[Value]) -> usize {
    run(objects).unwrap().0.iter().map(|decisions| decisions.bound.len()).sum()
}

#[test]
fn settings_that_are_unknown_are_named() {
    let rejected = |actions: &str, plugins: &[&str]| {
        settings(actions, plugins)
            .and_then(|settings| run_with(settings, &cluster()))
            .unwrap_err()
            .to_string()
    };
    assert!(rejected("allocate, backfill", &[]).contains("unknown action \"backfill\""));
    assert!(rejected("allocate", &["proportion", "gang"]).contains("\"gang\""));
    assert!(rejected("allocate", &["proportion", "proportion"]).contains("listed twice"));
}

#[test]
fn malformed_queues_are_named() {
    assert_rejected(&[queue("a", "b", 1.0), queue("b", "c", 1.0), queue("c", "a", 1.0)], "invalid Queue a");
    assert_rejected(&[queue("a", "a", 1.0)], "invalid Queue a");
    assert_rejected(&[queue("a", "", -2.0)], "invalid Queue a");
    assert_rejected(&[queue("a", "", 1.0), queue("a", "", 1.0)], "invalid Queue a: it is listed twice");
    let mut text = queue("a", "", 1.0);
    text["spec"]["resources"]["gpu"]["quota"] = json!("many");
    assert_rejected(&[text], "invalid Queue a");
    // Deep, but not endless.
    let mut deep: Vec<Value> =
        (1..5000).map(|n| queue(&format!("q{n}"), &format!("q{}", n - 1), 1.0)).collect();
    deep.push(queue("q0", "", 1.0));
    assert_rejected(&deep, "invalid Queue");
}

#[test]
fn malformed_workloads_are_named() {
    let with = |object: Value| [cluster(), vec![object]].concat();
    let spec = |sub_groups: Value| pod_group("bad", json!({"queue": "team", "subGroups": sub_groups}));
    assert_rejected(&with(pod("job-0", "job", json!({}))), "invalid Pod ns/job-0: it is listed twice");
    assert_rejected(&with(node("node-a", "1")), "invalid Node node-a: it is listed twice");
    assert_rejected(&with(pod("bad", "job", json!({"cpu": "much"}))), "invalid Pod ns/bad");
    assert_rejected(&with(pod_group("bad", json!({"minMember": "all"}))), "invalid PodGroup ns/bad");
    let mut devices = pod("bad", "job", json!({}));
    devices["metadata"]["annotations"]["gpu-fraction"] = json!("0.5");
    devices["metadata"]["annotations"]["gpu-fraction-num-devices"] = json!("9000000000");
    assert_rejected(&with(devices), "invalid Pod ns/bad");
    // Subgroups that make no tree are ignored, as in the original.
    for sub_groups in [
        json!([{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]),
        json!([{"name": "a", "parent": "a"}]),
        json!([{"name": "a", "minMember": 1}, {"name": "a", "minMember": 1}]),
        json!([{"name": "a", "parent": "none"}]),
    ] {
        let objects = [with(spec(sub_groups)), vec![pod("bad-0", "bad", json!({"cpu": "1"}))]].concat();
        assert_eq!(bound(&objects), 2);
    }
}

#[test]
fn workloads_that_need_dynamic_resource_allocation_are_refused() {
    let refused = "Pod ns/bad needs dynamic resource allocation, which is not supported";
    let with = |objects: &[Value]| [cluster(), objects.to_vec()].concat();
    let mut claims = pod("bad", "job", json!({}));
    claims["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    assert_rejected(&with(&[claims.clone()]), refused);
    // Nothing depends on the claims of a pod that has ended.
    claims["status"]["phase"] = json!("Succeeded");
    assert_eq!(bound(&with(&[claims])), 1);

    let class = |spec: Value| json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "big"}, "spec": spec});
    let extended = pod("bad", "other", json!({"example.com/device": "1"}));
    let named = class(json!({"extendedResourceName": "example.com/device"}));
    assert_rejected(&with(&[extended.clone(), named]), refused);
    // Without the class it is a resource like any other, which no node has.
    assert_eq!(bound(&with(&[extended])), 1);
    let implicit = pod("bad", "job", json!({"deviceclass.resource.kubernetes.io/big": "1"}));
    assert_rejected(&with(&[implicit, class(json!({}))]), refused);
}

#[test]
fn gpus_of_dynamic_resource_allocation_are_refused() {
    let slice = |driver: &str| {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "slice"},
            "spec": {"driver": driver, "nodeName": "node-a", "devices": [{"name": "device-0"}]}})
    };
    let with = |object: Value| [cluster(), vec![object]].concat();
    let refused = "ResourceSlice slice needs GPUs of dynamic resource allocation, which is not supported";
    assert_rejected(&with(slice("gpu.example.com")), refused);
    // Only drivers of GPUs count for nodes.
    assert_eq!(bound(&with(slice("net.example.com"))), 1);
}

#[test]
fn numa_topologies_are_refused_where_the_plugin_is_on() {
    let topology = json!({"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": {"name": "node-a"}, "zones": []});
    let objects = [cluster(), vec![topology]].concat();
    let with_plugin = |objects: &[Value]| run_with(settings(ACTIONS, &["numa"]).unwrap(), objects);
    let error = with_plugin(&objects).unwrap_err().to_string();
    assert_eq!(error, "NodeResourceTopology node-a needs the plugin numa, which is not supported");
    // Without topologies the plugin has nothing to do, and without the plugin topologies do not matter.
    assert!(with_plugin(&cluster()).is_ok());
    assert_eq!(bound(&objects), 1);
}

#[test]
fn what_is_missing_is_no_error() {
    assert_eq!(bound(&[]), 0);
    assert_eq!(bound(&cluster()), 1);
    for missing in 0..6 {
        let mut objects = cluster();
        objects.remove(missing);
        let (decisions, report) = run(&objects).unwrap();
        assert_eq!(decisions.len(), 5);
        assert!(report.pending.len() <= 1);
    }
    for (kind, version) in [
        ("Queue", "scheduling.run.ai/v2"),
        ("PodGroup", "scheduling.run.ai/v2alpha2"),
        ("BindRequest", "scheduling.run.ai/v1alpha2"),
        ("Pod", "v1"),
        ("Node", "v1"),
        ("PriorityClass", "scheduling.k8s.io/v1"),
    ] {
        let empty = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "empty"}});
        let null = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "null"}, "spec": null, "status": null});
        assert_eq!(bound(&[cluster(), vec![empty, null]].concat()), 1, "{kind}");
    }
}

#[test]
fn absurd_numbers_do_no_harm() {
    for amount in ["0", "9223372036854775807", "9E", "1e18", "1m", "0.000000001"] {
        let requests =
            json!({"cpu": amount, "memory": amount, "nvidia.com/gpu": amount, "example.com/foo": amount});
        let objects = [cluster(), vec![pod("job-1", "job", requests), node("node-c", amount)]].concat();
        let (decisions, _) = run(&objects).unwrap();
        assert_eq!(decisions.len(), 5);
    }
    for quota in [0.0, 1e-300, 1e300, f64::MAX] {
        let queues = [queue("more", "all", quota), queue("top", "", quota)];
        assert_eq!(bound(&[cluster(), queues.to_vec()].concat()), 1);
    }
    for number in [i32::MIN, -1, 0, 1, i32::MAX] {
        let spec = json!({"queue": "team", "minMember": number, "minSubGroup": number, "schedulingBackoff": number,
            "subGroups": []});
        let other = [pod_group("other", spec), pod("other-0", "other", json!({"nvidia.com/gpu": "8"}))];
        assert_eq!(bound(&[cluster(), other.to_vec()].concat()), 1);
    }
    for (name, value) in [
        ("gpu-fraction", "-1"),
        ("gpu-fraction", "1e400"),
        ("gpu-fraction", "NaN"),
        ("gpu-fraction", "0.000000000000000001"),
        ("gpu-memory", "18446744073709551615"),
        ("gpu-memory", "-5"),
        ("nvidia.com/mig-1g.10gb", "9223372036854775807"),
    ] {
        let mut other = pod("job-1", "job", json!({}));
        other["metadata"]["annotations"][name] = json!(value);
        assert!(bound(&[cluster(), vec![other]].concat()) >= 1, "{name}: {value}");
    }
}

#[test]
fn equal_snapshots_give_equal_decisions() {
    let objects = |is_reversed: bool| {
        let mut objects = cluster();
        for number in 0..40 {
            let group = format!("more-{number}");
            objects.push(pod_group(&group, json!({"queue": "team", "minMember": 2})));
            for member in 0..2 {
                objects.push(pod(&format!("{group}-{member}"), &group, json!({"cpu": "1", "memory": "1Gi"})));
            }
        }
        if is_reversed {
            objects.reverse();
        }
        objects
    };
    let first = run(&objects(false)).unwrap();
    assert!(first.0[0].bound.len() > 10);
    for is_reversed in [false, true] {
        assert_eq!(run(&objects(is_reversed)).unwrap(), first);
    }
}
