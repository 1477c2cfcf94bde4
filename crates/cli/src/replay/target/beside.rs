//! What came of a history in a real cluster, beside what was recorded.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use history::{Bulk, History, Selection};
use live::applying::{Applier, OWNER, Pace, UID};
use model::{Moment, Object, Observed, Window};
use replay::beside::{Counterparts, Marks};
use replay::causes::Lost;
use replay::plan::{Known, Plan};
use replay::play::{Part as Played, survey};
use replay::recorded::Recorded;
use replay::report::{About, Report, Reservation, Scaling, Span};

use super::Playing;
use super::filming::{Film, SOURCE};
use crate::output::Out;
use crate::replay::clock::Reading;
use crate::replay::folder::Folder;
use crate::replay::summary;

/// Writes the film of the target in the recording's own time, compares both, and tells what came of it. The changes were
/// played from the moment `began` on, beginning with what had happened at `from`.
pub(super) fn compare(
    playing: &Playing<'_>,
    film: &Film,
    (began, from): (Moment, Moment),
    applier: &Applier,
    out: &mut Out,
) -> anyhow::Result<()> {
    let (asked, chosen) = (playing.asked, playing.part.chosen);
    let mut plan = Plan::make(&asked.options(), chosen)?;
    let folder = Folder::choose(asked.out.as_deref(), chosen.history.path())?;
    let scratch = folder.begin()?;
    let speed = match playing.pace(from) {
        Pace::Max => 1.0,
        Pace::Times { speed, .. } => speed,
    };
    let path = scratch.path("replay.kine");
    let source = plan.run.part.source.clone();
    in_its_time(film, &path, &source, |at| from.plus_nanos((at.nanos_since(began) as f64 * speed) as i64))
        .with_context(|| scratch.doing())?;
    let replayed = History::open(&path)?;
    let Known { causes, figures, curve } = plan.survey(chosen, &mut Reading::new(out, &plan))?;
    let window = Window { from, ..plan.run.part.window };
    let part = Played { source: source.clone(), window };
    let class_of = |node: &Object| Some(plan.run.classes.class_of(node));
    let mut counted = Recorded::new(from);
    let counterpart = survey(&replayed, &part, false, &[], &class_of, Some(&mut counted), |_, _| {})?;
    for (why, count) in counterpart.totals.lost.iter().filter(|(lost, _)| **lost != Lost::People) {
        counted.lost(why.word(), *count);
    }
    let (came_to, replayed_curve) = counted.finish(plan.run.end);
    let mut counterparts = Counterparts::new(Marks { uid: UID, owner: OWNER });
    playing.part.each(|change| counterparts.recorded(change))?;
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
    if playing.pace(from) == Pace::Max {
        let text = "it was played as fast as the server went: how long pods waited is not to be compared";
        reservations.push(Reservation::new(About::Target, text));
    }
    if !applier.paused_for().is_zero() {
        let text = "it was paused: from then on everything in the film is later than it was recorded";
        reservations.push(Reservation::new(About::Target, text));
    }
    if applier.is_stopped() {
        let text = format!(
            "it was stopped at {}: what was recorded later was not played",
            applier.position().unwrap_or(from)
        );
        reservations.push(Reservation::new(About::Target, text));
    }
    let groups = plan.run.groups.iter().map(|group| &group.name);
    let report = Report {
        history: chosen.history.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        source: plan.run.part.source.to_string(),
        target: Some(playing.how.target.display().to_string()),
        window: Span::new(window.from, plan.run.end),
        level: plan.run.level,
        seed: plan.run.seed,
        settings: plan.told(),
        recorded: figures,
        replayed: came_to,
        fidelity,
        scaling: Scaling::of(groups, &curve, &replayed_curve, window),
        reservations,
    };
    drop(replayed);
    fs::write(scratch.path("report.json"), report.to_json()?).with_context(|| scratch.doing())?;
    scratch.publish()?;
    // For programs there is the report.
    if asked.output == "json" { Ok(()) } else { summary::compared(out, &report, &folder) }
}

/// Writes a film again under another name, every change at another moment.
fn in_its_time(
    film: &Film,
    path: &Path,
    source: &Arc<str>,
    time: impl Fn(Moment) -> Moment,
) -> anyhow::Result<()> {
    let filmed = History::open(&film.path)?;
    let everything = Selection { source: Some(SOURCE.into()), ..Selection::default() };
    let mut bulk = Bulk::into(path)?;
    for change in filmed.between(Window::ALL, &everything)? {
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
