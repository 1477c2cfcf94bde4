//! The part of a recording that is replayed into a live API server, translated into API operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use history::Selection;
use live::apply::{Applier, ReplaySpeed};
use live::translate::{ApiOperation, Translator};
use model::{Change, Moment, What, Window};
use query::OpenHistory;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::Instant;

use super::{LiveProgress, LiveReplayObserver};

/// A part of a recording.
pub(super) struct RecordedPart<'a> {
    pub(super) open_history: &'a OpenHistory,
    pub(super) everything: Selection,
    pub(super) from: Moment,
    pub(super) end: Moment,
}

/// The initial objects: operations that are still to be performed, and the moment from which changes follow.
pub(super) struct InitialOperations {
    operations: Vec<ApiOperation>,
    from: Moment,
}

/// The interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// The number of operations read ahead.
const OPERATIONS_AHEAD: usize = 1024;

// === impl RecordedPart ===

impl RecordedPart<'_> {
    /// Brings a translator to the position from which a run continues: earlier operations are done.
    pub(super) fn catch_up(
        &self,
        translator: &mut Translator,
        position: Option<Moment>,
    ) -> anyhow::Result<InitialOperations> {
        let operations = self.initial_operations(translator)?;
        match position.filter(|position| *position > self.from) {
            None => Ok(InitialOperations { operations, from: self.from.plus_nanos(1) }),
            Some(position) => {
                let before = Window { from: self.from.plus_nanos(1), to: position };
                for change in self.open_history.history.between(before, &self.everything)? {
                    translator.translate_change(&change?);
                }
                Ok(InitialOperations { operations: Vec::new(), from: position })
            }
        }
    }

    /// Creates the initial objects, as fast as the server accepts them.
    pub(super) fn create_initial(
        &self,
        runtime: &Runtime,
        applier: &Arc<Applier>,
        initial_operations: &mut InitialOperations,
    ) -> anyhow::Result<()> {
        let initial = std::mem::take(&mut initial_operations.operations);
        apply_all(runtime, applier, (ReplaySpeed::Max, self.from), |sender| {
            send(sender, initial);
            Ok(())
        })
    }

    /// Replays all changes after the beginning, each when it is due.
    pub(super) fn play(
        &self,
        runtime: &Runtime,
        applier: &Arc<Applier>,
        translator: &mut Translator,
        initial_operations: &InitialOperations,
        replay_speed: ReplaySpeed,
        observer: &mut dyn LiveReplayObserver,
    ) -> anyhow::Result<()> {
        let remaining = Window { from: initial_operations.from, to: self.end.plus_nanos(1) };
        let mut progress = observer.playing(self.from, self.end);
        let shown = Window { from: initial_operations.from, to: self.end };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| report_progress(&mut progress, applier, replay_speed, shown, &is_over));
            let played = apply_all(runtime, applier, (replay_speed, self.end), |sender| {
                for change in self.open_history.history.between(remaining, &self.everything)? {
                    if !send(sender, translator.translate_change(&change?)) {
                        break;
                    }
                }
                Ok(())
            });
            is_over.store(true, Ordering::Relaxed);
            played
        })
    }

    /// Calls `each` for every operation, without performing it.
    pub(super) fn for_each_operation(
        &self,
        translator: &mut Translator,
        mut each: impl FnMut(ApiOperation),
    ) -> anyhow::Result<()> {
        self.initial_operations(translator)?.into_iter().for_each(&mut each);
        let remaining = Window { from: self.from.plus_nanos(1), to: self.end.plus_nanos(1) };
        for change in self.open_history.history.between(remaining, &self.everything)? {
            translator.translate_change(&change?).into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// Calls `each` for every change, and first for the initial objects as if they had been added then.
    pub(super) fn for_each_change(&self, mut each: impl FnMut(&Change)) -> anyhow::Result<()> {
        self.open_history.history.for_each_at(self.from, &self.everything, |version| {
            each(&Change {
                seq: 0,
                at: self.from,
                seen: self.from,
                key: version.key,
                what: What::Added(version.object),
                inferred: false,
            });
        })?;
        let remaining = Window { from: self.from.plus_nanos(1), to: self.end.plus_nanos(1) };
        for change in self.open_history.history.between(remaining, &self.everything)? {
            each(&change?);
        }
        Ok(())
    }

    fn initial_operations(&self, translator: &mut Translator) -> anyhow::Result<Vec<ApiOperation>> {
        let mut objects = Vec::new();
        let history = &self.open_history.history;
        history.for_each_at(self.from, &self.everything, |version| {
            objects.push((version.key, version.object))
        })?;
        Ok(translator.begin(self.from, objects))
    }
}

/// Reports the recorded time that was reached, until the replay is over. Changes are read far ahead of it.
fn report_progress(
    progress: &mut (dyn FnMut(LiveProgress) + Send),
    applier: &Applier,
    replay_speed: ReplaySpeed,
    window: Window,
    is_over: &AtomicBool,
) {
    let began = Instant::now();
    let mut at = window.from;
    while !is_over.load(Ordering::Relaxed) {
        let passed = began.elapsed().saturating_sub(applier.paused_for());
        if let ReplaySpeed::Scaled { speed, .. } = replay_speed {
            let nanos = (passed.as_nanos() as f64 * speed) as i64;
            at = if applier.is_paused() { at } else { window.from.plus_nanos(nanos).min(window.to) };
        } else {
            at = applier.done_until().unwrap_or(window.from).max(at);
        }
        let played_nanos = at.nanos_since(window.from);
        let speed = played_nanos as f64 / passed.as_nanos().max(1) as f64;
        progress(LiveProgress { at, played_nanos, speed: (!applier.is_paused()).then_some(speed) });
        thread::sleep(PROGRESS_INTERVAL);
    }
}

/// Performs operations while they are sent, and waits until all are done.
fn apply_all(
    runtime: &Runtime,
    applier: &Arc<Applier>,
    (replay_speed, end): (ReplaySpeed, Moment),
    send_all: impl FnOnce(&Sender<ApiOperation>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (sender, receiver) = mpsc::channel(OPERATIONS_AHEAD);
    let applier = applier.clone();
    let applying = runtime.spawn(async move { applier.apply(receiver, replay_speed, end).await });
    let sent = send_all(&sender);
    drop(sender);
    runtime.block_on(applying).context("a request was aborted")?;
    sent
}

/// Sends operations. Returns false if the receiver is gone, as it is after a stop.
fn send(sender: &Sender<ApiOperation>, operations: Vec<ApiOperation>) -> bool {
    operations.into_iter().all(|operation| sender.blocking_send(operation).is_ok())
}
