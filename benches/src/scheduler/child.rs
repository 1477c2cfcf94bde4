//! Measurements in a child process, so that no result depends on the heap that another left behind.

use std::env;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::filled_scheduler::{self, FilledMemory};
use super::runner::{WorkloadRun, run_workload};
use super::workloads::{self, Workload};
use crate::Result;

/// The first argument of a child process.
const CHILD: &str = "--child";
const WORKLOAD: &str = "scheduler-workload";
const MEMORY: &str = "scheduler-memory";
/// The minimum number of runs of a workload.
const MIN_RUNS: usize = 3;

/// A child's measurements of a workload.
#[derive(Serialize, Deserialize)]
pub(super) struct WorkloadReport {
    pub(super) nodes: usize,
    pub(super) placed: usize,
    pub(super) measured: usize,
    pub(super) runs: Vec<WorkloadRun>,
}

/// Has a child run a workload until `seconds` were measured; the laps are those of [`run_workload`].
pub(super) fn measure_workload(workload: &Workload, seconds: f64, laps: &[usize]) -> Result<WorkloadReport> {
    let mut arguments = vec![WORKLOAD.to_owned(), workload.name.to_owned(), seconds.to_string()];
    arguments.extend(laps.iter().map(usize::to_string));
    run_in_child(&arguments)
}

/// Has a child fill a scheduler with a cluster.
pub(super) fn measure_memory() -> Result<FilledMemory> {
    run_in_child(&[MEMORY.to_owned()])
}

/// Runs as a child process, if the arguments say so; else returns `None`.
pub(crate) fn run_child() -> Option<Result<()>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, WORKLOAD, name, seconds, ref laps @ ..] => Some(report_workload(name, seconds, laps)),
        [CHILD, MEMORY] => Some(filled_scheduler::fill().and_then(|filled| print_report(&filled))),
        _ => None,
    }
}

fn run_in_child<T: DeserializeOwned>(arguments: &[String]) -> Result<T> {
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
    let setup = workload.setup();
    let mut runs: Vec<WorkloadRun> = Vec::new();
    while runs.len() < MIN_RUNS || runs.iter().map(|run| run.seconds).sum::<f64>() < seconds {
        runs.push(run_workload(&setup, &laps)?);
    }
    let (nodes, placed, measured) = (setup.node_count(), setup.running_pod_count(), setup.measured.len());
    print_report(&WorkloadReport { nodes, placed, measured, runs })
}

fn print_report(report: &impl Serialize) -> Result<()> {
    Ok(serde_json::to_writer(std::io::stdout(), report)?)
}
