//! A working day in the cluster of a web shop: the history behind the demo.
//!
//! A hundred nodes run a web shop, its databases and its batch jobs. Users' changes are scripted here; the controllers,
//! the scheduler and the autoscaler of [`simulation`] react to them, and every change is recorded.

mod inventory;
mod load;
mod nodes;
mod recorder;
mod run_times;
mod script;
#[cfg(test)]
mod tests;
mod yaml;

use std::time::Duration;

use autoscaler::Delay;
use controllers::Controller;
use model::{IncomingChange, Key, Moment};
use simulation::latency::{Latencies, LatencyKind};
use simulation::{AutoscalerSetup, Input, Run, RunSetup, SimulatedCloud};

use self::nodes::{Fleet, SCALED_POOLS};
use self::recorder::ShopRecorder;
use self::run_times::RunTimes;
use self::script::DayScript;
use crate::objects::SECOND;
use crate::rng::SeededRng;

/// The moments and objects of a day that the demo shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayHighlights {
    /// The beginning of the recording.
    pub begin: Moment,
    /// The end of the recording.
    pub end: Moment,
    /// A version is rolled out that requires a disk that no node has.
    pub bad_rollout: Moment,
    /// A sale begins, for which the cluster is too small.
    pub sale: Moment,
    /// A node becomes unreachable.
    pub node_lost: Moment,
    /// A moment at which all of these problems are visible.
    pub bad_moment: Moment,
    /// A fixed version is rolled out.
    pub rollout_fixed: Moment,
    /// The sale ends.
    pub sale_over: Moment,
    /// The Deployment with the bad version.
    pub broken_deployment: Key,
    /// A pending pod of that Deployment at the bad moment.
    pub unmatched_pod: Option<Key>,
    /// A pod that is pending for lack of resources at the bad moment.
    pub waiting_pod: Option<Key>,
    /// A pod that was preempted during the sale.
    pub preempted_pod: Option<Key>,
    /// The node that became unreachable.
    pub lost_node: Option<Key>,
}

/// The name under which the day's cluster is recorded.
pub const SOURCE: &str = "shop";

/// Monday, 2 November 2026, 07:00 UTC.
const BEGIN: i64 = 1_793_602_800 * SECOND;
const DAY_LENGTH: i64 = 12 * 3_600 * SECOND;
/// How long the simulation runs before the recording begins, so that the cluster has settled.
const WARM_UP: i64 = 3_600 * SECOND;

/// The duration of an autoscaler loop. The status, which names the loop's beginning, is written at its end.
const LOOP_DURATION: i64 = 400 * SECOND / 1_000;

/// Simulates the shop's Monday from 07:00 to 19:00, as a recorder would have recorded it: `each` receives the changes
/// in order of arrival, beginning with a list of all objects. The seed determines names and latencies, not the events.
pub fn day(seed: u64, mut each: impl FnMut(IncomingChange)) -> DayHighlights {
    simulate_day(seed, &mut |observed| {
        each(observed);
        true
    })
    .expect("a callback that always continues runs the story to its end")
}

/// The first `count` changes of that day.
pub fn first_changes(seed: u64, count: usize) -> Vec<IncomingChange> {
    let mut changes = Vec::with_capacity(count);
    simulate_day(seed, &mut |observed| {
        changes.push(observed);
        changes.len() < count
    });
    changes
}

/// Simulates the day. Returns `None` if `each` returned false, which stops the simulation.
fn simulate_day(seed: u64, each: &mut dyn FnMut(IncomingChange) -> bool) -> Option<DayHighlights> {
    let begin = Moment::from_nanos(BEGIN);
    let (start, end) = (begin.plus_nanos(-WARM_UP), begin.plus_nanos(DAY_LENGTH));
    let mut rng = SeededRng::new(seed);
    let fleet = Fleet::new(&mut rng, start);
    let mut cloud = SimulatedCloud::new(fleet.groups, seed);
    for (group, names) in SCALED_POOLS.iter().zip(fleet.names) {
        cloud = cloud.with_node_names(group.name, names);
    }
    let autoscaler = inventory::autoscaler_deployment(start);
    let setup = RunSetup {
        start,
        scheduler: scheduler::Settings::default(),
        autoscaler: Some(AutoscalerSetup {
            settings: inventory::autoscaler_settings(&autoscaler),
            cloud,
            start,
        }),
        latencies: latencies(&mut rng),
        seed,
    };
    let mut run_times = RunTimes::new(rng.fork());
    let run = Run::new(setup, ShopRecorder::new(SOURCE));
    let mut run = run.with_controllers(&Controller::ALL, None, Some(&mut run_times));
    let apply_input = |run: &mut Run<'_, ShopRecorder>, at: Moment, what| {
        run.advance(at);
        run.apply_input(at, Input::Object(what)).expect("the input contains workloads, no pods");
    };
    let objects = inventory::initial_objects(start).into_iter().chain([autoscaler]).chain(fleet.nodes);
    for object in objects {
        apply_input(&mut run, start, model::What::Added(object));
    }
    let mut script = DayScript::new(begin, rng.fork());
    while let Some(at) = script.next_due().filter(|at| *at < end) {
        if at >= begin && !run.observer().is_recording() {
            run.advance(begin);
            run.observer_mut().start_recording(begin);
        }
        run.advance(at);
        for what in script.run_due(at, run.observer()) {
            apply_input(&mut run, at, what);
        }
        if !run.observer_mut().take_changes().all(&mut *each) {
            return None;
        }
    }
    run.advance(end);
    let mut recorder = run.into_observer();
    let goes_on = recorder.take_changes().all(each);
    goes_on.then(|| script.highlights(begin, end, &recorder))
}

/// The latencies: container starts include image pulls, and containers take their time to terminate.
fn latencies(rng: &mut SeededRng) -> Latencies {
    let mut spans = |from: i64, to: i64| {
        let draws = (0..64).map(|_| Duration::from_millis(rng.between(from..=to).unsigned_abs()));
        Delay::Samples(draws.collect())
    };
    let latencies = Latencies::typical()
        .with(LatencyKind::PodStart, spans(1_200, 9_000))
        .with(LatencyKind::PodDeletion, spans(600, 6_000));
    let lasting = Delay::Constant(Duration::from_nanos(LOOP_DURATION.unsigned_abs()));
    latencies
        .with(LatencyKind::Bind, spans(6, 30))
        .with(LatencyKind::StatusPatch, spans(4, 20))
        .with(LatencyKind::AutoscalerLoop, lasting)
}
