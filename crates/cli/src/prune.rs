//! `kinescope prune`: removes the beginning of a history.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use query::OpenHistory;
use serde_json::json;

use super::output::{Printer, format_bytes, group_digits};
use super::{Outcome, history_arg};

const AFTER: &str = "\
The history then starts with the state at TIME; later times are not affected. Deleted changes are removed from the \
file and cannot be restored.

Examples:
  kinescope prune prod.kine --before -30d
  kinescope prune --before 2026-10-01";

/// Delete history older than TIME
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Prune {
    /// History to prune [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    history: Option<PathBuf>,
    /// Delete changes before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    before: String,
    /// Output format
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

impl Prune {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let path = history_arg::resolve(self.history.as_deref())?;
        let open_history = OpenHistory::open(&path)?;
        let moment = open_history.moment(Some(&self.before))?;
        if moment > open_history.times.end {
            bail!(
                "{moment} is after the end of the history at {}: nothing would be kept",
                open_history.times.end
            );
        }
        if moment <= open_history.times.start {
            bail!("nothing to delete before {moment}: the history begins at {}", open_history.times.start);
        }
        drop(open_history);
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
            writeln!(out, "{} now begins at {}", path.display(), pruned.begins)?;
            writeln!(
                out,
                "{} of {} changes kept, {} of {}",
                group_digits(pruned.changes.1),
                group_digits(pruned.changes.0),
                format_bytes(pruned.bytes.1),
                format_bytes(pruned.bytes.0)
            )?;
        }
        Ok(Outcome::Done)
    }
}
