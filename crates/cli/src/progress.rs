//! Progress bars, for those who watch.

use std::io::{self, Read};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Moment;

use super::output::{Out, times};

/// A bar over bytes read, or over changes written.
pub(super) struct Progress {
    bar: ProgressBar,
}

/// A reader that moves a bar.
pub(super) struct Watched<R> {
    reader: R,
    bar: ProgressBar,
}

// === impl Progress ===

impl Progress {
    pub(super) fn bytes(out: &Out, total: Option<u64>) -> Progress {
        let line = "{elapsed_precise} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        let unknown = "{elapsed_precise} {spinner} {bytes}, {bytes_per_sec}";
        Progress::new(out, total, line, unknown)
    }

    pub(super) fn changes(out: &Out, total: u64) -> Progress {
        Progress::new(
            out,
            Some(total),
            "{elapsed_precise} [{wide_bar}] {human_pos} of {human_len} changes, {eta} left",
            "",
        )
    }

    /// Over a time that is played, in seconds.
    pub(super) fn time(out: &Out, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {percent}% played, {eta} left", "")
    }

    /// Over a time that is read, in seconds.
    pub(super) fn reading(out: &Out, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {percent}% read, {eta} left", "")
    }

    /// Over a time that is replayed, in seconds, with the virtual clock.
    pub(super) fn replay(out: &Out, total: u64) -> Progress {
        Progress::new(out, Some(total), "{elapsed_precise} [{wide_bar}] {msg}, {eta} left", "")
    }

    /// It is so late in the time that is replayed, so many times as fast as it happened.
    pub(super) fn replayed(&self, position: u64, now: Moment, factor: f64) {
        self.played(position, now, &times(factor));
    }

    /// It is so late in the time that is replayed, and this is to be said of it.
    pub(super) fn played(&self, position: u64, now: Moment, words: &str) {
        self.bar.set_position(position);
        let clock = now.timestamp().strftime("%F %T").to_string();
        self.bar.set_message(format!("{clock}Z, {words}"));
    }

    fn new(out: &Out, total: Option<u64>, line: &str, unknown: &str) -> Progress {
        let target =
            if out.is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = if total.is_some() { line } else { unknown };
        bar.set_style(
            ProgressStyle::with_template(template)
                .expect("the template is well formed")
                .progress_chars("=> "),
        );
        Progress { bar }
    }

    pub(super) fn watch<R: Read>(&self, reader: R) -> Watched<R> {
        Watched { reader, bar: self.bar.clone() }
    }

    pub(super) fn step(&self) {
        self.bar.inc(1);
    }

    pub(super) fn at(&self, position: u64) {
        self.bar.set_position(position);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // What comes next is the answer; a full bar above it says nothing any more.
        self.bar.finish_and_clear();
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.bar.inc(length as u64);
        Ok(length)
    }
}
