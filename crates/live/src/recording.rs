//! Recording a cluster: a task for each kind, and one that looks after them.

mod family;
mod scope;
mod task;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContentHash, Gap, Kind, Moment, Object, Observed, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connection::Connection;
use crate::event_filter::{EventChoice, event_filter, is_event};
use crate::kinds::{KindChoice, Served, discover};
use crate::news::{Event, Known, Name, News, Seen};
use crate::watching::{Subject, Watching};
use crate::{Error, Result};
use family::Family;
use scope::{Filter, KindPositions, RecordedSpan, Resumption, Scope, ScopeChange, ScopeGap};
use task::Task;
use usage::UsageSampler;

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
    /// Which Events.
    pub events: EventChoice,
    /// How often samples of `metrics.k8s.io` are taken; `None`: never.
    pub usage: Option<Duration>,
    /// The kinds one after the other, in the order of their words: the next one is listed when all of one has been told,
    /// or cannot be.
    pub in_order: bool,
}

/// How the recording of a kind goes on: what is known of it, and what tells of it.
struct ResumedKind {
    subject: Subject,
    family: Family,
    /// Of each watch.
    positions: Vec<Option<String>>,
    objects: HashMap<Name, Seen>,
    /// Why that which is now listed was not recorded before.
    why: Option<String>,
    /// The end of what was recorded of it.
    until: Option<Moment>,
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
/// Objects of which it is told together that they are outside of what is recorded.
const ENDED_TOGETHER: usize = 1000;
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

/// What is to be written when nothing of a recording goes on: its objects are not seen any more, and what happens to them
/// is missed from now on.
pub fn end(source: &Arc<str>, known: &Known, now: Moment) -> News {
    let mut all = News::default();
    let mut positions: Vec<(&Kind, &String)> = known.positions.iter().collect();
    positions.sort_unstable();
    for (kind, text) in positions {
        let api_version = Served::guessed(kind.clone(), true).api_version();
        let subject = Subject { source: source.clone(), api_version, keep: |_| true, kind: kind.clone() };
        let told = dropped(&subject, text, known.span(now), now).unwrap_or_default();
        all.gaps.extend(told.gaps);
        all.closed_gaps.extend(told.closed_gaps);
        all.positions.extend(told.positions);
        let mut objects: Vec<(&Name, &Seen)> = known.objects.get(kind).into_iter().flatten().collect();
        objects.sort_unstable_by_key(|(name, _)| *name);
        all.changes.extend(objects.into_iter().map(|(name, seen)| subject.deleted(name, seen, now)));
    }
    all
}

/// The namespaces that a position of a kind tells of; none if it is one of the whole cluster.
pub fn namespaces_of(kind: &Kind, position: &str) -> Vec<String> {
    KindPositions::parse(position, kind).namespaces().map(str::to_owned).collect()
}

/// What is told of a kind that is not recorded any more; `None` if it has been told before.
fn dropped(subject: &Subject, position: &str, span: RecordedSpan, now: Moment) -> Option<News> {
    let before = KindPositions::parse(position, &subject.kind);
    let resumption = scope::resume(&subject.kind, Some(&before), None, Some(span), now);
    let text = resumption.dropped.trim_start_matches(';').to_owned();
    resumption.change.map(|change| of_scope(subject, change, text))
}

/// The gaps that come of a change of scope, and the position of the kind by it.
fn of_scope(subject: &Subject, change: ScopeChange, position: String) -> News {
    let gap = |ScopeGap { from, to, why }| {
        let (source, kinds) = (subject.source.clone(), vec![subject.kind.clone()]);
        Gap { source, kinds, from, to, why }
    };
    let closed_gaps = change.closed.into_iter().map(gap).collect();
    let gaps = change.gaps.into_iter().map(gap).collect();
    News { gaps, closed_gaps, positions: vec![(subject.kind.clone(), position)], ..News::default() }
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
        let chosen = self.wanted.kinds.of(&served)?;
        let is_wanted = |kind: &Kind| {
            let one = chosen.iter().find(|one| one.kind == *kind);
            one.is_some_and(|one| self.wanted.scope(one).is_some())
        };
        let unwanted: Vec<Served> = served.into_iter().filter(|one| !is_wanted(&one.kind)).collect();
        for kind in unwanted {
            self.drop_kind(&kind).await;
        }
        // The recording has a past in which what is not known could have been recorded and was not.
        let was_left_out = self.known.until.is_some();
        for kind in chosen {
            let tasks = self.start(kind, was_left_out).await;
            if self.wanted.in_order
                && let Ok(settled) = self.desk.settled.acquire_many(tasks).await
            {
                settled.forget();
            }
        }
        self.begin_usage().await;
        Ok(())
    }

