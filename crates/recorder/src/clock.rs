//! The clock that timestamps the changes of a recording: monotonic time, which follows the wall clock while both agree.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use kubernetes::table::human_duration;
use live::Connection;
use model::Moment;

use super::metrics::lock;

/// Timestamps the changes of one recording.
///
/// A wall clock that is set forward or back is not followed immediately: timestamps continue by elapsed time. It is
/// accepted when it has been stable for some minutes and the API server's time agrees.
pub struct RecordingClock {
    started: Instant,
    state: Mutex<ClockState>,
}

/// A disturbance of the recording's time, reported as a gap: a jump of the wall clock relative to monotonic
/// time or to the API server's, a suspension of the machine, or a history that ends in the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStep {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub why: String,
}

/// The maximum difference between wall clock and monotonic time.
const MAX_DRIFT_NANOS: i64 = 5_000_000_000;
/// The maximum difference between the wall clock and the API server's.
const MAX_SERVER_SKEW_NANOS: i64 = 300_000_000_000;
/// How long a wall clock that was set must be stable to be accepted.
const STABLE_DURATION: Duration = Duration::from_secs(600);
/// The maximum time to read both clocks.
const MAX_READ_DURATION: Duration = Duration::from_millis(100);
/// The maximum number of attempts to do so.
const MAX_READ_ATTEMPTS: usize = 5;

// === impl RecordingClock ===

impl RecordingClock {
    /// A clock that starts now, at the wall clock's time, unless that differs too much from the server's.
    pub fn new(server: Option<(Moment, Instant)>) -> RecordingClock {
        let started = Instant::now();
        let (wall, elapsed) = read_clocks(started);
        let server = server
            .map(|(date, received)| date.plus_nanos(as_nanos(started.saturating_duration_since(received))));
        let mut state = ClockState::new(wall, server);
        state.suspended_nanos = suspended_nanos(elapsed);
        RecordingClock { started, state: Mutex::new(state) }
    }

    /// The timestamp for a change.
    pub fn now(&self) -> Moment {
        let mut state = lock(&self.state);
        let (wall, elapsed) = read_clocks(self.started);
        state.read(wall, elapsed, || suspended_nanos(elapsed))
    }

    /// Compares the clocks, also with the server's. To be called periodically. If the server's time is needed, it is
    /// requested and used at the next call.
    pub fn compare(&self, connection: &Connection) {
        self.check_server_time(connection.server_time());
        if self.needs_server() {
            let connection = connection.clone();
            tokio::spawn(async move {
                let _ = connection.version().await;
            });
        }
    }

    fn check_server_time(&self, server: Option<(Moment, Instant)>) {
        let mut state = lock(&self.state);
        let (wall, elapsed) = read_clocks(self.started);
        state.read(wall, elapsed, || suspended_nanos(elapsed));
        let server = server.map(|(date, received)| (date, received.saturating_duration_since(self.started)));
        state.accept_if_confirmed(server, elapsed);
        if state.disagreement.is_none() {
            state.suspended_nanos = suspended_nanos(elapsed);
        }
    }

    /// Whether the server's time is needed.
    fn needs_server(&self) -> bool {
        lock(&self.state)
            .disagreement
            .as_ref()
            .is_some_and(|disagreement| disagreement.is_confirmed != Some(false))
    }

    /// Whether the wall clock has been stable for this long.
    pub(super) fn is_stable_for(&self, duration: Duration) -> bool {
        lock(&self.state).is_stable_for(duration, self.started.elapsed())
    }

    /// Treats the wall clock as if it had just been set.
    pub(super) fn note_suspected_step(&self) {
        lock(&self.state).last_step = Some(self.started.elapsed());
    }

    /// Adds a step to report.
    pub(super) fn push_step(&self, step: ClockStep) {
        lock(&self.state).steps.push(step);
    }

    /// Takes the steps since the last call.
    pub fn take_steps(&self) -> Vec<ClockStep> {
        std::mem::take(&mut lock(&self.state).steps)
    }

    /// Nanoseconds by which the wall clock is ahead of this one.
    pub(super) fn wall_offset_nanos(&self) -> i64 {
        lock(&self.state).disagreement.as_ref().map_or(0, |disagreement| disagreement.offset)
    }
}

/// The state of the clocks. It reads none itself: monotonic time is passed in as the time since the start.
#[derive(Debug)]
struct ClockState {
    /// A returned moment, and when it was returned.
    anchor: (Moment, Duration),
    /// The last returned moment.
    last: Moment,
    /// The current disagreement with the wall clock.
    disagreement: Option<ClockDisagreement>,
    /// When the wall clock was last set.
    last_step: Option<Duration>,
    /// Nanoseconds for which the machine was suspended, relative to an arbitrary origin.
    suspended_nanos: Option<i64>,
    steps: Vec<ClockStep>,
}

#[derive(Debug)]
struct ClockDisagreement {
    /// Nanoseconds by which the wall clock is ahead.
    offset: i64,
    since: Duration,
    /// Whether the wall clock agrees with the server; `None` if the server's time is unknown.
    is_confirmed: Option<bool>,
}

// === impl ClockState ===

impl ClockState {
    fn new(wall: Moment, server: Option<Moment>) -> ClockState {
        let mut state = ClockState {
            anchor: (wall, Duration::ZERO),
            last: wall,
            disagreement: None,
            last_step: None,
            suspended_nanos: None,
            steps: Vec::new(),
        };
        if let Some(server) = server.filter(|server| wall.nanos_since(*server).abs() > MAX_SERVER_SKEW_NANOS)
        {
            let offset = wall.nanos_since(server);
            let direction = if offset > 0 { "ahead of" } else { "behind" };
            let why = format!(
                "the clock is {} {direction} the API server's: the server's time is used",
                describe_duration(offset)
            );
            (state.anchor.0, state.last) = (server, server);
            state.disagreement =
                Some(ClockDisagreement { offset, since: Duration::ZERO, is_confirmed: Some(false) });
            state.last_step = Some(Duration::ZERO);
            state.steps.push(ClockStep { from: server, to: server, why });
        }
        state
    }

