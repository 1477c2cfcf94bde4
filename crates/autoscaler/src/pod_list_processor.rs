//! The pod list processors: the unschedulable pods that a scale-up has to consider.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::go;
use kubernetes::go::duration;
use kubernetes::objects::{PodSpec, PodView};
use kubernetes::time::nanos;
use kubernetes::well_known::CONFIG_SOURCE;
use model::Moment;
use rustc_hash::FxHashSet;
use scheduler::ids::PodId;
use serde_json::Value;

use super::AutoscalingContext;
use super::clock::LoopClock;
use super::hinting_simulator::HintingSimulator;
use super::pod::Pod;
use super::pod_summary::POD_SCALE_UP_DELAY_ANNOTATION;
use super::settings::Settings;
use super::snapshot::ClusterSnapshot;

const TPU_PREFIX: &str = "cloud-tpus.google.com/";

/// The pods that a scale-up has to consider, out of the unschedulable ones: expendable pods are dropped, pods of
/// currently drained nodes added, schedulable pods dropped (they stay scheduled in the snapshot), then DaemonSet pods
/// and young pods dropped. Sorted by priority; equal ones stay in the order that Go's sort gives.
pub(crate) fn process(
    context: &mut AutoscalingContext<'_>,
    hinting_simulator: &mut HintingSimulator,
    unschedulable: Vec<PodId>,
    drained: &BTreeSet<Arc<str>>,
) -> Vec<PodId> {
    let mut pods = unschedulable;
    pods.retain_mut(|pod| {
        *pod = clear_tpu_requests(&mut context.cluster.snapshot, *pod);
        !context.cluster.is_expendable(context.cluster.snapshot.pod_summary(*pod).priority)
    });
    pods.extend(currently_drained_pods(&mut context.cluster.snapshot, drained));
    filter_out_schedulable(context, hinting_simulator, &mut pods);
    pods.retain(|id| {
        let summary = context.cluster.snapshot.pod_summary(*id);
        let own_delay = || scale_up_delay(context.cluster.snapshot.pod(*id));
        let own_delay = summary.has_scale_up_delay.then(own_delay).flatten();
        !summary.is_daemon_set_pod
            && young_until_with_delay(summary.created, own_delay, context.clock, context.settings).is_none()
    });
    pods
}

/// The pod, or a copy without its TPU requests if it has any: any node satisfies them.
pub(crate) fn clear_tpu_requests(snapshot: &mut ClusterSnapshot, id: PodId) -> PodId {
    if !has_tpu_request(snapshot, id) {
        return id;
    }
    let pod = snapshot.pod(id).clone();
    let mut spec: Value = serde_json::from_str(&pod.spec.json).unwrap_or_default();
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        if let Some(Value::Object(requests)) = container.pointer_mut("/resources/requests") {
            requests.retain(|name, _| !name.starts_with(TPU_PREFIX));
        }
    }
    let spec = PodSpec::parse(&spec.to_string()).expect("a spec with fewer requests is readable");
    let view = PodView { spec: Arc::new(spec), ..(*pod.view).clone() };
    let pod = Pod::new(Arc::new(view), snapshot.filter_snapshot.scalars());
    add_unscheduled_copy(snapshot, pod)
}

/// Whether a pod requests TPUs.
pub(crate) fn has_tpu_request(snapshot: &mut ClusterSnapshot, id: PodId) -> bool {
    if !snapshot.pod_summary(id).has_scalar_requests {
        return false;
    }
    let pod = snapshot.pod(id).clone();
    let scalars = snapshot.filter_snapshot.scalars();
    let mut requested = pod.scheduler_pod.spec.requests.scalars.iter();
    requested.any(|(scalar, _)| scalars.name(*scalar).starts_with(TPU_PREFIX))
}

/// Unscheduled copies of the pods on currently drained nodes that their controllers will recreate.
fn currently_drained_pods(snapshot: &mut ClusterSnapshot, drained: &BTreeSet<Arc<str>>) -> Vec<PodId> {
    let nodes: Vec<_> = drained.iter().filter_map(|name| snapshot.find_node(name)).collect();
    let pods: Vec<_> = nodes.into_iter().flat_map(|node| snapshot.pods_on(node)).collect();
    let mut copies = Vec::new();
    for id in pods {
        let pod = snapshot.pod(id);
        let is_static = pod.annotation(CONFIG_SOURCE).is_some_and(|source| source != "api");
        if pod.deletion_timestamp.is_some() || is_static || pod.is_mirror() || pod.is_daemon_set_pod() {
            continue;
        }
        let view = PodView { node_name: None, ..(*pod.view).clone() };
        let copy = Pod { view: Arc::new(view), ..(**pod).clone() };
        copies.push(add_unscheduled_copy(snapshot, copy));
    }
    copies
}

/// Adds an unscheduled copy of a pod. The filters see another pod, because of a name that no real pod has.
fn add_unscheduled_copy(snapshot: &mut ClusterSnapshot, mut pod: Pod) -> PodId {
    let spec = Arc::make_mut(&mut pod.scheduler_pod);
    spec.name.name = format!("{}/twin", spec.name.name).into();
    snapshot.add_unscheduled_pod(Arc::new(pod))
}

