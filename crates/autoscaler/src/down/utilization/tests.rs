//! Cases of cluster-autoscaler's own test of utilisation: nodes of 2 cores and 2 MB, pods of 100m and 200 kB.

use serde_json::{Value, json};

use super::super::super::settings::Settings;
use super::super::tests::{Fixture, START, pod};
use super::*;

fn annotated(key: &str, value: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["annotations"][key] = json!(value);
    pod
}

fn plain() -> Value {
    pod("p", "n", "100m", "200k")
}

fn owned_by(kind: &str) -> Value {
    let mut pod = plain();
    pod["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
    pod
}

fn utilization(pods: Vec<Value>, node: impl FnOnce(&mut Value), ignored: Ignored) -> Option<Utilization> {
    let mut fixture = Fixture::new(Settings::default(), &[("g", 0)]);
    let id = fixture.node("g", "n", node);
    for (number, mut pod) in pods.into_iter().enumerate() {
        pod["metadata"]["name"] = json!(format!("p{number}"));
        fixture.apply(pod);
    }
    let snapshot = &mut fixture.cluster.snapshot;
    let pods: Vec<_> = snapshot.pods_on(id).iter().map(|pod| snapshot.pod(*pod).clone()).collect();
    let node = snapshot.node(id).clone();
    Utilization::of(
        &node,
        pods.iter().map(|pod| &**pod),
        ignored,
        "gpu",
        snapshot.trial.scalars(),
        &Clock::at(START),
    )
}

#[track_caller]
fn check(pods: Vec<Value>, ignored: Ignored, expected: f64) {
    let got = utilization(pods, |_| (), ignored).expect("the node says what it has").highest;
    assert!((got - expected).abs() < 1e-9, "{got} instead of {expected}");
}

#[test]
fn requests_are_counted_against_what_the_node_has() {
    let daemon = || annotated("cluster-autoscaler.kubernetes.io/daemonset-pod", "true");
    let mirror = || annotated("kubernetes.io/config.mirror", "");
    let mut gone = plain();
    gone["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:50:00Z");
    let none = Ignored::default();
    let daemons = Ignored { daemon_sets: true, mirrors: false };
    let mirrors = Ignored { daemon_sets: false, mirrors: true };
    check(vec![plain(), plain()], none, 0.2);
    check(vec![plain(), plain(), owned_by("DaemonSet"), daemon()], daemons, 0.25);
    check(vec![plain(), owned_by("DaemonSet")], none, 0.2);
    check(vec![plain(), plain(), gone], none, 0.2);
    check(vec![plain(), plain(), mirror()], mirrors, 2.0 / 9.0);
    check(vec![plain(), mirror()], none, 0.2);
    let both = Ignored { daemon_sets: true, mirrors: true };
    check(vec![plain(), mirror(), owned_by("DaemonSet")], both, 1.0 / 8.0);
}

#[test]
fn a_pod_counts_until_its_time_and_half_a_minute_more_are_over() {
    let terminating = |since: &str| {
        let mut pod = plain();
        pod["metadata"]["deletionTimestamp"] = json!(since);
        pod
    };
    check(vec![terminating("2025-12-31T23:59:00Z")], Ignored::default(), 0.1);
    check(vec![terminating("2025-12-31T23:58:59Z")], Ignored::default(), 0.0);
}

#[test]
fn init_containers_count_as_the_scheduler_counts_them() {
    let mut large = plain();
    large["spec"]["initContainers"] =
        json!([{"name": "i", "image": "i", "resources": {"requests": {"cpu": "50", "memory": "100M"}}}]);
    let mut sidecar = plain();
    sidecar["spec"]["initContainers"] = json!([
        {"name": "i", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m", "memory": "100k"}}},
        {"name": "j", "image": "i", "resources": {"requests": {"cpu": "5m", "memory": "100"}}},
    ]);
    let got =
        utilization(vec![plain(), sidecar, large], |_| (), Ignored::default()).expect("it says what it has");
    assert!((got.cpu - 25.125).abs() < 1e-9 && (got.highest - 50.25).abs() < 1e-9, "{got:?}");
}

#[test]
fn a_node_that_does_not_say_what_it_has_is_an_error_unless_a_gpu_counts() {
    let lacks_memory =
        |node: &mut Value| drop(node["status"]["allocatable"].as_object_mut().map(|it| it.remove("memory")));
    assert_eq!(utilization(vec![plain()], lacks_memory, Ignored::default()), None);
    let mut wants_gpu = plain();
    wants_gpu["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = json!("1");
    let has_gpu = |node: &mut Value| node["status"]["allocatable"]["nvidia.com/gpu"] = json!("1");
    let got = utilization(vec![plain(), wants_gpu], has_gpu, Ignored::default()).expect("a GPU counts");
    assert_eq!((got.highest, got.resource), (1.0, "nvidia.com/gpu"));
    let promises = |node: &mut Value| node["metadata"]["labels"]["gpu"] = json!("k80");
    let got = utilization(vec![plain()], promises, Ignored::default()).expect("a GPU counts");
    assert_eq!(got.highest, 0.0);
}

#[test]
fn it_is_printed_as_go_prints_it() {
    let utilization =
        |cpu: f64, memory: f64| Utilization { cpu, memory, gpu: 0.0, resource: "cpu", highest: cpu };
    // Go: fmt.Sprintf("%v", utilization.Info{...}).
    assert_eq!(utilization(0.25, 0.1).to_string(), "{0.25 0.1 0 0 cpu 0.25}");
    assert_eq!(utilization(1e-5, 1.5e-7).to_string(), "{1e-05 1.5e-07 0 0 cpu 1e-05}");
    assert_eq!(utilization(2.0, 0.0).to_string(), "{2 0 0 0 cpu 2}");
}
