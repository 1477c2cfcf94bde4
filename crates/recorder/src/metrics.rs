//! Metrics of recordings, for the status line, the web page and Prometheus.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use live::KindStatus;
use model::{Gap, Kind, Moment};

/// The metrics of all recordings of this process, by name.
#[derive(Default)]
pub struct RecorderMetrics {
    recordings: Mutex<BTreeMap<Arc<str>, Arc<Mutex<RecordingMetrics>>>>,
    /// When the configuration was last checked; `None` if there is none.
    last_config_check: Mutex<Option<Instant>>,
}

/// The metrics of one recording.
#[derive(Clone, Default)]
pub struct RecordingMetrics {
    /// The state of the recording.
    pub state: RecordingState,
    /// The file name of the history without `.kine`: the name under which it is served.
    pub history: String,
    /// The metrics by kind.
    pub kinds: BTreeMap<Kind, KindMetrics>,
    /// Events in the queue.
    pub queued_events: usize,
    /// Seconds from the receipt of a change until it was durable, for the slowest of the last batch.
    pub lag_seconds: f64,
    /// How often the disk was full.
    pub pauses: u64,
    /// How often it was restarted after an error or a panic.
    pub restarts: u64,
    /// The number of damaged histories that were set aside.
    pub damaged_histories: u64,
    /// How often the clock was set, or the machine suspended.
    pub clock_steps: u64,
    /// How often the retention could not be enforced.
    pub retention_failures: u64,
    /// Nanoseconds by which the wall clock is ahead of the recording's clock.
    pub wall_offset_nanos: i64,
    /// The last iteration of its loop.
    last_iteration: Option<Instant>,
    /// The user was notified of a failure.
    pub(super) is_failing: bool,
}

/// The metrics of one kind.
#[derive(Clone, Default)]
pub struct KindMetrics {
    /// The status of its watches.
    pub status: Option<KindStatus>,
    /// Recorded changes.
    pub recorded: u64,
    /// Changes without significance, which were not recorded.
    pub dropped: u64,
    /// The size of the recorded objects as received.
    pub bytes: u64,
    /// The number of gaps.
    pub gaps: u64,
    /// The end of the last gap: a gap that begins there continues it.
    last_gap_end: Option<Moment>,
}

/// The state of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordingState {
    /// The connection and the history are being opened.
    #[default]
    Starting,
    /// Recording.
    Recording,
    /// Paused because the disk accepts no writes; retrying.
    Paused(String),
    /// Failed; retrying.
    Waiting(String),
}

/// A loop without an iteration for this long hangs. Every wait in it is shorter; the time for the disk or a large
/// history is unknown.
const HANG_TIMEOUT: Duration = Duration::from_secs(600);

// === impl RecorderMetrics ===

impl RecorderMetrics {
    /// Notes a check of the configuration.
    pub(super) fn note_config_check(&self) {
        *lock(&self.last_config_check) = Some(Instant::now());
    }

    /// Whether the configuration is no longer checked.
    pub fn is_config_check_overdue(&self) -> bool {
        lock(&self.last_config_check).is_some_and(|last| last.elapsed() > HANG_TIMEOUT)
    }

    /// The metrics of a recording; created if it is new.
    pub fn recording(&self, name: &Arc<str>) -> Arc<Mutex<RecordingMetrics>> {
        lock(&self.recordings).entry(name.clone()).or_default().clone()
    }

    /// Removes a recording.
    pub fn remove(&self, name: &str) {
        lock(&self.recordings).remove(name);
    }

    /// A snapshot of all metrics.
    pub fn snapshot(&self) -> Vec<(Arc<str>, RecordingMetrics)> {
        lock(&self.recordings).iter().map(|(name, metrics)| (name.clone(), lock(metrics).clone())).collect()
    }
}

// === impl RecordingMetrics ===

impl RecordingMetrics {
    /// Notes a start or restart.
    pub(super) fn note_start(&mut self, history: String) {
        self.history = history;
        self.state = RecordingState::Starting;
        self.note_iteration();
        for kind in self.kinds.values_mut() {
            kind.status = None;
        }
    }