    /// Starts to take samples of usage, if they are wanted.
    async fn begin_usage(&mut self) {
        let desk = self.desk.clone();
        match self.wanted.usage {
            Some(interval) => {
                let sampler = UsageSampler::new(desk, self.wanted.namespaces(), interval, &self.known);
                self.tasks.spawn(sampler.run(self.stop.clone()));
            }
            None => {
                let ended = usage::end(&desk.source, &self.known, (desk.clock)());
                if !ended.is_empty() {
                    let _ = desk.out.send(Event::News(ended)).await;
                }
            }
        }
    }

    /// Starts to record what is wanted and has appeared. Says when to look again.
    async fn look_at_kinds(&mut self) -> Duration {
        let kinds = self.served().await.and_then(|served| self.wanted.kinds.of_those_there(&served));
        match kinds {
            Ok(kinds) => {
                for kind in kinds {
                    match self.started.get(&kind.kind) {
                        Some(family) => family.serve(kind),
                        // One that was not there until now.
                        None => drop(self.start(kind, false).await),
                    }
                }
                if std::mem::take(&mut self.is_blind) {
                    let (kind, words) = (definition_kind(), "recording again".to_owned());
                    let _ = self.desk.out.send(Event::Trouble { kind, words }).await;
                }
                BETWEEN_LOOKS
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_blind, true) {
                    self.complain(definition_kind(), &error).await;
                }
                LOOK_AGAIN
            }
        }
    }

    async fn served(&self) -> Result<Vec<Served>> {
        let served = discover(&self.desk.connection).await;
        served.map_err(|failure| Error::Server { doing: "ask what the server has", failure })
    }

    /// Starts to record a kind. Says by how many tasks. `was_left_out`: if nothing is known of it, that is because it was
    /// not recorded, and not because there was nothing.
    async fn start(&mut self, served: Served, was_left_out: bool) -> u32 {
        let Some(scope) = self.wanted.scope(&served) else { return 0 };
        let resumed = self.resume(served, &scope, was_left_out).await;
        let ResumedKind { subject, family, positions, mut objects, why, until } = resumed;
        let family = Arc::new(family);
        self.started.insert(family.kind.clone(), family.clone());
        for (namespace, position) in scope.watches().zip(positions) {
            let chance = Pcg64::seed_from_u64((self.desk.clock)().nanos() as u64 ^ self.tasks.len() as u64);
            let within = |name: &str| namespace.is_empty() || namespace == name;
            let objects = objects.extract_if(|(namespace, _), _| within(namespace));
            let mut watching = Watching::new(subject.clone(), position.as_deref(), objects, until);
            if let Some(why) = &why {
                watching = watching.because(why.clone());
            }
            let task = Task::new(self.desk.clone(), family.clone(), namespace, watching, chance);
            self.tasks.spawn(task.run(self.stop.clone()));
        }
        scope.watches().count() as u32
    }

    /// How a kind goes on in a scope. If it is another one than before, this is told.
    async fn resume(&mut self, served: Served, scope: &Scope, was_left_out: bool) -> ResumedKind {
        let kind = served.kind.clone();
        let text = self.known.positions.remove(&kind);
        let before = text.as_deref().map(|text| KindPositions::parse(text, &kind));
        let mut objects = self.known.objects.remove(&kind).unwrap_or_default();
        let until = self.known.until.filter(|_| before.is_some() || !objects.is_empty());
        // Objects without a position came here by other ways.
        let is_known = before.is_some() || was_left_out && objects.is_empty();
        let now = (self.desk.clock)();
        let span = is_known.then(|| self.known.span(now));
        let resumption = scope::resume(&kind, before.as_ref(), Some(scope), span, now);
        let Resumption { positions, dropped, change } = resumption;
        let why = change.as_ref().and_then(|change| change.why.clone());
        let subject = self.subject(&served);
        let mut family = Family::new(served, scope.filter.clone(), dropped);
        for (namespace, position) in scope.watches().zip(&positions) {
            // What one of them says must not make the others forgotten that have not said anything yet.
            if let Some(position) = position {
                family.resume(namespace, position);
            }
        }
        if let Some(change) = change {
            let text = family.joined(&*family.members.lock().await);
            // If nobody listens any more, it is found out again the next time.
            let _ = self.desk.out.send(Event::News(of_scope(&subject, change, text))).await;
        }
        let outside = objects.extract_if(|(namespace, _), _| !scope.has_namespace(namespace)).collect();
        self.end_objects(&subject, outside, now).await;
        ResumedKind { subject, family, positions, objects, why, until }
    }

    /// Tells that a kind is not recorded any more, if it was.
    async fn drop_kind(&mut self, served: &Served) {
        let kind = &served.kind;
        let Some(text) = self.known.positions.get(kind) else { return };
        let now = (self.desk.clock)();
        let objects = self.known.objects.remove(kind).unwrap_or_default();
        let subject = self.subject(served);
        if let Some(told) = dropped(&subject, text, self.known.span(now), now) {
            self.known.positions.extend(told.positions.iter().cloned());
            let _ = self.desk.out.send(Event::News(told)).await;
        }
        self.end_objects(&subject, objects.into_iter().collect(), now).await;
    }

    /// Tells that objects are not seen any more: they lie outside of what is recorded. Whoever is killed in between finds
    /// those that are left the next time.
    async fn end_objects(&self, subject: &Subject, mut objects: Vec<(Name, Seen)>, now: Moment) {
        objects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for part in objects.chunks(ENDED_TOGETHER) {
            let changes = part.iter().map(|(name, seen)| subject.deleted(name, seen, now)).collect();
            let _ = self.desk.out.send(Event::News(News { changes, ..News::default() })).await;
        }
    }

    fn subject(&self, served: &Served) -> Subject {
        let (kind, api_version) = (served.kind.clone(), served.api_version());
        Subject {
            source: self.desk.source.clone(),
            api_version,
            keep: event_filter(&kind, self.wanted.events),
            kind,
        }
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

// === impl Known ===

impl Known {
    fn span(&self, now: Moment) -> RecordedSpan {
        let to = self.until.unwrap_or(now);
        RecordedSpan { from: self.from.unwrap_or(to), to }
    }
}

// === impl Wanted ===

impl Wanted {
    /// Which objects of a kind are wanted; `None` if it is none of them.
    fn scope(&self, served: &Served) -> Option<Scope> {
        let events = match (is_event(&served.kind), self.events) {
            (true, EventChoice::None) => return None,
            (true, events) => events,
            (false, _) => EventChoice::All,
        };
        let namespaces = if served.is_namespaced { self.namespaces() } else { Vec::new() };
        Some(Scope { filter: Filter { labels: self.labels.clone(), events }, namespaces })
    }

    /// Each namespace once.
    fn namespaces(&self) -> Vec<String> {
        let mut names = Vec::new();
        for name in &self.namespaces {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }
}

fn definition_kind() -> Kind {
    Kind::new("apiextensions.k8s.io", "CustomResourceDefinition")
}

fn version_kind() -> Kind {
    Kind::new("kinescope.io", "ServerVersion")
}
