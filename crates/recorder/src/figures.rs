//! How recordings are getting on, for whoever wants to know: a status line, a page, Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use live::KindStatus;
use model::{Gap, Kind, Moment};

/// The figures of all recordings of this process, by name.
#[derive(Default)]
pub struct Board {
    recordings: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Figures>>>>,
    /// When it was last looked which clusters are to be recorded; `None` if that is not looked at.
    supervised: Mutex<Option<Instant>>,
}

/// The figures of one recording.
#[derive(Clone, Default)]
pub struct Figures {
    /// What is being done about the cluster.
    pub state: State,
    /// The history's file, without its folder and `.kine`: the name it is served under.
    pub history: String,
    /// Kind by kind.
    pub kinds: BTreeMap<Kind, KindFigures>,
    /// Messages that wait to be written.
    pub queue: usize,
    /// Seconds from when a change was seen to when it was safe, of the slowest in the last batch.
    pub lag: f64,
    /// How often the disk was full.
    pub pauses: u64,
    /// How often it was begun again after an error or a panic.
    pub restarts: u64,
    /// How many damaged histories were set aside.
    pub damaged: u64,
    /// How often the clock was set, or the machine suspended.
    pub clock_steps: u64,
    /// How often what is too old, or too much, could not be forgotten.
    pub retention_failures: u64,
    /// Nanoseconds by which the machine's clock is ahead of the time that changes are stamped with.
    pub wall_offset: i64,
    /// When its loop last turned.
    turned: Option<Instant>,
    /// The user was told that it does not work.
    pub(super) is_troubled: bool,
}

/// The figures of one kind.
#[derive(Clone, Default)]
pub struct KindFigures {
    /// How its watch is getting on.
    pub status: Option<KindStatus>,
    /// Changes that were recorded.
    pub kept: u64,
    /// Changes that mean nothing.
    pub dropped: u64,
    /// Of the objects recorded, as they arrived.
    pub bytes: u64,
    /// How many gaps there were.
    pub gaps: u64,
    /// The end of the last gap: what goes on there is the same one, told in parts.
    missed_until: Option<Moment>,
}

/// What is being done about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Its server and its history are being opened.
    #[default]
    Starting,
    /// It is being recorded.
    Recording,
    /// The disk does not take more; it will be tried again.
    Paused(String),
    /// It does not work, and will be tried again.
    Waiting(String),
}

/// A loop that has not turned for so long hangs. Every wait in it is shorter; what a disk or a large history takes is not
/// known.
const HUNG: Duration = Duration::from_secs(600);

// === impl Board ===

impl Board {
    /// Notes that it was looked which clusters are to be recorded.
    pub(super) fn supervise(&self) {
        *lock(&self.supervised) = Some(Instant::now());
    }

    /// Whether nobody looks any more which clusters are to be recorded.
    pub fn is_unsupervised(&self) -> bool {
        lock(&self.supervised).is_some_and(|last| last.elapsed() > HUNG)
    }

    /// The figures of a recording, new ones if it is new.
    pub fn figures(&self, name: &Arc<str>) -> Arc<Mutex<Figures>> {
        lock(&self.recordings).entry(name.clone()).or_default().clone()
    }

    /// A recording is over.
    pub fn remove(&self, name: &str) {
        lock(&self.recordings).remove(name);
    }

    /// All figures as they are now.
    pub fn all(&self) -> Vec<(Arc<str>, Figures)> {
        lock(&self.recordings).iter().map(|(name, figures)| (name.clone(), lock(figures).clone())).collect()
    }
}

// === impl Figures ===

impl Figures {
    /// Notes that it begins, once more maybe.
    pub(super) fn begin(&mut self, history: String) {
        self.history = history;
        self.state = State::Starting;
        self.turn();
        for kind in self.kinds.values_mut() {
            kind.status = None;
        }
    }

