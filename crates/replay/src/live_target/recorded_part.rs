//! The part of a recording that is played into a live API server, and the API operations that it becomes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use history::Selection;
use live::applying::{Applier, Pace};
use live::transplant::{Deed, Transplant};
use model::{Change, Moment, What, Window};
use query::Chosen;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, Sender};
use tokio::time::Instant;

use super::{LiveProgress, LiveReplayObserver};

/// A part of a recording.
pub(super) struct RecordedPart<'a> {
    pub(super) chosen: &'a Chosen,
    pub(super) everything: Selection,
    pub(super) from: Moment,
    pub(super) end: Moment,
}

/// What is there when it begins: deeds that are still to be done, and where the changes begin.
pub(super) struct Beginning {
    deeds: Vec<Deed>,
    from: Moment,
}

/// How often the progress is told.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
/// Deeds read ahead.
const AHEAD: usize = 1024;

// === impl RecordedPart ===

impl RecordedPart<'_> {
    /// Brings a transplant to where a run goes on: what is before that is done.
    pub(super) fn catch_up(
        &self,
        transplant: &mut Transplant,
        position: Option<Moment>,
    ) -> anyhow::Result<Beginning> {
        let deeds = self.beginning(transplant)?;
        match position.filter(|position| *position > self.from) {
            None => Ok(Beginning { deeds, from: self.from.plus_nanos(1) }),
            Some(position) => {
                let before = Window { from: self.from.plus_nanos(1), to: position };
                for change in self.chosen.history.between(before, &self.everything)? {
                    transplant.change(&change?);
                }
                Ok(Beginning { deeds: Vec::new(), from: position })
            }
        }
    }

    /// Creates what is there at the beginning, as fast as the server goes.
    pub(super) fn create_initial(
        &self,
        runtime: &Runtime,
        applier: &Arc<Applier>,
        beginning: &mut Beginning,
    ) -> anyhow::Result<()> {
        let initial = std::mem::take(&mut beginning.deeds);
        applied(runtime, applier, (Pace::Max, self.from), |deeds| {
            send(deeds, initial);
            Ok(())
        })
    }

    /// Plays all changes after the beginning, each when it is due.
    pub(super) fn play(
        &self,
        runtime: &Runtime,
        applier: &Arc<Applier>,
        transplant: &mut Transplant,
        beginning: &Beginning,
        pace: Pace,
        observer: &mut dyn LiveReplayObserver,
    ) -> anyhow::Result<()> {
        let rest = Window { from: beginning.from, to: self.end.plus_nanos(1) };
        let mut progress = observer.playing(self.from, self.end);
        let shown = Window { from: beginning.from, to: self.end };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| tell(&mut progress, applier, pace, shown, &is_over));
            let played = applied(runtime, applier, (pace, self.end), |deeds| {
                for change in self.chosen.history.between(rest, &self.everything)? {
                    if !send(deeds, transplant.change(&change?)) {
                        break;
                    }
                }
                Ok(())
            });
            is_over.store(true, Ordering::Relaxed);
            played
        })
    }

    /// All that would be done.
    pub(super) fn deeds(
        &self,
        transplant: &mut Transplant,
        mut each: impl FnMut(Deed),
    ) -> anyhow::Result<()> {
        self.beginning(transplant)?.into_iter().for_each(&mut each);
        let rest = Window { from: self.from.plus_nanos(1), to: self.end.plus_nanos(1) };
        for change in self.chosen.history.between(rest, &self.everything)? {
            transplant.change(&change?).into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// All that was seen: what was there at the beginning as if it had come then.
    pub(super) fn each(&self, mut each: impl FnMut(&Change)) -> anyhow::Result<()> {
        self.chosen.history.each_at(self.from, &self.everything, |version| {
            each(&Change {
                seq: 0,
                at: self.from,
                seen: self.from,
                key: version.key,
                what: What::Added(version.object),
                inferred: false,
            });
        })?;
        let rest = Window { from: self.from.plus_nanos(1), to: self.end.plus_nanos(1) };
        for change in self.chosen.history.between(rest, &self.everything)? {
            each(&change?);
        }
        Ok(())
    }

    fn beginning(&self, transplant: &mut Transplant) -> anyhow::Result<Vec<Deed>> {
        let mut objects = Vec::new();
        let history = &self.chosen.history;
        history
            .each_at(self.from, &self.everything, |version| objects.push((version.key, version.object)))?;
        Ok(transplant.begin(self.from, objects))
    }
}

/// Tells how late it is in the recording, until it is over. Changes are read far ahead of that.
fn tell(
    progress: &mut (dyn FnMut(LiveProgress) + Send),
    applier: &Applier,
    pace: Pace,
    window: Window,
    is_over: &AtomicBool,
) {
    let began = Instant::now();
    let mut at = window.from;
    while !is_over.load(Ordering::Relaxed) {
        let passed = began.elapsed().saturating_sub(applier.paused_for());
        if let Pace::Times { speed, .. } = pace {
            let nanos = (passed.as_nanos() as f64 * speed) as i64;
            at = if applier.is_paused() { at } else { window.from.plus_nanos(nanos).min(window.to) };
        } else {
            at = applier.position().unwrap_or(window.from).max(at);
        }
        let played_nanos = at.nanos_since(window.from);
        let speed = played_nanos as f64 / passed.as_nanos().max(1) as f64;
        progress(LiveProgress { at, played_nanos, speed: (!applier.is_paused()).then_some(speed) });
        thread::sleep(PROGRESS_INTERVAL);
    }
}

/// Does deeds while they are sent, and waits until all are done.
fn applied(
    runtime: &Runtime,
    applier: &Arc<Applier>,
    (pace, end): (Pace, Moment),
    sending: impl FnOnce(&Sender<Deed>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (deeds, received) = mpsc::channel(AHEAD);
    let applier = applier.clone();
    let applying = runtime.spawn(async move { applier.apply(received, pace, end).await });
    let sent = sending(&deeds);
    drop(deeds);
    runtime.block_on(applying).context("a request came to a sudden end")?;
    sent
}

/// Whether somebody takes them: nobody does after it was told to stop.
fn send(deeds: &Sender<Deed>, them: Vec<Deed>) -> bool {
    them.into_iter().all(|deed| deeds.blocking_send(deed).is_ok())
}
