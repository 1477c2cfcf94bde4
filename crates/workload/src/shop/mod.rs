//! A working day in the cluster of a shop: the story behind the demo.
//!
//! A hundred nodes carry a web shop, its databases and its batch work. What people want of them is made up here; what
//! comes of it is decided by the controllers, the scheduler and the autoscaler of [`simulation`], and filmed.

mod film;
mod hands;
mod inventory;
mod load;
mod nodes;
mod runs;
#[cfg(test)]
mod tests;
mod yaml;

use std::time::Duration;

use autoscaler::Delay;
use controllers::Controller;
use model::{Key, Moment, Observed};
use simulation::pace::{Pace, Step};
use simulation::{AutoscalerSetup, Given, Run, Setup, SimulatedCloud};

use self::film::Film;
use self::hands::Hands;
use self::nodes::{Fleet, GROUPS};
use self::runs::RunTimes;
use crate::chance::Chance;
use crate::objects::SECOND;

/// The moments and objects of a day that are worth a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    /// When the recording begins.
    pub begin: Moment,
    /// When it ends.
    pub end: Moment,
    /// A version is rolled out that asks for nodes that nobody has.
    pub bad_rollout: Moment,
    /// A sale begins, for which there are not enough nodes.
    pub sale: Moment,
    /// A node is not heard of any more.
    pub node_lost: Moment,
    /// When all of this shows.
    pub bad_moment: Moment,
    /// The version is mended.
    pub mended: Moment,
    /// The sale is over.
    pub sale_over: Moment,
    /// The Deployment of that version.
    pub broken_deployment: Key,
    /// A pod of it, which waits at the bad moment.
    pub misplaced_pod: Option<Key>,
    /// A pod that waits for room at the bad moment.
    pub waiting_pod: Option<Key>,
    /// A pod that had to make room for the sale.
    pub preempted_pod: Option<Key>,
    /// The node that got lost.
    pub lost_node: Option<Key>,
}

/// The name under which the day's cluster is recorded.
pub const SOURCE: &str = "shop";

/// Monday, 2 November 2026, 07:00 UTC.
const BEGIN: i64 = 1_793_602_800 * SECOND;
const LENGTH: i64 = 12 * 3_600 * SECOND;
/// The cluster lives for a while before anyone records it, so that it has come to rest.
const BEFORE: i64 = 3_600 * SECOND;

/// How long a loop of the autoscaler takes: its status, which tells when it began, comes then.
const LOOP_LASTS: i64 = 400 * SECOND / 1_000;

/// The shop's Monday from 07:00 to 19:00, as a recorder would have seen it: each change is handed over in order of
/// arrival, beginning with a list of all that was there. The seed decides names and delays, not the story.
pub fn day(seed: u64, mut each: impl FnMut(Observed)) -> Story {
    live(seed, &mut |observed| {
        each(observed);
        true
    })
    .expect("whoever wants every change hears the story to its end")
}

/// The first changes of that day.
pub fn beginning(seed: u64, count: usize) -> Vec<Observed> {
    let mut changes = Vec::with_capacity(count);
    live(seed, &mut |observed| {
        changes.push(observed);
        changes.len() < count
    });
    changes
}

/// Lives through the day until whoever listens has heard enough; `None` then.
fn live(seed: u64, each: &mut dyn FnMut(Observed) -> bool) -> Option<Story> {
    let begin = Moment::from_nanos(BEGIN);
    let (start, end) = (begin.plus_nanos(-BEFORE), begin.plus_nanos(LENGTH));
    let mut chance = Chance::new(seed);
    let fleet = Fleet::new(&mut chance, start);
    let mut cloud = SimulatedCloud::new(fleet.groups, seed);
    for (group, names) in GROUPS.iter().zip(fleet.names) {
        cloud = cloud.with_names(group.name, names);
    }
    let autoscaler = inventory::autoscaler(start);
    let setup = Setup {
        start,
        scheduler: scheduler::Settings::default(),
        autoscaler: Some(AutoscalerSetup { settings: inventory::settings(&autoscaler), cloud, start }),
        pace: pace(&mut chance),
        seed,
    };
    let mut run_times = RunTimes::new(chance.fork());
    let run = Run::new(setup, Film::new(SOURCE));
    let mut run = run.with_controllers(&Controller::ALL, None, Some(&mut run_times));
    let give = |run: &mut Run<'_, Film>, at: Moment, what| {
        run.advance(at);
        run.give(at, Given::Object(what)).expect("no pods are given, but workloads");
    };
    let objects = inventory::all(start).into_iter().chain([autoscaler]).chain(fleet.nodes);
    for object in objects {
        give(&mut run, start, model::What::Added(object));
    }
    let mut hands = Hands::new(begin, chance.fork());
    while let Some(at) = hands.next().filter(|at| *at < end) {
        if at >= begin && !run.observer().is_rolling() {
            run.advance(begin);
            run.observer_mut().roll(begin);
        }
        run.advance(at);
        for what in hands.work(at, run.observer()) {
            give(&mut run, at, what);
        }
        if !run.observer_mut().developed().all(&mut *each) {
            return None;
        }
    }
    run.advance(end);
    let mut film = run.into_observer();
    let goes_on = film.developed().all(each);
    goes_on.then(|| hands.story(begin, end, &film))
}

/// How long things take: pods start when their images are there, programs end in their own time.
fn pace(chance: &mut Chance) -> Pace {
    let mut spans = |from: i64, to: i64| {
        let draws = (0..64).map(|_| Duration::from_millis(chance.between(from..=to).unsigned_abs()));
        Delay::Measured(draws.collect())
    };
    let pace = Pace::usual().with(Step::Start, spans(1_200, 9_000)).with(Step::End, spans(600, 6_000));
    let lasting = Delay::Constant(Duration::from_nanos(LOOP_LASTS.unsigned_abs()));
    pace.with(Step::Bind, spans(6, 30)).with(Step::Refuse, spans(4, 20)).with(Step::Loop, lasting)
}
