//! `kinescope doctor`: whether a history is whole, and saving what can be saved.

use std::io::Write;
use std::path::{Path, PathBuf};

use history::{Report, doctor, salvage};
use serde_json::json;

use super::output::{Out, counted, grouped};
use super::{Outcome, chosen};

const AFTER: &str = "\
Examples:
  kinescope doctor prod.kine
  kinescope doctor broken.kine --salvage saved.kine

Exit codes: 0 the history is whole, 1 it is damaged.";

/// Check a history, and save what can be saved of a damaged one
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Doctor {
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// Copy all that can still be read into a new history
    #[arg(long, value_name = "NEW")]
    salvage: Option<PathBuf>,
    /// How to print it
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Doctor {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let path = chosen::path(self.history.as_deref())?;
        if let Some(into) = &self.salvage {
            return self.save(out, &path, into);
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
            as_text(out, &report)?;
        }
        Ok(if report.is_clean() { Outcome::Done } else { Outcome::Otherwise })
    }
}

impl Doctor {
    fn save(&self, out: &mut Out, path: &Path, into: &Path) -> anyhow::Result<Outcome> {
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
        writeln!(out, "{} changes saved in {}", grouped(saved.changes), into.display())?;
        if lost > 0 {
            writeln!(out, "{} changes are lost", grouped(lost.unsigned_abs()))?;
        }
        if saved.gaps > 0 {
            writeln!(out, "{} gaps tell when: `kinescope info` lists them", grouped(saved.gaps as u64))?;
        }
        for note in &saved.notes {
            writeln!(out, "{note}")?;
        }
        Ok(Outcome::Done)
    }
}

fn as_text(out: &mut Out, report: &Report) -> anyhow::Result<()> {
    for finding in &report.findings {
        writeln!(out, "- {finding}")?;
    }
    let read = format!("{} changes in {} frames", grouped(report.changes), grouped(report.frames));
    if report.is_clean() {
        writeln!(out, "the history is whole: {read}")?;
    } else {
        writeln!(out, "the history is damaged; {read} are whole: --salvage NEW copies what can be read")?;
    }
    if report.gaps > 0 {
        writeln!(out, "{} recorded: `kinescope info` lists them", counted(report.gaps as u64, "gap"))?;
    }
    Ok(())
}
