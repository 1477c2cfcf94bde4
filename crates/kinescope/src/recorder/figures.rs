//! How recordings are getting on, for whoever wants to know: a status line, a page, Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use live::KindStatus;
use model::{Gap, Kind};

/// The figures of all recordings of this process, by name.
#[derive(Default)]
pub(crate) struct Board {
    recordings: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Figures>>>>,
}

/// The figures of one recording.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    pub(crate) state: State,
    /// The history's file, without its folder and `.kine`: the name it is served under.
    pub(crate) history: String,
    pub(crate) kinds: BTreeMap<Kind, KindFigures>,
    /// Messages that wait to be written.
    pub(crate) queue: usize,
    /// Seconds from when a change was seen to when it was safe, of the slowest in the last batch.
    pub(crate) lag: f64,
    /// How often the disk was full.
    pub(crate) pauses: u64,
}

/// The figures of one kind.
#[derive(Clone, Default)]
pub(crate) struct KindFigures {
    pub(crate) status: Option<KindStatus>,
    /// Changes that were recorded.
    pub(crate) kept: u64,
    /// Changes that mean nothing.
    pub(crate) dropped: u64,
    /// Of the objects recorded, as they arrived.
    pub(crate) bytes: u64,
    pub(crate) gaps: u64,
}

/// What is being done about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Its server and its history are being opened.
    #[default]
    Starting,
    Recording,
    /// The disk does not take more; it will be tried again.
    Paused(String),
    /// It does not work, and will be tried again.
    Waiting(String),
}

// === impl Board ===

impl Board {
    /// The figures of a recording, new ones if it is new.
    pub(crate) fn figures(&self, name: &Arc<str>) -> Arc<Mutex<Figures>> {
        lock(&self.recordings).entry(name.clone()).or_default().clone()
    }

    pub(crate) fn remove(&self, name: &str) {
        lock(&self.recordings).remove(name);
    }

    /// All figures as they are now.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Figures)> {
        lock(&self.recordings).iter().map(|(name, figures)| (name.clone(), lock(figures).clone())).collect()
    }
}

// === impl Figures ===

impl Figures {
    /// Notes that it begins, once more maybe.
    pub(super) fn begin(&mut self, history: String) {
        self.history = history;
        self.state = State::Starting;
        for kind in self.kinds.values_mut() {
            kind.status = None;
        }
    }

    /// Notes how a kind is getting on.
    pub(crate) fn heard(&mut self, status: KindStatus) {
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

    /// Notes what was missed.
    pub(crate) fn missed(&mut self, gaps: &[Gap]) {
        for kind in gaps.iter().flat_map(|gap| &gap.kinds) {
            self.kinds.entry(kind.clone()).or_default().gaps += 1;
        }
    }

    /// Notes that the disk takes no more.
    pub(super) fn paused(&mut self, why: String) {
        self.pauses += 1;
        self.state = State::Paused(why);
    }

    pub(crate) fn sum(&self, of: impl Fn(&KindFigures) -> u64) -> u64 {
        self.kinds.values().map(of).sum()
    }

    pub(crate) fn objects(&self) -> u64 {
        self.kinds.values().filter_map(|kind| kind.status.as_ref()).map(|status| status.objects as u64).sum()
    }
}

// === impl State ===

impl State {
    /// One word, for programs.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            State::Starting => "starting",
            State::Recording => "recording",
            State::Paused(_) => "paused",
            State::Waiting(_) => "waiting",
        }
    }

    /// What is wrong.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            State::Starting | State::Recording => None,
            State::Paused(why) | State::Waiting(why) => Some(why),
        }
    }
}

/// Figures stay true whoever broke while holding them.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
