//! The recorder of one cluster, from its connection to its history.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use live::{Connection, RecordedCluster, RecordingEvent, ResumeState, WatchBatch, WatchScope, catch_panic};
use model::{Gap, Moment};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet, block_in_place};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::StreamMap;
use tokio_stream::wrappers::ReceiverStream;

use super::clock::RecordingClock;
use super::damage;
use super::metrics::{RecordingMetrics, RecordingState, lock};
use super::recording::{ApiServerRole, Recording};
use super::{ApiServerConfig, Assignment, NoticeSender, RecorderMetrics};

/// The capacity of the event queue, where an event may be a whole page of a list. While it is full, each watch batches
/// its events, and then stops reading from the API server.
const QUEUE_CAPACITY: usize = 2;
/// The maximum number of events written in one transaction.
const MAX_EVENTS_PER_WRITE: usize = 2;
/// The interval of the periodic checks (clock, file, retention), and of the control plane's retries.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The retry interval while the disk is full.
const DISK_RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The first backoff of a restart, which doubles up to [`MAX_BACKOFF`].
pub(super) const FIRST_BACKOFF: Duration = Duration::from_secs(1);
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(60);
/// The connection timeout; an exec plugin for credentials may hang.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(180);

/// Records one cluster until it is stopped; returns an error if it fails before.
pub async fn record(
    assignment: &Assignment,
    recorder_metrics: &RecorderMetrics,
    notices: &NoticeSender,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let metrics = recorder_metrics.recording(&assignment.name);
    let (clock, is_control_plane_failing) = (Arc::new(RecordingClock::new(None)), Arc::default());
    ClusterRecorder { assignment, metrics, notices, stop, clock, is_control_plane_failing }.supervise().await
}

struct ClusterRecorder<'a> {
    assignment: &'a Assignment,
    metrics: Arc<Mutex<RecordingMetrics>>,
    notices: &'a NoticeSender,
    stop: watch::Receiver<bool>,
    clock: Arc<RecordingClock>,
    /// The user was notified that the control plane cannot be recorded.
    is_control_plane_failing: Arc<AtomicBool>,
}

// === impl ClusterRecorder ===

