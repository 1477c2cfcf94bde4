//! The second pass over a recording: its replay in virtual time.

mod batches;

use std::collections::BTreeMap;

use history::{History, Selection};
use kubernetes::kinds::is_secret;
use kubernetes::objects::NodeView;
use model::Moment;
use simulation::{Input, InvalidPod, Observer, PodDemand, Run, RunSetup};

use crate::demands::RecordedDemands;
use crate::demands::controller_pods::ControllerPodMatcher;
use crate::error::Error;
use crate::history_part::{HistoryPart, changes, for_each_prefetched, initial_objects};
use crate::input_stream::{self, InputStream};

pub use batches::{BatchObserver, BatchSettings, play_in_batches};

/// Observes a replay, including its input.
pub trait ReplayObserver: Observer {
    /// A demand was added.
    fn on_demand(&mut self, at: Moment, demand: &PodDemand);

    /// The replay has reached a moment.
    fn on_progress(&mut self, _now: Moment) {}

    /// Whether the replay is to continue.
    fn should_continue(&self) -> bool {
        true
    }
}

impl<T: ReplayObserver + ?Sized> ReplayObserver for &mut T {
    fn on_demand(&mut self, at: Moment, demand: &PodDemand) {
        (**self).on_demand(at, demand);
    }

    fn on_progress(&mut self, now: Moment) {
        (**self).on_progress(now);
    }

    fn should_continue(&self) -> bool {
        (**self).should_continue()
    }
}

/// The end of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayEnd {
    /// When it ended. In batches that may be later than the recording's end.
    pub at: Moment,
    /// Each unsupported controller feature that was requested, with its count.
    pub unsupported: BTreeMap<String, u64>,
}

/// Replays a part of a history.
pub fn play(
    history: &History,
    part: &HistoryPart,
    demands: &RecordedDemands,
    is_in_scaled_group: &(dyn Fn(&NodeView) -> bool + Sync),
    setup: RunSetup,
    observer: impl ReplayObserver,
) -> Result<PlayEnd, Error> {
    let from = part.window.from;
    let mut inputs = InputStream::new(demands, is_in_scaled_group);
    let mut pod_matcher = ControllerPodMatcher::new(demands);
    let mut run = new_run(setup, demands, &mut pod_matcher, observer);
    let selection = input_selection(history, part)?;
    for (_, object) in initial_objects(history, part, &selection)? {
        if let Some(input) = inputs.initial_input(from, object)? {
            submit(&mut run, from, input)?;
        }
    }
    for_each_prefetched(
        inputs.into_inputs(changes(history, part, &selection)?, part.window.to),
        |(at, input)| {
            run.advance(at);
            submit(&mut run, at, input)?;
            run.observer_mut().on_progress(at);
            if run.observer().should_continue() { Ok(()) } else { Err(Error::Stopped) }
        },
    )?;
    run.advance(part.window.to);
    let ended = PlayEnd::of(&run);
    drop(run);
    pod_matcher.finish().map_err(Error::temp_file)?;
    Ok(ended)
}

/// Creates a run with the controllers of the replay.
fn new_run<'m, F: ReplayObserver>(
    setup: RunSetup,
    demands: &RecordedDemands,
    pod_matcher: &'m mut ControllerPodMatcher<'_>,
    observer: F,
) -> Run<'m, F> {
    let (run, controller_pods) = (Run::new(setup, observer), &demands.controller_pods);
    match controller_pods.controllers() {
        [] => run,
        controllers => run.with_controllers(
            controllers,
            Some(controller_pods.template_hashes.clone()),
            Some(pod_matcher),
        ),
    }
}

fn submit(run: &mut Run<'_, impl ReplayObserver>, at: Moment, input: Input) -> Result<(), InvalidPod> {
    if let Input::Demand(parsed_demand) = &input {
        run.observer_mut().on_demand(at, &parsed_demand.demand);
    }
    run.apply_input(at, input)
}

/// The kinds that an [`InputStream`] needs. It ignores Events and Leases, which are most of a recording. Secrets, which
/// an import may have brought, must not be written again.
fn input_selection(history: &History, part: &HistoryPart) -> Result<Selection, Error> {
    let sources = history.summary()?.sources.into_iter().filter(|source| source.name == part.source);
    let kinds = sources.flat_map(|source| source.kinds).map(|kind| kind.kind);
    let kinds = kinds.filter(|kind| !input_stream::IGNORED_KINDS.contains(&&*kind.kind) && !is_secret(kind));
    Ok(Selection { kinds: Some(kinds.collect()), source: Some(part.source.clone()), ..Selection::default() })
}

// === impl PlayEnd ===

impl PlayEnd {
    fn of<F: ReplayObserver>(run: &Run<'_, F>) -> PlayEnd {
        let unsupported = run.unsupported().map(|(what, count)| (what.to_owned(), count)).collect();
        PlayEnd { at: run.now(), unsupported }
    }
}
