//! `kinescope replay clean`, `pause`, `resume` and `runs`: management of live replays in an API server.

use std::io::Write;
use std::path::PathBuf;

use live::Connection;
use live::apply::RunStatus;
use replay::live_target::{SHUTDOWN_TIMEOUT, known_runs};

use super::{now, printing};
use crate::Outcome;
use crate::output::{HEADING, Printer};

/// What is done about runs.
#[derive(clap::Subcommand)]
pub(in crate::replay) enum RunCommand {
    /// Delete all objects created by a live replay, and no others
    Clean(RunArgs),
    /// Pause a live replay
    Pause(RunArgs),
    /// Resume a paused live replay
    Resume(RunArgs),
    /// List the live replays in an API server
    Runs(ServerArgs),
}

/// Where.
#[derive(clap::Args)]
pub(in crate::replay) struct ServerArgs {
    /// Kubeconfig of the API server
    #[arg(long, value_name = "KUBECONFIG")]
    target: PathBuf,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which.
#[derive(clap::Args)]
pub(in crate::replay) struct RunArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Name of the run [default: the only one]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
}

/// Widths of the columns.
const NAME_WIDTH: usize = 24;
const STATE_WIDTH: usize = 10;
const TIME_WIDTH: usize = 34;

impl RunCommand {
    pub(in crate::replay) fn run(&self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let runtime = recorder::runtime()?;
        let done = runtime.block_on(self.run_async(out));
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        done
    }

    async fn run_async(&self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let (RunCommand::Clean(RunArgs { server, .. })
        | RunCommand::Pause(RunArgs { server, .. })
        | RunCommand::Resume(RunArgs { server, .. })
        | RunCommand::Runs(server)) = self;
        let connection = Connection::open(Some(&server.target), server.context.as_deref()).await?;
        match self {
            RunCommand::Runs(_) => print_runs(out, &known_runs::list_runs(&connection).await?)?,
            RunCommand::Clean(which) => {
                let cleaned = known_runs::clean(connection, which.run.as_deref()).await?;
                printing::cleaned(out, &cleaned)?;
                if !cleaned.remaining.is_empty() {
                    return Ok(Outcome::Negative);
                }
            }
            RunCommand::Pause(which) | RunCommand::Resume(which) => {
                let paused = matches!(self, RunCommand::Pause(_));
                let run = known_runs::set_paused(&connection, which.run.as_deref(), paused, now()).await?;
                let state_text = if paused { "paused" } else { "resumed" };
                writeln!(out, "run {} {state_text}", run.name)?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn print_runs(out: &mut Printer, runs: &[RunStatus]) -> anyhow::Result<()> {
    if runs.is_empty() {
        out.print_to_stderr("no runs found");
        return Ok(());
    }
    writeln!(
        out,
        "{HEADING}{:<NAME_WIDTH$}{:<STATE_WIDTH$}{:<TIME_WIDTH$}REPLAY{HEADING:#}",
        "NAME", "STATE", "POSITION"
    )?;
    for run in runs {
        let state = known_runs::state_name(run, now());
        let at = run.position.map_or_else(|| "<none>".to_owned(), |at| at.to_string());
        writeln!(out, "{:<NAME_WIDTH$}{state:<STATE_WIDTH$}{at:<TIME_WIDTH$}{}", run.name, run.description)?;
    }
    Ok(())
}
