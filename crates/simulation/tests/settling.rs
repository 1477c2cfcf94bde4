//! When a cluster has come to rest, and when nobody waits for it any longer.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::time::Duration;

use autoscaler::Delay;
use model::{Moment, What};
use scheduler::Settings;
use simulation::pace::{Pace, Step};
use simulation::{Again, Decided, Demand, DemandId, Given, Observer, Run, Runs, Setup};

struct Nobody;

impl Observer for Nobody {
    fn wants_changes(&self) -> bool {
        false
    }

    fn changed(&mut self, _: Moment, _: What) {}

    fn decided(&mut self, _: Moment, _: &Decided<'_>) {}
}

const START: Moment = Moment::from_nanos(1_000_000_000_000);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One node, whose pods start at once, and Jobs that make their next pod after ten seconds.
fn cluster() -> Run<'static, Nobody> {
    let pace = Pace::usual()
        .with(Step::Start, Delay::Constant(Duration::ZERO))
        .with(Step::NextOfJob, Delay::Constant(seconds(10)));
    let mut run = Run::new(
        Setup { start: START, scheduler: Settings::default(), autoscaler: None, pace, seed: 1 },
        Nobody,
    );
    let node = testobjects::node("n").allocatable("cpu", "1").allocatable("pods", "110").ready();
    run.give(START, Given::Object(node.added())).unwrap();
    run
}

/// Asks for a pod; if it has a predecessor it ends at once, as all of its kind.
fn ask(run: &mut Run<'_, Nobody>, id: u64, cpu: &str, is_short: bool) {
    let pod = testobjects::pod(&format!("p{id}")).request("cpu", cpu);
    let pod = pod.set("spec.schedulerName", "default-scheduler").object();
    let demand = Demand {
        id: DemandId(id),
        pod,
        after: (is_short && id > 0).then(|| DemandId(id - 1)),
        begun: None,
        again: Again::Never,
        set: None,
        runs: is_short.then_some(Runs { lasting: Duration::ZERO, fails: false }),
        lives: Vec::new(),
        unmade: None,
    };
    run.give(START, Given::asked(demand).unwrap()).unwrap();
}

#[test]
fn a_cluster_rests_when_its_pods_are_placed_or_refused() {
    let mut run = cluster();
    ask(&mut run, 1, "100m", false);
    ask(&mut run, 2, "9", false);
    assert!(!run.is_stable());
    assert!(run.settle(seconds(60)));
    assert!(run.is_stable());
    assert!(run.now().nanos_since(START) < 1_000_000_000, "{}", run.now());
}

#[test]
fn nobody_waits_for_ever() {
    let mut run = cluster();
    for id in 0..50 {
        ask(&mut run, id, "100m", true);
    }
    assert!(!run.settle(seconds(60)), "a pod follows on the other for eight minutes");
    let waited = run.now().nanos_since(START) / 1_000_000_000;
    assert!((50..=60).contains(&waited), "{waited}");
    assert!(run.settle(seconds(1_000)), "until there are no more");
    assert!(run.now().nanos_since(START) / 1_000_000_000 >= 490);
}
