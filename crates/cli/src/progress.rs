//! Progress bars, shown if standard error is a terminal.

use std::io::{self, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Moment;

use super::output::{Printer, speed_text};

/// A progress bar over bytes, changes or time.
pub(super) struct Progress {
    bar: ProgressBar,
}

/// A reader that advances a progress bar.
pub(super) struct CountingReader<R> {
    reader: R,
    bar: ProgressBar,
}

// === impl Progress ===

impl Progress {
    pub(super) fn bytes(out: &Printer, total: Option<u64>) -> Progress {
        let line = "{elapsed_precise} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let unknown = "{elapsed_precise} {spinner} {bytes}, {bytes_per_sec}";
        Progress::new(out, total, line, unknown)
    }

    pub(super) fn changes(out: &Printer, total: u64) -> Progress {
        Progress::new(
            out,
            Some(total),
            "{elapsed_precise} [{wide_bar}] {human_pos} of {human_len} changes, {eta} left",
            "",
        )
    }

    /// A bar over the time that is simulated, in seconds.
    pub(super) fn simulation(out: &Printer, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {percent}% simulated, {eta} left", "")
    }

    /// A bar over the time that is read, in seconds.
    pub(super) fn reading(out: &Printer, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {percent}% read, {eta} left", "")
    }

    /// A bar over the time that is replayed, in seconds, with the virtual clock.
    pub(super) fn replay(out: &Printer, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {msg}, {eta} left", "")
    }

    /// A bar over the time by which a virtual clock is moved, in seconds; `None` if it is not known.
    pub(super) fn advance(out: &Printer, total: Option<u64>) -> Progress {
        let line = "{elapsed_precise} [{wide_bar}] {msg}, {eta} left";
        Progress::new(out, total, line, "{elapsed_precise} {spinner} {msg}")
    }

    /// Sets the position and the virtual clock.
    pub(super) fn set_clock(&self, position: u64, now: Moment) {
        self.bar.set_position(position);
        self.bar.set_message(clock_text(now));
    }

    /// Sets the position, the virtual clock and the speed factor.
    pub(super) fn set_replayed(&self, position: u64, now: Moment, factor: f64) {
        self.set_replay_state(position, now, &speed_text(factor));
    }

    /// Sets the position, the virtual clock and a message.
    pub(super) fn set_replay_state(&self, position: u64, now: Moment, message: &str) {
        self.bar.set_position(position);
        self.bar.set_message(format!("{}, {message}", clock_text(now)));
    }

    fn new(out: &Printer, total: Option<u64>, line: &str, unknown: &str) -> Progress {
        let target =
            if out.shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() { line } else { unknown };
        bar.set_style(
            ProgressStyle::with_template(template).expect("the template is valid").progress_chars("=> "),
        );
        Progress { bar }
    }

    pub(super) fn wrap_reader<R: Read>(&self, reader: R) -> CountingReader<R> {
        CountingReader { reader, bar: self.bar.clone() }
    }

    pub(super) fn increment(&self) {
        self.bar.inc(1);
    }

    pub(super) fn set_position(&self, position: u64) {
        self.bar.set_position(position);
    }
}

fn clock_text(now: Moment) -> String {
    format!("{}Z", now.timestamp().strftime("%F %T"))
}

impl Drop for Progress {
    fn drop(&mut self) {
        // The result is printed next; a full bar above it is of no use.
        self.bar.finish_and_clear();
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.bar.inc(length as u64);
        Ok(length)
    }
}
