//! The status line of a running recorder, and the summary at its end.

use std::collections::BTreeMap;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Kind;
use recorder::{RecorderMetrics, RecordingMetrics, RecordingState};

use crate::lines::escape_line;
use crate::output::{Printer, count_noun, group_digits};

/// A status line on the terminal for all recordings.
pub(super) struct StatusLine {
    bar: ProgressBar,
    /// The file or folder that is written to.
    into: String,
    started: Instant,
    /// Time and number of changes when the line was last refreshed, for the rate.
    last_refresh: (Instant, u64),
    rate: f64,
}

impl StatusLine {
    pub(super) fn new(out: &Printer, into: String) -> StatusLine {
        let target =
            if out.shows_progress() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("the template is valid"));
        let now = Instant::now();
        StatusLine { bar, into, started: now, last_refresh: (now, 0), rate: 0.0 }
    }

    /// Prints a message above the status line.
    pub(super) fn print_above(&self, message: &str, out: &mut Printer) {
        self.bar.suspend(|| out.print_to_stderr(message));
    }

    pub(super) fn refresh(&mut self, recorder_metrics: &RecorderMetrics) {
        let all = recorder_metrics.snapshot();
        let recorded = sum_metric(&all, |metrics| metrics.sum(|kind| kind.recorded));
        let passed = self.last_refresh.0.elapsed().as_secs_f64();
        if passed >= 0.4 {
            let now = recorded.saturating_sub(self.last_refresh.1) as f64 / passed;
            // Smoothed, so that the rate can be read.
            self.rate = self.rate * 0.6 + now * 0.4;
            self.last_refresh = (Instant::now(), recorded);
        }
        let objects = sum_metric(&all, RecordingMetrics::object_count);
        let gaps = sum_metric(&all, RecordingMetrics::gaps);
        let lag = all.iter().map(|(_, metrics)| metrics.lag_seconds).fold(0.0, f64::max);
        let subject = match &all[..] {
            [(name, metrics)] => match (metrics.state.failure(), unwatched(metrics).pop_first()) {
                (Some(why), _) => format!("{name} {}: {why};", metrics.state.as_str()),
                (None, Some((why, kinds))) => {
                    let kind_count = metrics.kinds.len();
                    format!("{name} to {}: {} of {kind_count} kinds {why};", self.into, kinds.len())
                }
                (None, None) => format!("{name} to {}:", self.into),
            },
            all => {
                let recording =
                    all.iter().filter(|(_, metrics)| metrics.state == RecordingState::Recording).count();
                format!("{recording} of {} clusters recording to {}:", all.len(), self.into)
            }
        };
        // The progress bar writes to the terminal directly, and `who` may contain text from a server.
        let subject = escape_line(&subject);
        self.bar.set_message(format!(
            "{subject} {} changes, {:.0}/s, {} objects, lag {lag:.1} s, {}",
            group_digits(recorded),
            self.rate,
            group_digits(objects),
            count_noun(gaps, "gap"),
        ));
        self.bar.tick();
    }

    /// Removes the status line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Prints the summary.
    pub(super) fn print_summary(&self, recorder_metrics: &RecorderMetrics, why: &str, out: &mut Printer) {
        let all = recorder_metrics.snapshot();
        let seconds = self.started.elapsed().as_secs_f64();
        let recorded = sum_metric(&all, |metrics| metrics.sum(|kind| kind.recorded));
        let subject = match &all[..] {
            [(name, _)] => name.to_string(),
            all => format!("{} clusters", group_digits(all.len() as u64)),
        };
        out.print_to_stderr(&format!(
            "{} recorded from {subject} to {} in {seconds:.1} s ({why})",
            count_noun(recorded, "change"),
            self.into
        ));
        let dropped = sum_metric(&all, |metrics| metrics.sum(|kind| kind.dropped));
        if dropped > 0 {
            out.print_to_stderr(&format!(
                "{} dropped: irrelevant to scheduling",
                count_noun(dropped, "change")
            ));
        }
        for (name, metrics) in &all {
            let cluster_prefix = if all.len() == 1 { String::new() } else { format!("{name}: ") };
            let gaps = metrics.gaps();
            if gaps > 0 {
                out.print_to_stderr(&format!(
                    "{cluster_prefix}{}: see `kinescope info`",
                    count_noun(gaps, "gap")
                ));
            }
            if let Some(why) = metrics.state.failure() {
                out.print_to_stderr(&format!(
                    "{cluster_prefix}ended while {}: {why}",
                    metrics.state.as_str()
                ));
            }
            for (why, kinds) in unwatched(metrics) {
                let kinds: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
                out.print_to_stderr(&format!("{cluster_prefix}{} {why}", kinds.join(", ")));
            }
        }
    }
}

/// The kinds that cannot be watched now, by reason.
fn unwatched(metrics: &RecordingMetrics) -> BTreeMap<String, Vec<&Kind>> {
    let mut by_why: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
    for status in metrics.kinds.values().filter_map(|kind| kind.status.as_ref()) {
        let why = match &status.state {
            live::WatchState::Waiting(why) => format!("cannot be watched: {why}"),
            live::WatchState::AccessDenied => "forbidden for this user".to_owned(),
            live::WatchState::Listing | live::WatchState::Watching => continue,
        };
        by_why.entry(why).or_default().push(&status.kind);
    }
    by_why
}

fn sum_metric<T>(all: &[(T, RecordingMetrics)], of: impl Fn(&RecordingMetrics) -> u64) -> u64 {
    all.iter().map(|(_, metrics)| of(metrics)).sum()
}
