//! Replays of a recording into a live API server, where real components decide.
//!
//! [`LivePlan::make`] checks the options and reads the recording's settings; [`LivePlan::dry_run`] counts the API
//! operations, and [`LivePlan::run`] performs them in real time. A [`LiveReplayObserver`] receives notices and progress
//! for the user, and may stop the run. [`known_runs`] manages the runs that an API server already has.

mod comparison;
mod hooks;
pub mod known_runs;
mod plan;
mod recorded_part;
mod run;
mod safety;
mod summary;
mod target_recording;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use live::apply::{Applier, CleanupReport};
use live::translate::{self, Rule, StartupDelays, UserRule};
use model::Moment;

use crate::Speed;
use crate::plan::ReplayOptions;

pub use self::comparison::LiveComparison;
pub use self::plan::LivePlan;
pub use self::summary::{DryRun, RunSummary};

/// The default prefix of virtual namespaces, as in SimKube.
pub const VIRTUAL_NAMESPACE_PREFIX: &str = "virtual";

/// How long the threads of a run may take to end. A credential plugin may never answer.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of a replay into a live API server.
#[derive(Clone)]
pub struct LiveReplayOptions {
    /// The part of the recording and the level; for the comparison, also the settings.
    pub replay: ReplayOptions,
    /// The kubeconfig of the target.
    pub kubeconfig: PathBuf,
    /// The context in it; `None` for its current one.
    pub context: Option<String>,
    /// Only these kinds, as kubectl names them.
    pub kinds: Option<String>,
    /// Bind pods to their recorded nodes.
    pub keep_placement: bool,
    /// Rules that are applied after the built-in ones, in this order.
    pub rules: Vec<Arc<dyn Rule>>,
    /// The name of the run, with which all its objects are labeled; `None` to name it after the history.
    pub run: Option<String>,
    /// Accept a target that may be in use.
    pub accept_risks: bool,
    /// Keep the recorded volume handles.
    pub keep_volume_handles: bool,
    /// Keep objects that act outside the cluster, such as load balancers.
    pub allow_external_effects: bool,
    /// Resume a run that was stopped or failed.
    pub resume: bool,
    /// Start the run paused.
    pub start_paused: bool,
    /// Record the target during the run, and compare it with the recording.
    pub record: bool,
    /// How long the run lasts beyond the end of the recording; `None` for the default.
    pub linger: Option<Duration>,
    /// The number of repetitions. All objects are removed between two of them.
    pub repetitions: u32,
    /// SimKube's hook files.
    pub hooks: Vec<PathBuf>,
    /// The speed.
    pub speed: Speed,
    /// Replay as SimKube's driver does.
    pub simkube: Option<SimkubeOptions>,
    /// The wall clock.
    pub clock: fn() -> Moment,
}

/// Options of SimKube's driver.
#[derive(Clone)]
pub struct SimkubeOptions {
    /// A file with the configuration of SimKube's tracer; `None` for that of the history.
    pub tracer_config: Option<PathBuf>,
    /// The prefix of virtual namespaces.
    pub namespace_prefix: String,
    /// The start delays of pods.
    pub delays: StartupDelays,
    /// Recreate pods without an owner that are deleted while they run.
    pub reschedule_interrupted_bare_pods: bool,
}

/// Observes a replay into a live API server.
pub trait LiveReplayObserver {
    /// A notice for the user.
    fn notice(&mut self, notice: LiveNotice);

    /// The objects of the last repetition were removed.
    fn cleaned(&mut self, cleaned: &CleanupReport) -> anyhow::Result<()>;

    /// The run has begun and can be stopped and paused from now on. Called inside the Tokio runtime of the run.
    fn started(&mut self, applier: &Arc<Applier>) -> anyhow::Result<()>;

    /// The recorded time from `from` to `end` begins to pass. The returned function is called about ten times a second
    /// with the progress, and dropped at the end.
    fn playing(&mut self, from: Moment, end: Moment) -> Box<dyn FnMut(LiveProgress) + Send>;

    /// All operations were performed, or the run was stopped.
    fn finished(&mut self, summary: &RunSummary) -> anyhow::Result<()>;

    /// The target was recorded, and can be compared with the recording. Called after `finished`.
    fn recorded(&mut self, comparison: LiveComparison<'_>) -> anyhow::Result<()>;
}

/// A notice for the user during a run.
pub enum LiveNotice {
    /// A risk of this target. The text may hold terminal control characters.
    Risk(String),
    /// A line that a hook printed.
    HookOutput(String),
    /// A hook failed whose failure is ignored.
    HookFailed(String),
}

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct LiveProgress {
    /// The recorded time that was reached.
    pub at: Moment,
    /// The recorded time that has passed, in nanoseconds.
    pub played_nanos: i64,
    /// The speed as a multiple of recorded time; `None` while paused.
    pub speed: Option<f64>,
}

/// Reads files of rules that change objects or leave them out.
pub fn read_rules(files: &[PathBuf]) -> anyhow::Result<Vec<UserRule>> {
    let mut rules = Vec::new();
    for path in files {
        let file = query::read_yaml(path)
            .with_context(|| format!("cannot read the rules file {}", path.display()))?;
        let read = translate::parse_rules(file).map_err(anyhow::Error::msg);
        rules.extend(read.with_context(|| format!("{}: invalid rules", path.display()))?);
    }
    Ok(rules)
}

// === impl LiveReplayOptions ===

impl LiveReplayOptions {
    /// Refuses contradictory options.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.resume && self.record {
            bail!("--record cannot be used with --resume: start a new run with --run");
        }
        if self.resume && self.repetitions > 1 {
            bail!("--repetitions cannot be used with --resume");
        }
        if self.simkube.is_some() && self.keep_placement {
            bail!("--keep-placement cannot be used with --style simkube, which replays workloads");
        }
        Ok(())
    }
}