    /// The current moment by the clocks. `suspended` is read only if they disagree.
    fn read(&mut self, wall: Moment, elapsed: Duration, suspended: impl FnOnce() -> Option<i64>) -> Moment {
        let monotonic = self.monotonic_time(elapsed);
        let offset = wall.nanos_since(monotonic);
        let previous = self.disagreement.as_ref().map_or(0, |disagreement| disagreement.offset);
        let step = offset.saturating_sub(previous);
        if step.abs() > MAX_DRIFT_NANOS {
            let total_suspended = suspended();
            let slept = total_suspended
                .zip(self.suspended_nanos)
                .map_or(0, |(total_suspended, previous)| total_suspended.saturating_sub(previous));
            if slept > MAX_DRIFT_NANOS && slept.saturating_sub(step).abs() <= MAX_DRIFT_NANOS {
                self.suspended_nanos = total_suspended;
                return self.handle_suspension(step, elapsed);
            }
            self.handle_step(monotonic, step, elapsed);
        }
        if offset.abs() <= MAX_DRIFT_NANOS {
            self.disagreement = None;
            self.anchor = (wall, elapsed);
            self.last = wall;
            return wall;
        }
        match &mut self.disagreement {
            Some(disagreement) if step.abs() <= MAX_DRIFT_NANOS => disagreement.offset = offset,
            doubt => *doubt = Some(ClockDisagreement { offset, since: elapsed, is_confirmed: None }),
        }
        self.last = monotonic;
        self.last
    }

    /// Accepts a wall clock that was set, if the conditions are met.
    fn accept_if_confirmed(&mut self, server: Option<(Moment, Duration)>, elapsed: Duration) {
        let anchor = self.anchor;
        let Some(disagreement) = &mut self.disagreement else { return };
        if let Some((date, received)) = server.filter(|(_, received)| *received > disagreement.since) {
            let server_offset = date.nanos_since(monotonic_time(anchor, received));
            disagreement.is_confirmed =
                Some(server_offset.saturating_sub(disagreement.offset).abs() < server_offset.abs());
        }
        if disagreement.is_confirmed != Some(true)
            || elapsed.saturating_sub(disagreement.since) < STABLE_DURATION
        {
            return;
        }
        let (offset, since) = (disagreement.offset, disagreement.since);
        let from = monotonic_time(anchor, elapsed);
        let to = from.plus_nanos(offset);
        let ago = human_duration(as_nanos(elapsed.saturating_sub(since)));
        let why = format!("the clock, set {} {ago} ago, is used from now on", describe_step(offset));
        self.steps.push(ClockStep { from: from.min(to), to: from.max(to), why });
        self.disagreement = None;
        (self.anchor, self.last) = ((to, elapsed), to);
        self.last_step = Some(elapsed);
    }

    fn is_stable_for(&self, duration: Duration, elapsed: Duration) -> bool {
        let is_old = |step: Duration| elapsed.saturating_sub(step) >= duration;
        self.disagreement.is_none() && self.last_step.is_none_or(is_old)
    }

    /// Handles a suspension of the machine: time has passed that monotonic time did not count.
    fn handle_suspension(&mut self, nanos: i64, elapsed: Duration) -> Moment {
        let from = self.last;
        let to = self.monotonic_time(elapsed).plus_nanos(nanos);
        (self.anchor, self.last) = ((to, elapsed), to);
        let why = format!("the machine was suspended for {}", describe_duration(nanos));
        self.steps.push(ClockStep { from, to, why });
        to
    }

    /// Handles a change of the wall clock.
    fn handle_step(&mut self, to: Moment, step: i64, elapsed: Duration) {
        let from = self.last.min(to);
        self.steps.push(ClockStep { from, to, why: format!("the clock was set {}", describe_step(step)) });
        self.last_step = Some(elapsed);
    }

    fn monotonic_time(&self, elapsed: Duration) -> Moment {
        monotonic_time(self.anchor, elapsed)
    }
}

fn monotonic_time((moment, at): (Moment, Duration), elapsed: Duration) -> Moment {
    let passed = as_nanos(elapsed).saturating_sub(as_nanos(at));
    moment.plus_nanos(passed)
}

/// `forward by 10y`
fn describe_step(step: i64) -> String {
    let direction = if step > 0 { "forward" } else { "back" };
    format!("{direction} by {}", describe_duration(step))
}

/// A duration, rounded to seconds to hide the time between two readings.
fn describe_duration(nanos: i64) -> String {
    human_duration(nanos.saturating_abs().saturating_add(500_000_000))
}

fn as_nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The wall clock and the time since `started`, read together: the process may be preempted in between.
fn read_clocks(started: Instant) -> (Moment, Duration) {
    let mut reading = (Moment::MIN, Duration::ZERO);
    for _ in 0..MAX_READ_ATTEMPTS {
        let before = started.elapsed();
        reading = (jiff::Timestamp::now().into(), started.elapsed());
        if reading.1.saturating_sub(before) < MAX_READ_DURATION {
            break;
        }
    }
    reading
}

/// Nanoseconds for which the machine was suspended, relative to an arbitrary origin, where the system reports it:
/// Linux's uptime includes suspension, and its monotonic clock does not.
fn suspended_nanos(elapsed: Duration) -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e9) as i64 - as_nanos(elapsed))
}

#[cfg(test)]
mod tests;
