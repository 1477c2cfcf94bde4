//! The clock that stamps the changes of a recording: monotonic time, which follows the wall clock while both agree.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use kubernetes::table::human;
use live::Connection;
use model::Moment;

use super::figures::lock;

/// Stamps the changes of one recording.
///
/// A wall clock that is set forward or back is not followed at once: changes go on to be stamped by the time that has
/// passed. It is believed when it has been steady for some minutes and the API server says the same.
pub struct RecordingClock {
    begun: Instant,
    state: Mutex<ClockState>,
}

/// Something that the wall clock did and monotonic time did not, as a gap tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockStep {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub why: String,
}

/// Further apart than this, the wall clock and monotonic time disagree.
const TOLERANCE: i64 = 5_000_000_000;
/// Further apart than this, the wall clock and the API server's disagree.
const SKEW: i64 = 300_000_000_000;
/// How long a wall clock that was set must be steady to be believed.
const STEADY: Duration = Duration::from_secs(600);
/// How long it may take to read both clocks.
const AT_ONCE: Duration = Duration::from_millis(100);
/// How often it is tried to read them that fast.
const TRIES: usize = 5;

// === impl RecordingClock ===

impl RecordingClock {
    /// A clock that begins now: with the wall clock, unless the server says that this is wrong.
    pub fn new(server: Option<(Moment, Instant)>) -> RecordingClock {
        let begun = Instant::now();
        let (wall, elapsed) = read(begun);
        let server =
            server.map(|(date, heard)| date.plus_nanos(nanos(begun.saturating_duration_since(heard))));
        let mut state = ClockState::new(wall, server);
        state.suspended = suspended(elapsed);
        RecordingClock { begun, state: Mutex::new(state) }
    }

    /// The moment to stamp a change with.
    pub fn now(&self) -> Moment {
        let mut state = lock(&self.state);
        let (wall, elapsed) = read(self.begun);
        state.read(wall, elapsed, || suspended(elapsed))
    }

    /// Compares the clocks, also with the server's. To be called from time to time. If the server has to say which is
    /// right, it is asked, and heard the next time.
    pub fn compare(&self, connection: &Connection) {
        self.check(connection.server_time());
        if self.needs_server() {
            let connection = connection.clone();
            tokio::spawn(async move {
                let _ = connection.version().await;
            });
        }
    }

    fn check(&self, server: Option<(Moment, Instant)>) {
        let mut state = lock(&self.state);
        let (wall, elapsed) = read(self.begun);
        state.read(wall, elapsed, || suspended(elapsed));
        let server = server.map(|(date, heard)| (date, heard.saturating_duration_since(self.begun)));
        state.judge(server, elapsed);
        if state.doubt.is_none() {
            state.suspended = suspended(elapsed);
        }
    }

    /// Whether the server must be asked what time it is.
    fn needs_server(&self) -> bool {
        lock(&self.state).doubt.as_ref().is_some_and(|doubt| doubt.is_right != Some(false))
    }

    /// Whether the wall clock has been right for so long, as far as can be told.
    pub(super) fn is_steady_for(&self, time: Duration) -> bool {
        lock(&self.state).is_steady_for(time, self.begun.elapsed())
    }

    /// Counts as if the wall clock had been set just now.
    pub(super) fn suspect(&self) {
        lock(&self.state).last_step = Some(self.begun.elapsed());
    }

    /// Adds something to tell of.
    pub(super) fn note(&self, step: ClockStep) {
        lock(&self.state).steps.push(step);
    }

    /// What is to be told of since this was last called.
    pub fn take_steps(&self) -> Vec<ClockStep> {
        std::mem::take(&mut lock(&self.state).steps)
    }

    /// Nanoseconds by which the wall clock is ahead of this one.
    pub(super) fn wall_offset(&self) -> i64 {
        lock(&self.state).doubt.as_ref().map_or(0, |doubt| doubt.offset)
    }
}

/// What is known of the clocks. It reads none itself: monotonic time comes in as the time since the beginning.
#[derive(Debug)]
struct ClockState {
    /// A moment that was told, and when.
    anchor: (Moment, Duration),
    /// The last moment that was told.
    last: Moment,
    /// The wall clock says something else.
    doubt: Option<Doubt>,
    /// When the wall clock was last set.
    last_step: Option<Duration>,
    /// Nanoseconds for which the machine was suspended, from some beginning on.
    suspended: Option<i64>,
    steps: Vec<ClockStep>,
}

#[derive(Debug)]
struct Doubt {
    /// Nanoseconds by which the wall clock is ahead.
    offset: i64,
    since: Duration,
    /// Whether it is right, as the server says; `None` if that has not been heard.
    is_right: Option<bool>,
}

// === impl ClockState ===

impl ClockState {
    fn new(wall: Moment, server: Option<Moment>) -> ClockState {
        let mut state = ClockState {
            anchor: (wall, Duration::ZERO),
            last: wall,
            doubt: None,
            last_step: None,
            suspended: None,
            steps: Vec::new(),
        };
        if let Some(server) = server.filter(|server| wall.nanos_since(*server).abs() > SKEW) {
            let offset = wall.nanos_since(server);
            let ahead = if offset > 0 { "ahead of" } else { "behind" };
            let why = format!("the clock is {} {ahead} the API server's, which is believed", length(offset));
            (state.anchor.0, state.last) = (server, server);
            state.doubt = Some(Doubt { offset, since: Duration::ZERO, is_right: Some(false) });
            state.last_step = Some(Duration::ZERO);
            state.steps.push(ClockStep { from: server, to: server, why });
        }
        state
    }

