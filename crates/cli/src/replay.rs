//! `kinescope replay`: replays a history in virtual time, or into a real API server, and compares the result with the
//! recording.

mod clock;
mod folder;
mod summary;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use calibration::ReplayLevel;
use query::{ConfigEdit, OptionNames};
use replay::Speed;
use replay::plan::{OutputFiles, ReplayOptions, ReplayPlan};
use scheduler::Version;

use self::clock::{ReadProgress, ReplayClock, ReplayProgress};
use self::folder::OutputFolder;
use self::target::{RunCommand, TargetArgs};
use super::output::Printer;
use super::{Outcome, history_arg, signals};

pub(super) use self::folder::remove_replay;

const AFTER: &str = "\
Examples:
  kinescope replay prod.kine
  kinescope replay prod.kine --from 14:00 --to 15:00 \\
    --set scheduler.percentageOfNodesToScore=50
  kinescope replay --set nodeGroups.workers.max=20 \\
    --set autoscaler.scale-down-unneeded-time=2m
  kinescope replay --set \\
    'scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated'
  kinescope replay --level workloads --from 14:00
  kinescope replay --autoscaler '--expander=least-waste' \\
    --node-groups groups.yaml --out cheaper
  # Compare the recording with its replay
  kinescope diff 14:30 pods --history prod.kine \\
    --against replay-prod/replay.kine
  # Live replay into a test cluster, and cleanup
  kinescope replay prod.kine --target test.kubeconfig --speed 10 --record
  kinescope replay prod.kine --target test.kubeconfig --speed 10 \\
    --style simkube
  kinescope replay clean --target test.kubeconfig --run prod

Input and decisions: the input is taken from the recording, namely pods, their deletion by owners, their run times and \
node failures. Decisions are simulated: scheduling, preemption, scale-up, scale-down and re-creation of pods. With \
--level workloads the input is Deployments, StatefulSets, DaemonSets, Jobs and CronJobs with all their changes, and \
simulated controllers create the pods.

Fields of --set PATH=VALUE; values as in YAML:
  scheduler.PATH        field of the KubeSchedulerConfiguration
  nodeGroups.NAME.PATH  field of a node group (docs/node-groups.md)
  autoscaler.FLAG       flag of cluster-autoscaler
List items are selected by index or name: profiles[0], pluginConfig[NodeResourcesFit]. Put names that contain dots in brackets or quotes.

Files in the output folder (docs/replay-report.md):
  report.json      settings, metrics, comparison with the recording
  decisions.jsonl  one decision per line, with the recorded one
  replay.kine      history of the replay, for all other commands
The same history, settings and seed produce identical files.

Live replay: with --target, objects are created, updated and deleted in a real API server at the recorded pace \
times --speed, and the components of that cluster decide. Pods are not bound to their recorded nodes unless \
--keep-placement is given. By default, names of resources outside the target, such as disks and load \
balancers, are not sent to it; --keep-volume-handles, --allow-external-effects, --kinds and --rules can change that. \
Objects are changed or skipped by rules (--show-rules, docs/live-replay.md). All \
created objects are labeled, and `replay clean` deletes only those.";

/// The names of options in messages.
pub(super) const FLAGS: OptionNames = OptionNames {
    from: "--from",
    to: "--to",
    source: "--source",
    level: "--level",
    set: "--set",
    scheduler_config: "--scheduler-config",
    node_groups: "--node-groups",
    autoscaler: "--autoscaler",
    autoscaler_version: "--autoscaler-version",
};

