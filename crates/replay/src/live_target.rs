//! Replays of a recording into a live API server, where real components decide.
//!
//! [`LivePlan::make`] checks what is asked and reads the recording's settings; [`LivePlan::dry_run`] counts the API
//! operations, and [`LivePlan::run`] performs them in real time. A [`LiveReplayObserver`] hears of everything that a user is
//! to be told, and may stop the run. [`known_runs`] manages the runs that an API server already has.

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
use live::applying::{Applier, Cleaned};
use live::transplant::{self, Delays, FileRule, Rule};
use model::Moment;

use crate::Speed;
use crate::plan::ReplayOptions;

pub use self::comparison::Comparison;
pub use self::plan::LivePlan;
pub use self::summary::{DryRun, RunSummary};

/// What the namespaces of SimKube's way begin with, if nobody says otherwise.
pub const VIRTUAL_NAMESPACE_PREFIX: &str = "virtual";

/// How long the threads of a run may take to end. A program that was asked for credentials may never answer.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// What a user asks of a replay into a live API server.
#[derive(Clone)]
pub struct LiveReplayOptions {
    /// Which part of which recording is played, at which level; and, for the comparison, how everything was set.
    pub replay: ReplayOptions,
    /// The kubeconfig of the target.
    pub kubeconfig: PathBuf,
    /// The context in it; `None` for its current one.
    pub context: Option<String>,
    /// Only these kinds, in kubectl's words.
    pub kinds: Option<String>,
    /// Pods are bound to the nodes that were recorded.
    pub keep_placement: bool,
    /// Rules that come after the built-in ones, in this order.
    pub rules: Vec<Arc<dyn Rule>>,
    /// The name of the run, with which all its objects are labeled; `None`: named after the history.
    pub run: Option<String>,
    /// Play into a cluster that looks as if it were in use.
    pub accept_risks: bool,
    /// Volumes name the storage that was recorded.
    pub keep_volume_handles: bool,
    /// Objects that act outside the cluster are given as they were recorded.
    pub allow_external_effects: bool,
    /// Continue a run that was stopped or broke off.
    pub resume: bool,
    /// Wait for somebody to resume the run before anything is done.
    pub start_paused: bool,
    /// Record the target during the run, and compare it with what was recorded.
    pub record: bool,
    /// How long the run lasts beyond the end of the recording; `None`: as is usual.
    pub linger: Option<Duration>,
    /// How often it is played. Everything is removed between two repetitions.
    pub repetitions: u32,
    /// SimKube's hook files.
    pub hooks: Vec<PathBuf>,
    /// How fast it is played.
    pub speed: Speed,
    /// Play it as SimKube's driver does.
    pub simkube: Option<SimkubeOptions>,
    /// The time of day.
    pub clock: fn() -> Moment,
}

/// How SimKube's driver would play it.
#[derive(Clone)]
pub struct SimkubeOptions {
    /// The configuration of SimKube's tracer in a file; `None`: that of the history.
    pub tracer_config: Option<PathBuf>,
    /// What the namespaces begin with.
    pub namespace_prefix: String,
    /// How long pods take to start.
    pub delays: Delays,
    /// Create pods without an owner again that others delete while they run.
    pub reschedule_interrupted_bare_pods: bool,
}

/// Receives what happens during a replay into a live API server, in its order.
pub trait LiveReplayObserver {
    /// Something that a user should know of right away.
    fn notice(&mut self, notice: LiveNotice);

    /// The objects of the last repetition were removed.
    fn cleaned(&mut self, cleaned: &Cleaned) -> anyhow::Result<()>;

    /// The run has begun and can be stopped and paused from now on. Called inside the Tokio runtime of the run.
    fn started(&mut self, applier: &Arc<Applier>) -> anyhow::Result<()>;

    /// The recorded time from `from` to `end` begins to pass. What is returned is called about ten times a second with
    /// how far it has come, and dropped at the end.
    fn playing(&mut self, from: Moment, end: Moment) -> Box<dyn FnMut(LiveProgress) + Send>;

    /// Everything was played, or the run was stopped.
    fn finished(&mut self, summary: &RunSummary) -> anyhow::Result<()>;

    /// The target was recorded, and can be compared with the recording. Called after `finished`.
    fn recorded(&mut self, comparison: Comparison<'_>) -> anyhow::Result<()>;
}

/// Something that a user should know of during a run.
pub enum LiveNotice {
    /// What may go wrong in this target. The text may hold characters that control a terminal.
    Risk(String),
    /// A line that a hook printed.
    HookOutput(String),
    /// A hook failed, and was allowed to.
    HookFailed(String),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct LiveProgress {
    /// How late it is in the recording.
    pub at: Moment,
    /// How much recorded time has passed, in nanoseconds.
    pub played_nanos: i64,
    /// How many times as fast as it happened it goes; `None` while it is paused.
    pub speed: Option<f64>,
}

/// Reads files of rules by which objects are changed or left out.
pub fn read_rules(files: &[PathBuf]) -> anyhow::Result<Vec<FileRule>> {
    let mut rules = Vec::new();
    for path in files {
        let file =
            query::read_yaml(path).with_context(|| format!("cannot read the rules {}", path.display()))?;
        let read = transplant::read_rules(file).map_err(anyhow::Error::msg);
        rules.extend(read.with_context(|| format!("{} are no rules", path.display()))?);
    }
    Ok(rules)
}

// === impl LiveReplayOptions ===

impl LiveReplayOptions {
    /// Refuses what cannot go together.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.resume && self.record {
            bail!("a run is filmed from its beginning: leave --record, or begin another with --run");
        }
        if self.resume && self.repetitions > 1 {
            bail!("a run that is gone on with is played once: leave --repetitions");
        }
        if self.simkube.is_some() && self.keep_placement {
            bail!("SimKube gives workloads, whose pods nobody has placed yet: leave --keep-placement");
        }
        Ok(())
    }
}
