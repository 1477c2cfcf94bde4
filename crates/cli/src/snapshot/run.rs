//! `kinescope snapshot run`: the actions of KAI-Scheduler on a snapshot.

use std::path::PathBuf;

use snapshot::{compare, run};

use super::input::{CycleArgs, HistoryArgs, PATHS_HELP, print_warnings, read, read_file_or_moment};
use super::{diff, run_text};
use crate::Outcome;
use crate::output::Printer;

const AFTER: &str = "\
One cycle is run: the state afterwards is that of the scheduler when it has decided. With --cycles, the decisions take \
effect before the next cycle: bound pods run, evicted and deleted pods leave, and come back pending if their pod group \
is still there and is not being deleted; the clock advances by the schedule period. The run ends when a cycle changes \
nothing.

Amounts of -o json: GPUs in devices, cpu in millicores, memory in bytes; -1 is unlimited.

With --against, exit codes are those of `diff`: 0 the same, 1 different, 2 error.

";

const EXAMPLES: &str = "

Examples:
  kinescope snapshot run snapshot.zip
  kinescope snapshot run --history gpu.kine --at 14:03 --cycles 10
  kinescope snapshot run snapshot.zip --actions allocate,reclaim -o json
  # What would more quota change?
  kinescope snapshot run snapshot.zip --set queue/team-a.gpu.quota=16 \\
    --against snapshot.zip";

/// Run the scheduler's actions on a snapshot
#[derive(clap::Args)]
#[command(after_help = format!("{AFTER}{PATHS_HELP}{EXAMPLES}"))]
pub(super) struct RunSnapshot {
    /// Snapshot: the ZIP of KAI-Scheduler, or its JSON; - for standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Time in the history [default: its end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    #[command(flatten)]
    history: HistoryArgs,
    #[command(flatten)]
    run: CycleArgs,
    /// Most cycles to run
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    cycles: u32,
    /// Compare with another snapshot, a file or a time of --history, that is run without --set
    #[arg(long, value_name = "FILE|TIME", allow_hyphen_values = true)]
    against: Option<String>,
    /// Output format; wide shows all resources and all rows
    #[arg(short, long, value_parser = ["table", "wide", "json"], default_value = "table")]
    output: String,
}

impl RunSnapshot {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let snapshot = self.run.at_now(read(self.file.as_deref(), self.at.as_deref(), &self.history)?)?;
        let options = self.run.options(self.cycles);
        let done = run(&snapshot, &options)?;
        if let Some(against) = &self.against {
            let other = self.run.at_now(read_file_or_moment(against, &self.history)?)?;
            let plain = snapshot::RunOptions { overrides: Vec::new(), ..options };
            let comparison = compare(&run(&other, &plain)?, &done);
            return diff::print(out, &comparison, &self.output);
        }
        print_warnings(out, &done.report.snapshot.warnings);
        match self.output.as_str() {
            "json" => writeln!(out.data()?, "{:#}", serde_json::to_value(&done.report)?)?,
            style => run_text::write(out, &done.report, style == "wide")?,
        }
        Ok(Outcome::Done)
    }

    pub(super) fn is_comparison(&self) -> bool {
        self.against.is_some()
    }
}