    /// The moment that the clocks tell. `suspended` is read only if they disagree.
    fn read(&mut self, wall: Moment, elapsed: Duration, suspended: impl FnOnce() -> Option<i64>) -> Moment {
        let steady = self.steady(elapsed);
        let offset = wall.nanos_since(steady);
        let before = self.doubt.as_ref().map_or(0, |doubt| doubt.offset);
        let step = offset.saturating_sub(before);
        if step.abs() > TOLERANCE {
            let now = suspended();
            let slept = now.zip(self.suspended).map_or(0, |(now, before)| now.saturating_sub(before));
            if slept > TOLERANCE && slept.saturating_sub(step).abs() <= TOLERANCE {
                self.suspended = now;
                return self.slept(step, elapsed);
            }
            self.set(steady, step, elapsed);
        }
        if offset.abs() <= TOLERANCE {
            self.doubt = None;
            self.anchor = (wall, elapsed);
            self.last = wall;
            return wall;
        }
        match &mut self.doubt {
            Some(doubt) if step.abs() <= TOLERANCE => doubt.offset = offset,
            doubt => *doubt = Some(Doubt { offset, since: elapsed, is_right: None }),
        }
        self.last = steady;
        self.last
    }

    /// Believes a wall clock that was set, if it is time.
    fn judge(&mut self, server: Option<(Moment, Duration)>, elapsed: Duration) {
        let anchor = self.anchor;
        let Some(doubt) = &mut self.doubt else { return };
        if let Some((date, heard)) = server.filter(|(_, heard)| *heard > doubt.since) {
            let server_offset = date.nanos_since(steady(anchor, heard));
            doubt.is_right = Some(server_offset.saturating_sub(doubt.offset).abs() < server_offset.abs());
        }
        if doubt.is_right != Some(true) || elapsed.saturating_sub(doubt.since) < STEADY {
            return;
        }
        let (offset, since) = (doubt.offset, doubt.since);
        let from = steady(anchor, elapsed);
        let to = from.plus_nanos(offset);
        let ago = human(nanos(elapsed.saturating_sub(since)));
        let why = format!("the clock, which was set {} {ago} before, is believed from here on", by(offset));
        self.steps.push(ClockStep { from: from.min(to), to: from.max(to), why });
        self.doubt = None;
        (self.anchor, self.last) = ((to, elapsed), to);
        self.last_step = Some(elapsed);
    }

    fn is_steady_for(&self, time: Duration, elapsed: Duration) -> bool {
        let is_old = |step: Duration| elapsed.saturating_sub(step) >= time;
        self.doubt.is_none() && self.last_step.is_none_or(is_old)
    }

    /// The machine was suspended: this time has passed, though monotonic time did not count it.
    fn slept(&mut self, time: i64, elapsed: Duration) -> Moment {
        let from = self.last;
        let to = self.steady(elapsed).plus_nanos(time);
        (self.anchor, self.last) = ((to, elapsed), to);
        let why = format!("the machine was suspended for {}", length(time));
        self.steps.push(ClockStep { from, to, why });
        to
    }

    /// The wall clock was set by so much.
    fn set(&mut self, to: Moment, step: i64, elapsed: Duration) {
        let from = self.last.min(to);
        self.steps.push(ClockStep { from, to, why: format!("the clock was set {}", by(step)) });
        self.last_step = Some(elapsed);
    }

    fn steady(&self, elapsed: Duration) -> Moment {
        steady(self.anchor, elapsed)
    }
}

fn steady((moment, at): (Moment, Duration), elapsed: Duration) -> Moment {
    let passed = nanos(elapsed).saturating_sub(nanos(at));
    moment.plus_nanos(passed)
}

/// `forward by 10y`
fn by(step: i64) -> String {
    let direction = if step > 0 { "forward" } else { "back" };
    format!("{direction} by {}", length(step))
}

/// A length of time, rounded to seconds: what took place between two readings is not part of it.
fn length(nanos: i64) -> String {
    human(nanos.saturating_abs().saturating_add(500_000_000))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The wall clock and the time since `begun`, read at once: a process may be held up in between.
fn read(begun: Instant) -> (Moment, Duration) {
    let mut both = (Moment::MIN, Duration::ZERO);
    for _ in 0..TRIES {
        let before = begun.elapsed();
        both = (jiff::Timestamp::now().into(), begun.elapsed());
        if both.1.saturating_sub(before) < AT_ONCE {
            break;
        }
    }
    both
}

/// Nanoseconds for which the machine was suspended, from some beginning on, where the system tells: Linux's uptime counts
/// them, and its monotonic clock does not.
fn suspended(elapsed: Duration) -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some((seconds * 1e9) as i64 - nanos(elapsed))
}

#[cfg(test)]
mod tests;
