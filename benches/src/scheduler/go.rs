//! The real scheduler's own code, asked for the same decisions.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::Result;

/// What the real code came to.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rate {
    /// Pods decided about in the time it had.
    pub(super) measured: usize,
    /// How many nodes it looks at side by side.
    pub(super) parallelism: u32,
    pub(super) pods_per_second: f64,
    pub(super) seconds: f64,
    /// Of a processor. Less than the seconds: other programs had it too.
    pub(super) cpu_seconds: f64,
}

/// The real scheduler's code as a program, if it can be had here.
pub(super) struct Go {
    program: PathBuf,
}

// === impl Go ===

impl Go {
    /// Builds it if need be. `None` without Go.
    pub(super) fn find() -> Result<Option<Go>> {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/oracle/kube-scheduler");
        let program = testcluster::build_module("kube-scheduler-oracle", Path::new(sources))?;
        Ok(program.map(|program| Go { program }))
    }

    /// Lets it decide for so many seconds, side by side and then one node after the other.
    pub(super) fn measure(&self, workload: &str, seconds: u32) -> Result<Vec<Rate>> {
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
