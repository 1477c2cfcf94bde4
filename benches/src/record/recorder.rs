//! The recorder process: the program itself as a child process.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use history::History;

use super::script::ServerScript;
use super::server::ScriptedServer;
use crate::machine::{self, ProcessMemory};
use crate::{Result, bench_env::BenchEnv};

/// A running recorder. It is killed when this is dropped.
pub(super) struct RecorderProcess {
    child: Child,
    log: PathBuf,
}

/// The cores it may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    All,
    One,
}

/// The timeout of any wait.
const TIMEOUT: Duration = Duration::from_secs(900);
/// How often a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Whether processes can be pinned to one core here.
pub(super) fn can_pin_to_one_core() -> bool {
    let status =
        Command::new("taskset").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Records the cluster of a server into a history, with default options.
pub(super) fn record(
    env: &BenchEnv,
    server: &ScriptedServer,
    cores: Cores,
) -> Result<(PathBuf, RecorderProcess)> {
    let (kubeconfig, history) = (env.path("kubeconfig"), env.path("recorded.kine"));
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    let [kubeconfig, into, key] =
        [&kubeconfig, &history, &env.path("redact.key")].map(|path| path.display().to_string());
    let arguments = ["record", "--kubeconfig", &kubeconfig, "--into", &into, "--redact-key", &key];
    Ok((history, RecorderProcess::start(env, cores, &arguments)?))
}

// === impl RecorderProcess ===

impl RecorderProcess {
    /// Starts `kinescope` with these arguments. It is in the same folder as this program, since cargo builds both.
    pub(super) fn start(env: &BenchEnv, cores: Cores, arguments: &[&str]) -> Result<RecorderProcess> {
        let program = std::env::current_exe()?.with_file_name("kinescope");
        if !program.exists() {
            return Err("kinescope is not built: run cargo xtask bench, which builds it".into());
        }
        let mut command = match cores {
            Cores::All => Command::new(&program),
            Cores::One => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", "0"]).arg(&program);
                command
            }
        };
        let log = env.path("recorder.log");
        let output = File::create(&log)?;
        command.args(arguments).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(RecorderProcess { child: command.spawn()?, log })
    }

    /// Waits until a condition is true.
    pub(super) fn wait(&mut self, mut condition: impl FnMut() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !condition()? {
            self.check_running()?;
            if start.elapsed() > TIMEOUT {
                return Err(format!("timed out: {}", self.log_text()).into());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    pub(super) fn check_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the recorder ended with {status}: {}", self.log_text()).into()),
        }
    }

    pub(super) fn memory(&self) -> Option<ProcessMemory> {
        machine::memory_of(&self.child.id().to_string())
    }

    /// The processor time it has used.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        machine::cpu_time_of(&self.child.id().to_string())
    }

    /// Sends it SIGTERM and waits for its end.
    pub(super) fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the recorder ended with {status}: {}", self.log_text()).into()),
        }
    }

    fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for RecorderProcess {
    fn drop(&mut self) {
        // It has ended already if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The stages of a recording.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordingStage {
    /// The initial list is in the history.
    Listed,
    /// All watch events are in the history.
    Watched,
}

/// Whether the recording of a script has reached a stage.
pub(super) fn has_reached(path: &Path, script: &ServerScript, stage: RecordingStage) -> Result<bool> {
    // At first there is no file, and then an empty one.
    let Ok(history) = History::open(path) else { return Ok(false) };
    let versions = versions(&history)?;
    Ok(script.changing_kinds().all(|kind_script| {
        let least = if stage == RecordingStage::Watched { kind_script.last_version() } else { 1 };
        versions.get(kind_script.info.kind).is_some_and(|version| *version >= least)
    }))
}

/// The resource version up to which each kind is durable and readable in a history.
pub(super) fn versions(history: &History) -> Result<HashMap<String, u64>> {
    let versions = history.positions()?.into_iter().filter_map(|position| {
        // Format: the watch's scope, a version (none during a list), and the moment up to which it is complete.
        let position_text = &position.resource_version;
        let watched = position_text.rsplit_once('|').map_or(&**position_text, |(_, watched)| watched);
        let version = watched.split('@').next()?.parse().ok()?;
        Some((position.kind.kind.to_string(), version))
    });
    Ok(versions.collect())
}
