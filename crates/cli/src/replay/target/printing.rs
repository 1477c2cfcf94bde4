//! The text output of a live replay: its rules, the dry run, the summary and the cleanup.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::Style;
use live::apply::{CleanupReport, OutcomeCounts, RUN_LABEL};
use live::translate::{self, ExclusionReason, UserRule};
use replay::live_target::{DryRun, RunSummary};

use crate::Outcome;
use crate::lines::{self, escape_line, write_field};
use crate::output::{HEADING, Printer, count_noun, format_duration, group_digits};

/// The column at which counts end.
const COUNT_WIDTH: usize = 20;
/// The width of a column of the dry run.
const COLUMN_WIDTH: usize = 10;
const KIND_WIDTH: usize = 40;
/// The most objects listed that were not removed.
const MAX_SHOWN: usize = 5;

/// Prints all rules: the built-in ones, then those of files.
pub(super) fn rules(out: &mut Printer, of_files: &[UserRule]) -> anyhow::Result<Outcome> {
    lines::write_rules(out, &translate::describe())?;
    for rule in of_files {
        writeln!(out, "{}\n    {}", rule.name(), rule.describe())?;
    }
    Ok(Outcome::Done)
}

/// Prints the operations that a live replay would make.
pub(super) fn dry_run(out: &mut Printer, counted: &DryRun) -> anyhow::Result<Outcome> {
    let DryRun { from, end, counts, left_out: unsent } = counted;
    write_field(out, "Dry run", &format!("{from} to {end}, nothing is applied"), Style::new())?;
    write!(out, "{HEADING}{:<KIND_WIDTH$}", "")?;
    DryRun::OPERATIONS.iter().try_for_each(|operation| write!(out, "{operation:>COLUMN_WIDTH$}"))?;
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
    let RunSummary { run, from, end, took, outcomes: counts, .. } = summary;
    let rate = counts.count() as f64 / took.as_secs_f64().max(1e-3);
    let took = format_duration(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX));
    let target = summary.target.display();
    if summary.is_stopped {
        let position = summary.position.unwrap_or(*from);
        write_field(
            out,
            "Stopped",
            &format!("at {position}, after {took}; all earlier changes are applied"),
            plain,
        )?;
        write_field(out, "", "continue with the same command and --resume", plain)?;
    } else {
        write_field(out, "Replayed", &format!("{from} to {end} into {target} in {took}"), plain)?;
    }
    let text = format!("{} in total, {rate:.0} per second", group_digits(counts.count()));
    write_field(out, "Requests", &text, plain)?;
    counts.applied.iter().try_for_each(|(done, count)| write_count(out, *count, done.as_str()))?;
    write_lateness(out, counts)?;
    write_left_out(out, &summary.left_out)?;
    if !counts.skipped.is_empty() {
        write_field(out, "Skipped", "", plain)?;
        for (skip_reason, occurrences) in &counts.skipped {
            write_count(
                out,
                occurrences.count,
                &format!("{}, first: {}", skip_reason.describe(), occurrences.first),
            )?;
        }
    }
    if !counts.failed.is_empty() {
        write_field(out, "Rejected", "by the API server", plain)?;
        for (rejection_reason, occurrences) in &counts.failed {
            write_count(
                out,
                occurrences.count,
                &format!("{rejection_reason}, first: {}", occurrences.first),
            )?;
        }
    }
    write_field(out, "Label", &format!("all created objects have {RUN_LABEL}={run}"), plain)?;
    write_field(
        out,
        "",
        &format!("delete them with: kinescope replay clean --target {target} --run {run}"),
        plain,
    )?;
    Ok(())
}

fn write_lateness(out: &mut Printer, counts: &OutcomeCounts) -> anyhow::Result<()> {
    let (Some(half), Some(most), Some(all)) =
        (counts.lateness_quantile(0.5), counts.lateness_quantile(0.99), counts.lateness_quantile(1.0))
    else {
        return Ok(());
    };
    let millis = |late: Duration| format!("{} ms", late.as_millis());
    let text =
        format!("p50 {}, p99 {}, max {} after their due time", millis(half), millis(most), millis(all));
    write_field(out, "Delay", &text, Style::new())
}

fn write_left_out(out: &mut Printer, reasons: &BTreeMap<ExclusionReason, u64>) -> anyhow::Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    write_field(out, "Excluded", "changes, by rules (see --show-rules)", Style::new())?;
    reasons.iter().try_for_each(|(why, count)| write_count(out, *count, why))
}

fn write_count(out: &mut Printer, count: u64, text: &str) -> anyhow::Result<()> {
    writeln!(out, "{:>COUNT_WIDTH$}  {}", group_digits(count), escape_line(text))?;
    Ok(())
}

/// Prints the objects removed.
pub(super) fn cleaned(out: &mut Printer, cleaned: &CleanupReport) -> anyhow::Result<()> {
    let total: u64 = cleaned.removed.values().sum();
    write_field(out, "Deleted", &count_noun(total, "object"), Style::new())?;
    for (kind, count) in &cleaned.removed {
        write_count(out, *count, &kind.to_string())?;
    }
    if !cleaned.remaining.is_empty() {
        let remaining = count_noun(cleaned.remaining.len() as u64, "object");
        write_field(out, "Not deleted", &remaining, Style::new())?;
        for (address, why) in cleaned.remaining.iter().take(MAX_SHOWN) {
            write_field(out, "", &format!("{address}: {why}"), Style::new())?;
        }
    }
    Ok(())
}
