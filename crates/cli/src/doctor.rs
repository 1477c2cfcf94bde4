//! `kinescope doctor`: checks a history for damage, and salvages what is readable.

use std::io::Write;
use std::path::{Path, PathBuf};

use history::{DoctorReport, doctor, salvage};
use serde_json::json;

use super::output::{Printer, count_noun, group_digits};
use super::{Outcome, history_arg};

const AFTER: &str = "\
Exit codes: 0 no damage, 1 damaged.

Examples:
  kinescope doctor prod.kine
  kinescope doctor broken.kine --salvage saved.kine";

/// Check a history for damage, and salvage a damaged one
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Doctor {
    /// History to check [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    history: Option<PathBuf>,
    /// Copy all readable changes to a new history
    #[arg(long, value_name = "NEW")]
    salvage: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Doctor {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let path = history_arg::resolve(self.history.as_deref())?;
        if let Some(into) = &self.salvage {
            return self.run_salvage(out, &path, into);
        }
        let report = doctor(&path)?;
        if self.output == "json" {
            let report = json!({
                "history": path.display().to_string(),
                "whole": report.is_clean(),
                "findings": report.findings,
                "changes": report.changes,
                "frames": report.frames,
                "gaps": report.gaps,
            });
            writeln!(out, "{report:#}")?;
        } else {
            write_text(out, &report)?;
        }
        Ok(if report.is_clean() { Outcome::Done } else { Outcome::Negative })
    }
}

impl Doctor {
    fn run_salvage(&self, out: &mut Printer, path: &Path, into: &Path) -> anyhow::Result<Outcome> {
        let saved = salvage(path, into)?;
        let lost: i64 = saved.lost.iter().map(|(first, last)| last - first + 1).sum();
        if self.output == "json" {
            let report = json!({
                "history": path.display().to_string(),
                "salvaged": into.display().to_string(),
                "changes": saved.changes,
                "lost": lost,
                "lostNumbers": saved.lost,
                "gaps": saved.gaps,
                "notes": saved.notes,
            });
            writeln!(out, "{report:#}")?;
            return Ok(Outcome::Done);
        }
        writeln!(out, "{} changes salvaged to {}", group_digits(saved.changes), into.display())?;
        if lost > 0 {
            writeln!(out, "{} changes lost", group_digits(lost.unsigned_abs()))?;
        }
        if saved.gaps > 0 {
            writeln!(
                out,
                "{} recorded for them: see `kinescope info`",
                count_noun(saved.gaps as u64, "gap")
            )?;
        }
        for note in &saved.notes {
            writeln!(out, "{note}")?;
        }
        Ok(Outcome::Done)
    }
}

fn write_text(out: &mut Printer, report: &DoctorReport) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "- {finding}")?;
    }
    let read = format!("{} changes in {} frames", group_digits(report.changes), group_digits(report.frames));
    if report.is_clean() {
        writeln!(out, "no damage found: {read}")?;
    } else {
        writeln!(out, "damage found: {read} are readable; copy them with --salvage NEW")?;
    }
    if report.gaps > 0 {
        writeln!(out, "{} recorded: see `kinescope info`", count_noun(report.gaps as u64, "gap"))?;
    }
    Ok(())
}
