//! The real scheduler's own code, measured on the same workloads.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::Result;

/// A measurement of the real code.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct GoRate {
    /// The number of pods decided in the given time.
    pub(super) measured: usize,
    /// How many nodes it evaluates in parallel.
    pub(super) parallelism: u32,
    pub(super) pods_per_second: f64,
    pub(super) seconds: f64,
    /// Processor time. If it is less than `seconds`, other programs used the processor too.
    pub(super) cpu_seconds: f64,
}

/// The real scheduler's code as a program.
pub(super) struct GoScheduler {
    program: PathBuf,
}

// === impl GoScheduler ===

impl GoScheduler {
    /// Builds it if necessary. `None` without Go.
    pub(super) fn build() -> Result<Option<GoScheduler>> {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/oracle/kube-scheduler");
        let program = testcluster::build_module("kube-scheduler-oracle", Path::new(sources))?;
        Ok(program.map(|program| GoScheduler { program }))
    }

    /// Measures it for `seconds` with parallel evaluation of nodes, and then without.
    pub(super) fn measure(&self, workload: &str, seconds: u32) -> Result<Vec<GoRate>> {
        let output = Command::new(&self.program)
            .args(["-bench", workload, "-seconds", &seconds.to_string()])
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            return Err(format!("the real scheduler's code ended with {}", output.status).into());
        }
        let lines = std::str::from_utf8(&output.stdout)?.lines();
        Ok(lines.map(serde_json::from_str).collect::<std::result::Result<_, _>>()?)
    }
}
