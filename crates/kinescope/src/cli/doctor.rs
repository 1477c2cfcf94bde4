//! `kinescope doctor`: whether a history is whole, and saving what can be saved.

use std::io::Write;
use std::path::PathBuf;

use history::{Report, doctor};
use serde_json::json;

use super::output::{Out, grouped};
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
        writeln!(out, "{} gaps were recorded: `kinescope info` lists them", grouped(report.gaps as u64))?;
    }
    Ok(())
}
