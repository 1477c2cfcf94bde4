//! One cluster: from its connection to its history, until it is told to stop.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use live::{Connection, Event, Known, Target};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_stream::StreamMap;
use tokio_stream::wrappers::ReceiverStream;

use super::figures::{Figures, State, lock};
use super::film::{Film, Side};
use super::{Assignment, Board, Plane, Words, now};

/// Messages that may wait for the disk: one can be a whole page of a list. While the queue is full each watch gathers
/// what it has to say, and then lets the API server wait.
const QUEUE: usize = 2;
/// Of these, so many are written together.
const TOGETHER: usize = 2;
/// How often it is looked whether something is to be forgotten.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);
/// How often a full disk is tried again.
const BETWEEN_TRIES: Duration = Duration::from_secs(2);

/// Records one cluster until it is told to stop; it is an error if something comes before that.
pub(crate) async fn record(
    assignment: &Assignment,
    board: &Board,
    words: &Words,
    stop: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let figures = board.figures(&assignment.name);
    lock(&figures).begin(served_as(&assignment.into));
    Cluster { assignment, figures, words, stop }.record().await
}

struct Cluster<'a> {
    assignment: &'a Assignment,
    figures: Arc<Mutex<Figures>>,
    words: &'a Words,
    stop: watch::Receiver<bool>,
}

// === impl Cluster ===

impl Cluster<'_> {
    async fn record(&mut self) -> anyhow::Result<()> {
        let mut stop = self.stop.clone();
        let connection = tokio::select! {
            connected = connect(&self.assignment.cluster) => connected?,
            _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
        };
        let is_new = !self.assignment.into.exists();
        let (mut film, mut known) = block_in_place(|| Film::open(self.assignment, self.figures.clone()))?;
        let mut news = StreamMap::new();
        let mut tasks = JoinSet::new();
        let mut open = |side: Side| {
            let (sender, receiver) = mpsc::channel(QUEUE);
            news.insert(side, ReceiverStream::new(receiver));
            (known.remove(&side).unwrap_or_default(), sender)
        };
        let source = &self.assignment.name;
        let (of_cluster, sender) = open(Side::Cluster);
        let target = Target { source: source.clone(), connection };
        let wanted = self.assignment.cluster.wanted.clone();
        tasks.spawn(live::record(target, wanted, of_cluster, now, sender, stop.clone()));
        if let Some(plane) = self.assignment.control_plane.clone() {
            let (known, sender) = open(Side::ControlPlane);
            tasks.spawn(record_control_plane(plane, source.clone(), known, sender, self.words.clone(), stop));
        }
        let taken = self.take(&mut news, &mut tasks, &mut film).await;
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
    ) -> anyhow::Result<()> {
        let mut looks = interval(BETWEEN_LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut events = Vec::new();
        loop {
            let done = tokio::select! {
                count = news.next_many(&mut events, TOGETHER) => match count {
                    0 => {
                        while let Some(ended) = tasks.join_next().await {
                            ended.context("the recorder broke")??;
                        }
                        return Ok(());
                    }
                    _ => {
                        lock(&self.figures).queue = news.values().map(|queue| queue.as_ref().len()).sum();
                        let news =
                            events.drain(..).filter_map(|(side, event)| self.note(side, event)).collect();
                        block_in_place(|| film.take(news))
                    }
                },
                Some(ended) = tasks.join_next() => {
                    ended.context("the recorder broke")??;
                    Ok(())
                }
                _ = looks.tick() => block_in_place(|| film.keep_short()),
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

    /// Keeps figures and words; what is to be written is given back.
    fn note(&self, side: Side, event: Event) -> Option<(Side, live::News)> {
        match event {
            Event::News(news) => return Some((side, news)),
            Event::Status(status) => lock(&self.figures).heard(status),
            Event::Trouble { kind, words } => self.say(format!("{kind}: {words}")),
        }
        None
    }

    /// Waits until the disk takes more. Meanwhile nothing is read from the server.
    async fn pause(&mut self, film: &mut Film, error: history::Error) -> anyhow::Result<Resumed> {
        let from = now();
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
        // If nobody listens any more it is too late for words.
        let _ = self.words.send((self.assignment.name.clone(), words));
    }
}

/// Records a control plane, tried again and again: the cluster itself is recorded meanwhile.
async fn record_control_plane(
    plane: Plane,
    source: Arc<str>,
    known: Known,
    sender: mpsc::Sender<Event>,
    words: Words,
    mut stop: watch::Receiver<bool>,
) -> live::Result<()> {
    let mut said = String::new();
    loop {
        let connected = tokio::select! {
            connected = connect(&plane) => connected,
            _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
        };
        let recorded = match connected {
            Ok(connection) => {
                let target = Target { source: source.clone(), connection };
                let wanted = plane.wanted.clone();
                live::record(target, wanted, known.clone(), now, sender.clone(), stop.clone()).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = recorded else { return Ok(()) };
        let why = format!("the control plane: {:#}; trying again", anyhow::Error::from(error));
        if why != said {
            let _ = words.send((source.clone(), why.clone()));
            said = why;
        }
        tokio::select! {
            () = sleep(BETWEEN_LOOKS) => {}
            _ = stop.wait_for(|is_time| *is_time) => return Ok(()),
        }
    }
}

enum Resumed {
    Yes,
    Stopped,
}

/// Connects, and hears from the server: without it no history is begun.
pub(crate) async fn connect(plane: &Plane) -> live::Result<Connection> {
    let connection = Connection::open(plane.kubeconfig.as_deref(), plane.context.as_deref()).await?;
    connection.version().await?;
    Ok(connection)
}

/// The name that a history has where histories are served.
fn served_as(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
