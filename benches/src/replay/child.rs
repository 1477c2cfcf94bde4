//! The replay process: the program itself as a child process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::bench_env::BenchEnv;
use crate::machine;

/// The measurements of a replay.
pub(super) struct ReplayRun {
    pub(super) seconds: f64,
    /// The peak memory in bytes, if known.
    pub(super) memory: Option<f64>,
    /// Its `report.json`.
    pub(super) report: Value,
}

/// How often the memory is polled. The kernel keeps the peak: only an increase after the last poll is missed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Replays a history without recording the replay.
pub(super) fn replay(env: &BenchEnv, history: &Path, settings: &[&str]) -> Result<ReplayRun> {
    let out = env.path("replayed");
    let mut command = Command::new(program()?);
    command.arg("replay").arg(history).args(["--no-history", "--out"]).arg(&out).args(settings);
    let (seconds, memory) = run_measured(env, &mut command)?;
    let report = serde_json::from_slice(&fs::read(out.join("report.json"))?)?;
    fs::remove_dir_all(out)?;
    Ok(ReplayRun { seconds, memory, report })
}

/// Imports another system's file into a history.
pub(crate) fn import(env: &BenchEnv, file: &Path, into: &Path) -> Result<()> {
    run_measured(env, Command::new(program()?).arg("import").arg(file).arg("--into").arg(into))?;
    Ok(())
}

/// Runs a command to its end. Returns its duration in seconds and its peak memory.
fn run_measured(env: &BenchEnv, command: &mut Command) -> Result<(f64, Option<f64>)> {
    let log = env.path("replay.log");
    let output = File::create(&log)?;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output).spawn()?;
    let process = child.id().to_string();
    let mut memory = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        memory = machine::memory_of(&process).map(|memory| memory.peak as f64).or(memory);
        std::thread::sleep(POLL_INTERVAL);
    };
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        let output = fs::read_to_string(&log)?;
        return Err(format!("kinescope ended with {status}: {}", output.trim_end()).into());
    }
    Ok((seconds, memory))
}

/// `kinescope`, which is in the same folder as this program, since cargo builds both.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("kinescope");
    if !program.exists() {
        return Err("kinescope is not built: run cargo xtask bench, which builds it".into());
    }
    Ok(program)
}
