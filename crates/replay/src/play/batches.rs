//! A history played in steps: pods come together, and each step waits until the cluster has come to rest.

use std::time::Duration;

use history::History;
use model::{Moment, Object};
use simulation::{Begun, Given, Run, Setup};

use super::{Ended, Follower, Part, beginning, changes, each_ahead, give, run, what_matters};
use crate::causes::Causes;
use crate::causes::made::Recall;
use crate::error::Error;
use crate::script::Script;

/// How a history is played in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps {
    /// How long a step is; not zero.
    pub interval: Duration,
    /// How long a step may go on after the last node has come, if the cluster does not come to rest.
    pub patience: Duration,
}

/// Who follows a play in steps.
pub trait StepFollower: Follower {
    /// A step with pods begins now; its recorded time began then. What is told from now on belongs to it.
    fn batch_begins(&mut self, recorded: Moment, now: Moment);

    /// Its pods are there.
    fn batch_given(&mut self, now: Moment);

    /// The cluster has come to rest after them, or could not.
    fn batch_settled(&mut self, now: Moment, stable: bool);
}

impl<T: StepFollower + ?Sized> StepFollower for &mut T {
    fn batch_begins(&mut self, recorded: Moment, now: Moment) {
        (**self).batch_begins(recorded, now);
    }

    fn batch_given(&mut self, now: Moment) {
        (**self).batch_given(now);
    }

    fn batch_settled(&mut self, now: Moment, stable: bool) {
        (**self).batch_settled(now, stable);
    }
}

/// What is given in one step, each in its order.
#[derive(Default)]
struct Step {
    number: u64,
    pods: Vec<Given>,
    others: Vec<(Moment, Given)>,
}

/// Plays a part of a history in steps.
///
/// Pods that came within a step come together at its beginning, those first that waited when the part began. When the
/// cluster has come to rest, the rest of the step happens at its own times, and the cluster comes to rest again. If
/// that takes longer than the step, the next begins late; as soon as there is time, the clock is again that of the
/// record. Steps in which nothing is given are only time that passes. Says when it ended, which is then late too.
pub fn play_in_batches(
    history: &History,
    part: &Part,
    causes: &Causes,
    is_scaled: &(dyn Fn(&Object) -> bool + Sync),
    setup: Setup,
    steps: Steps,
    follower: impl StepFollower,
) -> Result<Ended, Error> {
    let from = part.window.from;
    let mut script = Script::new(causes, is_scaled);
    let mut recall = Recall::new(causes);
    let mut player =
        Player { run: run(setup, causes, &mut recall, follower), from, steps, step: Step::default() };
    let matters = what_matters(history, part)?;
    for (_, object) in beginning(history, part, &matters)? {
        match script.begin(from, object)? {
            Some(given) if waits(&given) => player.step.pods.push(given),
            Some(given) => give(&mut player.run, from, given)?,
            None => {}
        }
    }
    each_ahead(script.read(changes(history, part, &matters)?, part.window.to), |(at, given)| {
        player.take(at, given)?;
        if player.run.observer().goes_on() { Ok(()) } else { Err(Error::Stopped) }
    })?;
    player.play_step()?;
    player.run.advance(part.window.to);
    let ended = Ended::of(&player.run);
    drop(player);
    recall.finish().map_err(Error::kept)?;
    Ok(ended)
}

/// A pod that has no node when the part begins.
fn waits(given: &Given) -> bool {
    match given {
        Given::Asked(asked) => {
            matches!(asked.demand.begun, Some(Begun { node: None, leaving: false, .. }))
        }
        Given::Object(_)
        | Given::Withdrawn(_)
        | Given::CleanedUp(_)
        | Given::Deleted(_)
        | Given::Changed(..) => false,
    }
}

struct Player<'m, F> {
    run: Run<'m, F>,
    from: Moment,
    steps: Steps,
    step: Step,
}

impl<F: StepFollower> Player<'_, F> {
    /// Something is given at this moment of the record: it belongs to a step, and the one before is played.
    fn take(&mut self, at: Moment, given: Given) -> Result<(), Error> {
        let since = u128::try_from(at.nanos_since(self.from)).unwrap_or(0);
        let number = u64::try_from(since / self.steps.interval.as_nanos().max(1)).unwrap_or(u64::MAX);
        if number != self.step.number {
            self.play_step()?;
            self.step.number = number;
        }
        match given {
            Given::Asked(_) => self.step.pods.push(given),
            Given::Object(_)
            | Given::Withdrawn(_)
            | Given::CleanedUp(_)
            | Given::Deleted(_)
            | Given::Changed(..) => {
                self.step.others.push((at, given));
            }
        }
        Ok(())
    }

    fn play_step(&mut self) -> Result<(), Error> {
        let Step { number, pods, others } = std::mem::take(&mut self.step);
        let nanos = u128::from(number) * self.steps.interval.as_nanos();
        let begins = self.from.plus_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        self.run.advance(begins);
        if !pods.is_empty() {
            let now = self.run.now();
            self.run.observer_mut().batch_begins(begins, now);
            if !self.run.observer().goes_on() {
                return Err(Error::Stopped);
            }
            for given in pods {
                give(&mut self.run, begins, given)?;
            }
            let now = self.run.now();
            self.run.observer_mut().batch_given(now);
            let stable = self.run.settle(self.steps.patience);
            let now = self.run.now();
            self.run.observer_mut().batch_settled(now, stable);
        }
        let happens = !others.is_empty();
        for (at, given) in others {
            self.run.advance(at);
            give(&mut self.run, at, given)?;
        }
        if happens {
            self.run.settle(self.steps.patience);
        }
        let now = self.run.now();
        self.run.observer_mut().reached(now);
        Ok(())
    }
}
