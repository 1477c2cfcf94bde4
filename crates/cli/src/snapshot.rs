//! `kinescope snapshot`: KAI-Scheduler's snapshots, taken, run, explained and compared.

mod columns;
mod diff;
mod explain;
mod explain_text;
mod input;
mod queue_text;
mod run;
mod run_text;
mod take;
pub(super) mod tool;

use clap::Subcommand;

use super::Outcome;
use super::output::Printer;

const AFTER: &str = "\
A snapshot has the objects and settings of KAI-Scheduler at one moment. It is the ZIP of KAI's /get-snapshot, of any \
release, or a moment of a history. Decisions are those of KAI-Scheduler 0.17; the same snapshot always gives the same.

Examples:
  kinescope snapshot take --history gpu.kine --at 14:03 --out then.zip
  kinescope snapshot run then.zip
  kinescope snapshot run then.zip --set queue/team-a.gpu.quota=16
  kinescope snapshot explain podgroup/train-7 then.zip
  kinescope snapshot diff before.zip after.zip";

/// Run KAI-Scheduler on a snapshot, and explain and compare its decisions
#[derive(clap::Args)]
#[command(after_help = AFTER, subcommand_required = true, arg_required_else_help = true)]
#[command(disable_help_subcommand = true)]
pub(super) struct Snapshot {
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Subcommand)]
enum SnapshotCommand {
    Take(take::TakeSnapshot),
    Run(run::RunSnapshot),
    Explain(explain::ExplainSnapshot),
    Diff(diff::DiffSnapshots),
}

impl Snapshot {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        match self.command {
            SnapshotCommand::Take(take) => take.run(out),
            SnapshotCommand::Run(run) => run.run(out),
            SnapshotCommand::Explain(explain) => explain.run(out),
            SnapshotCommand::Diff(diff) => diff.run(out),
        }
    }

    /// Whether errors have the exit code 2, because 1 stands for a difference.
    pub(super) fn is_comparison(&self) -> bool {
        match &self.command {
            SnapshotCommand::Diff(_) => true,
            SnapshotCommand::Run(run) => run.is_comparison(),
            SnapshotCommand::Take(_) | SnapshotCommand::Explain(_) => false,
        }
    }
}
