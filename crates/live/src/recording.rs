//! Recording a cluster: a task for each kind, and one that looks after them.

mod family;
mod task;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContentHash, Kind, Moment, Object, Observed, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connection::Connection;
use crate::kinds::{KindChoice, Served, discover};
use crate::news::{Event, Known, News};
use crate::{Error, Result};
use family::Family;
use task::Task;

/// A cluster to be recorded.
pub struct Target {
    /// What the recording is called.
    pub source: Arc<str>,
    /// Where it is.
    pub connection: Connection,
}

/// What of it is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Which kinds.
    pub kinds: KindChoice,
    /// Which namespaces; all of them if empty. What is in no namespace is recorded all the same.
    pub namespaces: Vec<String>,
    /// Only what has these labels: a selector in kubectl's words.
    pub labels: Option<String>,
    /// The kinds one after the other, in the order of their words: the next one is listed when all of one has been told,
    /// or cannot be.
    pub in_order: bool,
}

/// What all tasks share.
struct Desk {
    source: Arc<str>,
    connection: Connection,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    out: mpsc::Sender<Event>,
    /// Pages of lists that may be asked for at once.
    lists: Semaphore,
    /// One for each task that has told its first list, or could not.
    settled: Semaphore,
    /// A definition of a kind has changed.
    kinds_changed: Notify,
    /// A watch has come back after a failure: it may be another server now.
    reconnected: Notify,
}

struct Recording {
    desk: Arc<Desk>,
    wanted: Wanted,
    known: Known,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    started: HashMap<Kind, Arc<Family>>,
    /// The version told last.
    version: Option<String>,
    /// The server could not say which kinds it has; this has been told.
    is_blind: bool,
}

const LISTS_AT_ONCE: usize = 4;
/// Definitions come in flocks.
const SETTLE: Duration = Duration::from_secs(2);
/// How often it is asked which kinds there are: those of other servers behind this one come and go without a word.
const BETWEEN_LOOKS: Duration = Duration::from_secs(300);
/// The same after it could not be said.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// A recording that is to stop has stopped within a second.
const FAREWELL: Duration = Duration::from_millis(900);

/// Records until `stop` says so or nobody listens any more. What cannot be begun is an error; what goes wrong later is
/// told, and tried again.
///
/// While `out` is full nothing is read from the server, which then slows down or ends the watches itself.
pub async fn record(
    target: Target,
    wanted: Wanted,
    known: Known,
    clock: impl Fn() -> Moment + Send + Sync + 'static,
    out: mpsc::Sender<Event>,
    stop: watch::Receiver<bool>,
) -> Result<()> {
    let desk = Arc::new(Desk {
        source: target.source,
        connection: target.connection,
        clock: Box::new(clock),
        out,
        lists: Semaphore::new(LISTS_AT_ONCE),
        settled: Semaphore::new(0),
        kinds_changed: Notify::new(),
        reconnected: Notify::new(),
    });
    let recording = Recording {
        desk,
        wanted,
        known,
        stop,
        tasks: JoinSet::new(),
        started: HashMap::new(),
        version: None,
        is_blind: false,
    };
    recording.run().await
}

/// Waits until it is time to stop; also if nobody is left who could say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_time| *is_time).await;
}

// === impl Recording ===

impl Recording {
    async fn run(mut self) -> Result<()> {
        let (mut stop, desk) = (self.stop.clone(), self.desk.clone());
        tokio::select! {
            () = stopped(&mut stop) => {}
            () = desk.out.closed() => {}
            outcome = self.attend() => outcome?,
        }
        // The tasks have heard it too, and have their last words to say.
        let farewell = async { while self.tasks.join_next().await.is_some() {} };
        // Those that do not come to an end are ended when the set is dropped.
        let _ = timeout(FAREWELL, farewell).await;
        Ok(())
    }

