//! `kinescope replay clean`, `pause`, `resume` and `runs`: what was played into an API server, and what is.

use std::io::Write;
use std::path::PathBuf;

use live::Connection;
use live::applying::Run;
use replay::live_target::{SHUTDOWN_TIMEOUT, known_runs};

use super::{now, printing};
use crate::Outcome;
use crate::output::{HEADING, Out};

/// What is done about runs.
#[derive(clap::Subcommand)]
pub(in crate::replay) enum OfRun {
    /// Remove all that a replay created in an API server, and nothing else
    Clean(Which),
    /// Let a replay that is being played into an API server wait
    Pause(Which),
    /// Let a replay that waits go on
    Resume(Which),
    /// Show the replays that an API server knows of
    Runs(Server),
}

/// Where.
#[derive(clap::Args)]
pub(in crate::replay) struct Server {
    /// The kubeconfig of the API server
    #[arg(long, value_name = "KUBECONFIG")]
    target: PathBuf,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

/// Which.
#[derive(clap::Args)]
pub(in crate::replay) struct Which {
    #[command(flatten)]
    server: Server,
    /// The name of the run [default: the only one there is]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
}

/// Columns.
const NAME: usize = 24;
const STATE: usize = 10;
const AT: usize = 34;

impl OfRun {
    pub(in crate::replay) fn run(&self, out: &mut Out) -> anyhow::Result<Outcome> {
        let runtime = recorder::runtime()?;
        let done = runtime.block_on(self.act(out));
        runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        done
    }

    async fn act(&self, out: &mut Out) -> anyhow::Result<Outcome> {
        let (OfRun::Clean(Which { server, .. })
        | OfRun::Pause(Which { server, .. })
        | OfRun::Resume(Which { server, .. })
        | OfRun::Runs(server)) = self;
        let connection = Connection::open(Some(&server.target), server.context.as_deref()).await?;
        match self {
            OfRun::Runs(_) => show(out, &known_runs::runs(&connection).await?)?,
            OfRun::Clean(which) => {
                let cleaned = known_runs::clean(connection, which.run.as_deref()).await?;
                printing::cleaned(out, &cleaned)?;
                if !cleaned.left.is_empty() {
                    return Ok(Outcome::Otherwise);
                }
            }
            OfRun::Pause(which) | OfRun::Resume(which) => {
                let paused = matches!(self, OfRun::Pause(_));
                let run = known_runs::set_paused(&connection, which.run.as_deref(), paused, now()).await?;
                let words = if paused { "waits from now on" } else { "goes on" };
                writeln!(out, "run {} {words}", run.name)?;
            }
        }
        Ok(Outcome::Done)
    }
}

fn show(out: &mut Out, runs: &[Run]) -> anyhow::Result<()> {
    if runs.is_empty() {
        out.complain("no runs found");
        return Ok(());
    }
    writeln!(out, "{HEADING}{:<NAME$}{:<STATE$}{:<AT$}WHAT{HEADING:#}", "NAME", "STATE", "AT")?;
    for run in runs {
        let state = known_runs::state_word(run, now());
        let at = run.position.map_or_else(|| "<none>".to_owned(), |at| at.to_string());
        writeln!(out, "{:<NAME$}{state:<STATE$}{at:<AT$}{}", run.name, run.what)?;
    }
    Ok(())
}
