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
/// The interval of the retention check.
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
    board: &RecorderMetrics,
    notices: &NoticeSender,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let figures = board.recording(&assignment.name);
    let (clock, is_control_troubled) = (Arc::new(RecordingClock::new(None)), Arc::default());
    ClusterRecorder {
        assignment,
        metrics: figures,
        notices,
        stop,
        clock,
        is_control_plane_failing: is_control_troubled,
    }
    .supervise()
    .await
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
            let (begun, since) = (Instant::now(), self.clock.now());
            lock(&self.metrics).note_start(history_name(path));
            let why = match catch_panic(self.record()).await {
                Ok(Err(error)) if block_in_place(|| damage::is_damage(&error, path)) => {
                    let source = &self.assignment.name;
                    let now = self.clock.now();
                    let aside = block_in_place(|| damage::replace_damaged(path, source, since, now))?;
                    lock(&self.metrics).damaged_histories += 1;
                    let aside = aside.map(|aside| format!("it is set aside as {}, and ", aside.display()));
                    format!("{error:#}; {}a new history is begun", aside.unwrap_or_default())
                }
                Ok(outcome) => return outcome,
                Err(panic) => format!("{panic}; trying again"),
            };
            if begun.elapsed() > MAX_BACKOFF {
                wait = FIRST_BACKOFF;
            }
            self.notify(why.clone());
            {
                let mut figures = lock(&self.metrics);
                figures.note_restart(why);
                figures.is_failing = true;
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.stop.wait_for(|is_time| *is_time) => return Ok(()),
            }
            wait = (wait * 2).min(MAX_BACKOFF);
        }
    }

    async fn record(&mut self) -> anyhow::Result<()> {
        let mut stop = self.stop.clone();
        let connection = tokio::select! {
            connected = connect_with_timeout(&self.assignment.cluster) => connected?,
            _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
        };
        let clock = Arc::new(RecordingClock::new(connection.server_time()));
        self.clock = clock.clone();
        // Errors are returned: a history that is wrongly taken for new may be removed below.
        let is_new = !history::exists(&self.assignment.history_path)?;
        let (mut film, mut known) =
            block_in_place(|| Recording::open(self.assignment, self.metrics.clone(), clock.clone()))?;
        let mut news = StreamMap::new();
        let mut tasks = JoinSet::new();
        let mut open = |side: ApiServerRole| {
            let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
            news.insert(side, ReceiverStream::new(receiver));
            (known.remove(&side).unwrap_or_default(), sender)
        };
        let source = &self.assignment.name;
        let (of_cluster, sender) = open(ApiServerRole::Cluster);
        let target = RecordedCluster { source: source.clone(), connection: connection.clone() };
        let policy = &self.assignment.policy;
        let wanted = policy.watch_scope();
        let now = move || clock.now();
        tasks.spawn(live::record(target, wanted, of_cluster, now.clone(), sender, stop.clone()));
        if let Some(config) = &self.assignment.control_plane {
            let (known, sender) = open(ApiServerRole::ControlPlane);
            let (source, notices) = (source.clone(), self.notices.clone());
            let is_troubled = self.is_control_plane_failing.clone();
            let wanted = policy.control_plane_scope(&config.namespace);
            let server = config.server.clone();
            let control = ControlPlaneRecorder {
                server,
                scope: wanted,
                source,
                resume_state: known,
                sender,
                notices,
                is_failing: is_troubled,
            };
            tasks.spawn(control.record(now, stop));
        }
        let taken = self.write_events(&mut news, &mut tasks, &mut film, &connection).await;
        if taken.as_ref().is_err_and(|error| damage::is_damage(error, &self.assignment.history_path)) {
            block_in_place(|| film.abandon());
            return taken;
        }
        let closed = block_in_place(|| film.close());
        if let Err(error) = &taken
            && error.is::<live::Error>()
            && is_new
            && lock(&self.metrics).object_count() == 0
        {
            // A recording that could not start leaves no file.
            let _ = std::fs::remove_file(&self.assignment.history_path);
        }
        taken?;
        closed.with_context(|| format!("cannot finish {}", self.assignment.history_path.display()))
    }

    /// Writes events until all tasks have ended.
    async fn write_events(
        &mut self,
        news: &mut StreamMap<ApiServerRole, ReceiverStream<RecordingEvent>>,
        tasks: &mut JoinSet<live::Result<()>>,
        film: &mut Recording,
        connection: &Connection,
    ) -> anyhow::Result<()> {
        let mut looks = interval(CHECK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut events = Vec::new();
        loop {
            lock(&self.metrics).note_iteration();
            let done = tokio::select! {
                count = news.next_many(&mut events, MAX_EVENTS_PER_WRITE) => match count {
                    0 => {
                        while let Some(ended) = tasks.join_next().await {
                            task_result(ended)?;
                        }
                        return Ok(());
                    }
                    _ => {
                        lock(&self.metrics).queued_events = news.values().map(|queue| queue.as_ref().len()).sum();
                        let mut news = self.clock_step_batches();
                        news.extend(events.drain(..).filter_map(|(side, event)| self.handle_event(side, event)));
                        block_in_place(|| film.write_batches(news))
                    }
                },
                Some(ended) = tasks.join_next() => {
                    task_result(ended)?;
                    Ok(())
                }
                _ = looks.tick() => {
                    self.clock.compare(connection);
                    lock(&self.metrics).wall_offset_nanos = self.clock.wall_offset_nanos();
                    let news = self.clock_step_batches();
                    block_in_place(|| {
                        film.check()?;
                        if !news.is_empty() {
                            film.write_batches(news)?;
                        }
                        film.enforce_retention()
                    })
                }
            };
            match done {
                Ok(()) => {}
                Err(error) if error.is_transient() => match self.pause(film, error).await? {
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
        side: ApiServerRole,
        event: RecordingEvent,
    ) -> Option<(ApiServerRole, WatchBatch)> {
        match event {
            RecordingEvent::Batch(news) => return Some((side, news)),
            RecordingEvent::Status(status) => {
                let works = status.state == live::WatchState::Watching;
                let mut figures = lock(&self.metrics);
                figures.note_status(status);
                if works && std::mem::take(&mut figures.is_failing) {
                    self.notify("recording again".to_owned());
                }
                if works
                    && side == ApiServerRole::ControlPlane
                    && self.is_control_plane_failing.swap(false, Ordering::Relaxed)
                {
                    self.notify("the control plane: recording again".to_owned());
                }
            }
            RecordingEvent::Warning { kind, message: words } => self.notify(format!("{kind}: {words}")),
        }
        None
    }

    /// Waits until the disk accepts writes. Meanwhile nothing is read from the server.
    async fn pause(&mut self, film: &mut Recording, error: history::Error) -> anyhow::Result<PauseOutcome> {
        let from = self.clock.now();
        let why = match error {
            history::Error::Stopped { why, .. } => why,
            error => format!("{:#}", anyhow::Error::from(error)),
        };
        self.notify(format!("recording pauses, and goes on by itself when it can: {why}"));
        lock(&self.metrics).note_pause(why.clone());
        loop {
            tokio::select! {
                () = sleep(DISK_RETRY_INTERVAL) => {}
                _ = self.stop.wait_for(|is_time| *is_time) => return Ok(PauseOutcome::Stopped),
            }
            lock(&self.metrics).note_iteration();
            match block_in_place(|| film.resume(from, &why)) {
                Ok(()) => break,
                Err(error) if error.is_transient() => {}
                Err(error) => return Err(error.into()),
            }
        }
        lock(&self.metrics).state = RecordingState::Recording;
        self.notify("recording goes on".to_owned());
        Ok(PauseOutcome::Resumed)
    }

    fn notify(&self, words: String) {
        self.notices.send(self.assignment.name.clone(), words);
    }
}

/// The result of a task. Its panic is propagated to the supervisor.
fn task_result(ended: Result<live::Result<()>, JoinError>) -> anyhow::Result<()> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(outcome) => Ok(outcome?),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(error).context("the recorder broke"),
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
        let mut said = String::new();
        loop {
            let connected = tokio::select! {
                connected = connect_with_timeout(&self.server) => connected,
                _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
            };
            let recorded = match connected {
                Ok(connection) => {
                    let target = RecordedCluster { source: self.source.clone(), connection };
                    let (wanted, known) = (self.scope.clone(), self.resume_state.clone());
                    let (now, sender) = (now.clone(), self.sender.clone());
                    let recorded = live::record(target, wanted, known, now, sender, stop.clone());
                    recorded.await.map_err(anyhow::Error::from)
                }
                Err(error) => Err(error),
            };
            let Err(error) = recorded else { return Ok(()) };
            let why = format!("the control plane: {error:#}; trying again");
            if why != said {
                self.notices.send(self.source.clone(), why.clone());
                self.is_failing.store(true, Ordering::Relaxed);
                said = why;
            }
            tokio::select! {
                () = sleep(CHECK_INTERVAL) => {}
                _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
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
    let late = || format!("cannot reach the server: nothing came within {} s", CONNECT_TIMEOUT.as_secs());
    Ok(connected.with_context(late)??)
}

/// The name under which the server lists a history.
fn history_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
