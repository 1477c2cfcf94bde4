//! Tests of `Run::settle`: stable clusters, and its timeout.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use autoscaler::Delay;
use model::{Moment, What};
use scheduler::Settings;
use simulation::latency::{Latencies, LatencyKind};
use simulation::{
    ContainerExit, DemandId, Input, Observer, PodDemand, RecreatePolicy, Run, RunSetup, SimulationEvent,
};

struct NullObserver;

impl Observer for NullObserver {
    fn wants_changes(&self) -> bool {
        false
    }

    fn on_change(&mut self, _: Moment, _: What) {}

    fn on_event(&mut self, _: Moment, _: &SimulationEvent<'_>) {}
}

const START: Moment = Moment::from_nanos(1_000_000_000_000);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One node, whose pods start at once, and Jobs that create their next pod after ten seconds.
fn cluster() -> Run<'static, NullObserver> {
    let latencies = Latencies::typical()
        .with(LatencyKind::PodStart, Delay::Constant(Duration::ZERO))
        .with(LatencyKind::NextJobPod, Delay::Constant(seconds(10)));
    let mut run = Run::new(
        RunSetup { start: START, scheduler: Settings::default(), autoscaler: None, latencies, seed: 1 },
        NullObserver,
    );
    let node = testobjects::node("n").allocatable("cpu", "1").allocatable("pods", "110").ready();
    run.apply_input(START, Input::Object(node.added())).unwrap();
    run
}

/// Demands a pod. A short one exits at once, and waits for the one before.
fn demand_pod(run: &mut Run<'_, NullObserver>, id: u64, cpu: &str, is_short: bool) {
    let pod = testobjects::pod(&format!("p{id}")).request("cpu", cpu);
    let pod = pod.set("spec.schedulerName", "default-scheduler").object();
    let demand = PodDemand {
        id: DemandId(id),
        pod,
        after: (is_short && id > 0).then(|| DemandId(id - 1)),
        initial_state: None,
        recreate: RecreatePolicy::Never,
        replica_set: None,
        exit: is_short.then_some(ContainerExit { after: Duration::ZERO, fails: false }),
        incarnations: Vec::new(),
        not_recreated_for: None,
    };
    run.apply_input(START, Input::parse_demand(demand).unwrap()).unwrap();
}

#[test]
fn a_cluster_is_stable_when_its_pods_are_placed_or_unschedulable() {
    let mut run = cluster();
    demand_pod(&mut run, 1, "100m", false);
    demand_pod(&mut run, 2, "9", false);
    assert!(!run.is_stable());
    assert!(run.settle(seconds(60)));
    assert!(run.is_stable());
    assert!(run.now().nanos_since(START) < 1_000_000_000, "{}", run.now());
}

#[test]
fn settling_has_a_timeout() {
    let mut run = cluster();
    for id in 0..50 {
        demand_pod(&mut run, id, "100m", true);
    }
    assert!(!run.settle(seconds(60)), "pods follow each other for eight minutes");
    let waited = run.now().nanos_since(START) / 1_000_000_000;
    assert!((50..=60).contains(&waited), "{waited}");
    assert!(run.settle(seconds(1_000)), "until there are no more");
    assert!(run.now().nanos_since(START) / 1_000_000_000 >= 490);
}