    async fn attend(&mut self) -> Result<()> {
        match self.look_at_version().await {
            // An account that may not see it may still see all the rest.
            Err(error) if error.is_forbidden() => self.complain(version_kind(), &error).await,
            outcome => outcome?,
        }
        self.begin().await?;
        let desk = self.desk.clone();
        let mut next_look = Instant::now() + BETWEEN_LOOKS;
        loop {
            tokio::select! {
                () = desk.kinds_changed.notified() => {
                    sleep(SETTLE).await;
                    next_look = Instant::now() + self.look_at_kinds().await;
                }
                () = sleep_until(next_look) => next_look = Instant::now() + self.look_at_kinds().await,
                () = desk.reconnected.notified() => {
                    if let Err(error) = self.look_at_version().await && !error.is_forbidden() {
                        self.complain(version_kind(), &error).await;
                    }
                    // Many come back together.
                    sleep(SETTLE).await;
                }
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }

    /// Starts to record what is wanted. That which was recorded before is asked for even if the server has it no more:
    /// it must be said that nothing is known of it.
    async fn begin(&mut self) -> Result<()> {
        let mut served = self.served().await?;
        let mut gone: Vec<Served> = Vec::new();
        for (kind, objects) in &self.known.objects {
            if !objects.is_empty() && served.iter().all(|one| one.kind != *kind) {
                let is_namespaced = objects.keys().any(|(namespace, _)| !namespace.is_empty());
                gone.push(Served::guessed(kind.clone(), is_namespaced));
            }
        }
        gone.sort_unstable_by(|one, other| one.kind.cmp(&other.kind));
        served.append(&mut gone);
        for kind in self.wanted.kinds.of(&served)? {
            let tasks = self.start(kind);
            if self.wanted.in_order
                && let Ok(settled) = self.desk.settled.acquire_many(tasks).await
            {
                settled.forget();
            }
        }
        Ok(())
    }

    /// Starts to record what is wanted and has appeared. Says when to look again.
    async fn look_at_kinds(&mut self) -> Duration {
        let kinds = self.served().await.and_then(|served| self.wanted.kinds.of_those_there(&served));
        match kinds {
            Ok(kinds) => {
                for kind in kinds {
                    match self.started.get(&kind.kind) {
                        Some(family) => family.serve(kind),
                        None => drop(self.start(kind)),
                    }
                }
                self.is_blind = false;
                BETWEEN_LOOKS
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_blind, true) {
                    let kind = Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");
                    self.complain(kind, &error).await;
                }
                LOOK_AGAIN
            }
        }
    }

    async fn served(&self) -> Result<Vec<Served>> {
        let served = discover(&self.desk.connection).await;
        served.map_err(|failure| Error::Server { doing: "ask what the server has", failure })
    }

    /// Starts to record a kind. Says by how many tasks.
    fn start(&mut self, served: Served) -> u32 {
        let position = self.known.positions.remove(&served.kind);
        let mut objects = self.known.objects.remove(&served.kind).unwrap_or_default();
        // Of a kind of which nothing is known nothing was missed: it may not have been wanted, or not have been there.
        let until = self.known.until.filter(|_| position.is_some() || !objects.is_empty());
        let wanted = match served.is_namespaced {
            true => self.wanted.namespaces.iter().cloned().map(Some).collect(),
            false => Vec::new(),
        };
        let scopes = if wanted.is_empty() { vec![None] } else { wanted };
        let count = scopes.len() as u32;
        let mut family = Family::new(served, self.wanted.labels.clone());
        let mut positions = Vec::with_capacity(scopes.len());
        for namespace in &scopes {
            let namespace = namespace.as_deref();
            let position = position.as_deref().and_then(|text| family.position(text, namespace));
            // What one of them says must not make the others forgotten that have not said anything yet.
            if let Some(position) = &position {
                family.resume(namespace.unwrap_or_default(), position);
            }
            positions.push(position);
        }
        let family = Arc::new(family);
        self.started.insert(family.kind.clone(), family.clone());
        for (namespace, position) in scopes.into_iter().zip(positions) {
            let chance = Pcg64::seed_from_u64((self.desk.clock)().nanos() as u64 ^ self.tasks.len() as u64);
            let within = |name: &str| namespace.as_deref().is_none_or(|namespace| namespace == name);
            let objects = objects.extract_if(|(namespace, _), _| within(namespace));
            let task = Task::new(
                self.desk.clone(),
                family.clone(),
                namespace.as_deref(),
                position,
                objects,
                until,
                chance,
            );
            self.tasks.spawn(task.run(self.stop.clone()));
        }
        count
    }

    /// Tells the server's version as an object, if it is another than was told last.
    async fn look_at_version(&mut self) -> Result<()> {
        let version = self.desk.connection.version().await?;
        if self.version.as_ref() == Some(&version) {
            return Ok(());
        }
        let raw: serde_json::Value = serde_json::from_str(&version).unwrap_or_default();
        // As one line, like all objects; the server breaks it into many.
        let raw = raw.to_string();
        // The server has no mark for it, and whoever goes on with a recording must know whether it is another.
        let mark = format!("{:016x}", ContentHash::of(&raw).0);
        let told = self.known.objects.get(&version_kind()).into_iter().flat_map(|told| told.values());
        if self.version.is_none() && told.into_iter().any(|seen| *seen.resource_version == *mark) {
            self.version = Some(version);
            return Ok(());
        }
        let object = Object::trusted(format!(
            r#"{{"apiVersion":"kinescope.io/v1","kind":"ServerVersion","metadata":{{"name":"version","resourceVersion":"{mark}"}},"version":{raw}}}"#
        ));
        let is_known = self.version.is_some() || self.known.objects.contains_key(&version_kind());
        let what = if is_known { What::Modified(object) } else { What::Added(object) };
        let seen = (self.desk.clock)();
        let observed = Observed { inferred: true, ..Observed::received(seen, &self.desk.source, what) };
        let news = News { changes: vec![observed], ..News::default() };
        // Whoever has stopped listening needs no version.
        let _ = self.desk.out.send(Event::News(news)).await;
        self.version = Some(version);
        Ok(())
    }

    async fn complain(&self, kind: Kind, error: &Error) {
        let _ = self.desk.out.send(Event::Trouble { kind, words: error.to_string() }).await;
    }
}

fn version_kind() -> Kind {
    Kind::new("kinescope.io", "ServerVersion")
}