/// Schedules pods on existing and upcoming nodes, highest priority first, and keeps those that do not fit.
fn filter_out_schedulable(
    context: &mut AutoscalingContext<'_>,
    hinting_simulator: &mut HintingSimulator,
    pods: &mut Vec<PodId>,
) {
    let snapshot = &mut context.cluster.snapshot;
    let mut by_priority: Vec<(i32, PodId)> =
        pods.iter().map(|pod| (snapshot.pod_summary(*pod).priority.unwrap_or(0), *pod)).collect();
    go::sort(&mut by_priority, |a, b| a.0 > b.0);
    *pods = by_priority.into_iter().map(|(_, pod)| pod).collect();

    let scheduled =
        hinting_simulator.try_schedule_pods(snapshot, context.settings.version, pods, false, &|_| true);
    if hinting_simulator.drop_old_hints(|node| context.cluster.has_node(node)) {
        context.clock.prevent_repeat();
    }
    let scheduled: FxHashSet<PodId> = scheduled.into_iter().map(|(pod, _)| pod).collect();
    pods.retain(|pod| !scheduled.contains(pod));
}

/// When a pod stops being young, if it still is: after the flag's delay, or the pod's own if that is longer.
pub(crate) fn young_until(pod: &Pod, clock: &LoopClock, settings: &Settings) -> Option<Moment> {
    young_until_with_delay(pod.created(), scale_up_delay(pod), clock, settings)
}

/// The same for a pod with that delay of its own, in nanoseconds.
fn young_until_with_delay(
    created: Moment,
    own_delay: Option<i64>,
    clock: &LoopClock,
    settings: &Settings,
) -> Option<Moment> {
    let min_delay = nanos(settings.new_pod_scale_up_delay);
    let delay = own_delay.unwrap_or(min_delay).max(min_delay);
    Some(created.plus_nanos(delay)).filter(|until| !clock.is_past(*until))
}

