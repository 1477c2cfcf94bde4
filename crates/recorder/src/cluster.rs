//! One cluster: from its connection to its history, until it is told to stop.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use live::{Connection, Event, Known, News, Target, Wanted, caught};
use model::{Gap, Moment};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet, block_in_place};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::StreamMap;
use tokio_stream::wrappers::ReceiverStream;

use super::clock::RecordingClock;
use super::damage;
use super::figures::{Figures, State, lock};
use super::film::{Film, Side};
use super::{ApiServerConfig, Assignment, Board, Notices};

/// Messages that may wait for the disk: one can be a whole page of a list. While the queue is full each watch gathers
/// what it has to say, and then lets the API server wait.
const QUEUE: usize = 2;
/// Of these, so many are written together.
const TOGETHER: usize = 2;
/// How often it is looked whether something is to be forgotten.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);
/// How often a full disk is tried again.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);
/// What broke is begun again after this, then after twice as long, up to the most.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(1);
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// For a server to be reached; a program that is asked for credentials may never answer.
const CONNECT_PATIENCE: Duration = Duration::from_secs(180);

/// Records one cluster until it is told to stop; it is an error if something comes before that.
pub async fn record(
    assignment: &Assignment,
    board: &Board,
    notices: &Notices,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let figures = board.figures(&assignment.name);
    let (clock, is_control_troubled) = (Arc::new(RecordingClock::new(None)), Arc::default());
    Cluster { assignment, figures, notices, stop, clock, is_control_troubled }.supervise().await
}

struct Cluster<'a> {
    assignment: &'a Assignment,
    figures: Arc<Mutex<Figures>>,
    notices: &'a Notices,
    stop: watch::Receiver<bool>,
    clock: Arc<RecordingClock>,
    /// The user was told that the control plane cannot be recorded.
    is_control_troubled: Arc<AtomicBool>,
}

// === impl Cluster ===

