//! Replays in batches: pods are created together, and each batch waits until the cluster has settled.

use std::time::Duration;

use history::History;
use kubernetes::objects::NodeView;
use model::Moment;
use simulation::{InitialPodState, Input, Run, RunSetup};

use super::{
    HistoryPart, PlayEnd, ReplayObserver, changes, for_each_prefetched, initial_objects, input_selection,
    new_run, submit,
};
use crate::demands::RecordedDemands;
use crate::demands::controller_pods::ControllerPodMatcher;
use crate::error::Error;
use crate::input_stream::InputStream;

/// Settings of a replay in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    /// The length of a batch in recorded time; not zero.
    pub interval: Duration,
    /// How long to wait after the last node was added for a cluster that does not settle.
    pub settle_timeout: Duration,
}

/// Observes a replay in batches.
pub trait BatchObserver: ReplayObserver {
    /// A batch with pods starts at `now`; its recorded time began at `recorded`. Later calls belong to it.
    fn on_batch_started(&mut self, recorded: Moment, now: Moment);

    /// The pods of the batch were created.
    fn on_batch_submitted(&mut self, now: Moment);

    /// The cluster has settled after them, or the wait timed out.
    fn on_batch_settled(&mut self, now: Moment, stable: bool);
}

impl<T: BatchObserver + ?Sized> BatchObserver for &mut T {
    fn on_batch_started(&mut self, recorded: Moment, now: Moment) {
        (**self).on_batch_started(recorded, now);
    }

    fn on_batch_submitted(&mut self, now: Moment) {
        (**self).on_batch_submitted(now);
    }

    fn on_batch_settled(&mut self, now: Moment, stable: bool) {
        (**self).on_batch_settled(now, stable);
    }
}

/// The inputs of one batch, in order.
#[derive(Default)]
struct PendingBatch {
    number: u64,
    pods: Vec<Input>,
    others: Vec<(Moment, Input)>,
}

/// Replays a part of a history in batches.
///
/// Pods that were created within a batch interval are created together at its beginning, those that were pending when
/// the part began first. When the cluster has settled, the other inputs of the interval are applied at their own times,
/// and the cluster settles again. If that takes longer than the interval, the next batch starts late; later the clock
/// catches up with recorded time. Time passes over intervals without input. Returns the end, which may be late too.
pub fn play_in_batches(
    history: &History,
    part: &HistoryPart,
    demands: &RecordedDemands,
    is_in_scaled_group: &(dyn Fn(&NodeView) -> bool + Sync),
    setup: RunSetup,
    settings: BatchSettings,
    observer: impl BatchObserver,
) -> Result<PlayEnd, Error> {
    let from = part.window.from;
    let mut inputs = InputStream::new(demands, is_in_scaled_group);
    let mut pod_matcher = ControllerPodMatcher::new(demands);
    let mut player = BatchPlayer {
        run: new_run(setup, demands, &mut pod_matcher, observer),
        from,
        settings,
        batch: PendingBatch::default(),
    };
    let selection = input_selection(history, part)?;
    for (_, object) in initial_objects(history, part, &selection)? {
        match inputs.initial_input(from, object)? {
            Some(input) if is_pending(&input) => player.batch.pods.push(input),
            Some(input) => submit(&mut player.run, from, input)?,
            None => {}
        }
    }
    for_each_prefetched(
        inputs.into_inputs(changes(history, part, &selection)?, part.window.to),
        |(at, input)| {
            player.add(at, input)?;
            if player.run.observer().should_continue() { Ok(()) } else { Err(Error::Stopped) }
        },
    )?;
    player.play_batch()?;
    player.run.advance(part.window.to);
    let ended = PlayEnd::of(&player.run);
    drop(player);
    pod_matcher.finish().map_err(Error::temp_file)?;
    Ok(ended)
}

/// Whether the input is a pod that is pending when the part begins.
fn is_pending(input: &Input) -> bool {
    match input {
        Input::Demand(parsed_demand) => {
            matches!(
                parsed_demand.demand.initial_state,
                Some(InitialPodState { node: None, is_terminating: false, .. })
            )
        }
        Input::Object(_)
        | Input::Withdrawn(_)
        | Input::CleanedUp(_)
        | Input::PodDeleted(_)
        | Input::PodChanged(..) => false,
    }
}

struct BatchPlayer<'m, F> {
    run: Run<'m, F>,
    from: Moment,
    settings: BatchSettings,
    batch: PendingBatch,
}

impl<F: BatchObserver> BatchPlayer<'_, F> {
    /// Adds an input at its recorded moment to its batch, and plays the previous batch if it is complete.
    fn add(&mut self, at: Moment, input: Input) -> Result<(), Error> {
        let since = u128::try_from(at.nanos_since(self.from)).unwrap_or(0);
        let number = u64::try_from(since / self.settings.interval.as_nanos().max(1)).unwrap_or(u64::MAX);
        if number != self.batch.number {
            self.play_batch()?;
            self.batch.number = number;
        }
        match input {
            Input::Demand(_) => self.batch.pods.push(input),
            Input::Object(_)
            | Input::Withdrawn(_)
            | Input::CleanedUp(_)
            | Input::PodDeleted(_)
            | Input::PodChanged(..) => {
                self.batch.others.push((at, input));
            }
        }
        Ok(())
    }

    fn play_batch(&mut self) -> Result<(), Error> {
        let PendingBatch { number, pods, others } = std::mem::take(&mut self.batch);
        let nanos = u128::from(number) * self.settings.interval.as_nanos();
        let batch_start = self.from.plus_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        self.run.advance(batch_start);
        if !pods.is_empty() {
            let now = self.run.now();
            self.run.observer_mut().on_batch_started(batch_start, now);
            if !self.run.observer().should_continue() {
                return Err(Error::Stopped);
            }
            for input in pods {
                submit(&mut self.run, batch_start, input)?;
            }
            let now = self.run.now();
            self.run.observer_mut().on_batch_submitted(now);
            let stable = self.run.settle(self.settings.settle_timeout);
            let now = self.run.now();
            self.run.observer_mut().on_batch_settled(now, stable);
        }
        let has_others = !others.is_empty();
        for (at, input) in others {
            self.run.advance(at);
            submit(&mut self.run, at, input)?;
        }
        if has_others {
            self.run.settle(self.settings.settle_timeout);
        }
        let now = self.run.now();
        self.run.observer_mut().on_progress(now);
        Ok(())
    }
}
