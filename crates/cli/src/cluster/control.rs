//! `kinescope cluster reset`, `dump` and `advance`: the control of a running virtual cluster.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use live::Connection;
use serde_json::{Value, json};
use virtualcluster::{AdvanceRequest, CONTROL_PATH};

use crate::Outcome;
use crate::output::Printer;

/// Control of a running virtual cluster.
#[derive(clap::Subcommand)]
pub(super) enum Control {
    /// Restore the state that the cluster started with
    Reset {
        #[command(flatten)]
        target: ControlTarget,
    },
    /// Print all objects of the cluster as manifests
    Dump {
        #[command(flatten)]
        target: ControlTarget,
    },
    /// Move the clock of a cluster that was started with --clock virtual
    Advance {
        /// How far: `7d`, `90m`
        #[arg(required_unless_present = "until_idle", conflicts_with = "until_idle", value_name = "TIME",
            value_parser = recorder::parse_duration)]
        by: Option<Duration>,
        /// Until nothing is about to happen by itself
        #[arg(long)]
        until_idle: bool,
        #[command(flatten)]
        target: ControlTarget,
    },
}

/// The cluster that is controlled.
#[derive(clap::Args)]
pub(super) struct ControlTarget {
    /// Kubeconfig that the cluster wrote
    #[arg(long, value_name = "FILE", default_value = "kinescope.kubeconfig")]
    kubeconfig: PathBuf,
}

impl Control {
    pub(super) fn run(&self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Control::Reset { target } => {
                    let connection = target.connect().await?;
                    let path = format!("{CONTROL_PATH}/reset");
                    let reset = connection.post_json(&path, &json!({}), "reset the cluster").await?;
                    writeln!(out, "cluster reset: {} objects", reset["objects"])?;
                }
                Control::Dump { target } => dump(&target.connect().await?, out).await?,
                Control::Advance { by, until_idle, target } => {
                    let request =
                        AdvanceRequest { seconds: by.map(|by| by.as_secs()), until_idle: *until_idle };
                    let path = format!("{CONTROL_PATH}/advance");
                    let connection = target.connect().await?;
                    let document = serde_json::to_value(request)?;
                    let moved = connection.post_json(&path, &document, "move the clock").await?;
                    writeln!(out, "now {}", moved["now"].as_str().unwrap_or_default())?;
                }
            }
            Ok(Outcome::Done)
        })
    }
}

impl ControlTarget {
    async fn connect(&self) -> anyhow::Result<Connection> {
        let path = &self.kubeconfig;
        if !path.exists() {
            bail!(
                "{} does not exist: is a cluster running? Name the kubeconfig that it wrote with --kubeconfig",
                path.display()
            );
        }
        Connection::open(Some(path), None).await.with_context(|| path.display().to_string())
    }
}

async fn dump(connection: &Connection, out: &mut Printer) -> anyhow::Result<()> {
    let mut is_complete = false;
    let mut written = Ok(());
    let path = format!("{CONTROL_PATH}/dump");
    connection
        .for_each_line(&path, "read the objects of the cluster", |line| {
            is_complete = line.is_empty();
            if line.is_empty() || written.is_err() {
                return;
            }
            written = serde_json::from_slice::<Value>(line)
                .map_err(anyhow::Error::from)
                .and_then(|object| Ok(write!(out, "---\n{}", formats::manifests::to_yaml(&object))?));
        })
        .await?;
    written?;
    if !is_complete {
        bail!("the server stopped in the middle of the objects: what was printed is not all of them");
    }
    Ok(())
}
