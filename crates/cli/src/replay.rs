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
use query::ConfigEdit;
use replay::Speed;
use replay::plan::{OutputFiles, ReplayOptions, ReplayPlan};
use scheduler::Version;

use self::clock::{ReadProgress, ReplayClock, ReplayProgress};
use self::folder::OutputFolder;
use self::target::{RunCommand, TargetArgs};
use super::output::Printer;
use super::{Outcome, history_arg, signals};

const AFTER: &str = "\
Examples:
  kinescope replay prod.kine
  kinescope replay prod.kine --from 14:00 --to 15:00 --set scheduler.percentageOfNodesToScore=50
  kinescope replay --set 'scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated'
  kinescope replay --set nodeGroups.workers.max=20 --set autoscaler.scale-down-unneeded-time=2m
  kinescope replay --level workloads --from 14:00
  kinescope replay --autoscaler '--expander=least-waste' --node-groups groups.yaml --out cheaper
  kinescope diff 14:30 pods --history prod.kine --against replay-prod/replay.kine
  kinescope replay prod.kine --target test.kubeconfig --speed 10 --record
  kinescope replay prod.kine --target test.kubeconfig --style simkube --speed 10
  kinescope replay clean --target test.kubeconfig --run prod

What was asked for is given: pods, when their owners deleted them, how long they ran, nodes that failed. What was decided \
is decided again: which node, when, who makes room, which nodes come and go, which pods are made again. With --level \
workloads what people asked for is given, Deployments, StatefulSets, DaemonSets, Jobs and CronJobs with every change of \
theirs, and their controllers decide which pods there are.

--set takes a path of a configuration, and a value as in YAML: scheduler.PATH of the KubeSchedulerConfiguration, \
nodeGroups.NAME.PATH of a group as in the file of --node-groups (docs/node-groups.md), autoscaler.FLAG. Members of lists \
go by number or by name; a name with dots in it stands in brackets or quotes.

Written to the folder: report.json (docs/replay-report.md), decisions.jsonl (a line a decision, and what was recorded \
beside it), replay.kine (a history of the replay, for every other command). The same history, settings and seed give the \
same bytes.

With --target it is played into a real API server: objects are created, changed and deleted there when they were, times \
--speed, and the components of that cluster decide. Where pods were is not told, unless by --keep-placement. Nothing leads \
outside the target, unless by --keep-volume-handles or --allow-external-effects. What is changed on the way and what is \
left out is printed by --show-rules; docs/live-replay.md tells how to write rules. All that is created carries a label, and \
`replay clean` removes exactly that.";

/// Play a history again, in virtual time with the same settings or others, or into a real API server, and compare
#[derive(clap::Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
pub(super) struct Replay {
    #[command(subcommand)]
    of_run: Option<RunCommand>,
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    #[arg(value_name = "HISTORY")]
    history: Option<PathBuf>,
    /// The moment to begin at [default: when the recorder had seen everything that was there]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// The moment to end at [default: the history's end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// For so long at most: 90, 5m, 2h
    #[arg(long, value_name = "TIME", value_parser = recorder::parse_duration, conflicts_with = "to")]
    duration: Option<Duration>,
    /// How many times as fast as it happened; `max` for as fast as it goes [default: max; 1 into a real API server]
    #[arg(long, value_name = "N|max")]
    speed: Option<Speed>,
    /// How the scheduler is set [default: as the history says, else kube-scheduler's defaults]
    #[arg(long, value_name = "FILE")]
    scheduler_config: Option<PathBuf>,
    /// Whose rules are followed: 1.32 to 1.36, of which the newest alone is verified [default: 1.36]
    #[arg(long, value_name = "VERSION")]
    scheduler_version: Option<Version>,
    /// Which node groups there are, and how their autoscaler is set [default: as the history says]
    #[arg(long, value_name = "FILE")]
    node_groups: Option<PathBuf>,
    /// `recorded`: set as the history says; `off`: nodes of groups stay as they were; or flags of cluster-autoscaler on top, in one text
    #[arg(long, value_name = "recorded|off|FLAGS", default_value = "recorded", allow_hyphen_values = true)]
    autoscaler: String,
    /// Which cluster-autoscaler's rules are followed: 1.32 to 1.37, of which 1.36 alone is verified [default: as the history says, else 1.36]
    #[arg(long, value_name = "VERSION", value_parser = autoscaler::Version::parse)]
    autoscaler_version: Option<autoscaler::Version>,
    /// Set one place of a configuration otherwise; may be given several times
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<ConfigEdit>,
    /// What is given: each pod that was recorded, or the Deployments, Jobs and their like, whose controllers make pods [default: pods, or that of the replay that made the history]
    #[arg(long, value_name = "pods|workloads")]
    level: Option<ReplayLevel>,
    /// Decides between what is as likely [default: 1, or that of the replay that made the history]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The recording, if the history holds several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The folder for what comes of it [default: replay-NAME, after the history]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Write no replay.kine, which takes most of the time
    #[arg(long)]
    no_history: bool,
    /// How to print what came of it
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
        let chosen = history_arg::open(self.history.as_deref())?;
        let mut plan = ReplayPlan::make(&self.options(), &chosen)?;
        let folder = OutputFolder::choose(self.out.as_deref(), chosen.history.path())?;
        for sentence in plan.warnings() {
            out.print_to_stderr(&format!("warning: {sentence}"));
        }
        signals::defer_signals()?;
        let known = plan.analyze_recording(&chosen, &mut ReadProgress::new(out, &plan))?;
        let scratch = folder.create_pending()?;
        let outputs = OutputFiles {
            folder: folder.path().to_owned(),
            decisions: Some(scratch.path("decisions.jsonl")),
            history: (!self.no_history).then(|| scratch.path("replay.kine")),
        };
        let clock = ReplayClock::new(self.speed.unwrap_or(Speed::Max), plan.run.part.window.from);
        let report = plan.play(&chosen, known, &outputs, &mut ReplayProgress::new(out, &plan, &clock))?;
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
        }
    }
}

fn seconds(nanos: i64) -> u64 {
    u64::try_from(nanos / 1_000_000_000).unwrap_or(0)
}
