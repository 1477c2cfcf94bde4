//! How long things take in a cluster: what passes between a decision and what others see of it.
//!
//! The model of the scheduler behind it: one loop tries pods one after the other. Each try computes for `Attempt`. One
//! that refuses a pod, and has something new to say about it, writes that into the pod's status and waits for `Refuse`;
//! the pod is back in the queue before that. One that places a pod does not wait: the pod shows its node `Bind` after
//! the try began.

use std::collections::BTreeMap;
use std::time::Duration;

use autoscaler::{Delay, Work};
use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// The scheduler makes up its mind about a pod.
    Attempt,
    /// A pod is refused, until the scheduler has told so in its status; meanwhile it tries no other. Where the
    /// condition and the nomination are what they were, nothing is written and it does not wait.
    Refuse,
    /// The try that places a pod begins, until the pod shows its node.
    Bind,
    /// The scheduler decides to preempt, or deleted the last victim, until the next victim is marked for deletion.
    Preempt,
    /// A pod shows its node, until it runs.
    Start,
    /// A pod on a node is marked for deletion, until it is gone.
    End,
    /// A pod that nothing has to be stopped for is marked for deletion, until it is gone: one without a node, or that
    /// has ended.
    Vanish,
    /// A controller could know that it lost a pod, until its successor is there. A ReplicaSet knows by the mark for
    /// deletion, a StatefulSet when the pod is gone.
    Again,
    /// A Job's pod has succeeded, until the next one is there.
    NextOfJob,
    /// A node registers, until a DaemonSet's pod for it is there.
    Daemon,
    /// A node is gone, until the pods that it left behind are. They go together.
    Collect,
    /// A loop of the autoscaler begins, until it has told its status: the next one does not begin before.
    Loop,
}

/// How long each step takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<Step, Delay>")]
pub struct Pace(BTreeMap<Step, Delay>);

/// A pace that is followed: draws how long each step takes, one after the other.
///
/// Draws are spread evenly instead of being left to chance: a few of them already have the mean of what was measured.
/// A queue that is always full adds up what its tries cost, and with draws by chance the waits in it would differ by a
/// fifth from seed to seed.
#[derive(Clone, Debug)]
pub struct Pacer {
    pace: Pace,
    /// By step, in the order of `Step::ALL`: where the draws begin.
    first: [u64; Step::ALL.len()],
    /// Where the next draw falls, as a fraction of 2⁶⁴.
    turns: [u64; Step::ALL.len()],
}

/// 2⁶⁴ divided by the golden ratio: multiples of it fill a circle more evenly than those of any other number.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a loop of the autoscaler takes: a write, and a look at every node, once for itself and once for every pod that
/// waits. cluster-autoscaler 1.36 was seen to take some 20 µs for one with 500 and with 2,000 nodes. It stops to look
/// for nodes of a group after 10 s.
const LOOP: Work =
    Work { least: Duration::from_millis(50), each: Duration::from_micros(20), most: Duration::from_secs(10) };

// === impl Step ===

impl Step {
    /// All of them, in order.
    pub const ALL: [Step; 12] = [
        Step::Attempt,
        Step::Refuse,
        Step::Bind,
        Step::Preempt,
        Step::Start,
        Step::End,
        Step::Vanish,
        Step::Again,
        Step::NextOfJob,
        Step::Daemon,
        Step::Collect,
        Step::Loop,
    ];

    /// What to expect where nothing was measured.
    fn usual(self) -> Delay {
        Delay::Constant(match self {
            // Schedulers get through some hundreds of pods a second.
            Step::Attempt => Duration::from_millis(2),
            // One write to an API server that is not short of anything.
            Step::Refuse | Step::Bind | Step::Vanish => Duration::from_millis(10),
            // Two of them: the victim's condition, then its deletion.
            Step::Preempt => Duration::from_millis(20),
            // Sandbox and containers, their images being there already.
            Step::Start => Duration::from_secs(2),
            // Programs that end when they are asked to.
            Step::End => Duration::from_secs(2),
            // A watch and a write.
            Step::Again | Step::Daemon => Duration::from_millis(50),
            // The Job controller gathers changes of pods for a second.
            Step::NextOfJob => Duration::from_secs(1),
            // The collector comes by every 20 seconds, and gives a node that it misses 40 to come back.
            Step::Collect => Duration::from_secs(60),
            Step::Loop => return Delay::ByWork(LOOP),
        })
    }
}

// === impl Pace ===

impl Pace {
    /// What to expect where nothing was measured.
    pub fn usual() -> Pace {
        Pace(Step::ALL.map(|step| (step, step.usual())).into())
    }

    /// How long a step takes.
    pub fn of(&self, step: Step) -> &Delay {
        &self.0[&step]
    }