/// Replay a history in virtual time, or into a real API server, and compare the results
#[derive(clap::Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
pub(super) struct Replay {
    #[command(subcommand)]
    of_run: Option<RunCommand>,
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    #[arg(value_name = "HISTORY")]
    history: Option<PathBuf>,
    /// Start time [default: when the initial listing was complete]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End time [default: the end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Maximum duration in recorded time: 90, 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = recorder::parse_duration, conflicts_with = "to")]
    duration: Option<Duration>,
    /// Speed relative to the recording, or max [default: max; 1 with --target]
    #[arg(long, value_name = "N|max")]
    speed: Option<Speed>,
    /// KubeSchedulerConfiguration file [default: as recorded, else kube-scheduler's defaults]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// kube-scheduler version to simulate: 1.32 to 1.36; only 1.36 is verified [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    scheduler_version: Option<Version>,
    /// Node groups and cluster-autoscaler settings, YAML; see docs/node-groups.md [default: as recorded]
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// recorded: recorded settings; off: node groups keep their size; or cluster-autoscaler flags to override, as one string
    #[arg(long, value_name = "recorded|off|FLAGS", default_value = "recorded", allow_hyphen_values = true)]
    autoscaler: String,
    /// cluster-autoscaler version to simulate: 1.32 to 1.37; only 1.36 is verified [default: as recorded, else 1.36]
    #[arg(long, value_name = "VERSION", value_parser = autoscaler::Version::parse)]
    autoscaler_version: Option<autoscaler::Version>,
    /// Override one configuration field, see below; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<ConfigEdit>,
    /// Input: recorded pods, or recorded workloads whose simulated controllers create the pods [default: pods, or that of the replay that wrote the history]
    #[arg(long, value_name = "pods|workloads")]
    level: Option<ReplayLevel>,
    /// Random seed [default: 1, or that of the replay that wrote the history]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Output folder [default: replay-NAME, after the history]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Do not write replay.kine; much faster
    #[arg(long)]
    no_history: bool,
    /// Output format
    #[arg(short, long, value_parser = ["table", "json"], default_value = "table")]
    output: String,
    #[command(flatten)]
    target: TargetArgs,
}

impl Replay {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        if let Some(of_run) = &self.of_run {
            return of_run.run(out);
        }
        if self.target.is_live() {
            return self.target.run(&self, out);
        }
        self.target.reject_live_only_flags()?;
        let open_history = history_arg::open(self.history.as_deref())?;
        let mut plan = ReplayPlan::make(&self.options(), &open_history)?;
        let folder = OutputFolder::choose(self.out.as_deref(), open_history.history.path())?;
        for sentence in plan.warnings() {
            out.print_to_stderr(&format!("warning: {sentence}"));
        }
        folder.print_notice(out);
        signals::defer_signals()?;
        let analysis = plan.analyze_recording(&open_history, &mut ReadProgress::new(out, &plan))?;
        let scratch = folder.create_pending()?;
        let outputs = OutputFiles {
            folder: folder.path().to_owned(),
            decisions: Some(scratch.path("decisions.jsonl")),
            history: (!self.no_history).then(|| scratch.path("replay.kine")),
        };
        let clock = ReplayClock::new(self.speed.unwrap_or(Speed::Max), plan.resolved.part.window.from);
        let report =
            plan.play(&open_history, analysis, &outputs, &mut ReplayProgress::new(out, &plan, &clock))?;
        let took = clock.elapsed();
        let json = report.to_json()?;
        std::fs::write(scratch.path("report.json"), &json).with_context(|| scratch.error_context())?;
        scratch.publish()?;
        match self.output.as_str() {
            "json" => out.data()?.write_all(json.as_bytes())?,
            _ => summary::write(out, &report, &plan, &folder, took)?,
        }
        Ok(Outcome::Done)
    }

    /// The options of a replay in virtual time.
    fn options(&self) -> ReplayOptions {
        ReplayOptions {
            from: self.from.clone(),
            to: self.to.clone(),
            duration: self.duration,
            source: self.source.clone(),
            level: self.level,
            seed: self.seed,
            scheduler_config: self.scheduler_config.clone(),
            scheduler_version: self.scheduler_version,
            node_groups: self.node_groups.clone(),
            autoscaler: self.autoscaler.clone(),
            autoscaler_version: self.autoscaler_version,
            set: self.set.clone(),
            names: FLAGS,
        }
    }
}

fn seconds(nanos: i64) -> u64 {
    u64::try_from(nanos / 1_000_000_000).unwrap_or(0)
}
