//! What is measured in a process of its own, so that no figure depends on the heap that another left behind.

use std::env;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::filled::{self, Filled};
use super::play::{Played, play};
use super::workloads::{self, Workload};
use crate::Result;

/// The first argument of a child.
const CHILD: &str = "--child";
const WORKLOAD: &str = "scheduler-workload";
const MEMORY: &str = "scheduler-memory";
/// A workload is played so often at least.
const LEAST_RUNS: usize = 3;

/// What a child saw of a workload.
#[derive(Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) nodes: usize,
    pub(super) placed: usize,
    pub(super) measured: usize,
    pub(super) runs: Vec<Played>,
}

/// Lets a child play a workload until so many seconds were measured; the laps are those of [`play`].
pub(super) fn workload(workload: &Workload, seconds: f64, laps: &[usize]) -> Result<Report> {
    let mut arguments = vec![WORKLOAD.to_owned(), workload.name.to_owned(), seconds.to_string()];
    arguments.extend(laps.iter().map(usize::to_string));
    report(&arguments)
}

/// Lets a child fill a cluster.
pub(super) fn memory() -> Result<Filled> {
    report(&[MEMORY.to_owned()])
}

/// Does what a child was started for; `None` if this process is none of these.
pub(crate) fn be_one() -> Option<Result<()>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, WORKLOAD, name, seconds, ref laps @ ..] => Some(report_workload(name, seconds, laps)),
        [CHILD, MEMORY] => Some(filled::fill().and_then(|filled| tell(&filled))),
        _ => None,
    }
}

fn report<T: DeserializeOwned>(arguments: &[String]) -> Result<T> {
    let output =
        Command::new(env::current_exe()?).arg(CHILD).args(arguments).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the child for {} ended with {}", arguments.join(" "), output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn report_workload(name: &str, seconds: &str, laps: &[&str]) -> Result<()> {
    let workload = workloads::named(name).ok_or_else(|| format!("there is no workload {name}"))?;
    let seconds: f64 = seconds.parse()?;
    let laps = laps.iter().map(|lap| lap.parse()).collect::<std::result::Result<Vec<usize>, _>>()?;
    let stage = workload.stage();
    let mut runs: Vec<Played> = Vec::new();
    while runs.len() < LEAST_RUNS || runs.iter().map(|run| run.seconds).sum::<f64>() < seconds {
        runs.push(play(&stage, &laps)?);
    }
    let (nodes, placed, measured) = (stage.node_count(), stage.placed_count(), stage.measured.len());
    tell(&Report { nodes, placed, measured, runs })
}

fn tell(report: &impl Serialize) -> Result<()> {
    Ok(serde_json::to_writer(std::io::stdout(), report)?)
}
