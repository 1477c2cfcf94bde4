//! The comparison of a recorded target with the recording that was played into it.

use std::path::Path;
use std::sync::Arc;

use history::{Bulk, History, Selection};
use live::applying::{OWNER, Pace, UID};
use model::{Moment, Object, Observed, Window};

use super::plan::LivePlan;
use super::summary::RunSummary;
use super::target_recording::{SOURCE, TargetRecording};
use crate::beside::{Counterparts, Marks};
use crate::causes::Lost;
use crate::plan::{Plan, SurveyResult, Watcher};
use crate::play::{Part, survey};
use crate::recorded::Recorded;
use crate::report::{About, Report, Reservation, Scaling, Span};

/// A recorded target and the recording that was played into it. First [`write_history`](Comparison::write_history), then
/// [`report`](Comparison::report).
pub struct Comparison<'a> {
    live: &'a LivePlan<'a>,
    summary: &'a RunSummary,
    recording: TargetRecording,
    plan: Plan,
    /// When changes began to be played.
    began: Moment,
    /// The recorded moment that they began with.
    from: Moment,
    was_paused: bool,
}

// === impl Comparison ===

impl<'a> Comparison<'a> {
    /// The changes were played from the moment `began` on, beginning with what had happened at `from`.
    pub(super) fn new(
        live: &'a LivePlan<'a>,
        summary: &'a RunSummary,
        recording: TargetRecording,
        (began, from): (Moment, Moment),
        was_paused: bool,
    ) -> anyhow::Result<Comparison<'a>> {
        let plan = Plan::make(&live.options.replay, live.part.chosen)?;
        Ok(Comparison { live, summary, recording, plan, began, from, was_paused })
    }

    /// How everything was set in the recording.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Writes the recording of the target as a history in the time of the recording that was played.
    pub fn write_history(&self, path: &Path) -> anyhow::Result<()> {
        let speed = match self.live.pace(self.from) {
            Pace::Max => 1.0,
            Pace::Times { speed, .. } => speed,
        };
        let recorded_time =
            |at: Moment| self.from.plus_nanos((at.nanos_since(self.began) as f64 * speed) as i64);
        rewrite(&self.recording, path, &self.plan.run.part.source, recorded_time)
    }

    /// Compares the history that [`write_history`](Comparison::write_history) wrote with the recording.
    pub fn report(self, path: &Path, mut watcher: impl Watcher) -> anyhow::Result<Report> {
        let Comparison { live, summary, mut plan, from, was_paused, .. } = self;
        let chosen = live.part.chosen;
        let replayed = History::open(path)?;
        let SurveyResult { causes, figures, curve } = plan.survey(chosen, &mut watcher)?;
        drop(watcher);
        let source = plan.run.part.source.clone();
        let window = Window { from, ..plan.run.part.window };
        let part = Part { source: source.clone(), window };
        let class_of = |node: &Object| Some(plan.run.classes.class_of(node));
        let mut counted = Recorded::new(from);
        let counterpart = survey(&replayed, &part, false, &[], &class_of, Some(&mut counted), |_, _| Ok(()))?;
        for (why, count) in counterpart.totals.lost.iter().filter(|(lost, _)| **lost != Lost::People) {
            counted.lost(why.word(), *count);
        }
        let (came_to, replayed_curve) = counted.finish(plan.run.end);
        let mut counterparts = Counterparts::new(Marks { uid: UID, owner: OWNER });
        live.part.each(|change| counterparts.recorded(change))?;
        let everything = Selection { source: Some(source), ..Selection::default() };
        for change in replayed.between(Window { to: window.to, ..Window::ALL }, &everything)? {
            counterparts.replayed(&change?);
        }
        let fidelity = counterparts.compare(from, (&causes, &figures), (&counterpart, &came_to))?;
        let mut reservations = plan.reservations(chosen)?;
        reservations.extend(Reservation::of_causes(&causes));
        reservations.push(Reservation::new(
            About::Target,
            "the components of the target decided, with settings of their own: those above are the recorded ones",
        ));
        if live.pace(from) == Pace::Max {
            let text = "it was played as fast as the server went: how long pods waited is not to be compared";
            reservations.push(Reservation::new(About::Target, text));
        }
        if was_paused {
            let text = "it was paused: from then on everything in the film is later than it was recorded";
            reservations.push(Reservation::new(About::Target, text));
        }
        if summary.is_stopped {
            let text = format!(
                "it was stopped at {}: what was recorded later was not played",
                summary.position.unwrap_or(from)
            );
            reservations.push(Reservation::new(About::Target, text));
        }
        let groups = plan.run.groups.iter().map(|group| &group.name);
        Ok(Report {
            history: chosen.history.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source: plan.run.part.source.to_string(),
            target: Some(summary.target.display().to_string()),
            window: Span::new(window.from, plan.run.end),
            level: plan.run.level,
            seed: plan.run.seed,
            settings: plan.told(),
            recorded: figures,
            replayed: came_to,
            fidelity,
            scaling: Scaling::of(groups, &curve, &replayed_curve, window),
            reservations,
        })
    }
}

/// Writes a recording again under another name, every change at another moment.
fn rewrite(
    recording: &TargetRecording,
    path: &Path,
    source: &Arc<str>,
    time: impl Fn(Moment) -> Moment,
) -> anyhow::Result<()> {
    let recorded = History::open(&recording.path)?;
    let everything = Selection { source: Some(SOURCE.into()), ..Selection::default() };
    let mut bulk = Bulk::into(path)?;
    for change in recorded.between(Window::ALL, &everything)? {
        let change = change?;
        let observed = Observed {
            inferred: change.inferred,
            ..Observed::received(time(change.at), source, change.what)
        };
        bulk.push(&observed)?;
    }
    bulk.finish()?;
    Ok(())
}
