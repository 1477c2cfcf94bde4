//! What is said of a run: the rules, the plan, what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use live::applying::{Applier, Cleaned, Done, RUN, Tally, Told};
use live::transplant::{self, FileRule, Transplant};
use model::Kind;
use serde_json::{Map, Value, json};

use super::Playing;
use super::part::Part;
use crate::Outcome;
use crate::lines::{self, harmless, line};
use crate::output::{HEADING, Out, grouped, span};

/// Counts end here.
const COUNT: usize = 20;
/// A column of the plan.
const COLUMN: usize = 10;
const KIND: usize = 40;
/// Of what was not removed so much is told.
const MOST: usize = 5;

/// All rules in words: the built-in ones, then those of files.
pub(super) fn rules(out: &mut Out, of_files: &[FileRule]) -> anyhow::Result<Outcome> {
    lines::rules(out, &transplant::describe())?;
    for rule in of_files {
        writeln!(out, "{}\n    {}", rule.name(), rule.words())?;
    }
    Ok(Outcome::Done)
}

/// Says what would be done.
pub(super) fn dry_run(
    out: &mut Out,
    part: &Part<'_>,
    transplant: &mut Transplant,
) -> anyhow::Result<Outcome> {
    const WORDS: [&str; 5] = ["create", "change", "bind", "delete", "remove"];
    let mut counts: BTreeMap<Kind, [u64; WORDS.len()]> = BTreeMap::new();
    part.deeds(transplant, |deed| {
        let place = WORDS.iter().position(|word| *word == deed.doing.word()).unwrap_or_default();
        counts.entry(deed.address.kind).or_default()[place] += 1;
    })?;
    let (from, end) = (part.from, part.end);
    line(out, "Would play", &format!("{from} to {end}, with nothing done yet"), Style::new())?;
    write!(out, "{HEADING}{:<KIND$}", "")?;
    WORDS.iter().try_for_each(|word| write!(out, "{word:>COLUMN$}"))?;
    writeln!(out, "{HEADING:#}")?;
    for (kind, row) in &counts {
        write!(out, "{:<KIND$}", kind.to_string())?;
        row.iter().try_for_each(|count| write!(out, "{:>COLUMN$}", grouped(*count)))?;
        writeln!(out)?;
    }
    left_out(out, transplant)?;
    Ok(Outcome::Done)
}

