//! The recording of a cluster: one task per watch, and a supervisor that starts them as kinds appear.

mod kind_watches;
mod scope;
#[cfg(test)]
mod tests;
mod usage;
mod watch_task;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContentHash, Gap, IncomingChange, Kind, Moment, Object, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connection::Connection;
use crate::event_filter::{EventChoice, event_filter, is_event};
use crate::events::{ObjectName, RecordingEvent, ResumeState, VersionId, WatchBatch};
use crate::kinds::{KindChoice, ServedKind, discover};
use crate::list_watch::{KindWatch, WatchSubject};
use crate::{Error, Result};
use kind_watches::KindWatches;
use scope::{KindPositions, KindScope, RecordedSpan, Resumption, ScopeChange, ScopeFilter, ScopeGap};
use usage::UsageSampler;
use watch_task::WatchTask;

/// The cluster to record.
pub struct RecordedCluster {
    /// The name of the recording.
    pub source: Arc<str>,
    /// The connection to its API server.
    pub connection: Connection,
}

/// The scope of a recording: which objects are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchScope {
    /// The kinds.
    pub kinds: KindChoice,
    /// The namespaces; all of them if empty. Cluster-scoped objects are always recorded.
    pub namespaces: Vec<String>,
    /// A label selector, in kubectl's syntax.
    pub labels: Option<String>,
    /// The Events.
    pub events: EventChoice,
    /// The interval at which `metrics.k8s.io` is sampled; `None`: never.
    pub usage: Option<Duration>,
    /// List the kinds one after the other, in the order of their names: the next one starts when the previous list has
    /// been reported or has failed.
    pub in_order: bool,
}

/// The state from which the recording of a kind resumes, and its watches.
struct ResumedKind {
    subject: WatchSubject,
    watches: KindWatches,
    /// One per watch.
    positions: Vec<Option<String>>,
    objects: HashMap<ObjectName, VersionId>,
    /// Why the objects that are now listed were not recorded before.
    gap_reason: Option<String>,
    /// The end of its earlier recording.
    until: Option<Moment>,
}

/// State shared by all tasks.
struct Shared {
    source: Arc<str>,
    connection: Connection,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    events: mpsc::Sender<RecordingEvent>,
    /// Limits concurrent list requests.
    list_permits: Semaphore,
    /// A permit for each task whose first list has been reported or has failed.
    finished_first_lists: Semaphore,
    /// A CustomResourceDefinition has changed.
    kinds_changed: Notify,
    /// A watch was reopened after a failure: the server may have been upgraded.
    reconnected: Notify,
}

struct RecordingSupervisor {
    shared: Arc<Shared>,
    scope: WatchScope,
    resume_state: ResumeState,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    started: HashMap<Kind, Arc<KindWatches>>,
    /// The last reported server version.
    reported_version: Option<String>,
    /// Discovery is failing, and this has been reported.
    is_discovery_failing: bool,
}

const MAX_CONCURRENT_LISTS: usize = 4;
/// Inferred deletions per batch when objects leave the scope.
const MAX_INFERRED_DELETES: usize = 1000;
/// CustomResourceDefinitions often change in groups.
const DEBOUNCE: Duration = Duration::from_secs(2);
/// The discovery interval: kinds of aggregated API servers come and go without an event.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(300);
/// The discovery interval after a failure.
const DISCOVERY_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// A recording stops within a second.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(900);

/// Records until `stop` is set or the receiver is closed. Returns an error if it cannot start; later failures are
/// reported as events and retried.
///
/// While `out` is full nothing is read from the server, which then throttles or ends the watches.
pub async fn record(
    target: RecordedCluster,
    wanted: WatchScope,
    known: ResumeState,
    clock: impl Fn() -> Moment + Send + Sync + 'static,
    out: mpsc::Sender<RecordingEvent>,
    stop: watch::Receiver<bool>,
) -> Result<()> {
    let desk = Arc::new(Shared {
        source: target.source,
        connection: target.connection,
        clock: Box::new(clock),
        events: out,
        list_permits: Semaphore::new(MAX_CONCURRENT_LISTS),
        finished_first_lists: Semaphore::new(0),
        kinds_changed: Notify::new(),
        reconnected: Notify::new(),
    });
    let recording = RecordingSupervisor {
        shared: desk,
        scope: wanted,
        resume_state: known,
        stop,
        tasks: JoinSet::new(),
        started: HashMap::new(),
        reported_version: None,
        is_discovery_failing: false,
    };
    recording.run().await
}