impl ClusterRecorder<'_> {
    /// Records; after a panic it resumes from the history, and after damage it starts a new one.
    async fn supervise(&mut self) -> anyhow::Result<()> {
        let path = &self.assignment.history_path;
        let mut wait = FIRST_BACKOFF;
        loop {
            let (started, since) = (Instant::now(), self.clock.now());
            lock(&self.metrics).note_start(history_name(path));
            let why = match catch_panic(self.record()).await {
                Ok(Err(error)) if block_in_place(|| damage::is_damage(&error, path)) => {
                    let source = &self.assignment.name;
                    let now = self.clock.now();
                    let renamed = block_in_place(|| damage::replace_damaged(path, source, since, now))?;
                    lock(&self.metrics).damaged_histories += 1;
                    let renamed = renamed.map(|renamed| format!("renamed to {}, and ", renamed.display()));
                    format!("{error:#}; {}a new history is started", renamed.unwrap_or_default())
                }
                Ok(outcome) => return outcome,
                Err(panic) => format!("{panic}; retrying"),
            };
            if started.elapsed() > MAX_BACKOFF {
                wait = FIRST_BACKOFF;
            }
            self.notify(why.clone());
            {
                let mut metrics = lock(&self.metrics);
                metrics.note_restart(why);
                metrics.is_failing = true;
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.stop.wait_for(|is_stopped| *is_stopped) => return Ok(()),
            }
            wait = (wait * 2).min(MAX_BACKOFF);
        }
    }

    async fn record(&mut self) -> anyhow::Result<()> {
        let mut stop = self.stop.clone();
        let connection = tokio::select! {
            connected = connect_with_timeout(&self.assignment.cluster) => connected?,
            _ = stop.wait_for(|is_stopped| *is_stopped) => return Ok(()),
        };
        let clock = Arc::new(RecordingClock::new(connection.server_time()));
        self.clock = clock.clone();
        // Errors are returned: a history that is wrongly taken for new may be removed below.
        let is_new = !history::exists(&self.assignment.history_path)?;
        let (mut recording, mut resume_state) =
            block_in_place(|| Recording::open(self.assignment, self.metrics.clone(), clock.clone()))?;
        let mut incoming = StreamMap::new();
        let mut tasks = JoinSet::new();
        let mut open = |role: ApiServerRole| {
            let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
            incoming.insert(role, ReceiverStream::new(receiver));
            (resume_state.remove(&role).unwrap_or_default(), sender)
        };
        let source = &self.assignment.name;
        let (cluster_state, sender) = open(ApiServerRole::Cluster);
        let target = RecordedCluster { source: source.clone(), connection: connection.clone() };
        let policy = &self.assignment.policy;
        let scope = policy.watch_scope();
        let now = move || clock.now();
        tasks.spawn(live::record(target, scope, cluster_state, now.clone(), sender, stop.clone()));
        if let Some(config) = &self.assignment.control_plane {
            let (resume_state, sender) = open(ApiServerRole::ControlPlane);
            let (source, notices) = (source.clone(), self.notices.clone());
            let is_failing = self.is_control_plane_failing.clone();
            let scope = policy.control_plane_scope(&config.namespace);
            let server = config.server.clone();
            let control =
                ControlPlaneRecorder { server, scope, source, resume_state, sender, notices, is_failing };
            tasks.spawn(control.record(now, stop));
        }
        let written = self.write_events(&mut incoming, &mut tasks, &mut recording, &connection).await;
        if written.as_ref().is_err_and(|error| damage::is_damage(error, &self.assignment.history_path)) {
            block_in_place(|| recording.abandon());
            return written;
        }
        let closed = block_in_place(|| recording.close());
        if let Err(error) = &written
            && error.is::<live::Error>()
            && is_new
            && lock(&self.metrics).object_count() == 0
        {
            // A recording that could not start leaves no file.
            let _ = std::fs::remove_file(&self.assignment.history_path);
        }
        written?;
        closed.with_context(|| format!("cannot finish {}", self.assignment.history_path.display()))
    }

    /// Writes events until all tasks have ended.
    async fn write_events(
        &mut self,
        incoming: &mut StreamMap<ApiServerRole, ReceiverStream<RecordingEvent>>,
        tasks: &mut JoinSet<live::Result<()>>,
        recording: &mut Recording,
        connection: &Connection,
    ) -> anyhow::Result<()> {
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut events = Vec::new();
        loop {
            lock(&self.metrics).note_iteration();
            let result = tokio::select! {
                count = incoming.next_many(&mut events, MAX_EVENTS_PER_WRITE) => match count {
                    0 => {
                        while let Some(joined) = tasks.join_next().await {
                            task_result(joined)?;
                        }
                        return Ok(());
                    }
                    _ => {
                        lock(&self.metrics).queued_events = incoming.values().map(|queue| queue.as_ref().len()).sum();
                        let mut batches = self.clock_step_batches();
                        batches.extend(events.drain(..).filter_map(|(role, event)| self.handle_event(role, event)));
                        block_in_place(|| recording.write_batches(batches))
                    }
                },
                Some(joined) = tasks.join_next() => {
                    task_result(joined)?;
                    Ok(())
                }
                _ = checks.tick() => {
                    self.clock.compare(connection);
                    lock(&self.metrics).wall_offset_nanos = self.clock.wall_offset_nanos();
                    let batches = self.clock_step_batches();
                    block_in_place(|| {
                        recording.check()?;
                        if !batches.is_empty() {
                            recording.write_batches(batches)?;
                        }
                        recording.enforce_retention()
                    })
                }
            };
            match result {
                Ok(()) => {}
                Err(error) if error.is_transient() => match self.pause(recording, error).await? {
                    PauseOutcome::Resumed => {}
                    // Unwritten changes are received again by the next run, because their position was not written
                    // either.
                    PauseOutcome::Stopped => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The gaps for changes of the wall clock.
    fn clock_step_batches(&self) -> Vec<(ApiServerRole, WatchBatch)> {
        let steps = self.clock.take_steps();
        if steps.is_empty() {
            return Vec::new();
        }
        lock(&self.metrics).clock_steps += steps.len() as u64;
        let mut gaps = Vec::new();
        for step in steps {
            self.notify(step.why.clone());
            let source = self.assignment.name.clone();
            gaps.push(Gap { source, kinds: Vec::new(), from: step.from, to: step.to, why: step.why });
        }
        vec![(ApiServerRole::Cluster, WatchBatch { gaps, ..WatchBatch::default() })]
    }

    /// Updates metrics and sends notices; returns the batch to write.
    fn handle_event(
        &self,
        role: ApiServerRole,
        event: RecordingEvent,
    ) -> Option<(ApiServerRole, WatchBatch)> {
        match event {
            RecordingEvent::Batch(batch) => return Some((role, batch)),
            RecordingEvent::Status(status) => {
                let is_watching = status.state == live::WatchState::Watching;
                let mut metrics = lock(&self.metrics);
                metrics.note_status(status);
                if is_watching && std::mem::take(&mut metrics.is_failing) {
                    self.notify("recording again".to_owned());
                }
                if is_watching
                    && role == ApiServerRole::ControlPlane
                    && self.is_control_plane_failing.swap(false, Ordering::Relaxed)
                {
                    self.notify("the control plane: recording again".to_owned());
                }
            }
            RecordingEvent::Warning { kind, message } => self.notify(format!("{kind}: {message}")),
        }
        None
    }

    /// Waits until the disk accepts writes. Meanwhile no events are received, and the watches stop reading.
    async fn pause(
        &mut self,
        recording: &mut Recording,
        error: history::Error,
    ) -> anyhow::Result<PauseOutcome> {
        let from = self.clock.now();
        let why = match error {
            history::Error::Stopped { why, .. } => why,
            error => format!("{:#}", anyhow::Error::from(error)),
        };
        self.notify(format!("recording is paused until writing succeeds: {why}"));
        lock(&self.metrics).note_pause(why.clone());
        loop {
            tokio::select! {
                () = sleep(DISK_RETRY_INTERVAL) => {}
                _ = self.stop.wait_for(|is_stopped| *is_stopped) => return Ok(PauseOutcome::Stopped),
            }
            lock(&self.metrics).note_iteration();
            match block_in_place(|| recording.resume(from, &why)) {
                Ok(()) => break,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
        lock(&self.metrics).state = RecordingState::Recording;
        self.notify("recording resumed".to_owned());
        Ok(PauseOutcome::Resumed)
    }

    fn notify(&self, message: String) {
        self.notices.send(self.assignment.name.clone(), message);
    }
}

/// The result of a task. Its panic is propagated to the supervisor.
fn task_result(joined: Result<live::Result<()>, JoinError>) -> anyhow::Result<()> {
    match joined.map_err(JoinError::try_into_panic) {
        Ok(outcome) => Ok(outcome?),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(error).context("the recorder task failed"),
    }
}

/// The recorder of a control plane, beside that of its cluster.
struct ControlPlaneRecorder {
    server: ApiServerConfig,
    scope: WatchScope,
    source: Arc<str>,
    resume_state: ResumeState,
    sender: mpsc::Sender<RecordingEvent>,
    notices: NoticeSender,
    /// The user was notified that it cannot be recorded.
    is_failing: Arc<AtomicBool>,
}

// === impl ControlPlaneRecorder ===

impl ControlPlaneRecorder {
    /// Records it and retries after failures; the cluster itself is recorded meanwhile.
    async fn record(
        self,
        now: impl Fn() -> Moment + Clone + Send + Sync + 'static,
        mut stop: watch::Receiver<bool>,
    ) -> live::Result<()> {
        let mut last_notice = String::new();
        loop {
            let connected = tokio::select! {
                connected = connect_with_timeout(&self.server) => connected,
                _ = stop.wait_for(|is_stopped| *is_stopped) => return Ok(()),
            };
            let recorded = match connected {
                Ok(connection) => {
                    let target = RecordedCluster { source: self.source.clone(), connection };
                    let (scope, resume_state) = (self.scope.clone(), self.resume_state.clone());
                    let (now, sender) = (now.clone(), self.sender.clone());
                    let recorded = live::record(target, scope, resume_state, now, sender, stop.clone());
                    recorded.await.map_err(anyhow::Error::from)
                }
                Err(error) => Err(error),
            };
            let Err(error) = recorded else { return Ok(()) };
            let why = format!("the control plane: {error:#}; retrying");
            if why != last_notice {
                self.notices.send(self.source.clone(), why.clone());
                self.is_failing.store(true, Ordering::Relaxed);
                last_notice = why;
            }
            tokio::select! {
                () = sleep(CHECK_INTERVAL) => {}
                _ = stop.wait_for(|is_stopped| *is_stopped) => return Ok(()),
            }
        }
    }
}

enum PauseOutcome {
    Resumed,
    Stopped,
}

/// Connects and sends a first request: without a response no history is started.
pub async fn connect(server: &ApiServerConfig) -> live::Result<Connection> {
    let connection = Connection::open(server.kubeconfig.as_deref(), server.context.as_deref()).await?;
    connection.version().await?;
    Ok(connection)
}

/// Like [`connect`], with a timeout.
async fn connect_with_timeout(server: &ApiServerConfig) -> anyhow::Result<Connection> {
    let connected = timeout(CONNECT_TIMEOUT, connect(server)).await;
    let timeout_message =
        || format!("cannot reach the server: no response within {} s", CONNECT_TIMEOUT.as_secs());
    Ok(connected.with_context(timeout_message)??)
}

/// The name under which the server lists a history.
fn history_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