impl Cluster<'_> {
    /// Records; after a panic once more from what the history holds, and after damage into a new one.
    async fn supervise(&mut self) -> anyhow::Result<()> {
        let path = &self.assignment.into;
        let mut wait = FIRST_WAIT;
        loop {
            let (begun, since) = (Instant::now(), self.clock.now());
            lock(&self.figures).begin(served_as(path));
            let why = match caught(self.record()).await {
                Ok(Err(error)) if block_in_place(|| damage::is_damage(&error, path)) => {
                    let source = &self.assignment.name;
                    let now = self.clock.now();
                    let aside = block_in_place(|| damage::begin_anew(path, source, since, now))?;
                    lock(&self.figures).damaged += 1;
                    let aside = aside.map(|aside| format!("it is set aside as {}, and ", aside.display()));
                    format!("{error:#}; {}a new history is begun", aside.unwrap_or_default())
                }
                Ok(outcome) => return outcome,
                Err(panic) => format!("{panic}; trying again"),
            };
            if begun.elapsed() > LONGEST_WAIT {
                wait = FIRST_WAIT;
            }
            self.say(why.clone());
            {
                let mut figures = lock(&self.figures);
                figures.restart(why);
                figures.is_troubled = true;
            }
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.stop.wait_for(|is_time| *is_time) => return Ok(()),
            }
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn record(&mut self) -> anyhow::Result<()> {
        let mut stop = self.stop.clone();
        let connection = tokio::select! {
            connected = connect_in_time(&self.assignment.cluster) => connected?,
            _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
        };
        let clock = Arc::new(RecordingClock::new(connection.server_time()));
        self.clock = clock.clone();
        // An answer that did not come is no "no": what is taken for new may be removed below.
        let is_new = !history::exists(&self.assignment.into)?;
        let (mut film, mut known) =
            block_in_place(|| Film::open(self.assignment, self.figures.clone(), clock.clone()))?;
        let mut news = StreamMap::new();
        let mut tasks = JoinSet::new();
        let mut open = |side: Side| {
            let (sender, receiver) = mpsc::channel(QUEUE);
            news.insert(side, ReceiverStream::new(receiver));
            (known.remove(&side).unwrap_or_default(), sender)
        };
        let source = &self.assignment.name;
        let (of_cluster, sender) = open(Side::Cluster);
        let target = Target { source: source.clone(), connection: connection.clone() };
        let policy = &self.assignment.policy;
        let wanted = policy.wanted();
        let now = move || clock.now();
        tasks.spawn(live::record(target, wanted, of_cluster, now.clone(), sender, stop.clone()));
        if let Some(config) = &self.assignment.control_plane {
            let (known, sender) = open(Side::ControlPlane);
            let (source, notices) = (source.clone(), self.notices.clone());
            let is_troubled = self.is_control_troubled.clone();
            let wanted = policy.wanted_of_control_plane(&config.namespace);
            let server = config.server.clone();
            let control = ControlPlane { server, wanted, source, known, sender, notices, is_troubled };
            tasks.spawn(control.record(now, stop));
        }
        let taken = self.take(&mut news, &mut tasks, &mut film, &connection).await;
        if taken.as_ref().is_err_and(|error| damage::is_damage(error, &self.assignment.into)) {
            block_in_place(|| film.abandon());
            return taken;
        }
        let closed = block_in_place(|| film.close());
        if let Err(error) = &taken
            && error.is::<live::Error>()
            && is_new
            && lock(&self.figures).objects() == 0
        {
            // Of what could not be begun nothing is left behind.
            let _ = std::fs::remove_file(&self.assignment.into);
        }
        taken?;
        closed.with_context(|| format!("cannot finish {}", self.assignment.into.display()))
    }

    /// Takes what is told until all have ended.
    async fn take(
        &mut self,
        news: &mut StreamMap<Side, ReceiverStream<Event>>,
        tasks: &mut JoinSet<live::Result<()>>,
        film: &mut Film,
        connection: &Connection,
    ) -> anyhow::Result<()> {
        let mut looks = interval(BETWEEN_LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut events = Vec::new();
        loop {
            lock(&self.figures).turn();
            let done = tokio::select! {
                count = news.next_many(&mut events, TOGETHER) => match count {
                    0 => {
                        while let Some(ended) = tasks.join_next().await {
                            finished(ended)?;
                        }
                        return Ok(());
                    }
                    _ => {
                        lock(&self.figures).queue = news.values().map(|queue| queue.as_ref().len()).sum();
                        let mut news = self.note_clock();
                        news.extend(events.drain(..).filter_map(|(side, event)| self.note(side, event)));
                        block_in_place(|| film.take(news))
                    }
                },
                Some(ended) = tasks.join_next() => {
                    finished(ended)?;
                    Ok(())
                }
                _ = looks.tick() => {
                    self.clock.compare(connection);
                    lock(&self.figures).wall_offset = self.clock.wall_offset();
                    let news = self.note_clock();
                    block_in_place(|| {
                        film.check()?;
                        if !news.is_empty() {
                            film.take(news)?;
                        }
                        film.keep_short()
                    })
                }
            };
            match done {
                Ok(()) => {}
                Err(error) if error.may_pass() => match self.pause(film, error).await? {
                    Resumed::Yes => {}
                    // What was not written is asked for again the next time: its position was not written either.
                    Resumed::Stopped => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What is to be written of the clock: gaps that say when it was set.
    fn note_clock(&self) -> Vec<(Side, News)> {
        let steps = self.clock.take_steps();
        if steps.is_empty() {
            return Vec::new();
        }
        lock(&self.figures).clock_steps += steps.len() as u64;
        let mut gaps = Vec::new();
        for step in steps {
            self.say(step.why.clone());
            let source = self.assignment.name.clone();
            gaps.push(Gap { source, kinds: Vec::new(), from: step.from, to: step.to, why: step.why });
        }
        vec![(Side::Cluster, News { gaps, ..News::default() })]
    }

    /// Keeps figures and words; what is to be written is given back.
    fn note(&self, side: Side, event: Event) -> Option<(Side, News)> {
        match event {
            Event::News(news) => return Some((side, news)),
            Event::Status(status) => {
                let works = status.state == live::State::Watching;
                let mut figures = lock(&self.figures);
                figures.heard(status);
                if works && std::mem::take(&mut figures.is_troubled) {
                    self.say("recording again".to_owned());
                }
                if works
                    && side == Side::ControlPlane
                    && self.is_control_troubled.swap(false, Ordering::Relaxed)
                {
                    self.say("the control plane: recording again".to_owned());
                }
            }
            Event::Trouble { kind, words } => self.say(format!("{kind}: {words}")),
        }
        None
    }

    /// Waits until the disk takes more. Meanwhile nothing is read from the server.
    async fn pause(&mut self, film: &mut Film, error: history::Error) -> anyhow::Result<Resumed> {
        let from = self.clock.now();
        let why = match error {
            history::Error::Stopped { why, .. } => why,
            error => format!("{:#}", anyhow::Error::from(error)),
        };
        self.say(format!("recording pauses, and goes on by itself when it can: {why}"));
        lock(&self.figures).paused(why.clone());
        loop {
            tokio::select! {
                () = sleep(BETWEEN_TRIES) => {}
                _ = self.stop.wait_for(|is_time| *is_time) => return Ok(Resumed::Stopped),
            }
            lock(&self.figures).turn();
            match block_in_place(|| film.resume(from, &why)) {
                Ok(()) => break,
                Err(error) if error.may_pass() => {}
                Err(error) => return Err(error.into()),
            }
        }
        lock(&self.figures).state = State::Recording;
        self.say("recording goes on".to_owned());
        Ok(Resumed::Yes)
    }

    fn say(&self, words: String) {
        self.notices.say(self.assignment.name.clone(), words);
    }
}

/// What came of a task. Its panic goes on in whoever looks after it.
fn finished(ended: Result<live::Result<()>, JoinError>) -> anyhow::Result<()> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(outcome) => Ok(outcome?),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(error).context("the recorder broke"),
    }
}

/// A control plane that is to be recorded beside its cluster.
struct ControlPlane {
    server: ApiServerConfig,
    wanted: Wanted,
    source: Arc<str>,
    known: Known,
    sender: mpsc::Sender<Event>,
    notices: Notices,
    /// The user was told that it cannot be recorded.
    is_troubled: Arc<AtomicBool>,
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Records it, tried again and again: the cluster itself is recorded meanwhile.
    async fn record(
        self,
        now: impl Fn() -> Moment + Clone + Send + Sync + 'static,
        mut stop: watch::Receiver<bool>,
    ) -> live::Result<()> {
        let mut said = String::new();
        loop {
            let connected = tokio::select! {
                connected = connect_in_time(&self.server) => connected,
                _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
            };
            let recorded = match connected {
                Ok(connection) => {
                    let target = Target { source: self.source.clone(), connection };
                    let (wanted, known) = (self.wanted.clone(), self.known.clone());
                    let (now, sender) = (now.clone(), self.sender.clone());
                    let recorded = live::record(target, wanted, known, now, sender, stop.clone());
                    recorded.await.map_err(anyhow::Error::from)
                }
                Err(error) => Err(error),
            };
            let Err(error) = recorded else { return Ok(()) };
            let why = format!("the control plane: {error:#}; trying again");
            if why != said {
                self.notices.say(self.source.clone(), why.clone());
                self.is_troubled.store(true, Ordering::Relaxed);
                said = why;
            }
            tokio::select! {
                () = sleep(BETWEEN_LOOKS) => {}
                _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
            }
        }
    }
}

enum Resumed {
    Yes,
    Stopped,
}

/// Connects, and hears from the server: without it no history is begun.
pub async fn connect(server: &ApiServerConfig) -> live::Result<Connection> {
    let connection = Connection::open(server.kubeconfig.as_deref(), server.context.as_deref()).await?;
    connection.version().await?;
    Ok(connection)
}

/// The same within a time that a loop may stand still for.
async fn connect_in_time(server: &ApiServerConfig) -> anyhow::Result<Connection> {
    let connected = timeout(CONNECT_PATIENCE, connect(server)).await;
    let late = || format!("cannot reach the server: nothing came within {} s", CONNECT_PATIENCE.as_secs());
    Ok(connected.with_context(late)??)
}

/// The name that a history has where histories are served.
fn served_as(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