/// The final batch of a recording that is not resumed: its objects are reported as deleted, and a gap begins.
pub fn end_recording(source: &Arc<str>, known: &ResumeState, now: Moment) -> WatchBatch {
    let mut all = WatchBatch::default();
    let mut positions: Vec<(&Kind, &String)> = known.positions.iter().collect();
    positions.sort_unstable();
    for (kind, text) in positions {
        let api_version = ServedKind::guessed(kind.clone(), true).api_version();
        let subject =
            WatchSubject { source: source.clone(), api_version, keep: |_| true, kind: kind.clone() };
        let told = batch_for_dropped_kind(&subject, text, known.recorded_span(now), now).unwrap_or_default();
        all.gaps.extend(told.gaps);
        all.closed_gaps.extend(told.closed_gaps);
        all.positions.extend(told.positions);
        let mut objects: Vec<(&ObjectName, &VersionId)> =
            known.objects.get(kind).into_iter().flatten().collect();
        objects.sort_unstable_by_key(|(name, _)| *name);
        all.changes.extend(objects.into_iter().map(|(name, seen)| subject.inferred_delete(name, seen, now)));
    }
    all
}

/// The namespaces in the position of a kind; none if it covers the whole cluster.
pub fn namespaces_in_position(kind: &Kind, position: &str) -> Vec<String> {
    KindPositions::parse(position, kind).namespaces().map(str::to_owned).collect()
}

/// The batch that ends the recording of a kind; `None` if that has been reported before.
fn batch_for_dropped_kind(
    subject: &WatchSubject,
    position: &str,
    span: RecordedSpan,
    now: Moment,
) -> Option<WatchBatch> {
    let before = KindPositions::parse(position, &subject.kind);
    let resumption = scope::resume(&subject.kind, Some(&before), None, Some(span), now);
    let text = resumption.dropped.trim_start_matches(';').to_owned();
    resumption.change.map(|change| batch_for_scope_change(subject, change, text))
}

/// The gaps caused by a change of scope, and the kind's new position.
fn batch_for_scope_change(subject: &WatchSubject, change: ScopeChange, position: String) -> WatchBatch {
    let gap = |ScopeGap { from, to, why }| {
        let (source, kinds) = (subject.source.clone(), vec![subject.kind.clone()]);
        Gap { source, kinds, from, to, why }
    };
    let closed_gaps = change.closed.into_iter().map(gap).collect();
    let gaps = change.gaps.into_iter().map(gap).collect();
    WatchBatch {
        gaps,
        closed_gaps,
        positions: vec![(subject.kind.clone(), position)],
        ..WatchBatch::default()
    }
}

/// Waits for the stop signal, or until its sender is dropped.
async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|is_time| *is_time).await;
}

// === impl RecordingSupervisor ===

impl RecordingSupervisor {
    async fn run(mut self) -> Result<()> {
        let (mut stop, desk) = (self.stop.clone(), self.shared.clone());
        tokio::select! {
            () = wait_for_stop(&mut stop) => {}
            () = desk.events.closed() => {}
            outcome = self.supervise() => outcome?,
        }
        // The tasks have received the stop signal too, and send their last batches.
        let farewell = async { while self.tasks.join_next().await.is_some() {} };
        // Tasks that do not finish are aborted when the set is dropped.
        let _ = timeout(SHUTDOWN_TIMEOUT, farewell).await;
        Ok(())
    }