    /// The same with another delay for a step.
    #[must_use]
    pub fn with(mut self, step: Step, delay: Delay) -> Pace {
        self.0.insert(step, delay);
        self
    }
}

impl From<BTreeMap<Step, Delay>> for Pace {
    /// What is not told is as usual.
    fn from(told: BTreeMap<Step, Delay>) -> Pace {
        let mut pace = Pace::usual();
        pace.0.extend(told);
        pace
    }
}

// === impl Pacer ===

impl Pacer {
    /// Follows the pace; the seed says where the draws begin.
    pub fn new(pace: Pace, seed: u64) -> Pacer {
        let mut dice = Pcg64::seed_from_u64(seed);
        let first = std::array::from_fn(|_| dice.random());
        Pacer { pace, first, turns: first }
    }

    /// How long a step takes that begins now for somebody: the same, whatever was drawn for others.
    pub fn draw_for(&self, whose: u64, step: Step, now: Moment) -> Duration {
        let mixed = (whose ^ self.first[step as usize]).wrapping_mul(GOLDEN);
        self.pace.of(step).pick(now, (mixed ^ (mixed >> 29)).wrapping_mul(GOLDEN))
    }

    /// How long a step takes that begins now and looks at so many things.
    pub fn draw_for_work(&mut self, step: Step, now: Moment, things: u64) -> Duration {
        self.pace.of(step).of_work(things).unwrap_or_else(|| self.draw(step, now))
    }

    /// How long a step takes that begins now.
    pub fn draw(&mut self, step: Step, now: Moment) -> Duration {
        let turn = &mut self.turns[step as usize];
        *turn = turn.wrapping_add(GOLDEN);
        self.pace.of(step).pick(now, *turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn steps_stand_at_their_places() {
        for (place, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, place);
        }
    }

    #[test]
    fn a_pace_survives_being_written() {
        let timed = Delay::ByTime(vec![
            (at(-1), Duration::from_nanos(7)),
            (at(9), Duration::MAX.min(Duration::from_secs(80))),
        ]);
        let measured = Delay::Measured(vec![Duration::from_micros(3), Duration::from_secs(2)]);
        let pace = Pace::usual().with(Step::Refuse, timed).with(Step::NextOfJob, measured);
        let written = serde_json::to_string(&pace).unwrap();
        assert_eq!(serde_json::from_str::<Pace>(&written).unwrap(), pace);
    }

    #[test]
    fn what_is_not_told_is_as_usual() {
        let told: Pace = serde_json::from_str(r#"{"bind": {"constantNanos": 5000}}"#).unwrap();
        assert_eq!(told, Pace::usual().with(Step::Bind, Delay::Constant(Duration::from_micros(5))));
        assert!(serde_json::from_str::<Pace>(r#"{"dawdle": {"constantNanos": 5}}"#).is_err());
        assert!(serde_json::from_str::<Pace>(r#"{"bind": {"constantNanos": -5}}"#).is_err());
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let spans = (0..100).map(|n| (at(n), Duration::from_secs(n as u64))).collect();
        let pace = Pace::usual().with(Step::Bind, Delay::ByTime(spans));
        let draws = |seed| {
            let mut pacer = Pacer::new(pace.clone(), seed);
            (0..50).map(|n| pacer.draw(Step::Bind, at(n))).collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn what_is_drawn_for_somebody_depends_on_nobody_else() {
        let spans: Vec<_> = (1..=100).map(Duration::from_secs).collect();
        let mut pacer = Pacer::new(Pace::usual().with(Step::Bind, Delay::Measured(spans)), 1);
        let alone: Vec<_> = (0..200).map(|whose| pacer.draw_for(whose, Step::Bind, at(0))).collect();
        pacer.draw(Step::Bind, at(0));
        let after: Vec<_> = (0..200).map(|whose| pacer.draw_for(whose, Step::Bind, at(0))).collect();
        assert_eq!(alone, after);
        let total: u64 = alone.iter().map(Duration::as_secs).sum();
        assert!((9_000..=11_000).contains(&total), "50 s each on average, not {total} s for 200");
    }

    #[test]
    fn few_draws_have_the_mean_of_what_was_measured() {
        // Mostly short and sometimes long, as writes are: 31 times 1 s, once 33 s, which is 2 s on average.
        let spans = (0..32).map(|n| (at(n), Duration::from_secs(if n == 7 { 33 } else { 1 }))).collect();
        let pace = Pace::usual().with(Step::Refuse, Delay::ByTime(spans));
        for seed in 0..20 {
            let mut pacer = Pacer::new(pace.clone(), seed);
            let total: Duration = (0..320).map(|_| pacer.draw(Step::Refuse, at(16))).sum();
            // By chance it would be off by 100 s in one case of three.
            assert!((600..=680).contains(&total.as_secs()), "seed {seed}: {total:?}");
        }
    }
}
