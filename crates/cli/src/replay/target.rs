//! `kinescope replay --target`: a history played into a real API server.

mod beside;
mod filming;
mod hooks;
mod part;
mod runs;
mod safety;
mod style;
mod told;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use history::Selection;
use kubernetes::selector::check_value;
use live::applying::{Applier, Pace, RunTimes, Stamped, clean, kinds_before, stamp};
use live::transplant::{FileRule, Level, Manner, Rule, Templates, Transplant, read_rules};
use live::{Connection, KindChoice, Wanted};
use model::{Kind, Moment};
use query::{Chosen, KindWords};
use replay::plan;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::filming::Filming;
use self::hooks::{Hooks, Stage};
use self::part::Part;
use self::style::InStyle;
use super::super::lines::harmless;
use super::super::output::Out;
use super::super::{Outcome, signals, text_file, tracer_config};
use super::{Replay, Speed};

pub(super) use self::runs::OfRun;

/// What concerns a real API server.
#[derive(clap::Args)]
#[command(next_help_heading = "Into a real API server")]
pub(super) struct Target {
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
    #[arg(long, value_name = "TIME", value_parser = recorder::duration)]
    linger: Option<Duration>,
    /// Play it so many times, and remove everything between
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Programs that are run before and after, as SimKube's files name them; may be given several times
    #[arg(long, value_name = "FILE")]
    hooks: Vec<PathBuf>,
    #[command(flatten)]
    simkube: InStyle,
}

/// A program that was asked for credentials may never answer.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long a target is watched when everything was played.
const LINGER: Duration = Duration::from_secs(5);

/// A history, how it is played, and where.
struct Playing<'a> {
    asked: &'a Replay,
    how: &'a Target,
    part: Part<'a>,
    manner: Manner,
    run: String,
    hooks: Hooks,
    runtime: Runtime,
}

impl Target {
    /// Whether the history is played into a real API server, or not at all.
    pub(super) fn is_real(&self) -> bool {
        self.show_rules || self.target != Path::new("sim")
    }

    pub(super) fn run(&self, asked: &Replay, out: &mut Out) -> anyhow::Result<Outcome> {
        let rules = self.file_rules()?;
        if self.show_rules {
            return told::rules(out, &rules);
        }
        self.check(asked)?;
        let chosen = super::chosen::open(asked.history.as_deref())?;
        let source = chosen.source(asked.source.as_deref(), "--source")?.unwrap_or_default();
        let (from, end) = plan::window(&asked.options(), &chosen, &source)?;
        let run = self.run_name(&chosen)?;
        let manner = self.manner(asked, &chosen, &run, rules, out)?;
        let everything = Selection { source: Some(source), ..Selection::default() };
        let part = Part { chosen: &chosen, everything, from, end };
        if self.dry_run {
            return told::dry_run(out, &part, &mut Transplant::new(manner));
        }
        let hooks = Hooks::read(&self.hooks)?;
        let mut playing =
            Playing { asked, how: self, part, manner, run, hooks, runtime: recorder::runtime()? };
        let outcome = playing.all(out);
        playing.runtime.shutdown_timeout(FAREWELL);
        outcome
    }