    async fn supervise(&mut self) -> Result<()> {
        match self.refresh_server_version().await {
            // An account that may not read the version may still be allowed to record.
            Err(error) if error.is_forbidden() => self.warn(version_kind(), &error).await,
            outcome => outcome?,
        }
        self.start_watches().await?;
        let desk = self.shared.clone();
        let mut next_look = Instant::now() + DISCOVERY_INTERVAL;
        loop {
            tokio::select! {
                () = desk.kinds_changed.notified() => {
                    sleep(DEBOUNCE).await;
                    next_look = Instant::now() + self.refresh_kinds().await;
                }
                () = sleep_until(next_look) => next_look = Instant::now() + self.refresh_kinds().await,
                () = desk.reconnected.notified() => {
                    if let Err(error) = self.refresh_server_version().await && !error.is_forbidden() {
                        self.warn(version_kind(), &error).await;
                    }
                    // Many watches reconnect together.
                    sleep(DEBOUNCE).await;
                }
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }

    /// Starts to record the kinds in scope. Kinds recorded before are watched even if the server no longer has them:
    /// the gap must be reported.
    async fn start_watches(&mut self) -> Result<()> {
        let mut served = self.discover_kinds().await?;
        let mut gone: Vec<ServedKind> = Vec::new();
        for (kind, objects) in &self.resume_state.objects {
            if !objects.is_empty() && served.iter().all(|one| one.kind != *kind) {
                let is_namespaced = objects.keys().any(|(namespace, _)| !namespace.is_empty());
                gone.push(ServedKind::guessed(kind.clone(), is_namespaced));
            }
        }
        gone.sort_unstable_by(|one, other| one.kind.cmp(&other.kind));
        served.append(&mut gone);
        let chosen = self.scope.kinds.select(&served)?;
        let is_wanted = |kind: &Kind| {
            let one = chosen.iter().find(|one| one.kind == *kind);
            one.is_some_and(|one| self.scope.kind_scope(one).is_some())
        };
        let unwanted: Vec<ServedKind> = served.into_iter().filter(|one| !is_wanted(&one.kind)).collect();
        for kind in unwanted {
            self.drop_kind(&kind).await;
        }
        // The recording existed before: an unknown kind was left out then.
        let was_left_out = self.resume_state.until.is_some();
        for kind in chosen {
            let tasks = self.start_kind(kind, was_left_out).await;
            if self.scope.in_order
                && let Ok(settled) = self.shared.finished_first_lists.acquire_many(tasks).await
            {
                settled.forget();
            }
        }
        self.start_usage_sampling().await;
        Ok(())
    }

    /// Starts to sample usage, if it is in scope.
    async fn start_usage_sampling(&mut self) {
        let desk = self.shared.clone();
        match self.scope.usage {
            Some(interval) => {
                let sampler =
                    UsageSampler::new(desk, self.scope.distinct_namespaces(), interval, &self.resume_state);
                self.tasks.spawn(sampler.run(self.stop.clone()));
            }
            None => {
                let ended = usage::end_sampling(&desk.source, &self.resume_state, (desk.clock)());
                if !ended.is_empty() {
                    let _ = desk.events.send(RecordingEvent::Batch(ended)).await;
                }
            }
        }
    }

    /// Runs discovery and starts to record new kinds. Returns the delay until the next discovery.
    async fn refresh_kinds(&mut self) -> Duration {
        let kinds = self.discover_kinds().await.and_then(|served| self.scope.kinds.select_available(&served));
        match kinds {
            Ok(kinds) => {
                for kind in kinds {
                    match self.started.get(&kind.kind) {
                        Some(family) => family.set_served(kind),
                        // The kind did not exist before.
                        None => drop(self.start_kind(kind, false).await),
                    }
                }
                if std::mem::take(&mut self.is_discovery_failing) {
                    let (kind, words) = (definition_kind(), "recording again".to_owned());
                    let _ = self.shared.events.send(RecordingEvent::Warning { kind, message: words }).await;
                }
                DISCOVERY_INTERVAL
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_discovery_failing, true) {
                    self.warn(definition_kind(), &error).await;
                }
                DISCOVERY_RETRY_INTERVAL
            }
        }
    }

    async fn discover_kinds(&self) -> Result<Vec<ServedKind>> {
        let served = discover(&self.shared.connection).await;
        served.map_err(|failure| Error::Server { doing: "ask what the server has", failure })
    }

    /// Starts to record a kind; returns the number of tasks. `was_left_out`: if the kind has no state, it was out of
    /// scope before, rather than without objects.
    async fn start_kind(&mut self, served: ServedKind, was_left_out: bool) -> u32 {
        let Some(scope) = self.scope.kind_scope(&served) else { return 0 };
        let resumed = self.resume_kind(served, &scope, was_left_out).await;
        let ResumedKind { subject, watches: family, positions, mut objects, gap_reason: why, until } =
            resumed;
        let family = Arc::new(family);
        self.started.insert(family.kind.clone(), family.clone());
        for (namespace, position) in scope.watches().zip(positions) {
            let chance = Pcg64::seed_from_u64((self.shared.clock)().nanos() as u64 ^ self.tasks.len() as u64);
            let within = |name: &str| namespace.is_empty() || namespace == name;
            let objects = objects.extract_if(|(namespace, _), _| within(namespace));
            let mut watching = KindWatch::new(subject.clone(), position.as_deref(), objects, until);
            if let Some(why) = &why {
                watching = watching.with_gap_reason(why.clone());
            }
            let task = WatchTask::new(self.shared.clone(), family.clone(), namespace, watching, chance);
            self.tasks.spawn(task.run(self.stop.clone()));
        }
        scope.watches().count() as u32
    }

    /// Resumes a kind in a scope. A change of scope is reported.
    async fn resume_kind(
        &mut self,
        served: ServedKind,
        scope: &KindScope,
        was_left_out: bool,
    ) -> ResumedKind {
        let kind = served.kind.clone();
        let text = self.resume_state.positions.remove(&kind);
        let before = text.as_deref().map(|text| KindPositions::parse(text, &kind));
        let mut objects = self.resume_state.objects.remove(&kind).unwrap_or_default();
        let until = self.resume_state.until.filter(|_| before.is_some() || !objects.is_empty());
        // Objects without a position were not recorded by watches.
        let is_known = before.is_some() || was_left_out && objects.is_empty();
        let now = (self.shared.clock)();
        let span = is_known.then(|| self.resume_state.recorded_span(now));
        let resumption = scope::resume(&kind, before.as_ref(), Some(scope), span, now);
        let Resumption { positions, dropped, change } = resumption;
        let why = change.as_ref().and_then(|change| change.gap_reason.clone());
        let subject = self.subject(&served);
        let mut family = KindWatches::new(served, scope.filter.clone(), dropped);
        for (namespace, position) in scope.watches().zip(&positions) {
            // Without this, the first position of one watch would overwrite those of the others.
            if let Some(position) = position {
                family.set_position(namespace, position);
            }
        }
        if let Some(change) = change {
            let text = family.joint_position(&*family.watches.lock().await);
            // If the receiver is closed, the next run detects the change again.
            let _ = self
                .shared
                .events
                .send(RecordingEvent::Batch(batch_for_scope_change(&subject, change, text)))
                .await;
        }
        let outside = objects.extract_if(|(namespace, _), _| !scope.has_namespace(namespace)).collect();
        self.push_inferred_deletes(&subject, outside, now).await;
        ResumedKind { subject, watches: family, positions, objects, gap_reason: why, until }
    }

    /// Reports that a kind is no longer recorded, if it was.
    async fn drop_kind(&mut self, served: &ServedKind) {
        let kind = &served.kind;
        let Some(text) = self.resume_state.positions.get(kind) else { return };
        let now = (self.shared.clock)();
        let objects = self.resume_state.objects.remove(kind).unwrap_or_default();
        let subject = self.subject(served);
        if let Some(told) = batch_for_dropped_kind(&subject, text, self.resume_state.recorded_span(now), now)
        {
            self.resume_state.positions.extend(told.positions.iter().cloned());
            let _ = self.shared.events.send(RecordingEvent::Batch(told)).await;
        }
        self.push_inferred_deletes(&subject, objects.into_iter().collect(), now).await;
    }

    /// Reports objects outside the scope as deleted. If the recorder is killed meanwhile, the next run finds the
    /// remaining ones.
    async fn push_inferred_deletes(
        &self,
        subject: &WatchSubject,
        mut objects: Vec<(ObjectName, VersionId)>,
        now: Moment,
    ) {
        objects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for part in objects.chunks(MAX_INFERRED_DELETES) {
            let changes = part.iter().map(|(name, seen)| subject.inferred_delete(name, seen, now)).collect();
            let _ = self
                .shared
                .events
                .send(RecordingEvent::Batch(WatchBatch { changes, ..WatchBatch::default() }))
                .await;
        }
    }

    fn subject(&self, served: &ServedKind) -> WatchSubject {
        let (kind, api_version) = (served.kind.clone(), served.api_version());
        WatchSubject {
            source: self.shared.source.clone(),
            api_version,
            keep: event_filter(&kind, self.scope.events),
            kind,
        }
    }

    /// Reports the server's version as an object, if it has changed.
    async fn refresh_server_version(&mut self) -> Result<()> {
        let version = self.shared.connection.version().await?;
        if self.reported_version.as_ref() == Some(&version) {
            return Ok(());
        }
        let raw: serde_json::Value = serde_json::from_str(&version).unwrap_or_default();
        // On one line, like all objects; the server sends several lines.
        let raw = raw.to_string();
        // It has no resourceVersion on the server; a resumed recording needs one to detect a change.
        let mark = format!("{:016x}", ContentHash::of(&raw).0);
        let told = self.resume_state.objects.get(&version_kind()).into_iter().flat_map(|told| told.values());
        if self.reported_version.is_none() && told.into_iter().any(|seen| *seen.resource_version == *mark) {
            self.reported_version = Some(version);
            return Ok(());
        }
        let object = Object::from_trusted(format!(
            r#"{{"apiVersion":"kinescope.io/v1","kind":"ServerVersion","metadata":{{"name":"version","resourceVersion":"{mark}"}},"version":{raw}}}"#
        ));
        let is_known =
            self.reported_version.is_some() || self.resume_state.objects.contains_key(&version_kind());
        let what = if is_known { What::Modified(object) } else { What::Added(object) };
        let seen = (self.shared.clock)();
        let observed =
            IncomingChange { inferred: true, ..IncomingChange::received(seen, &self.shared.source, what) };
        let news = WatchBatch { changes: vec![observed], ..WatchBatch::default() };
        // A closed receiver needs no version.
        let _ = self.shared.events.send(RecordingEvent::Batch(news)).await;
        self.reported_version = Some(version);
        Ok(())
    }

    async fn warn(&self, kind: Kind, error: &Error) {
        let _ = self.shared.events.send(RecordingEvent::Warning { kind, message: error.to_string() }).await;
    }
}

// === impl ResumeState ===

impl ResumeState {
    fn recorded_span(&self, now: Moment) -> RecordedSpan {
        let to = self.until.unwrap_or(now);
        RecordedSpan { from: self.from.unwrap_or(to), to }
    }
}

// === impl WatchScope ===

impl WatchScope {
    /// The scope of a kind; `None` if no objects of it are recorded.
    fn kind_scope(&self, served: &ServedKind) -> Option<KindScope> {
        let events = match (is_event(&served.kind), self.events) {
            (true, EventChoice::None) => return None,
            (true, events) => events,
            (false, _) => EventChoice::All,
        };
        let namespaces = if served.is_namespaced { self.distinct_namespaces() } else { Vec::new() };
        Some(KindScope { filter: ScopeFilter { labels: self.labels.clone(), events }, namespaces })
    }

    /// The namespaces without duplicates.
    fn distinct_namespaces(&self) -> Vec<String> {
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
