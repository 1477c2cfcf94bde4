//! Hooks: programs that are executed before and after a run, in SimKube's file format.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use super::{LiveNotice, LiveReplayObserver};

/// The hooks of each stage.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Hooks {
    pre_start_hooks: Vec<Hook>,
    pre_run_hooks: Vec<Hook>,
    post_run_hooks: Vec<Hook>,
    post_stop_hooks: Vec<Hook>,
}

/// A program.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Hook {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    /// Whether it gets the Simulation on its standard input.
    #[serde(default)]
    send_sim: bool,
    /// SimKube ignores failures by default.
    #[serde(default = "yes")]
    ignore_failure: bool,
}

fn yes() -> bool {
    true
}

/// The stage at which a hook runs.
#[derive(Clone, Copy)]
pub(super) enum HookStage {
    /// Before the first repetition.
    PreStart,
    /// Before each repetition.
    PreRun,
    /// After each repetition.
    PostRun,
    /// After the last repetition.
    PostStop,
}

// === impl Hooks ===

impl Hooks {
    /// Reads the hooks of all files, in order.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Hooks> {
        let mut all = Hooks::default();
        for path in files {
            let file = query::read_yaml(path)
                .with_context(|| format!("cannot read the hooks file {}", path.display()))?;
            let mut read: Hooks =
                serde_json::from_value(file).with_context(|| format!("{}: invalid hooks", path.display()))?;
            all.pre_start_hooks.append(&mut read.pre_start_hooks);
            all.pre_run_hooks.append(&mut read.pre_run_hooks);
            all.post_run_hooks.append(&mut read.post_run_hooks);
            all.post_stop_hooks.append(&mut read.post_stop_hooks);
        }
        Ok(all)
    }

    /// Runs the hooks of a stage, in order. The observer receives their output.
    pub(super) fn run(
        &self,
        stage: HookStage,
        simulation: &Value,
        observer: &mut dyn LiveReplayObserver,
    ) -> anyhow::Result<()> {
        let (name, hooks) = match stage {
            HookStage::PreStart => ("preStart", &self.pre_start_hooks),
            HookStage::PreRun => ("preRun", &self.pre_run_hooks),
            HookStage::PostRun => ("postRun", &self.post_run_hooks),
            HookStage::PostStop => ("postStop", &self.post_stop_hooks),
        };
        for hook in hooks {
            hook.run(name, simulation, observer)?;
        }
        Ok(())
    }
}

impl Hook {
    fn run(
        &self,
        stage: &str,
        simulation: &Value,
        observer: &mut dyn LiveReplayObserver,
    ) -> anyhow::Result<()> {
        let error_context = || format!("cannot run the {stage} hook {}", self.cmd);
        let mut command = Command::new(&self.cmd);
        command.args(&self.args).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if self.send_sim { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().with_context(error_context)?;
        let stdin = child.stdin.take();
        let stdin_writer = std::thread::spawn({
            let simulation = simulation.to_string();
            // A hook may close its standard input without reading it.
            move || stdin.map(|mut stdin| stdin.write_all(simulation.as_bytes()))
        });
        let output = child.wait_with_output().with_context(error_context)?;
        let _ = stdin_writer.join();
        for text in [&output.stdout, &output.stderr] {
            for line in String::from_utf8_lossy(text).lines() {
                observer.notice(LiveNotice::HookOutput(format!("{stage} {}: {line}", self.cmd)));
            }
        }
        if !output.status.success() {
            let message = format!("the {stage} hook {} ended with {}", self.cmd, output.status);
            match self.ignore_failure {
                true => observer.notice(LiveNotice::HookFailed(message)),
                false => bail!("{message}"),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_taken_one_after_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let first =
            file("a.yml", "preRunHooks:\n- {cmd: a, args: [x], sendSim: true, ignoreFailure: false}\n");
        let second = file("b.yml", "preRunHooks: [{cmd: b}]\npostStopHooks: [{cmd: c}]\n");
        let hooks = Hooks::read(&[first, second]).unwrap();
        let commands: Vec<&str> = hooks.pre_run_hooks.iter().map(|hook| hook.cmd.as_str()).collect();
        assert_eq!((commands, hooks.post_stop_hooks.len()), (vec!["a", "b"], 1));
        assert!(hooks.pre_run_hooks[0].send_sim && !hooks.pre_run_hooks[0].ignore_failure);
        assert!(hooks.pre_run_hooks[1].ignore_failure);
        let wrong = file("c.yml", "preRunHook: []\n");
        let error = format!("{:#}", Hooks::read(&[wrong]).err().unwrap());
        assert!(error.contains("invalid hooks") && error.contains("preRunHook"), "{error}");
    }
}
