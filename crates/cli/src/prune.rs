//! `kinescope prune`: removes the beginning of a history.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use query::OpenHistory;
use serde_json::json;

use super::output::{Printer, format_bytes, group_digits};
use super::{Outcome, history_arg};

const AFTER: &str = "\
Examples:
  kinescope prune prod.kine --before -30d
  kinescope prune --before 2026-10-01";

/// Forget what was before a moment; the state then becomes the beginning
///
/// Every later moment shows what it did before. What is forgotten is gone from the file.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Prune {
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// The new beginning
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    before: String,
    /// How to print what was done
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Prune {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let path = history_arg::resolve(self.history.as_deref())?;
        let chosen = OpenHistory::open(&path)?;
        let moment = chosen.moment(Some(&self.before))?;
        if moment > chosen.times.end {
            bail!(
                "{moment} is after the history's end at {}: nothing would be left but that",
                chosen.times.end
            );
        }
        if moment <= chosen.times.start {
            bail!("the history begins at {}: there is nothing before {moment}", chosen.times.start);
        }
        drop(chosen);
        let pruned = history::prune(&path, moment)?;
        if self.output == "json" {
            let report = json!({
                "history": path.display().to_string(),
                "begins": pruned.begins.to_string(),
                "changesBefore": pruned.changes.0,
                "changesAfter": pruned.changes.1,
                "bytesBefore": pruned.bytes.0,
                "bytesAfter": pruned.bytes.1,
            });
            writeln!(out, "{report:#}")?;
        } else {
            writeln!(out, "{} begins at {} now", path.display(), pruned.begins)?;
            writeln!(
                out,
                "{} of {} changes are left, {} of {}",
                group_digits(pruned.changes.1),
                group_digits(pruned.changes.0),
                format_bytes(pruned.bytes.1),
                format_bytes(pruned.bytes.0)
            )?;
        }
        Ok(Outcome::Done)
    }
}
