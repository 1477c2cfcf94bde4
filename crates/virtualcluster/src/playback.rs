//! The events that follow a moment of a history, played in time: each watch sees them from the beginning.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{EventFuture, EventSource, ObjectMap, StoreError, StoreEvent};
use history::{History, Selection};
use model::{Change, Kind, Moment, NamespacedName, What, Window};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::time_shift::TimeShift;

/// What is played.
#[derive(Clone)]
pub(crate) struct Playback {
    pub(crate) path: PathBuf,
    pub(crate) source: Option<Arc<str>>,
    pub(crate) from: Moment,
    /// How many recorded seconds pass in one.
    pub(crate) speed: f64,
    pub(crate) shift: Option<TimeShift>,
}

/// The events of a kind, as they are due.
pub(crate) struct PlaybackSource {
    changes: mpsc::Receiver<Result<Change, String>>,
    /// A change that is not due yet.
    pending: Option<Change>,
    started: Instant,
    /// The moment of the last event.
    moment: Option<Moment>,
    /// The objects before the next event.
    objects: ObjectMap,
    kind: Kind,
    playback: Playback,
}

/// The most changes that are read ahead.
const READ_AHEAD: usize = 64;

impl PlaybackSource {
    /// Plays the changes of a kind after the objects that existed.
    pub(crate) fn start(playback: Playback, kind: Kind, objects: ObjectMap) -> PlaybackSource {
        let (sender, changes) = mpsc::channel(READ_AHEAD);
        let (reader, recorded_kind) = (playback.clone(), kind.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = reader.send_changes(recorded_kind, &sender) {
                // The watch may have ended.
                let _ = sender.blocking_send(Err(error.to_string()));
            }
        });
        let started = Instant::now();
        PlaybackSource { changes, pending: None, started, moment: None, objects, kind, playback }
    }

    /// When a change is due.
    fn due(&self, change: &Change) -> Instant {
        let elapsed = (change.at.nanos() - self.playback.from.nanos()).max(0);
        let elapsed = Duration::from_nanos(elapsed.unsigned_abs()).as_secs_f64() / self.playback.speed;
        // Far enough to be never.
        self.started + Duration::from_secs_f64(elapsed.clamp(0.0, 1e9))
    }

    fn event(&mut self, change: Change) -> StoreEvent {
        let version = u64::try_from(change.at.nanos()).unwrap_or(1);
        self.moment = Some(self.playback.shift.map_or(change.at, |shift| shift.moved_moment(change.at)));
        let shifted = |object| match &self.playback.shift {
            Some(shift) => shift.apply(object),
            None => object.clone(),
        };
        let new = shifted(change.what.object());
        let name = NamespacedName::new(change.key.namespace.clone(), change.key.name.clone());
        let is_deletion = matches!(change.what, What::Deleted(_));
        let old = match is_deletion {
            true => self.objects.remove(&name),
            false => self.objects.insert(name, new.clone()),
        };
        StoreEvent { version, kind: self.kind.clone(), old, new, is_deletion }
    }
}

impl EventSource for PlaybackSource {
    fn next(&mut self) -> EventFuture<'_> {
        Box::pin(async {
            loop {
                let change = match self.pending.take() {
                    Some(change) => change,
                    None => match self.changes.recv().await {
                        Some(Ok(change)) => change,
                        Some(Err(error)) => return Err(StoreError::Failed(error)),
                        // The history has ended: nothing follows.
                        None => std::future::pending().await,
                    },
                };
                let due = self.due(&change);
                self.pending = Some(change);
                tokio::time::sleep_until(due).await;
                if let Some(change) = self.pending.take() {
                    return Ok(vec![self.event(change)]);
                }
            }
        })
    }

    fn moment(&self) -> Option<Moment> {
        self.moment
    }
}

impl Playback {
    fn send_changes(
        &self,
        kind: Kind,
        sender: &mpsc::Sender<Result<Change, String>>,
    ) -> Result<(), history::Error> {
        let history = History::open(&self.path)?;
        let selection =
            Selection { kinds: Some(vec![kind]), source: self.source.clone(), ..Selection::default() };
        // What happened at the moment itself is part of its state.
        let window = Window { from: self.from.plus_nanos(1), to: Window::ALL.to };
        for change in history.between(window, &selection)? {
            if sender.blocking_send(Ok(change?)).is_err() {
                break;
            }
        }
        Ok(())
    }
}
