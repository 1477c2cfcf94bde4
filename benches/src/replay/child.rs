//! The program itself, replaying in a process of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::machine;
use crate::studio::Studio;

/// What a replay came to.
pub(super) struct Replayed {
    pub(super) seconds: f64,
    /// The most memory there was, in bytes, if it can be known.
    pub(super) memory: Option<f64>,
    /// Its `report.json`.
    pub(super) report: Value,
}

/// How often the memory is looked at. The kernel keeps the most there was: only what comes after the last look is missed.
const LOOK: Duration = Duration::from_millis(20);

/// Replays a history without filming it.
pub(super) fn replay(studio: &Studio, history: &Path, settings: &[&str]) -> Result<Replayed> {
    let out = studio.path("replayed");
    let mut command = Command::new(program()?);
    command.arg("replay").arg(history).args(["--no-history", "--out"]).arg(&out).args(settings);
    let (seconds, memory) = watch(studio, &mut command)?;
    let report = serde_json::from_slice(&fs::read(out.join("report.json"))?)?;
    fs::remove_dir_all(out)?;
    Ok(Replayed { seconds, memory, report })
}

/// Makes a history of another system's file.
pub(crate) fn import(studio: &Studio, file: &Path, into: &Path) -> Result<()> {
    watch(studio, Command::new(program()?).arg("import").arg(file).arg("--into").arg(into))?;
    Ok(())
}

/// Lets a command run to its end: how long it took, and the most memory there was.
fn watch(studio: &Studio, command: &mut Command) -> Result<(f64, Option<f64>)> {
    let log = studio.path("replay.log");
    let said = File::create(&log)?;
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said).spawn()?;
    let process = child.id().to_string();
    let mut memory = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        memory = machine::memory_of(&process).map(|memory| memory.peak as f64).or(memory);
        std::thread::sleep(LOOK);
    };
    let seconds = start.elapsed().as_secs_f64();
    if !status.success() {
        let said = fs::read_to_string(&log)?;
        return Err(format!("kinescope ended with {status}: {}", said.trim_end()).into());
    }
    Ok((seconds, memory))
}

/// `kinescope`, which lies beside this program, as cargo builds both.
pub(crate) fn program() -> Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name("kinescope");
    if !program.exists() {
        return Err("kinescope is not built: cargo xtask bench does that".into());
    }
    Ok(program)
}