/// A pod's own delay in nanoseconds, by its annotation.
fn scale_up_delay(pod: &Pod) -> Option<i64> {
    pod.annotation(POD_SCALE_UP_DELAY_ANNOTATION).and_then(duration::parse)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::{Object, What};
    use testobjects::PodBuilder;

    use super::*;
    use crate::settings::Version;
    use crate::testing::Harness;

    const NOW: Moment = Moment::from_nanos(1_000_000_000_000_000_000);

    /// A pod created a minute ago.
    fn pod(name: &str) -> PodBuilder {
        testobjects::pod(name).created(NOW.plus_nanos(-60_000_000_000).timestamp())
    }

    fn cpu(name: &str, milli: i64) -> PodBuilder {
        pod(name).request("cpu", format!("{milli}m"))
    }

    struct Case {
        settings: Settings,
        pods: Vec<PodBuilder>,
        unscheduled: Vec<PodBuilder>,
        drained: BTreeSet<Arc<str>>,
        now: Moment,
    }

    /// One node of two cores, `n`.
    fn case(pods: Vec<PodBuilder>, waiting: Vec<PodBuilder>) -> Case {
        let settings = Settings::for_version(Version::V1_36);
        Case { settings, pods, unscheduled: waiting, drained: BTreeSet::new(), now: NOW }
    }

    impl Case {
        /// Expects these pods to remain, and these to have been scheduled.
        #[track_caller]
        fn check(self, expected: &[&str], scheduled: &[&str]) {
            let Case { settings, pods, unscheduled: waiting, drained, now } = self;
            let mut harness = Harness::new(settings, now);
            harness.apply(testobjects::node("n").allocatable("cpu", "2").allocatable("pods", 100).added());
            pods.into_iter().for_each(|pod| harness.apply(pod.added()));
            let waiting: Vec<Object> = waiting.into_iter().map(PodBuilder::object).collect();
            waiting.iter().for_each(|pod| harness.apply(What::Added(pod.clone())));
            let order = harness.state.cluster.nodes().collect();
            harness.state.cluster.snapshot.begin_loop(order);
            let waiting: Vec<PodId> =
                waiting.iter().map(|pod| harness.pod("default", &pod.meta().name)).collect();
            let there = |harness: &Harness| -> Vec<PodId> {
                let cluster = &harness.state.cluster;
                cluster.nodes().flat_map(|node| cluster.snapshot.pods_on(node)).collect()
            };
            let before = there(&harness).len();
            let left =
                harness.with(|context| process(context, &mut HintingSimulator::default(), waiting, &drained));
            let name = |pod: &PodId| harness.state.cluster.snapshot.pod(*pod).name.name.to_string();
            assert_eq!(left.iter().map(name).collect::<Vec<_>>(), expected);
            assert_eq!(there(&harness)[before..].iter().map(name).collect::<Vec<_>>(), scheduled);
            harness.state.cluster.snapshot.end_loop();
            assert_eq!(there(&harness).len(), before);
        }

        fn drained(mut self) -> Case {
            self.drained.insert("n".into());
            self
        }
    }

    /// Cases of cluster-autoscaler's own TestFilterOutSchedulable.
    #[test]
    fn schedulable_pods_are_filtered_out() {
        let check =
            |pods: Vec<PodBuilder>, waiting: Vec<PodBuilder>, expected: &[&str], scheduled: &[&str]| {
                case(pods.into_iter().map(|pod| pod.on("n")).collect(), waiting).check(expected, scheduled);
            };
        check(vec![], vec![], &[], &[]);
        check(vec![], vec![cpu("pod", 500)], &[], &["pod"]);
        let many = || vec![cpu("pod1", 200), cpu("pod2", 500), cpu("pod3", 800)];
        check(vec![], many(), &[], &["pod1", "pod2", "pod3"]);
        check(vec![], vec![cpu("pod1", 3000)], &["pod1"], &[]);
        let various = || vec![cpu("pod1", 200), cpu("pod2", 500), cpu("pod3", 1800)];
        check(vec![], various(), &["pod3"], &["pod1", "pod2"]);
        let some = vec![cpu("pod1", 200), cpu("pod2", 500).priority(10), cpu("pod3", 1800).priority(20)];
        check(vec![], some, &["pod2"], &["pod3", "pod1"]);
        let one = vec![cpu("pod1", 500)];
        let three = vec![cpu("pod2", 1000), cpu("pod3", 300), cpu("pod4", 300)];
        check(one, three, &["pod4"], &["pod2", "pod3"]);
        let two = vec![cpu("pod1", 500), cpu("pod2", 1000)];
        let three = vec![cpu("pod3", 1000), cpu("pod4", 300), cpu("pod5", 300)];
        check(two, three, &["pod3", "pod5"], &["pod4"]);
    }

    /// Cases of cluster-autoscaler's own TestFilterOutYoungPods.
    #[test]
    fn young_pods_are_filtered_out() {
        let delayed =
            |name: &str, text: &str| cpu(name, 9000).annotation(POD_SCALE_UP_DELAY_ANNOTATION, text);
        let check = |flag: u64, minutes: i64, pods: [PodBuilder; 2], expected: &[&str]| {
            let mut case = case(vec![], pods.to_vec());
            case.settings.new_pod_scale_up_delay = Duration::from_secs(60 * flag);
            case.now = NOW.plus_nanos(minutes * 60_000_000_000);
            case.check(expected, &[]);
        };
        let p1 = || cpu("p1", 9000);
        check(0, 0, [p1(), delayed("p2", "5m")], &["p1"]);
        check(0, 5, [p1(), delayed("p2", "5m")], &["p1", "p2"]);
        check(5, 0, [p1(), delayed("p2", "5m")], &[]);
        check(5, 2, [p1(), delayed("p3", "2m")], &[]);
        check(0, 0, [p1(), delayed("p4", "error")], &["p1", "p4"]);
        // A pod exactly as old as the flag is too young.
        check(1, 0, [p1(), delayed("p3", "2m")], &[]);
    }

    #[test]
    fn expendable_pods_and_daemon_set_pods_are_filtered_out() {
        let low = cpu("low", 9000).priority(-11);
        let edge = cpu("edge", 9000).priority(-10);
        let daemon = cpu("daemon", 9000).owner("DaemonSet", "d");
        case(vec![], vec![low, edge, daemon]).check(&["edge"], &[]);
    }

    /// Cases of cluster-autoscaler's own TestCurrentlyDrainedNodesPodListProcessor.
    #[test]
    fn pods_of_drained_nodes_are_added() {
        let on = |name: &str| cpu(name, 900).on("n");
        case(vec![on("p1")], vec![cpu("p3", 9000)]).check(&["p3"], &[]);
        case(vec![on("p1"), on("p2")], vec![cpu("p3", 9000)]).drained().check(&["p3", "p1", "p2"], &[]);
        let deleted = on("p2").terminating("2026-01-01T00:00:00Z");
        case(vec![on("p1"), deleted], vec![]).drained().check(&["p1"], &[]);
        let annotated = |key: &str, value: &str| on("p1").annotation(key, value);
        let staying = [
            annotated("kubernetes.io/config.mirror", "x"),
            annotated("kubernetes.io/config.source", "file"),
            annotated("cluster-autoscaler.kubernetes.io/daemonset-pod", "true"),
            on("p1").owner("DaemonSet", "d"),
        ];
        for pod in staying {
            case(vec![pod, on("p2")], vec![]).drained().check(&["p2"], &[]);
        }
        let from_server = annotated("kubernetes.io/config.source", "api");
        case(vec![from_server, on("p2")], vec![]).drained().check(&["p1", "p2"], &[]);
    }

    #[test]
    fn tpu_requests_are_cleared() {
        let tpu = |name: &str, resource: &str| pod(name).request("cpu", "1").request(resource, 8);
        let waiting = vec![tpu("a", "cloud-tpus.google.com/v2"), tpu("b", "example.com/other")];
        case(vec![], waiting).check(&["b"], &["a"]);
    }
}
