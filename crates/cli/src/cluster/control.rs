//! `kinescope cluster reset`, `dump` and `advance`: the control of a running virtual cluster.

use std::convert::Infallible;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use jiff::tz::TimeZone;
use live::Connection;
use live::list_watch::RequestFailure;
use model::{Moment, TimeParser};
use serde_json::{Value, json};
use virtualcluster::{AdvanceRequest, CONTROL_PATH, MAX_ADVANCE};

use crate::Outcome;
use crate::output::Printer;
use crate::progress::Progress;

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
        #[command(flatten)]
        distance: AdvanceDistance,
        #[command(flatten)]
        target: ControlTarget,
    },
}

/// How far a clock is moved.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct AdvanceDistance {
    /// How far: `7d`, `90m`, `1d12h`; at most 10 years
    #[arg(value_name = "TIME", value_parser = parse_distance)]
    by: Option<Duration>,
    /// Until nothing is about to happen by itself
    #[arg(long)]
    until_idle: bool,
}

/// The cluster that is controlled.
#[derive(clap::Args)]
pub(super) struct ControlTarget {
    /// Kubeconfig that the cluster wrote
    #[arg(long, value_name = "FILE", default_value = "kinescope.kubeconfig")]
    kubeconfig: PathBuf,
}

/// How often a clock that moves is shown.
const CLOCK_INTERVAL: Duration = Duration::from_millis(200);

impl Control {
    pub(super) fn run(&self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Control::Reset { target } => {
                    let connection = target.connect().await?;
                    let path = format!("{CONTROL_PATH}/reset");
                    let reset = connection.post_json(&path, &json!({}), "reset the cluster").await;
                    let reset = reset.map_err(|error| target.explain(error))?;
                    writeln!(out, "cluster reset: {} objects", reset["objects"])?;
                }
                Control::Dump { target } => dump(target, out).await?,
                Control::Advance { distance, target } => advance(distance, target, out).await?,
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

    /// An error of a request, in the user's words.
    fn explain(&self, error: live::Error) -> anyhow::Error {
        let path = self.kubeconfig.display();
        let live::Error::Server { failure, .. } = &error else { return error.into() };
        match failure.status {
            // A cluster of the past says what can be done instead.
            Some(405) => anyhow!("{}", failure.message),
            Some(403 | 404) => {
                anyhow!("{path} is not the kubeconfig of a cluster that `kinescope cluster` runs")
            }
            None if failure.message == RequestFailure::CONNECTION_REFUSED => {
                anyhow!("no server listens at the address in {path}: the cluster has ended")
            }
            Some(_) | None => error.into(),
        }
    }
}

/// A duration of whole seconds, such as `7d`, `90` or `1d12h`.
fn parse_distance(text: &str) -> Result<Duration, String> {
    let distance = recorder::parse_duration(text).or_else(|_| {
        // The durations that times are given with: `start+1d12h`.
        let zero = Moment::default();
        let times = TimeParser { start: zero, end: zero, zone: TimeZone::UTC };
        let reached = times.parse(&format!("start+{text}")).ok();
        let nanos = reached.and_then(|reached| u64::try_from(reached.nanos()).ok());
        let whole = nanos.filter(|nanos| *nanos > 0 && nanos % 1_000_000_000 == 0).map(Duration::from_nanos);
        whole.ok_or_else(|| {
            format!("invalid duration {text:?}: expected 60, 60s, 5m, 1.5h, 30d or 1d12h, for example")
        })
    })?;
    if distance > MAX_ADVANCE {
        return Err("the clock moves by at most 10 years (3650d) at once".to_owned());
    }
    Ok(distance)
}

async fn advance(
    distance: &AdvanceDistance,
    target: &ControlTarget,
    out: &mut Printer,
) -> anyhow::Result<()> {
    let AdvanceDistance { by, until_idle } = distance;
    let request = AdvanceRequest { seconds: by.map(|by| by.as_secs()), until_idle: *until_idle };
    let path = format!("{CONTROL_PATH}/advance");
    let document = serde_json::to_value(request)?;
    let connection = target.connect().await?;
    let progress = Progress::advance(out, request.seconds);
    let moving = connection.post_json_without_timeout(&path, &document, "move the clock");
    let moved = tokio::select! {
        moved = moving => moved,
        never = show_clock(&connection, &progress), if out.shows_progress() => match never {},
    };
    drop(progress);
    let moved = moved.map_err(|error| target.explain(error))?;
    writeln!(out, "now {}", moved["now"].as_str().unwrap_or_default())?;
    Ok(())
}

/// Shows the clock while it moves.
async fn show_clock(connection: &Connection, progress: &Progress) -> Infallible {
    let path = format!("{CONTROL_PATH}/clock");
    let mut start = None;
    loop {
        // A clock that cannot be read is not shown; an error is that of the advance.
        let clock = connection.get_json(&path, "read the clock").await.ok();
        let now = clock.and_then(|clock| clock["now"].as_str()?.parse::<Moment>().ok());
        if let Some(now) = now {
            let passed = now.nanos_since(*start.get_or_insert(now));
            progress.set_clock(u64::try_from(passed / 1_000_000_000).unwrap_or(0), now);
        }
        tokio::time::sleep(CLOCK_INTERVAL).await;
    }
}

async fn dump(target: &ControlTarget, out: &mut Printer) -> anyhow::Result<()> {
    let connection = target.connect().await?;
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
        .await
        .map_err(|error| target.explain(error))?;
    written?;
    if !is_complete {
        bail!("the server stopped in the middle of the objects: what was printed is not all of them");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_durations_of_whole_seconds() {
        for (text, seconds) in [
            ("90", Some(90)),
            ("7d", Some(7 * 86_400)),
            ("7d3h", Some(7 * 86_400 + 3 * 3600)),
            ("1.5h", Some(5400)),
            ("1w", Some(7 * 86_400)),
            ("3650d", Some(3650 * 86_400)),
            ("3651d", None),
            ("9999999d", None),
            ("1.5s", None),
            ("0s", None),
            ("-1h", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(parse_distance(text).ok().map(|time| time.as_secs()), seconds, "{text}");
        }
    }
}
