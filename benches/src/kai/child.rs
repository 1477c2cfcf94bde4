//! A cycle in a child process, so that its memory is known.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::cycle::{CycleReport, run_cycle};
use crate::{Result, machine};

/// A cycle, and the memory of the process that ran it.
#[derive(Serialize, Deserialize)]
pub(super) struct ChildReport {
    pub(super) cycle: CycleReport,
    pub(super) peak_memory: Option<u64>,
}

/// The first argument of a child process.
const CHILD: &str = "--child";
const CYCLE: &str = "kai-cycle";

/// Has a child read a snapshot and run a cycle on it.
pub(super) fn measure_cycle(path: &Path) -> Result<ChildReport> {
    let output =
        Command::new(env::current_exe()?).args([CHILD, CYCLE]).arg(path).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the child ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Runs as a child process, if the arguments say so; else returns `None`.
pub(crate) fn run_child() -> Option<Result<()>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [CHILD, CYCLE, path] => Some(report_cycle(Path::new(path))),
        _ => None,
    }
}

fn report_cycle(path: &Path) -> Result<()> {
    let (cycle, _session) = run_cycle(path)?;
    let report = ChildReport { cycle, peak_memory: machine::memory().map(|memory| memory.peak) };
    Ok(serde_json::to_writer(std::io::stdout(), &report)?)
}
