//! Replays of histories in virtual time.

mod batches;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use calibration::observed::ObservedChange;
use controllers::Controller;
use history::{Changes, History, Selection};
use kubernetes::kinds::is_secret;
use model::{Key, Kind, Moment, Object, What, Window};
use simulation::{Input, InvalidPod, Observer, PodDemand, Run, RunSetup};

use crate::demands::controller_pods::ControllerPodMatcher;
use crate::demands::{DemandExtractor, RecordedDemands};
use crate::error::Error;
use crate::input_stream::{self, InputStream};
use crate::recording_metrics::RecordingMeter;

pub use batches::{BatchObserver, BatchSettings, play_in_batches};

/// A part of a history.
#[derive(Clone, Debug)]
pub struct HistoryPart {
    /// The source.
    pub source: Arc<str>,
    /// The time window.
    pub window: Window,
}

/// The number of items per chunk that is read ahead, and the number of such chunks.
const CHUNK_LEN: usize = 256;
const CHUNKS_AHEAD: usize = 4;

/// The maximum duration of a recorder's initial lists.
const MAX_INITIAL_LIST_NANOS: i64 = 60 * 1_000_000_000;

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

/// Returns the first moment of a source, and the moment from which it is complete: an object that is older than the
/// recording and observed for the first time belongs to the recorder's initial list.
pub fn complete_from(
    history: &History,
    source: &Arc<str>,
    first: Moment,
    end: Moment,
) -> Result<(Moment, Moment), history::Error> {
    let selection = Selection { source: Some(source.clone()), ..Selection::default() };
    let (mut start, mut complete) = (None, first);
    for change in history.between(Window { from: first, to: end.plus_nanos(1) }, &selection)? {
        let change = change?;
        let start = *start.get_or_insert(change.at);
        if change.at.nanos_since(start) > MAX_INITIAL_LIST_NANOS {
            break;
        }
        let created =
            creation_timestamp(change.what.object()).and_then(|created| created.parse::<Moment>().ok());
        // Objects without a creation timestamp are old if they are observed at the first moment. Creation timestamps
        // are whole seconds: an object created in the first one may be new.
        let second = start.plus_nanos(-start.nanos().rem_euclid(1_000_000_000));
        let is_old = created.map_or(change.at == start, |created| created < second);
        if is_old && matches!(change.what, What::Added(_)) {
            complete = change.at;
        }
    }
    let start = start.unwrap_or(first);
    Ok((start, complete.max(start)))
}

/// Extracts the demands of a part of a history, for a replay with these controllers and, if `autoscaler_runs`, an
/// autoscaler; `meter` collects metrics of the recording. `class_of` returns the class of a node. An error of
/// `each` ends it.
pub fn extract_demands(
    history: &History,
    part: &HistoryPart,
    autoscaler_runs: bool,
    controllers: &[Controller],
    class_of: &dyn Fn(&Object) -> Option<Arc<str>>,
    mut meter: Option<&mut RecordingMeter>,
    mut each: impl FnMut(Moment, &ObservedChange) -> Result<(), Error>,
) -> Result<RecordedDemands, Error> {
    let from = part.window.from;
    let mut extractor =
        DemandExtractor::new(from, autoscaler_runs, controllers, class_of).map_err(Error::temp_file)?;
    let mut observe_change = |at: Moment, observed: &ObservedChange| {
        if let Some(meter) = &mut meter {
            meter.observe(at, observed, class_of);
        }
        each(at, observed)
    };
    let everything = Selection { source: Some(part.source.clone()), ..Selection::default() };
    for (key, object) in initial_objects(history, part, &everything)? {
        let observed = ObservedChange::parse(key, What::Added(object));
        extractor.observe_initial(&observed).map_err(Error::temp_file)?;
        observe_change(from, &observed)?;
    }
    let changes = changes(history, part, &everything)?;
    for_each_prefetched(
        changes.map(|change| {
            Ok(change.map(|read_change| {
                (read_change.at, ObservedChange::parse(read_change.key, read_change.what))
            })?)
        }),
        |(at, observed)| {
            extractor.observe(at, &observed).map_err(Error::temp_file)?;
            observe_change(at, &observed)
        },
    )?;
    extractor.finish(part.window.to).map_err(Error::temp_file)
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
    is_scaled: &(dyn Fn(&Object) -> bool + Sync),
    setup: RunSetup,
    observer: impl ReplayObserver,
) -> Result<PlayEnd, Error> {
    let from = part.window.from;
    let mut inputs = InputStream::new(demands, is_scaled);
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

/// The changes of a part after its beginning.
fn changes(history: &History, part: &HistoryPart, selection: &Selection) -> Result<Changes, history::Error> {
    history.between(Window { from: part.window.from.plus_nanos(1), to: part.window.to }, selection)
}

/// Calls `each` for every item, in order, until the first error. A separate thread reads ahead.
fn for_each_prefetched<T: Send>(
    mut read: impl Iterator<Item = Result<T, Error>> + Send,
    mut each: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::sync_channel::<Vec<_>>(CHUNKS_AHEAD);
        scope.spawn(move || {
            loop {
                let batch: Vec<_> = read.by_ref().take(CHUNK_LEN).collect();
                // The receiver is gone if the replay has ended.
                if batch.is_empty() || sender.send(batch).is_err() {
                    return;
                }
            }
        });
        for item in receiver.into_iter().flatten() {
            each(item?)?;
        }
        Ok(())
    })
}

/// The objects at the beginning of a part: other kinds first, then nodes, then pods by creation timestamp.
fn initial_objects(
    history: &History,
    part: &HistoryPart,
    selection: &Selection,
) -> Result<Vec<(Key, Object)>, Error> {
    let mut objects: Vec<(u8, Option<String>, Key, Object)> = Vec::new();
    history.for_each_at(part.window.from, selection, |version| {
        let kind = &version.key.kind;
        let order = if *kind == Kind::new("", "Pod") {
            2
        } else if *kind == Kind::new("", "Node") {
            1
        } else {
            0
        };
        let age = if order == 2 { creation_timestamp(&version.object) } else { None };
        objects.push((order, age, version.key, version.object));
    })?;
    objects.sort_unstable_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
    Ok(objects.into_iter().map(|(.., key, object)| (key, object)).collect())
}

/// The creation timestamp of an object.
fn creation_timestamp(object: &Object) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        creation_timestamp: Option<String>,
    }
    object.view::<Outer>().ok()?.metadata.creation_timestamp
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
