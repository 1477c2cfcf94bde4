//! Cases of cluster-autoscaler's own test of utilization: nodes of 2 cores and 2 MB, pods of 100m and 200 kB.

use serde_json::json;
use testobjects::{NodeBuilder, PodBuilder};

use super::super::super::settings::Settings;
use super::super::tests::{START, harness, node, pod};
use super::*;

fn plain() -> PodBuilder {
    pod("p", "n", "100m", "200k")
}

fn utilization(pods: Vec<PodBuilder>, node: NodeBuilder, ignored: IgnoredPods) -> Option<Utilization> {
    let mut harness = harness(Settings::default(), 0);
    let id = harness.add_node("g", node);
    for (number, pod) in pods.into_iter().enumerate() {
        harness.apply(pod.set("metadata.name", format!("p{number}")).added());
    }
    let snapshot = &mut harness.state.cluster.snapshot;
    let pods: Vec<_> = snapshot.pods_on(id).iter().map(|pod| snapshot.pod(*pod).clone()).collect();
    let node = snapshot.node(id).clone();
    Utilization::of(
        &node,
        pods.iter().map(|pod| &**pod),
        ignored,
        "gpu",
        snapshot.filter_snapshot.scalars(),
        &LoopClock::at(START),
    )
}

#[track_caller]
fn check(pods: Vec<PodBuilder>, ignored: IgnoredPods, expected: f64) {
    let found = utilization(pods, node("g", "n"), ignored).expect("the node has allocatable").highest;
    assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
}

#[test]
fn requests_are_divided_by_allocatable() {
    let daemon = || plain().annotation("cluster-autoscaler.kubernetes.io/daemonset-pod", "true");
    let of_daemon_set = || plain().owner("DaemonSet", "web");
    let mirror = || plain().annotation("kubernetes.io/config.mirror", "");
    let gone = plain().terminating("2025-12-31T23:50:00Z");
    let none = IgnoredPods::default();
    let daemons = IgnoredPods { daemon_set_pods: true, mirror_pods: false };
    let mirrors = IgnoredPods { daemon_set_pods: false, mirror_pods: true };
    check(vec![plain(), plain()], none, 0.2);
    check(vec![plain(), plain(), of_daemon_set(), daemon()], daemons, 0.25);
    check(vec![plain(), of_daemon_set()], none, 0.2);
    check(vec![plain(), plain(), gone], none, 0.2);
    check(vec![plain(), plain(), mirror()], mirrors, 2.0 / 9.0);
    check(vec![plain(), mirror()], none, 0.2);
    let both = IgnoredPods { daemon_set_pods: true, mirror_pods: true };
    check(vec![plain(), mirror(), of_daemon_set()], both, 1.0 / 8.0);
}

#[test]
fn a_terminating_pod_counts_until_30_seconds_after_its_grace_period() {
    let terminating = |since: &str| plain().terminating(since);
    check(vec![terminating("2025-12-31T23:59:00Z")], IgnoredPods::default(), 0.1);
    check(vec![terminating("2025-12-31T23:58:59Z")], IgnoredPods::default(), 0.0);
}

#[test]
fn init_containers_count_as_the_scheduler_counts_them() {
    let with = |containers: serde_json::Value| plain().set("spec.initContainers", containers);
    let large = with(json!([
        {"name": "i", "image": "i", "resources": {"requests": {"cpu": "50", "memory": "100M"}}},
    ]));
    let sidecar = with(json!([
        {"name": "i", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m", "memory": "100k"}}},
        {"name": "j", "image": "i", "resources": {"requests": {"cpu": "5m", "memory": "100"}}},
    ]));
    let pods = vec![plain(), sidecar, large];
    let found = utilization(pods, node("g", "n"), IgnoredPods::default()).expect("the node has allocatable");
    assert!((found.cpu - 25.125).abs() < 1e-9 && (found.highest - 50.25).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_node_without_allocatable_is_an_error_unless_a_gpu_counts() {
    let lacks_memory = node("g", "n").set("status.allocatable", json!({"cpu": "2", "pods": "110"}));
    assert_eq!(utilization(vec![plain()], lacks_memory, IgnoredPods::default()), None);
    let wants_gpu = plain().request("nvidia.com/gpu", "1");
    let has_gpu = node("g", "n").allocatable("nvidia.com/gpu", "1");
    let found = utilization(vec![plain(), wants_gpu], has_gpu, IgnoredPods::default())
        .expect("the GPU's utilization counts");
    assert_eq!((found.highest, found.resource), (1.0, "nvidia.com/gpu"));
    let with_gpu_label = node("g", "n").label("gpu", "k80");
    let found = utilization(vec![plain()], with_gpu_label, IgnoredPods::default())
        .expect("the GPU's utilization counts");
    assert_eq!(found.highest, 0.0);
}

#[test]
fn utilization_is_printed_as_go_prints_it() {
    let utilization =
        |cpu: f64, memory: f64| Utilization { cpu, memory, gpu: 0.0, resource: "cpu", highest: cpu };
    // Go: fmt.Sprintf("%v", utilization.Info{...}).
    assert_eq!(utilization(0.25, 0.1).to_string(), "{0.25 0.1 0 0 cpu 0.25}");
    assert_eq!(utilization(1e-5, 1.5e-7).to_string(), "{1e-05 1.5e-07 0 0 cpu 1e-05}");
    assert_eq!(utilization(2.0, 0.0).to_string(), "{2 0 0 0 cpu 2}");
}
