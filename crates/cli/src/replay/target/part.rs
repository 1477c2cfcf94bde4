//! What of a history is played.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use history::Selection;
use live::applying::{Applier, Pace};
use live::transplant::{Deed, Transplant};
use model::{Change, Moment, What, Window};
use query::Chosen;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, Sender};

use super::now;
use crate::output::{Out, times};
use crate::progress::Progress;
use crate::replay::seconds;

/// A part of a history.
pub(super) struct Part<'a> {
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

/// How often the progress is shown.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// Deeds read ahead.
const AHEAD: usize = 1024;

impl Part<'_> {
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

    /// What is there at the beginning as fast as it goes, then what happens when it is due. Says when that began.
    pub(super) fn play(
        &self,
        runtime: &Runtime,
        applier: &Arc<Applier>,
        transplant: &mut Transplant,
        beginning: Beginning,
        pace: Pace,
        out: &Out,
    ) -> anyhow::Result<Moment> {
        applied(runtime, applier, (Pace::Max, self.from), |deeds| {
            send(deeds, beginning.deeds);
            Ok(())
        })?;
        let time = now();
        let rest = Window { from: beginning.from, to: self.end.plus_nanos(1) };
        let progress = Progress::replay(out, seconds(self.end.nanos_since(self.from)));
        let shown = Window { from: beginning.from, to: self.end };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| show(&progress, applier, pace, shown, &is_over));
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
        })?;
        Ok(time)
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

/// Shows how late it is in the recording, until it is over. Changes are read far ahead of that.
fn show(progress: &Progress, applier: &Applier, pace: Pace, window: Window, is_over: &AtomicBool) {
    let began = Instant::now();
    let mut shown = window.from;
    while !is_over.load(Ordering::Relaxed) {
        let passed = began.elapsed().saturating_sub(applier.paused_for());
        if let Pace::Times { speed, .. } = pace {
            let nanos = (passed.as_nanos() as f64 * speed) as i64;
            shown = if applier.is_paused() { shown } else { window.from.plus_nanos(nanos).min(window.to) };
        } else {
            shown = applier.position().unwrap_or(window.from).max(shown);
        }
        let nanos = shown.nanos_since(window.from);
        let words = match applier.is_paused() {
            true => "paused".to_owned(),
            false => times(nanos as f64 / passed.as_nanos().max(1) as f64),
        };
        progress.played(seconds(nanos), shown, &words);
        thread::sleep(BETWEEN_LOOKS);
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
