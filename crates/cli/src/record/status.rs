//! What a recorder tells while it records, and at the end.

use std::collections::BTreeMap;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::Kind;
use recorder::{Board, Figures, State};

use crate::lines::harmless;
use crate::output::{Out, counted, grouped};

/// One line on a terminal about all recordings.
pub(super) struct Status {
    bar: ProgressBar,
    /// Where they go to.
    into: String,
    begun: Instant,
    /// What was kept when the line was shown last, for the rate.
    shown: (Instant, u64),
    rate: f64,
}

impl Status {
    pub(super) fn new(out: &Out, into: String) -> Status {
        let target =
            if out.is_watched() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("it is well formed"));
        let now = Instant::now();
        Status { bar, into, begun: now, shown: (now, 0), rate: 0.0 }
    }

    /// Something that the user should know now.
    pub(super) fn say(&self, words: &str, out: &mut Out) {
        self.bar.suspend(|| out.complain(words));
    }

    pub(super) fn show(&mut self, board: &Board) {
        let all = board.all();
        let kept = sum(&all, |figures| figures.sum(|kind| kind.kept));
        let passed = self.shown.0.elapsed().as_secs_f64();
        if passed >= 0.4 {
            let now = kept.saturating_sub(self.shown.1) as f64 / passed;
            // A little inertia, so that the figure can be read.
            self.rate = self.rate * 0.6 + now * 0.4;
            self.shown = (Instant::now(), kept);
        }
        let objects = sum(&all, Figures::objects);
        let gaps = sum(&all, Figures::gaps);
        let lag = all.iter().map(|(_, figures)| figures.lag).fold(0.0, f64::max);
        let who = match &all[..] {
            [(name, figures)] => match (figures.state.why(), unwatched(figures).pop_first()) {
                (Some(why), _) => format!("{name} {}: {why};", figures.state.word()),
                (None, Some((why, kinds))) => {
                    let of = figures.kinds.len();
                    format!("{name} into {}: {} of {of} kinds {why};", self.into, kinds.len())
                }
                (None, None) => format!("{name} into {}:", self.into),
            },
            all => {
                let recording = all.iter().filter(|(_, figures)| figures.state == State::Recording).count();
                format!("{recording} of {} clusters recorded into {}:", all.len(), self.into)
            }
        };
        // The line goes to the terminal by itself, and `who` may hold a server's words.
        let who = harmless(&who);
        self.bar.set_message(format!(
            "{who} {} changes, {:.0}/s, {} objects, lag {lag:.1} s, {}",
            grouped(kept),
            self.rate,
            grouped(objects),
            counted(gaps, "gap"),
        ));
        self.bar.tick();
    }

    /// Ends the line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    /// Says what there was.
    pub(super) fn summary(&self, board: &Board, why: &str, out: &mut Out) {
        let all = board.all();
        let seconds = self.begun.elapsed().as_secs_f64();
        let kept = sum(&all, |figures| figures.sum(|kind| kind.kept));
        let who = match &all[..] {
            [(name, _)] => name.to_string(),
            all => format!("{} clusters", grouped(all.len() as u64)),
        };
        out.complain(&format!(
            "{} of {who} recorded into {} in {seconds:.1} s ({why})",
            counted(kept, "change"),
            self.into
        ));
        let dropped = sum(&all, |figures| figures.sum(|kind| kind.dropped));
        if dropped > 0 {
            out.complain(&format!(
                "{} left out: nothing that matters to scheduling changed",
                counted(dropped, "change")
            ));
        }
        for (name, figures) in &all {
            let of = if all.len() == 1 { String::new() } else { format!("{name}: ") };
            let gaps = figures.gaps();
            if gaps > 0 {
                out.complain(&format!("{of}{}: see `kinescope info`", counted(gaps, "gap")));
            }
            if let Some(why) = figures.state.why() {
                out.complain(&format!("{of}it was {} at the end: {why}", figures.state.word()));
            }
            for (why, kinds) in unwatched(figures) {
                let kinds: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
                out.complain(&format!("{of}{} {why}", kinds.join(", ")));
            }
        }
    }
}

/// What cannot be watched now, by why.
fn unwatched(figures: &Figures) -> BTreeMap<String, Vec<&Kind>> {
    let mut by_why: BTreeMap<String, Vec<&Kind>> = BTreeMap::new();
    for status in figures.kinds.values().filter_map(|kind| kind.status.as_ref()) {
        let why = match &status.state {
            live::State::Waiting(why) => format!("cannot be watched: {why}"),
            live::State::Forbidden => "may not be seen by this account".to_owned(),
            live::State::Listing | live::State::Watching => continue,
        };
        by_why.entry(why).or_default().push(&status.kind);
    }
    by_why
}

fn sum<T>(all: &[(T, Figures)], of: impl Fn(&Figures) -> u64) -> u64 {
    all.iter().map(|(_, figures)| of(figures)).sum()
}
