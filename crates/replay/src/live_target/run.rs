//! The execution of a replay into a live API server: connecting, replaying, recording the target, and comparing.

use std::sync::Arc;
use std::time::Duration;

use live::apply::{
    Applier, PodLifecycleOptions, ReplaySpeed, RunTimes, clean, drive_pod_lifecycles, kinds_before_run,
};
use live::translate::Translator;
use live::{Connection, KindChoice, WatchScope};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::comparison::LiveComparison;
use super::hooks::{HookStage, Hooks};
use super::plan::LivePlan;
use super::safety;
use super::summary::RunSummary;
use super::target_recording::TargetRecorder;
use super::{LiveNotice, LiveReplayObserver, SHUTDOWN_TIMEOUT};

/// A plan in execution.
pub(super) struct LiveRun<'a> {
    pub(super) plan: LivePlan<'a>,
    pub(super) hooks: Hooks,
    pub(super) runtime: Runtime,
}

/// How long a target is watched after the last operation.
const DEFAULT_LINGER: Duration = Duration::from_secs(5);

// === impl LivePlan ===

impl LivePlan<'_> {
    /// Runs all repetitions. Returns the summary of the last one.
    ///
    /// It blocks: call it from a blocking thread inside an asynchronous context.
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
    /// Runs all repetitions.
    pub(super) fn play_all(&mut self, observer: &mut dyn LiveReplayObserver) -> anyhow::Result<RunSummary> {
        let connection = self.runtime.block_on(self.connect(observer))?;
        let run_name = self.plan.run_name.clone();
        // Read once, before anything is defined there: deleted definitions may be listed for a while between
        // repetitions.
        self.plan.translate_options.target_kinds =
            self.runtime.block_on(kinds_before_run(&connection, &run_name))?;
        let simulation = self.plan.simulation();
        self.hooks.run(HookStage::PreStart, &simulation, observer)?;
        let mut repetition = 1;
        let summary = loop {
            self.hooks.run(HookStage::PreRun, &simulation, observer)?;
            let (summary, is_stopped) = self.play_once(&connection, observer)?;
            self.hooks.run(HookStage::PostRun, &simulation, observer)?;
            if is_stopped || repetition >= self.plan.options.repetitions {
                break summary;
            }
            repetition += 1;
            let cleaned = self.runtime.block_on(clean(connection.clone(), Some(&run_name)))?;
            observer.cleaned(&cleaned)?;
        };
        self.hooks.run(HookStage::PostStop, &simulation, observer)?;
        Ok(summary)
    }

    async fn connect(&self, observer: &mut dyn LiveReplayObserver) -> anyhow::Result<Connection> {
        let LivePlan { options, part, run_name, .. } = &self.plan;
        let connection = Connection::open(Some(&options.kubeconfig), options.context.as_deref()).await?;
        connection.version().await?;
        let mut risks = safety::risks(&connection, part, run_name, options.accept_risks).await?;
        let context = connection.context();
        if options.keep_volume_handles {
            risks.push(format!("nodes of {context} may mount and write to disks of the recorded cluster"));
        }
        if options.allow_external_effects {
            risks.push(format!(
                "load balancers, DNS names, certificates, machines and disks may be created, changed and deleted with \
                 the accounts of {context}"
            ));
        }
        for risk in risks {
            observer.notice(LiveNotice::Risk(risk));
        }
        Ok(connection)
    }

    /// Runs one repetition. Returns also whether it was stopped, even after the last operation.
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
        let mut translator = Translator::new(plan.translate_options.clone());
        let applier = runtime.block_on(Applier::connect(connection.clone(), run_name))?;
        applier.pause(options.start_paused);
        let run_start = runtime.block_on(applier.begin(&plan.description(), options.resume, now()))?;
        // Report from now on, or the run would be considered lost while the history is read.
        let reporting = runtime.spawn({
            let applier = applier.clone();
            async move { applier.keep_reporting(now).await }
        });
        let mut initial_operations = part.catch_up(&mut translator, run_start.position)?;
        if options.resume {
            runtime.block_on(applier.recover_created(&translator))?;
        }
        let lifecycle_task = self.start_pod_lifecycles(connection, &applier)?;
        if plan.translate_options.simkube.is_some() {
            applier.own_created_objects(&run_start);
        }
        {
            let _inside = runtime.enter();
            observer.started(&applier)?;
        }
        let start = Instant::now();
        let from = run_start.position.unwrap_or(part.from);
        let played = part.create_initial(runtime, &applier, &mut initial_operations).and_then(|()| {
            let began = now();
            part.play(runtime, &applier, &mut translator, &initial_operations, plan.speed(from), observer)?;
            Ok(began)
        });
        let took = start.elapsed();
        if played.is_ok() {
            self.linger(&applier);
        }
        reporting.abort();
        let ended = runtime.block_on(applier.end(now()));
        if let Some(lifecycle_task) = lifecycle_task {
            lifecycle_task.abort();
        }
        let began = played?;
        let recording = recorder.map(|recorder| recorder.end(runtime)).transpose()?;
        let summary = RunSummary {
            run: run_name.clone(),
            target: options.kubeconfig.clone(),
            from: part.from,
            end: part.end,
            is_stopped: applier.is_stopped(),
            position: applier.done_until(),
            took,
            outcomes: applier.outcomes(),
            left_out: translator.excluded().clone(),
        };
        observer.finished(&summary)?;
        if let Some(recording) = recording {
            let was_paused = !applier.paused_for().is_zero();
            observer.recorded(LiveComparison::new(plan, &summary, recording, (began, from), was_paused)?)?;
        }
        ended?;
        Ok((summary, applier.is_stopped()))
    }

    /// Keeps the target and its watchers running for the linger time.
    fn linger(&self, applier: &Applier) {
        let options = self.plan.options;
        let default_linger =
            if options.record || options.simkube.is_some() { DEFAULT_LINGER } else { Duration::ZERO };
        let linger = options.linger.unwrap_or(default_linger);
        self.runtime.block_on(async { applier.unless_stopped(tokio::time::sleep(linger)).await });
    }

    /// Makes pods run as long as recorded, if SimKube's driver is simulated.
    fn start_pod_lifecycles(
        &self,
        connection: &Connection,
        applier: &Arc<Applier>,
    ) -> anyhow::Result<Option<JoinHandle<()>>> {
        let LivePlan { options, part, translate_options, .. } = &self.plan;
        let (Some(simkube), Some(simkube_options)) = (&translate_options.simkube, &options.simkube) else {
            return Ok(None);
        };
        let mut times = RunTimes::new(translate_options.templates.clone());
        part.for_each_change(|change| times.observe(change))?;
        let speed = match self.plan.speed(part.from) {
            ReplaySpeed::Max => f64::INFINITY,
            ReplaySpeed::Scaled { speed, .. } => speed,
        };
        let lifecycle_options = PodLifecycleOptions {
            run_times: times.finish(),
            speed,
            reschedule_interrupted: simkube_options.reschedule_interrupted_bare_pods,
        };
        let (sender, receiver) = mpsc::channel(16);
        let target = live::RecordedCluster { source: "target".into(), connection: connection.clone() };
        let kinds = KindChoice { only: Some(vec!["pods".to_owned()]), ..KindChoice::default() };
        let scope = WatchScope { kinds, labels: Some(simkube.selector()), ..WatchScope::default() };
        let (applier, now) = (applier.clone(), options.clock);
        Ok(Some(self.runtime.spawn(async move {
            let (_stop_sender, stop) = watch::channel(false);
            let watching = live::record(target, scope, live::ResumeState::default(), now, sender, stop);
            // Without a watch, pods have no simulated lifecycle; the run continues.
            let _ = tokio::join!(watching, drive_pod_lifecycles(applier, lifecycle_options, receiver, now));
        })))
    }
}