    /// Notes how a kind is getting on.
    pub fn heard(&mut self, status: KindStatus) {
        let kind = self.kinds.entry(status.kind.clone()).or_default();
        kind.status = Some(status);
        let states = || self.kinds.values().filter_map(|kind| Some(&kind.status.as_ref()?.state));
        // Whoever can watch nothing at all records nothing.
        let is_well = states().any(|state| matches!(state, live::State::Listing | live::State::Watching));
        self.state = match states().find_map(|state| match state {
            live::State::Waiting(why) => Some(why.clone()),
            _ => None,
        }) {
            _ if is_well => State::Recording,
            Some(why) => State::Waiting(why),
            None => State::Waiting("this account may see nothing".to_owned()),
        };
    }

    /// Notes what was missed, and which gaps of an earlier run ended.
    pub fn missed(&mut self, gaps: &[Gap], closed: &[Gap]) {
        for (gap, is_new) in closed.iter().map(|gap| (gap, false)).chain(gaps.iter().map(|gap| (gap, true))) {
            for kind in &gap.kinds {
                let of_kind = self.kinds.entry(kind.clone()).or_default();
                if is_new && of_kind.missed_until != Some(gap.from) {
                    of_kind.gaps += 1;
                }
                of_kind.missed_until = Some(gap.to);
            }
        }
    }

    /// The time of a recording, when the machine's clock tells this.
    pub fn by_its_clock(&self, wall: Moment) -> Moment {
        wall.plus_nanos(self.wall_offset.saturating_neg())
    }

    /// Notes that its loop has turned.
    pub(super) fn turn(&mut self) {
        self.turned = Some(Instant::now());
    }

    /// Whether its loop does not turn any more.
    pub fn is_hung(&self) -> bool {
        self.turned.is_some_and(|last| last.elapsed() > HUNG)
    }

    /// Notes that it does not work and will be begun again.
    pub(super) fn restart(&mut self, why: String) {
        self.restarts += 1;
        self.turn();
        self.state = State::Waiting(why);
    }

    /// Notes that the disk takes no more.
    pub(super) fn paused(&mut self, why: String) {
        self.pauses += 1;
        self.state = State::Paused(why);
    }

    /// The sum of a figure over all kinds.
    pub fn sum(&self, of: impl Fn(&KindFigures) -> u64) -> u64 {
        self.kinds.values().map(of).sum()
    }

    /// Times in which something may have been missed, of whatever kind and for whatever reason.
    pub fn gaps(&self) -> u64 {
        self.sum(|kind| kind.gaps) + self.pauses + self.clock_steps + self.damaged
    }

    /// How many objects there are.
    pub fn objects(&self) -> u64 {
        self.kinds.values().filter_map(|kind| kind.status.as_ref()).map(|status| status.objects as u64).sum()
    }
}

// === impl State ===

impl State {
    /// One word, for programs.
    pub fn word(&self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Recording => "recording",
            State::Paused(_) => "paused",
            State::Waiting(_) => "waiting",
        }
    }

    /// What is wrong.
    pub fn why(&self) -> Option<&str> {
        match self {
            State::Starting | State::Recording => None,
            State::Paused(why) | State::Waiting(why) => Some(why),
        }
    }
}

/// Figures stay true whoever broke while holding them.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl KindFigures ===

impl KindFigures {
    /// What is being done about the kind, in a word.
    pub fn word(&self) -> Option<&'static str> {
        self.status.as_ref().map(|status| match status.state {
            live::State::Listing => "listing",
            live::State::Watching => "watching",
            live::State::Waiting(_) => "waiting",
            live::State::Forbidden => "forbidden",
        })
    }

    /// Why nothing is heard of it, if that is so.
    pub fn why(&self) -> Option<&str> {
        match &self.status.as_ref()?.state {
            live::State::Waiting(why) => Some(why),
            live::State::Listing | live::State::Watching | live::State::Forbidden => None,
        }
    }

    /// How many seconds ago the server was last heard of.
    pub fn heard_ago(&self, now: Moment) -> Option<f64> {
        let heard = self.status.as_ref()?.last_heard?;
        Some(now.nanos_since(heard) as f64 / 1e9)
    }
}