    /// Refuses, where there is no real API server, what means nothing without one.
    pub(super) fn refuse_alone(&self) -> anyhow::Result<()> {
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

    /// What cannot go together.
    fn check(&self, asked: &Replay) -> anyhow::Result<()> {
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
        if self.resume && self.record {
            bail!("a run is filmed from its beginning: leave --record, or begin another with --run");
        }
        if self.resume && self.repetitions > 1 {
            bail!("a run that is gone on with is played once: leave --repetitions");
        }
        if self.simkube.style.is_some() && self.keep_placement {
            bail!("SimKube gives workloads, whose pods nobody has placed yet: leave --keep-placement");
        }
        Ok(())
    }

    fn file_rules(&self) -> anyhow::Result<Vec<FileRule>> {
        let mut rules = Vec::new();
        for path in &self.rules {
            let file =
                read_yaml(path).with_context(|| format!("cannot read the rules {}", path.display()))?;
            let read = read_rules(file).map_err(anyhow::Error::msg);
            rules.extend(read.with_context(|| format!("{} are no rules", path.display()))?);
        }
        Ok(rules)
    }

    fn manner(
        &self,
        asked: &Replay,
        chosen: &Chosen,
        run: &str,
        rules: Vec<FileRule>,
        out: &mut Out,
    ) -> anyhow::Result<Manner> {
        let words = KindWords::read(&chosen.history, chosen.times.end)?;
        let kinds = self.kinds.as_deref().map(|text| words.find(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        if let Some(kind) = kinds.iter().flatten().find(|kind| kubernetes::kinds::is_secret(kind)) {
            bail!("--kinds: {kind}: Secrets are never given to a target; leave it out");
        }
        let tracer = match &self.simkube.tracer_config {
            Some(path) => tracer_config::read(path, out)?,
            None => chosen.tracer_config(chosen.source(asked.source.as_deref(), "--source")?)?,
        };
        let templates = Templates::with(tracer.templates());
        let simkube = self.simkube.style.as_ref().map(|_| self.simkube.style(run));
        let level = match asked.level {
            Some(calibration::Level::Pods) if simkube.is_some() => {
                bail!("SimKube gives workloads: leave --level pods")
            }
            Some(calibration::Level::Workloads) => Level::Workloads,
            _ if simkube.is_some() => Level::Workloads,
            _ => Level::Pods,
        };
        let rules = rules.into_iter().map(|rule| Arc::new(rule) as Arc<dyn Rule>).collect();
        Ok(Manner {
            level,
            keep_placement: self.keep_placement,
            kinds,
            run: run.to_owned(),
            target_kinds: Vec::new(),
            keep_volume_handles: self.keep_volume_handles,
            allow_external_effects: self.allow_external_effects,
            templates,
            simkube,
            rules,
        })
    }

    /// The name that everything is labelled with.
    fn run_name(&self, chosen: &Chosen) -> anyhow::Result<String> {
        let name = match &self.run {
            Some(name) => name.clone(),
            None => chosen.history.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        };
        match check_value(&name) {
            Ok(()) if !name.is_empty() => Ok(name),
            Ok(()) => bail!("a run needs a name: give one with --run"),
            Err(why) => {
                bail!("everything is labelled with the name of the run, and {why}; say it with --run")
            }
        }
    }
}

// === impl Playing ===

impl Playing<'_> {
    /// Plays it as often as is wanted.
    fn all(&mut self, out: &mut Out) -> anyhow::Result<Outcome> {
        let connection = self.runtime.block_on(self.connect(out))?;
        // Before anything is defined there, and once: what is removed between repetitions may be told of for a while.
        self.manner.target_kinds = self.runtime.block_on(kinds_before(&connection, &self.run))?;
        self.hooks.run(Stage::PreStart, &self.simulation(), out)?;
        let mut outcome = Outcome::Done;
        for repetition in 1..=self.how.repetitions {
            if repetition > 1 {
                let cleaned = self.runtime.block_on(clean(connection.clone(), Some(&self.run)))?;
                told::cleaned(out, &cleaned)?;
            }
            self.hooks.run(Stage::PreRun, &self.simulation(), out)?;
            let (said, is_stopped) = self.once(&connection, out)?;
            outcome = said;
            self.hooks.run(Stage::PostRun, &self.simulation(), out)?;
            if is_stopped {
                break;
            }
        }
        self.hooks.run(Stage::PostStop, &self.simulation(), out)?;
        Ok(outcome)
    }

    async fn connect(&self, out: &mut Out) -> anyhow::Result<Connection> {
        let connection = Connection::open(Some(&self.how.target), self.how.context.as_deref()).await?;
        connection.version().await?;
        let mut risks = safety::risks(&connection, &self.part, &self.run, self.how.yes).await?;
        let context = connection.context();
        if self.how.keep_volume_handles {
            risks.push(format!(
                "a node of {context} that mounts a volume writes to the recorded cluster's disk"
            ));
        }
        if self.how.allow_external_effects {
            risks.push(format!(
                "load balancers, names, certificates, machines and disks may be made, changed and removed with the \
                 accounts of {context}"
            ));
        }
        for risk in risks {
            out.complain(&format!("warning: {}", harmless(&risk)));
        }
        Ok(connection)
    }

    /// Plays it once, and says whether it was stopped.
    fn once(&self, connection: &Connection, out: &mut Out) -> anyhow::Result<(Outcome, bool)> {
        let runtime = &self.runtime;
        let filming = match self.how.record {
            true => Some(Filming::begin(runtime, self)?),
            false => None,
        };
        let mut transplant = Transplant::new(self.manner.clone());
        let applier = runtime.block_on(Applier::connect(connection.clone(), &self.run))?;
        applier.pause(self.how.start_paused);
        let begun = runtime.block_on(applier.begin(&self.what(), self.how.resume, now()))?;
        // From now on, or others would take it for lost while the history is read.
        let reporting = runtime.spawn({
            let applier = applier.clone();
            async move { applier.keep_reporting(now).await }
        });
        let beginning = self.part.catch_up(&mut transplant, begun.position)?;
        if self.how.resume {
            runtime.block_on(applier.recall(&transplant))?;
        }
        let stamping = self.stamping(connection, &applier)?;
        if self.manner.simkube.is_some() {
            applier.own_all(&begun);
        }
        self.listen(&applier)?;
        let start = Instant::now();
        let from = begun.position.unwrap_or(self.part.from);
        let played = self.part.play(runtime, &applier, &mut transplant, beginning, self.pace(from), out);
        let took = start.elapsed();
        if played.is_ok() {
            self.linger(&applier);
        }
        reporting.abort();
        let ended = runtime.block_on(applier.end(now()));
        if let Some(stamping) = stamping {
            stamping.abort();
        }
        let began = played?;
        let film = filming.map(|filming| filming.end(runtime)).transpose()?;
        let outcome = told::summary(out, &applier, &transplant, took, self)?;
        if let Some(film) = film {
            beside::compare(self, &film, (began, from), &applier, out)?;
        }
        ended?;
        Ok((outcome, applier.is_stopped()))
    }

    /// Lets the target live on for a while, and those who watch it.
    fn linger(&self, applier: &Applier) {
        let usual = self.how.record || self.manner.simkube.is_some();
        let linger = self.how.linger.unwrap_or(if usual { LINGER } else { Duration::ZERO });
        self.runtime.block_on(async { applier.unless_stopped(tokio::time::sleep(linger)).await });
    }

    fn pace(&self, from: Moment) -> Pace {
        match self.asked.speed {
            Some(Speed::Max) => Pace::Max,
            Some(Speed::Times(speed)) => Pace::Times { speed, from },
            None => Pace::Times { speed: 1.0, from },
        }
    }

    /// Ctrl-C brings what is under way to its end.
    fn listen(&self, applier: &Arc<Applier>) -> anyhow::Result<()> {
        let stop = {
            let _inside = self.runtime.enter();
            signals::stop()?
        };
        let applier = applier.clone();
        self.runtime.spawn(async move {
            stop.await;
            applier.stop();
        });
        Ok(())
    }

    /// Lets pods run as long as they did, if that is wanted.
    fn stamping(
        &self,
        connection: &Connection,
        applier: &Arc<Applier>,
    ) -> anyhow::Result<Option<JoinHandle<()>>> {
        let Some(simkube) = &self.manner.simkube else { return Ok(None) };
        let mut times = RunTimes::new(self.manner.templates.clone());
        self.part.each(|change| times.see(change))?;
        let speed = match self.pace(self.part.from) {
            Pace::Max => f64::INFINITY,
            Pace::Times { speed, .. } => speed,
        };
        let clones = self.how.simkube.reschedule_interrupted_bare_pods;
        let how = Stamped { times: times.finish(), speed, clones };
        let (news, told) = tokio::sync::mpsc::channel(16);
        let target = live::Target { source: "target".into(), connection: connection.clone() };
        let kinds = KindChoice { only: Some(vec!["pods".to_owned()]), ..KindChoice::default() };
        let wanted = Wanted { kinds, labels: Some(simkube.selector()), ..Wanted::default() };
        let applier = applier.clone();
        Ok(Some(self.runtime.spawn(async move {
            let (_goes_on, stop) = watch::channel(false);
            let watching = live::record(target, wanted, live::Known::default(), now, news, stop);
            // What cannot be watched is not stamped: the run goes on.
            let _ = tokio::join!(watching, stamp(applier, how, told, now));
        })))
    }

    /// What is played, and how: the same words for the same.
    fn what(&self) -> String {
        let Part { chosen, everything, from, end } = &self.part;
        let history = chosen.history.path().file_name().unwrap_or_default().to_string_lossy();
        let source = everything.source.as_deref().unwrap_or_default();
        let level = match self.manner.level {
            Level::Pods => "pods",
            Level::Workloads => "workloads",
        };
        let mut what = format!("{history} ({source}) from {from} to {end}, level {level}");
        if self.manner.keep_placement {
            what += ", with its placements";
        }
        if self.manner.keep_volume_handles {
            what += ", with its volume handles";
        }
        if self.manner.allow_external_effects {
            what += ", with external effects";
        }
        if let Some(simkube) = &self.manner.simkube {
            what += &format!(", as SimKube in {}-*", simkube.prefix);
        }
        if let Some(kinds) = &self.manner.kinds {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            what += &format!(", only {}", kinds.join(", "));
        }
        if !self.manner.rules.is_empty() {
            what += &format!(", with {} rules", self.manner.rules.len());
        }
        what
    }

    /// The run as SimKube's hooks are told of theirs.
    fn simulation(&self) -> serde_json::Value {
        let speed = match self.pace(self.part.from) {
            Pace::Max => serde_json::Value::Null,
            Pace::Times { speed, .. } => speed.into(),
        };
        serde_json::json!({
            "apiVersion": "simkube.io/v1", "kind": "Simulation",
            "metadata": {"name": self.run},
            "spec": {
                "driver": {
                    "image": "", "namespace": "", "port": 0,
                    "tracePath": format!("file://{}", self.part.chosen.history.path().display()),
                    "virtualNsPrefix": self.how.simkube.virtual_ns_prefix,
                },
                "repetitions": self.how.repetitions, "speed": speed,
            },
        })
    }
}

/// The time of day.
fn now() -> Moment {
    jiff::Timestamp::now().into()
}

/// What is in a file of YAML or JSON.
fn read_yaml(path: &Path) -> anyhow::Result<serde_json::Value> {
    Ok(formats::manifests::of_yaml(&path.display().to_string(), &text_file::read(path)?)?)
}