    /// Notes the status of a kind.
    pub fn note_status(&mut self, status: KindStatus) {
        let kind = self.kinds.entry(status.kind.clone()).or_default();
        kind.status = Some(status);
        let states = || self.kinds.values().filter_map(|kind| Some(&kind.status.as_ref()?.state));
        // Without any working watch nothing is recorded.
        let is_healthy =
            states().any(|state| matches!(state, live::WatchState::Listing | live::WatchState::Watching));
        self.state = match states().find_map(|state| match state {
            live::WatchState::Waiting(why) => Some(why.clone()),
            _ => None,
        }) {
            _ if is_healthy => RecordingState::Recording,
            Some(why) => RecordingState::Waiting(why),
            None => RecordingState::Waiting("this user is not allowed to list anything".to_owned()),
        };
    }

    /// Counts gaps, and notes gaps of an earlier run that ended.
    pub fn note_gaps(&mut self, gaps: &[Gap], closed: &[Gap]) {
        for (gap, is_new) in closed.iter().map(|gap| (gap, false)).chain(gaps.iter().map(|gap| (gap, true))) {
            for kind in &gap.kinds {
                let kind_metrics = self.kinds.entry(kind.clone()).or_default();
                if is_new && kind_metrics.last_gap_end != Some(gap.from) {
                    kind_metrics.gaps += 1;
                }
                kind_metrics.last_gap_end = Some(gap.to);
            }
        }
    }

    /// Converts a time of the wall clock to the recording's clock.
    pub fn to_recording_time(&self, wall: Moment) -> Moment {
        wall.plus_nanos(self.wall_offset_nanos.saturating_neg())
    }

    /// Notes an iteration of its loop.
    pub(super) fn note_iteration(&mut self) {
        self.last_iteration = Some(Instant::now());
    }

    /// Whether its loop hangs.
    pub fn is_hung(&self) -> bool {
        self.last_iteration.is_some_and(|last| last.elapsed() > HANG_TIMEOUT)
    }

    /// Notes a failure that leads to a restart.
    pub(super) fn note_restart(&mut self, why: String) {
        self.restarts += 1;
        self.note_iteration();
        self.state = RecordingState::Waiting(why);
    }

    /// Notes a pause because of the disk.
    pub(super) fn note_pause(&mut self, why: String) {
        self.pauses += 1;
        self.state = RecordingState::Paused(why);
    }

    /// The sum of a metric over all kinds.
    pub fn sum(&self, metric: impl Fn(&KindMetrics) -> u64) -> u64 {
        self.kinds.values().map(metric).sum()
    }

    /// The number of gaps of any kind and reason.
    pub fn gaps(&self) -> u64 {
        self.sum(|kind| kind.gaps) + self.pauses + self.clock_steps + self.damaged_histories
    }

    /// The number of objects.
    pub fn object_count(&self) -> u64 {
        self.kinds.values().filter_map(|kind| kind.status.as_ref()).map(|status| status.objects as u64).sum()
    }
}

// === impl RecordingState ===

impl RecordingState {
    /// The lower-case name, for programs.
    pub fn as_str(&self) -> &'static str {
        match self {
            RecordingState::Starting => "starting",
            RecordingState::Recording => "recording",
            RecordingState::Paused(_) => "paused",
            RecordingState::Waiting(_) => "waiting",
        }
    }

    /// The failure.
    pub fn failure(&self) -> Option<&str> {
        match self {
            RecordingState::Starting | RecordingState::Recording => None,
            RecordingState::Paused(why) | RecordingState::Waiting(why) => Some(why),
        }
    }
}

/// Locks a mutex and ignores poisoning: metrics stay valid after a panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl KindMetrics ===

impl KindMetrics {
    /// The lower-case name of the state.
    pub fn state_name(&self) -> Option<&'static str> {
        self.status.as_ref().map(|status| match status.state {
            live::WatchState::Listing => "listing",
            live::WatchState::Watching => "watching",
            live::WatchState::Waiting(_) => "waiting",
            live::WatchState::AccessDenied => "forbidden",
        })
    }

    /// The failure that is being retried.
    pub fn failure(&self) -> Option<&str> {
        match &self.status.as_ref()?.state {
            live::WatchState::Waiting(why) => Some(why),
            live::WatchState::Listing | live::WatchState::Watching | live::WatchState::AccessDenied => None,
        }
    }

    /// Seconds since the last response.
    pub fn seconds_since_response(&self, now: Moment) -> Option<f64> {
        let last_heard = self.status.as_ref()?.last_heard?;
        Some(now.nanos_since(last_heard) as f64 / 1e9)
    }
}