/// Says what was done, what was not, and why.
pub(super) fn summary(
    out: &mut Out,
    applier: &Applier,
    transplant: &Transplant,
    took: Duration,
    playing: &Playing<'_>,
) -> anyhow::Result<Outcome> {
    let plain = Style::new();
    let tally = applier.tally();
    let outcome = if tally.refused.is_empty() { Outcome::Done } else { Outcome::Otherwise };
    if playing.asked.output == "json" {
        json(out, applier, transplant, took, playing)?;
        return Ok(outcome);
    }
    let rate = tally.count() as f64 / took.as_secs_f64().max(1e-3);
    let took = span(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
    let Playing { run, part, how, .. } = playing;
    let target = how.target.display();
    let (from, end) = (part.from, part.end);
    if applier.is_stopped() {
        let position = applier.position().unwrap_or(from);
        line(out, "Stopped", &format!("at {position}, after {took}; all before is done"), plain)?;
        line(out, "", "the same command with --resume goes on", plain)?;
    } else {
        line(out, "Played", &format!("{from} to {end} into {target} in {took}"), plain)?;
    }
    let words = format!("{} in all, {rate:.0} a second", grouped(tally.count()));
    line(out, "Requests", &words, plain)?;
    tally.done.iter().try_for_each(|(done, count)| counted(out, *count, done_word(*done)))?;
    late(out, &tally)?;
    left_out(out, transplant)?;
    if !tally.left.is_empty() {
        line(out, "Passed over", "", plain)?;
        for (left, told) in &tally.left {
            counted(out, told.count, &format!("{}, first: {}", left.words(), told.first))?;
        }
    }
    if !tally.refused.is_empty() {
        line(out, "Refused", "the server would not have these", plain)?;
        for (what, told) in &tally.refused {
            counted(out, told.count, &format!("{what}, first: {}", told.first))?;
        }
    }
    line(out, "Marked", &format!("all that was created has the label {RUN}={run}"), plain)?;
    line(out, "", &format!("kinescope replay clean --target {target} --run {run} removes it"), plain)?;
    Ok(outcome)
}

/// The same for programs.
fn json(
    out: &mut Out,
    applier: &Applier,
    transplant: &Transplant,
    took: Duration,
    playing: &Playing<'_>,
) -> anyhow::Result<()> {
    let tally = applier.tally();
    let told = |(what, told): (&str, &Told)| json!({"what": what, "count": told.count, "first": told.first});
    let millis = |share: f64| tally.late(share).map(|late| late.as_millis() as u64);
    let done: Map<String, Value> =
        tally.done.iter().map(|(done, count)| (done_word(*done).to_owned(), (*count).into())).collect();
    let left_out: Map<String, Value> =
        transplant.left_out().iter().map(|(why, count)| (why.to_string(), (*count).into())).collect();
    let summary = json!({
        "run": playing.run,
        "target": playing.how.target.display().to_string(),
        "window": {"from": playing.part.from.to_string(), "to": playing.part.end.to_string()},
        "stoppedAt": applier.position().filter(|_| applier.is_stopped()).map(|at| at.to_string()),
        "seconds": took.as_secs_f64(),
        "requests": tally.count(),
        "done": done,
        "leftOut": left_out,
        "passedOver": tally.left.iter().map(|(left, it)| told((left.words(), it))).collect::<Vec<_>>(),
        "refused": tally.refused.iter().map(|(what, it)| told((what, it))).collect::<Vec<_>>(),
        "lateMillis": {"p50": millis(0.5), "p99": millis(0.99), "most": millis(1.0)},
    });
    writeln!(out.data()?, "{summary:#}")?;
    Ok(())
}

fn done_word(done: Done) -> &'static str {
    match done {
        Done::Created => "created",
        Done::Changed => "changed",
        Done::Bound => "bound",
        Done::Deleted => "deleted",
    }
}

fn late(out: &mut Out, tally: &Tally) -> anyhow::Result<()> {
    let (Some(half), Some(most), Some(all)) = (tally.late(0.5), tally.late(0.99), tally.late(1.0)) else {
        return Ok(());
    };
    let millis = |late: Duration| format!("{} ms", late.as_millis());
    let words = format!(
        "half of them at most {}, 99 % at most {}, none more than {}",
        millis(half),
        millis(most),
        millis(all)
    );
    line(out, "Late", &words, Style::new())
}

fn left_out(out: &mut Out, transplant: &Transplant) -> anyhow::Result<()> {
    if transplant.left_out().is_empty() {
        return Ok(());
    }
    line(out, "Left out", "changes, by rules that --show-rules prints", Style::new())?;
    transplant.left_out().iter().try_for_each(|(why, count)| counted(out, *count, why))
}

fn counted(out: &mut Out, count: u64, words: &str) -> anyhow::Result<()> {
    writeln!(out, "{:>COUNT$}  {}", grouped(count), harmless(words))?;
    Ok(())
}

/// Says what was removed.
pub(super) fn cleaned(out: &mut Out, cleaned: &Cleaned) -> anyhow::Result<()> {
    let total: u64 = cleaned.removed.values().sum();
    line(out, "Removed", &format!("{} objects", grouped(total)), Style::new())?;
    for (kind, count) in &cleaned.removed {
        counted(out, *count, &kind.to_string())?;
    }
    if !cleaned.left.is_empty() {
        line(out, "Still there", &format!("{} objects", grouped(cleaned.left.len() as u64)), Style::new())?;
        for (address, why) in cleaned.left.iter().take(MOST) {
            line(out, "", &format!("{address}: {why}"), Style::new())?;
        }
    }
    Ok(())
}
