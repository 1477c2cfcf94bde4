//! `kinescope replay --target`: replays a history into a real API server.

mod observer;
mod printing;
mod runs;
mod simkube;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use live::translate::{FileRule, Rule};
use model::Moment;
use replay::Speed;
use replay::live_target::{self, LivePlan, LiveReplayOptions};

use self::observer::TerminalObserver;
use self::simkube::SimkubeArgs;
use super::super::Outcome;
use super::super::output::Printer;
use super::Replay;

pub(super) use self::runs::RunCommand;

/// What concerns a real API server.
#[derive(clap::Args)]
#[command(next_help_heading = "Into a real API server")]
pub(super) struct TargetArgs {
    /// Play it into the API server that this kubeconfig names, where a real scheduler decides; `sim` is none
    #[arg(long, value_name = "KUBECONFIG", default_value = "sim", hide_default_value = true)]
    target: PathBuf,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Only these kinds: pods,nodes; also those that are left out otherwise [default: what --show-rules says]
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Bind pods to the nodes that were recorded, and write their status
    #[arg(long)]
    keep_placement: bool,
    /// Rules by which objects are changed or left out before they are created or updated; may be given several times
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// Print the rules by which objects are changed or left out, and end
    #[arg(long)]
    show_rules: bool,
    /// What the objects are labelled with, and told apart by [default: after the history]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Do it though the cluster looks like one that is in use: programs of the recording run on its real nodes, and reach what those reach
    #[arg(long)]
    yes: bool,
    /// Let volumes name the storage that was recorded: nodes of the target that mount one write to the recorded cluster's disk
    #[arg(long)]
    keep_volume_handles: bool,
    /// Give what acts outside a cluster, too, as it was recorded: load balancers, names, certificates, webhooks, machines and disks are made, changed and removed with the target's accounts
    #[arg(long)]
    allow_external_effects: bool,
    /// Go on with a run that was stopped or broke off
    #[arg(long)]
    resume: bool,
    /// Wait for `kinescope replay resume` before anything happens
    #[arg(long)]
    start_paused: bool,
    /// Film the target meanwhile, and compare what came of it with what was recorded
    #[arg(long)]
    record: bool,
    /// Stay so much longer when everything was played [default: 5s with --record or --style, else not at all]
    #[arg(long, value_name = "TIME", value_parser = recorder::parse_duration)]
    linger: Option<Duration>,
    /// Play it so many times, and remove everything between
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Programs that are run before and after, as SimKube's files name them; may be given several times
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

    pub(super) fn run(&self, asked: &Replay, out: &mut Printer) -> anyhow::Result<Outcome> {
        let rules = live_target::read_rules(&self.rules)?;
        if self.show_rules {
            return printing::rules(out, &rules);
        }
        let options = self.options(asked, rules);
        self.reject_virtual_only_flags(asked)?;
        options.check()?;
        let chosen = super::history_arg::open(asked.history.as_deref())?;
        let plan = LivePlan::make(&options, &chosen)?;
        for warning in &plan.warnings {
            out.print_to_stderr(&format!("warning: {warning}"));
        }
        if self.dry_run {
            return printing::dry_run(out, &plan.dry_run()?);
        }
        let summary =
            plan.run(&mut TerminalObserver { arguments: asked, history: chosen.history.path(), out })?;
        Ok(if summary.is_accepted() { Outcome::Done } else { Outcome::Negative })
    }

    /// The options of a live replay.
    fn options(&self, asked: &Replay, rules: Vec<FileRule>) -> LiveReplayOptions {
        LiveReplayOptions {
            replay: asked.options(),
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
            speed: asked.speed.unwrap_or(Speed::Times(1.0)),
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
                bail!("{flag} is for a replay into a real API server: name that with --target")
            }
            None => Ok(()),
        }
    }

    /// Rejects the flags that apply only to a replay in virtual time.
    fn reject_virtual_only_flags(&self, asked: &Replay) -> anyhow::Result<()> {
        let virtual_only = [
            ("--scheduler-config", asked.scheduler_config.is_some()),
            ("--scheduler-version", asked.scheduler_version.is_some()),
            ("--autoscaler-version", asked.autoscaler_version.is_some()),
            ("--autoscaler", asked.autoscaler != "recorded"),
            ("--set", !asked.set.is_empty()),
            ("--seed", asked.seed.is_some()),
            ("--no-history", asked.no_history),
        ];
        if let Some((flag, _)) = virtual_only.iter().find(|(_, is_given)| *is_given) {
            bail!(
                "{flag} is for a replay in virtual time: the target's own components decide with their own settings"
            );
        }
        if !self.record && asked.out.is_some() {
            bail!("nothing is written without --record: say it, or leave --out");
        }
        Ok(())
    }
}

/// The current time.
fn now() -> Moment {
    jiff::Timestamp::now().into()
}
