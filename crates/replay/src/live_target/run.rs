//! A run into a live API server: connecting, playing, recording the target, and what comes after.

use std::sync::Arc;
use std::time::Duration;

use live::applying::{Applier, Pace, RunTimes, Stamped, clean, kinds_before, stamp};
use live::transplant::Transplant;
use live::{Connection, KindChoice, Wanted};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::comparison::Comparison;
use super::hooks::{Hooks, Stage};
use super::plan::LivePlan;
use super::safety;
use super::summary::RunSummary;
use super::target_recording::TargetRecorder;
use super::{LiveNotice, LiveReplayObserver, SHUTDOWN_TIMEOUT};

/// A plan that is carried out.
pub(super) struct LiveRun<'a> {
    pub(super) plan: LivePlan<'a>,
    pub(super) hooks: Hooks,
    pub(super) runtime: Runtime,
}

/// How long a target is watched when everything was played.
const USUAL_LINGER: Duration = Duration::from_secs(5);

// === impl LivePlan ===

impl LivePlan<'_> {
    /// Plays it, as often as is asked for. Returns what came of the last repetition.
    ///
    /// It blocks: inside an asynchronous context it is called from a thread for blocking work.
    pub fn run(self, observer: &mut dyn LiveReplayObserver) -> anyhow::Result<RunSummary> {
        let hooks = Hooks::read(&self.options.hooks)?;
        let mut run = LiveRun { plan: self, hooks, runtime: recorder::runtime()? };
        let outcome = run.play_all(observer);
        run.runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        outcome
    }
}

// === impl LiveRun ===

