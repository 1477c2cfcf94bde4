//! The text output of a live replay: its rules, the dry run, the summary and the cleanup.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use live::apply::{CleanupReport, OutcomeCounts, RUN_LABEL};
use live::translate::{self, ExclusionReason, FileRule};
use replay::live_target::{DryRun, RunSummary};

use crate::Outcome;
use crate::lines::{self, escape_line, write_field};
use crate::output::{HEADING, Printer, format_duration, group_digits};

/// The column at which counts end.
const COUNT_WIDTH: usize = 20;
/// The width of a column of the dry run.
const COLUMN_WIDTH: usize = 10;
const KIND_WIDTH: usize = 40;
/// The most objects listed that were not removed.
const MAX_SHOWN: usize = 5;

/// Prints all rules: the built-in ones, then those of files.
pub(super) fn rules(out: &mut Printer, of_files: &[FileRule]) -> anyhow::Result<Outcome> {
    lines::write_rules(out, &translate::describe())?;
    for rule in of_files {
        writeln!(out, "{}\n    {}", rule.name(), rule.describe())?;
    }
    Ok(Outcome::Done)
}

/// Prints the operations that a live replay would make.
pub(super) fn dry_run(out: &mut Printer, counted: &DryRun) -> anyhow::Result<Outcome> {
    let DryRun { from, end, counts, left_out: unsent } = counted;
    write_field(out, "Would play", &format!("{from} to {end}, with nothing done yet"), Style::new())?;
    write!(out, "{HEADING}{:<KIND_WIDTH$}", "")?;
    DryRun::OPERATIONS.iter().try_for_each(|word| write!(out, "{word:>COLUMN_WIDTH$}"))?;
    writeln!(out, "{HEADING:#}")?;
    for (kind, row) in counts {
        write!(out, "{:<KIND_WIDTH$}", kind.to_string())?;
        row.iter().try_for_each(|count| write!(out, "{:>COLUMN_WIDTH$}", group_digits(*count)))?;
        writeln!(out)?;
    }
    write_left_out(out, unsent)?;
    Ok(Outcome::Done)
}

/// Prints the operations made, those left out, and why.
pub(super) fn summary(out: &mut Printer, summary: &RunSummary) -> anyhow::Result<()> {
    let plain = Style::new();
    let RunSummary { run, from, end, took, tally, .. } = summary;
    let rate = tally.count() as f64 / took.as_secs_f64().max(1e-3);
    let took = format_duration(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
    let target = summary.target.display();
    if summary.is_stopped {
        let position = summary.position.unwrap_or(*from);
        write_field(out, "Stopped", &format!("at {position}, after {took}; all before is done"), plain)?;
        write_field(out, "", "the same command with --resume goes on", plain)?;
    } else {
        write_field(out, "Played", &format!("{from} to {end} into {target} in {took}"), plain)?;
    }
    let words = format!("{} in all, {rate:.0} a second", group_digits(tally.count()));
    write_field(out, "Requests", &words, plain)?;
    tally.applied.iter().try_for_each(|(done, count)| write_count(out, *count, done.as_str()))?;
    write_lateness(out, tally)?;
    write_left_out(out, &summary.left_out)?;
    if !tally.skipped.is_empty() {
        write_field(out, "Passed over", "", plain)?;
        for (left, told) in &tally.skipped {
            write_count(out, told.count, &format!("{}, first: {}", left.describe(), told.first))?;
        }
    }
    if !tally.rejected.is_empty() {
        write_field(out, "Refused", "the server would not have these", plain)?;
        for (what, told) in &tally.rejected {
            write_count(out, told.count, &format!("{what}, first: {}", told.first))?;
        }
    }
    write_field(out, "Marked", &format!("all that was created has the label {RUN_LABEL}={run}"), plain)?;
    write_field(out, "", &format!("kinescope replay clean --target {target} --run {run} removes it"), plain)?;
    Ok(())
}

fn write_lateness(out: &mut Printer, tally: &OutcomeCounts) -> anyhow::Result<()> {
    let (Some(half), Some(most), Some(all)) =
        (tally.lateness_quantile(0.5), tally.lateness_quantile(0.99), tally.lateness_quantile(1.0))
    else {
        return Ok(());
    };
    let millis = |late: Duration| format!("{} ms", late.as_millis());
    let words = format!(
        "half of them at most {}, 99 % at most {}, none more than {}",
        millis(half),
        millis(most),
        millis(all)
    );
    write_field(out, "Late", &words, Style::new())
}

fn write_left_out(out: &mut Printer, reasons: &BTreeMap<ExclusionReason, u64>) -> anyhow::Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    write_field(out, "Left out", "changes, by rules that --show-rules prints", Style::new())?;
    reasons.iter().try_for_each(|(why, count)| write_count(out, *count, why))
}

fn write_count(out: &mut Printer, count: u64, words: &str) -> anyhow::Result<()> {
    writeln!(out, "{:>COUNT_WIDTH$}  {}", group_digits(count), escape_line(words))?;
    Ok(())
}

/// Prints the objects removed.
pub(super) fn cleaned(out: &mut Printer, cleaned: &CleanupReport) -> anyhow::Result<()> {
    let total: u64 = cleaned.removed.values().sum();
    write_field(out, "Removed", &format!("{} objects", group_digits(total)), Style::new())?;
    for (kind, count) in &cleaned.removed {
        write_count(out, *count, &kind.to_string())?;
    }
    if !cleaned.remaining.is_empty() {
        write_field(
            out,
            "Still there",
            &format!("{} objects", group_digits(cleaned.remaining.len() as u64)),
            Style::new(),
        )?;
        for (address, why) in cleaned.remaining.iter().take(MAX_SHOWN) {
            write_field(out, "", &format!("{address}: {why}"), Style::new())?;
        }
    }
    Ok(())
}
