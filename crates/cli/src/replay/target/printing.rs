//! What is printed of a run: the rules, the plan, what came of it.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use live::applying::{Cleaned, RUN, Tally};
use live::transplant::{self, FileRule, LeftOut};
use replay::live_target::{DryRun, RunSummary};

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
pub(super) fn dry_run(out: &mut Out, counted: &DryRun) -> anyhow::Result<Outcome> {
    let DryRun { from, end, counts, left_out: unsent } = counted;
    line(out, "Would play", &format!("{from} to {end}, with nothing done yet"), Style::new())?;
    write!(out, "{HEADING}{:<KIND$}", "")?;
    DryRun::OPERATIONS.iter().try_for_each(|word| write!(out, "{word:>COLUMN$}"))?;
    writeln!(out, "{HEADING:#}")?;
    for (kind, row) in counts {
        write!(out, "{:<KIND$}", kind.to_string())?;
        row.iter().try_for_each(|count| write!(out, "{:>COLUMN$}", grouped(*count)))?;
        writeln!(out)?;
    }
    left_out(out, unsent)?;
    Ok(Outcome::Done)
}

/// Says what was done, what was not, and why.
pub(super) fn summary(out: &mut Out, summary: &RunSummary) -> anyhow::Result<()> {
    let plain = Style::new();
    let RunSummary { run, from, end, took, tally, .. } = summary;
    let rate = tally.count() as f64 / took.as_secs_f64().max(1e-3);
    let took = span(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
    let target = summary.target.display();
    if summary.is_stopped {
        let position = summary.position.unwrap_or(*from);
        line(out, "Stopped", &format!("at {position}, after {took}; all before is done"), plain)?;
        line(out, "", "the same command with --resume goes on", plain)?;
    } else {
        line(out, "Played", &format!("{from} to {end} into {target} in {took}"), plain)?;
    }
    let words = format!("{} in all, {rate:.0} a second", grouped(tally.count()));
    line(out, "Requests", &words, plain)?;
    tally.done.iter().try_for_each(|(done, count)| counted(out, *count, done.word()))?;
    late(out, tally)?;
    left_out(out, &summary.left_out)?;
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
    Ok(())
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

fn left_out(out: &mut Out, reasons: &BTreeMap<LeftOut, u64>) -> anyhow::Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    line(out, "Left out", "changes, by rules that --show-rules prints", Style::new())?;
    reasons.iter().try_for_each(|(why, count)| counted(out, *count, why))
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
