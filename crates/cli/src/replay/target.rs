//! `kinescope replay --target`: replays a history into a real API server.

mod observer;
mod printing;
mod runs;
mod simkube;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use live::translate::{Rule, UserRule};
use model::Moment;
use replay::Speed;
use replay::live_target::{self, LivePlan, LiveReplayOptions};

use self::observer::TerminalObserver;
use self::simkube::SimkubeArgs;
use super::super::Outcome;
use super::super::output::Printer;
use super::Replay;
use super::folder::OutputFolder;

pub(super) use self::runs::RunCommand;

/// What concerns a real API server.
#[derive(clap::Args)]
#[command(next_help_heading = "Live replay options")]
pub(super) struct TargetArgs {
    /// Kubeconfig of the API server to replay into; sim is a replay in virtual time [default: sim]
    #[arg(long, value_name = "KUBECONFIG", default_value = "sim", hide_default_value = true)]
    target: PathBuf,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Resource types to apply: pods,nodes; may include types that are skipped by default [default: see --show-rules]
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Bind pods to their recorded nodes, and apply their recorded status
    #[arg(long)]
    keep_placement: bool,
    /// File with rules that change or skip objects, applied after the built-in rules; repeatable
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Print the rules that change or skip objects, and exit
    #[arg(long)]
    show_rules: bool,
    /// Name of the run, a label of its objects [default: after the history]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Print the operations without sending them
    #[arg(long)]
    dry_run: bool,
    /// Replay even if the cluster seems to be in use; recorded containers run on its real nodes, and can reach whatever those can reach
    #[arg(long)]
    yes: bool,
    /// Keep recorded volume handles; target nodes that mount such a volume write to the recorded cluster's disk
    #[arg(long)]
    keep_volume_handles: bool,
    /// Apply objects that act outside the cluster as recorded; load balancers, DNS names, certificates, webhooks, machines and disks are created, changed and deleted with the target's accounts
    #[arg(long)]
    allow_external_effects: bool,
    /// Resume an interrupted run
    #[arg(long)]
    resume: bool,
    /// Start paused, until `kinescope replay resume`
    #[arg(long)]
    start_paused: bool,
    /// Record the target, and compare the result with the recording
    #[arg(long)]
    record: bool,
    /// Time to wait after the last change [default: 5s with --record or --style, else 0s]
    #[arg(long, value_name = "TIME", value_parser = recorder::parse_duration)]
    linger: Option<Duration>,
    /// Number of replays; created objects are deleted in between
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// SimKube hooks file: commands to run before and after; repeatable
    #[arg(long, value_name = "FILE")]
    hooks: Vec<PathBuf>,
    #[command(flatten)]
    simkube: SimkubeArgs,
}

impl TargetArgs {
    /// Whether this is a replay into a real API server, or only a request for its rules.
    pub(super) fn is_live(&self) -> bool {
        self.show_rules || self.target != Path::new("sim")
    }

    pub(super) fn run(&self, replay: &Replay, out: &mut Printer) -> anyhow::Result<Outcome> {
        let rules = live_target::read_rules(&self.rules)?;
        if self.show_rules {
            return printing::rules(out, &rules);
        }
        let options = self.options(replay, rules);
        self.reject_virtual_only_flags(replay)?;
        options.check()?;
        let open_history = super::history_arg::open(replay.history.as_deref())?;
        let plan = LivePlan::make(&options, &open_history)?;
        for warning in &plan.warnings {
            out.print_to_stderr(&format!("warning: {warning}"));
        }
        if self.dry_run {
            return printing::dry_run(out, &plan.dry_run()?);
        }
        if self.record {
            // Before anything is applied: the run may take hours.
            OutputFolder::choose(replay.out.as_deref(), open_history.history.path())?.print_notice(out);
        }
        let summary =
            plan.run(&mut TerminalObserver { arguments: replay, history: open_history.history.path(), out })?;
        Ok(if summary.is_accepted() { Outcome::Done } else { Outcome::Negative })
    }

    /// The options of a live replay.
    fn options(&self, replay: &Replay, rules: Vec<UserRule>) -> LiveReplayOptions {
        LiveReplayOptions {
            replay: replay.options(),
            kubeconfig: self.target.clone(),
            context: self.context.clone(),
            kinds: self.kinds.clone(),
            keep_placement: self.keep_placement,
            rules: rules.into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect(),
            run: self.run.clone(),
            accept_risks: self.yes,
            keep_volume_handles: self.keep_volume_handles,
            allow_external_effects: self.allow_external_effects,
            resume: self.resume,
            start_paused: self.start_paused,
            record: self.record,
            linger: self.linger,
            repetitions: self.repetitions,
            hooks: self.hooks.clone(),
            speed: replay.speed.unwrap_or(Speed::Times(1.0)),
            simkube: self.simkube.options(),
            clock: now,
        }
    }

    /// Without a target, rejects the flags that apply only to a live replay.
    pub(super) fn reject_live_only_flags(&self) -> anyhow::Result<()> {
        let real_only = [
            ("--context", self.context.is_some()),
            ("--kinds", self.kinds.is_some()),
            ("--keep-placement", self.keep_placement),
            ("--rules", !self.rules.is_empty()),
            ("--run", self.run.is_some()),
            ("--dry-run", self.dry_run),
            ("--yes", self.yes),
            ("--keep-volume-handles", self.keep_volume_handles),
            ("--allow-external-effects", self.allow_external_effects),
            ("--resume", self.resume),
            ("--start-paused", self.start_paused),
            ("--record", self.record),
            ("--linger", self.linger.is_some()),
            ("--repetitions", self.repetitions > 1),
            ("--hooks", !self.hooks.is_empty()),
            ("--style", self.simkube.style.is_some()),
        ];
        match real_only.iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => {
                bail!("{flag} requires --target")
            }
            None => Ok(()),
        }
    }

    /// Rejects the flags that apply only to a replay in virtual time.
    fn reject_virtual_only_flags(&self, replay: &Replay) -> anyhow::Result<()> {
        let virtual_only = [
            ("--scheduler-config", replay.scheduler_config.is_some()),
            ("--scheduler-version", replay.scheduler_version.is_some()),
            ("--autoscaler-version", replay.autoscaler_version.is_some()),
            ("--autoscaler", replay.autoscaler != "recorded"),
            ("--set", !replay.set.is_empty()),
            ("--seed", replay.seed.is_some()),
            ("--no-history", replay.no_history),
        ];
        if let Some((flag, _)) = virtual_only.iter().find(|(_, is_given)| *is_given) {
            bail!("{flag} cannot be used with --target: the target's components use their own settings");
        }
        if !self.record && replay.out.is_some() {
            bail!("--out with --target requires --record");
        }
        Ok(())
    }
}

/// The current time.
fn now() -> Moment {
    jiff::Timestamp::now().into()
}