impl LiveRun<'_> {
    /// Plays it as often as is wanted.
    pub(super) fn play_all(&mut self, observer: &mut dyn LiveReplayObserver) -> anyhow::Result<RunSummary> {
        let connection = self.runtime.block_on(self.connect(observer))?;
        let run_name = self.plan.run_name.clone();
        // Before anything is defined there, and once: what is removed between repetitions may be told of for a while.
        self.plan.manner.target_kinds = self.runtime.block_on(kinds_before(&connection, &run_name))?;
        let simulation = self.plan.simulation();
        self.hooks.run(Stage::PreStart, &simulation, observer)?;
        let mut repetition = 1;
        let summary = loop {
            self.hooks.run(Stage::PreRun, &simulation, observer)?;
            let (summary, is_stopped) = self.play_once(&connection, observer)?;
            self.hooks.run(Stage::PostRun, &simulation, observer)?;
            if is_stopped || repetition >= self.plan.options.repetitions {
                break summary;
            }
            repetition += 1;
            let cleaned = self.runtime.block_on(clean(connection.clone(), Some(&run_name)))?;
            observer.cleaned(&cleaned)?;
        };
        self.hooks.run(Stage::PostStop, &simulation, observer)?;
        Ok(summary)
    }

    async fn connect(&self, observer: &mut dyn LiveReplayObserver) -> anyhow::Result<Connection> {
        let LivePlan { options, part, run_name, .. } = &self.plan;
        let connection = Connection::open(Some(&options.kubeconfig), options.context.as_deref()).await?;
        connection.version().await?;
        let mut risks = safety::risks(&connection, part, run_name, options.accept_risks).await?;
        let context = connection.context();
        if options.keep_volume_handles {
            risks.push(format!(
                "a node of {context} that mounts a volume writes to the recorded cluster's disk"
            ));
        }
        if options.allow_external_effects {
            risks.push(format!(
                "load balancers, names, certificates, machines and disks may be made, changed and removed with the \
                 accounts of {context}"
            ));
        }
        for risk in risks {
            observer.notice(LiveNotice::Risk(risk));
        }
        Ok(connection)
    }

    /// Plays it once. Returns also whether it was stopped, be it after everything was played.
    fn play_once(
        &self,
        connection: &Connection,
        observer: &mut dyn LiveReplayObserver,
    ) -> anyhow::Result<(RunSummary, bool)> {
        let LiveRun { plan, runtime, .. } = self;
        let LivePlan { options, part, run_name, .. } = plan;
        let now = options.clock;
        let recorder = match options.record {
            true => Some(TargetRecorder::begin(runtime, options)?),
            false => None,
        };
        let mut transplant = Transplant::new(plan.manner.clone());
        let applier = runtime.block_on(Applier::connect(connection.clone(), run_name))?;
        applier.pause(options.start_paused);
        let begun = runtime.block_on(applier.begin(&plan.description(), options.resume, now()))?;
        // From now on, or others would take it for lost while the history is read.
        let reporting = runtime.spawn({
            let applier = applier.clone();
            async move { applier.keep_reporting(now).await }
        });
        let mut beginning = part.catch_up(&mut transplant, begun.position)?;
        if options.resume {
            runtime.block_on(applier.recall(&transplant))?;
        }
        let stamping = self.stamp_pods(connection, &applier)?;
        if plan.manner.simkube.is_some() {
            applier.own_all(&begun);
        }
        {
            let _inside = runtime.enter();
            observer.started(&applier)?;
        }
        let start = Instant::now();
        let from = begun.position.unwrap_or(part.from);
        let played = part.create_initial(runtime, &applier, &mut beginning).and_then(|()| {
            let began = now();
            part.play(runtime, &applier, &mut transplant, &beginning, plan.pace(from), observer)?;
            Ok(began)
        });
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
        let recording = recorder.map(|recorder| recorder.end(runtime)).transpose()?;
        let summary = RunSummary {
            run: run_name.clone(),
            target: options.kubeconfig.clone(),
            from: part.from,
            end: part.end,
            is_stopped: applier.is_stopped(),
            position: applier.position(),
            took,
            tally: applier.tally(),
            left_out: transplant.left_out().clone(),
        };
        observer.finished(&summary)?;
        if let Some(recording) = recording {
            let was_paused = !applier.paused_for().is_zero();
            observer.recorded(Comparison::new(plan, &summary, recording, (began, from), was_paused)?)?;
        }
        ended?;
        Ok((summary, applier.is_stopped()))
    }

    /// Lets the target live on for a while, and those who watch it.
    fn linger(&self, applier: &Applier) {
        let options = self.plan.options;
        let usual = if options.record || options.simkube.is_some() { USUAL_LINGER } else { Duration::ZERO };
        let linger = options.linger.unwrap_or(usual);
        self.runtime.block_on(async { applier.unless_stopped(tokio::time::sleep(linger)).await });
    }

    /// Lets pods run as long as they did, if SimKube's way is asked for.
    fn stamp_pods(
        &self,
        connection: &Connection,
        applier: &Arc<Applier>,
    ) -> anyhow::Result<Option<JoinHandle<()>>> {
        let LivePlan { options, part, manner, .. } = &self.plan;
        let (Some(simkube), Some(asked)) = (&manner.simkube, &options.simkube) else { return Ok(None) };
        let mut times = RunTimes::new(manner.templates.clone());
        part.each(|change| times.see(change))?;
        let speed = match self.plan.pace(part.from) {
            Pace::Max => f64::INFINITY,
            Pace::Times { speed, .. } => speed,
        };
        let how = Stamped { times: times.finish(), speed, clones: asked.reschedule_interrupted_bare_pods };
        let (news, told) = mpsc::channel(16);
        let target = live::Target { source: "target".into(), connection: connection.clone() };
        let kinds = KindChoice { only: Some(vec!["pods".to_owned()]), ..KindChoice::default() };
        let wanted = Wanted { kinds, labels: Some(simkube.selector()), ..Wanted::default() };
        let (applier, now) = (applier.clone(), options.clock);
        Ok(Some(self.runtime.spawn(async move {
            let (_goes_on, stop) = watch::channel(false);
            let watching = live::record(target, wanted, live::Known::default(), now, news, stop);
            // What cannot be watched is not stamped: the run goes on.
            let _ = tokio::join!(watching, stamp(applier, how, told, now));
        })))
    }
}
