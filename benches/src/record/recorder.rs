//! The program itself, recording in a process of its own.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use history::History;

use super::script::Script;
use super::server::Server;
use crate::machine::{self, Memory};
use crate::{Result, studio::Studio};

/// A recorder at work. It is killed when this is dropped.
pub(super) struct Recorder {
    child: Child,
    log: PathBuf,
}

/// Which cores it may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    All,
    One,
}

/// Whoever waits longer than this for something waits for ever.
const PATIENCE: Duration = Duration::from_secs(900);
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(20);

/// Whether a process can be kept to one core here.
pub(super) fn can_be_kept_to_one_core() -> bool {
    let asked = Command::new("taskset").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// Records the cluster of a server into a history, by the rules that hold if nothing is said.
pub(super) fn record(studio: &Studio, server: &Server, cores: Cores) -> Result<(PathBuf, Recorder)> {
    let (kubeconfig, history) = (studio.path("kubeconfig"), studio.path("recorded.kine"));
    std::fs::write(&kubeconfig, server.kubeconfig())?;
    let [kubeconfig, into, key] =
        [&kubeconfig, &history, &studio.path("redact.key")].map(|path| path.display().to_string());
    let arguments = ["record", "--kubeconfig", &kubeconfig, "--into", &into, "--redact-key", &key];
    Ok((history, Recorder::start(studio, cores, &arguments)?))
}

// === impl Recorder ===

impl Recorder {
    /// Starts `kinescope` with these arguments. It lies beside this program, as cargo builds both.
    pub(super) fn start(studio: &Studio, cores: Cores, arguments: &[&str]) -> Result<Recorder> {
        let program = std::env::current_exe()?.with_file_name("kinescope");
        if !program.exists() {
            return Err("kinescope is not built: cargo xtask bench does that".into());
        }
        let mut command = match cores {
            Cores::All => Command::new(&program),
            Cores::One => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", "0"]).arg(&program);
                command
            }
        };
        let log = studio.path("recorder.log");
        let said = File::create(&log)?;
        command.args(arguments).stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        Ok(Recorder { child: command.spawn()?, log })
    }

    /// Waits until something is so.
    pub(super) fn wait(&mut self, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !is_so()? {
            self.must_run()?;
            if start.elapsed() > PATIENCE {
                return Err(format!("nothing comes of it: {}", self.words()).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    pub(super) fn must_run(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("the recorder ended with {status}: {}", self.words()).into()),
        }
    }

    pub(super) fn memory(&self) -> Option<Memory> {
        machine::memory_of(&self.child.id().to_string())
    }

    /// The processor time it has taken.
    pub(super) fn time(&self) -> Option<Duration> {
        machine::time_of(&self.child.id().to_string())
    }

    /// Tells it to end and waits until it has.
    pub(super) fn stop(mut self) -> Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status()?;
        let status = self.child.wait()?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the recorder ended with {status}: {}", self.words()).into()),
        }
    }

    fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It has ended already if all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far a recording has come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// All that is there at the beginning is in the history.
    Listed,
    /// And all that happened since.
    Told,
}

/// Whether the history has come that far with a script.
pub(super) fn has_come(path: &Path, script: &Script, stage: Stage) -> Result<bool> {
    // At first there is no file, and then an empty one.
    let Ok(history) = History::open(path) else { return Ok(false) };
    let versions = versions(&history)?;
    Ok(script.moving().all(|reel| {
        let least = if stage == Stage::Told { reel.last() } else { 1 };
        versions.get(reel.info.kind).is_some_and(|version| *version >= least)
    }))
}

/// Up to which version each kind is in a history: durable, and there for all to read.
pub(super) fn versions(history: &History) -> Result<HashMap<String, u64>> {
    let known = history.positions()?.into_iter().filter_map(|position| {
        // What is watched of the kind, a version, none in the middle of a list, and the moment up to which all was told.
        let position_text = &position.resource_version;
        let watched = position_text.rsplit_once('|').map_or(&**position_text, |(_, watched)| watched);
        let version = watched.split('@').next()?.parse().ok()?;
        Some((position.kind.kind.to_string(), version))
    });
    Ok(known.collect())
}
