//! The recording of a cluster: one task per watch, and a supervisor that starts them as kinds appear.

mod kind_watch_state;
mod scope;
#[cfg(test)]
mod tests;
mod usage;
mod watch_task;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::change_filter::{FilterOptions, ObjectReader};
use kubernetes::kinds::definition_kind;
use model::{ContentHash, Gap, IncomingChange, Kind, Moment, NamespacedName, Object, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::connection::Connection;
use crate::event_filter::{EventChoice, event_filter, is_event};
use crate::kinds::{KindChoice, ServedKind, discover};
use crate::list_watch::{Reflector, WatchSubject};
use crate::recording_event::{RecordingEvent, ResumeState, VersionId, WatchBatch};
use crate::{Error, Result};
use kind_watch_state::KindWatchState;
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
    /// The filter that the changes will pass: objects are read in the form in which it keeps them. `None`: as they are
    /// received.
    pub filter: Option<FilterOptions>,
    /// The interval at which `metrics.k8s.io` is sampled; `None`: never.
    pub usage: Option<Duration>,
    /// List the kinds one after the other, in the order of `kinds`: the next one starts when the previous list has been
    /// reported or has failed.
    pub in_order: bool,
}

/// A kind's watches and known objects, ready to start.
struct ResumedKind {
    subject: WatchSubject,
    kind_state: KindWatchState,
    /// One per watch.
    positions: Vec<Option<String>>,
    objects: HashMap<NamespacedName, VersionId>,
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
    output: mpsc::Sender<RecordingEvent>,
    /// Limits concurrent list requests.
    list_permits: Semaphore,
    /// A permit for each task whose first list has been reported or has failed.
    finished_first_lists: Semaphore,
    /// A CustomResourceDefinition has changed, or a kind was not found.
    discovery_wanted: Notify,
    /// A watch was opened again: the server may have been upgraded.
    reconnected: Notify,
}

/// Discovers kinds and starts their watches; reports scope changes and the server version.
struct RecordingSupervisor {
    shared: Arc<Shared>,
    scope: WatchScope,
    resume_state: ResumeState,
    stop: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    started: HashMap<Kind, Arc<KindWatchState>>,
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
/// The last batch of a task must be received within this time.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);
/// A recording stops within a second.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(900);

/// Records until `stop` is set or the receiver is closed. Returns an error if it cannot start; later failures are
/// reported as events and retried.
///
/// While `events` is full, each watch reads about 1 MiB ahead, or one page of a list. Then it stops reading,
/// and the server throttles or ends the watch.
pub async fn record(
    cluster: RecordedCluster,
    scope: WatchScope,
    resume_state: ResumeState,
    clock: impl Fn() -> Moment + Send + Sync + 'static,
    events: mpsc::Sender<RecordingEvent>,
    stop: watch::Receiver<bool>,
) -> Result<()> {
    let shared = Arc::new(Shared {
        source: cluster.source,
        connection: cluster.connection,
        clock: Box::new(clock),
        output: events,
        list_permits: Semaphore::new(MAX_CONCURRENT_LISTS),
        finished_first_lists: Semaphore::new(0),
        discovery_wanted: Notify::new(),
        reconnected: Notify::new(),
    });
    let supervisor = RecordingSupervisor {
        shared,
        scope,
        resume_state,
        stop,
        tasks: JoinSet::new(),
        started: HashMap::new(),
        reported_version: None,
        is_discovery_failing: false,
    };
    supervisor.run().await
}

/// The final batch of a recording that is not resumed: its objects are reported as deleted, and a gap begins.
pub fn end_recording(source: &Arc<str>, resume_state: &ResumeState, now: Moment) -> WatchBatch {
    let mut merged = WatchBatch::default();
    let mut positions: Vec<(&Kind, &String)> = resume_state.positions.iter().collect();
    positions.sort_unstable();
    for (kind, position) in positions {
        let api_version = ServedKind::guessed(kind.clone(), true).api_version();
        let subject =
            WatchSubject { source: source.clone(), api_version, keep: |_| true, kind: kind.clone() };
        let batch = batch_for_dropped_kind(&subject, position, resume_state.recorded_span(now), now)
            .unwrap_or_default();
        merged.gaps.extend(batch.gaps);
        merged.closed_gaps.extend(batch.closed_gaps);
        merged.positions.extend(batch.positions);
        let mut objects: Vec<(&NamespacedName, &VersionId)> =
            resume_state.objects.get(kind).into_iter().flatten().collect();
        objects.sort_unstable_by_key(|(name, _)| *name);
        merged
            .changes
            .extend(objects.into_iter().map(|(name, version)| subject.inferred_delete(name, version, now)));
    }
    merged
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
    let recorded_positions = KindPositions::parse(position, &subject.kind);
    let resumption = scope::resume(&subject.kind, Some(&recorded_positions), None, Some(span), now);
    let dropped_position = resumption.dropped.trim_start_matches(';').to_owned();
    resumption.change.map(|change| batch_for_scope_change(subject, change, dropped_position))
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
    let _ = stop.wait_for(|is_stopped| *is_stopped).await;
}

// === impl RecordingSupervisor ===

impl RecordingSupervisor {
    async fn run(mut self) -> Result<()> {
        let (mut stop, shared) = (self.stop.clone(), self.shared.clone());
        tokio::select! {
            () = wait_for_stop(&mut stop) => {}
            () = shared.output.closed() => {}
            outcome = self.supervise() => outcome?,
        }
        // The tasks have received the stop signal too, and send their last batches.
        let shutdown = async { while self.tasks.join_next().await.is_some() {} };
        // Tasks that do not finish are aborted when the set is dropped.
        let _ = timeout(SHUTDOWN_TIMEOUT, shutdown).await;
        Ok(())
    }

    async fn supervise(&mut self) -> Result<()> {
        match self.refresh_server_version().await {
            // An account that may not read the version may still be allowed to record.
            Err(error) if error.is_forbidden() => self.warn(version_kind(), &error).await,
            outcome => outcome?,
        }
        self.start_watches().await?;
        let shared = self.shared.clone();
        let mut next_discovery = Instant::now() + DISCOVERY_INTERVAL;
        loop {
            tokio::select! {
                () = shared.discovery_wanted.notified() => {
                    sleep(DEBOUNCE).await;
                    next_discovery = Instant::now() + self.refresh_kinds().await;
                }
                () = sleep_until(next_discovery) => next_discovery = Instant::now() + self.refresh_kinds().await,
                () = shared.reconnected.notified() => {
                    if let Err(error) = self.refresh_server_version().await && !error.is_forbidden() {
                        self.warn(version_kind(), &error).await;
                    }
                    // Many watches reconnect together.
                    sleep(DEBOUNCE).await;
                }
                Some(task_result) = self.tasks.join_next() => {
                    if let Err(error) = task_result && let Ok(panic) = error.try_into_panic() {
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
        let mut removed: Vec<ServedKind> = Vec::new();
        for (kind, objects) in &self.resume_state.objects {
            if !objects.is_empty() && served.iter().all(|candidate| candidate.kind != *kind) {
                let is_namespaced = objects.keys().any(|name| !name.namespace.is_empty());
                removed.push(ServedKind::guessed(kind.clone(), is_namespaced));
            }
        }
        removed.sort_unstable_by(|candidate, other| candidate.kind.cmp(&other.kind));
        served.append(&mut removed);
        let chosen = self.scope.kinds.select(&served)?;
        let is_wanted = |kind: &Kind| {
            let candidate = chosen.iter().find(|candidate| candidate.kind == *kind);
            candidate.is_some_and(|candidate| self.scope.kind_scope(candidate).is_some())
        };
        let unwanted: Vec<ServedKind> =
            served.into_iter().filter(|candidate| !is_wanted(&candidate.kind)).collect();
        for kind in unwanted {
            self.drop_kind(&kind).await;
        }
        // The recording existed before: an unknown kind was left out then.
        let was_excluded = self.resume_state.until.is_some();
        for kind in chosen {
            let tasks = self.start_kind(kind, was_excluded).await;
            if self.scope.in_order
                && let Ok(permits) = self.shared.finished_first_lists.acquire_many(tasks).await
            {
                permits.forget();
            }
        }
        self.start_usage_sampling().await;
        Ok(())
    }

    /// Starts to sample usage, if it is in scope.
    async fn start_usage_sampling(&mut self) {
        let shared = self.shared.clone();
        match self.scope.usage {
            Some(interval) => {
                let sampler =
                    UsageSampler::new(shared, self.scope.distinct_namespaces(), interval, &self.resume_state);
                self.tasks.spawn(sampler.run(self.stop.clone()));
            }
            None => {
                let batch = usage::end_sampling(&shared.source, &self.resume_state, (shared.clock)());
                if !batch.is_empty() {
                    let _ = shared.output.send(RecordingEvent::Batch(batch)).await;
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
                        Some(kind_state) => kind_state.set_served(kind),
                        // The kind did not exist before.
                        None => drop(self.start_kind(kind, false).await),
                    }
                }
                if std::mem::take(&mut self.is_discovery_failing) {
                    let (kind, message) = (definition_kind(), "recording again".to_owned());
                    let _ = self.shared.output.send(RecordingEvent::Warning { kind, message }).await;
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
        served.map_err(|failure| Error::Server { doing: "discover the kinds of the server", failure })
    }

    /// Starts to record a kind; returns the number of tasks. `was_excluded`: if the kind has no state, it was out of
    /// scope before, rather than without objects.
    async fn start_kind(&mut self, served: ServedKind, was_excluded: bool) -> u32 {
        let Some(scope) = self.scope.kind_scope(&served) else { return 0 };
        let resumed = self.resume_kind(served, &scope, was_excluded).await;
        let ResumedKind { subject, kind_state, positions, mut objects, gap_reason, until } = resumed;
        let kind_state = Arc::new(kind_state);
        self.started.insert(kind_state.kind.clone(), kind_state.clone());
        for (namespace, position) in scope.watched_namespaces().zip(positions) {
            let rng = Pcg64::seed_from_u64((self.shared.clock)().nanos() as u64 ^ self.tasks.len() as u64);
            let contains = |name: &str| namespace.is_empty() || namespace == name;
            let objects = objects.extract_if(|name, _| contains(&name.namespace));
            let reader =
                self.scope.filter.as_ref().and_then(|filter| ObjectReader::new(&subject.kind, filter));
            let mut reflector =
                Reflector::new(subject.clone(), position.as_deref(), objects, until).with_reader(reader);
            if let Some(gap_reason) = &gap_reason {
                reflector = reflector.with_gap_reason(gap_reason.clone());
            }
            let task = WatchTask::new(self.shared.clone(), kind_state.clone(), namespace, reflector, rng);
            self.tasks.spawn(task.run(self.stop.clone()));
        }
        scope.watched_namespaces().count() as u32
    }

    /// Resumes a kind in a scope. A change of scope is reported.
    async fn resume_kind(
        &mut self,
        served: ServedKind,
        scope: &KindScope,
        was_excluded: bool,
    ) -> ResumedKind {
        let kind = served.kind.clone();
        let text = self.resume_state.positions.remove(&kind);
        let recorded_positions = text.as_deref().map(|text| KindPositions::parse(text, &kind));
        let mut objects = self.resume_state.objects.remove(&kind).unwrap_or_default();
        let until = self.resume_state.until.filter(|_| recorded_positions.is_some() || !objects.is_empty());
        // Objects without a position were not recorded by watches.
        let was_recorded = recorded_positions.is_some() || was_excluded && objects.is_empty();
        let now = (self.shared.clock)();
        let span = was_recorded.then(|| self.resume_state.recorded_span(now));
        let resumption = scope::resume(&kind, recorded_positions.as_ref(), Some(scope), span, now);
        let Resumption { positions, dropped, change } = resumption;
        let gap_reason = change.as_ref().and_then(|change| change.gap_reason.clone());
        let subject = self.subject(&served);
        let mut kind_state = KindWatchState::new(served, scope.filter.clone(), dropped);
        for (namespace, position) in scope.watched_namespaces().zip(&positions) {
            // Without this, the first position of one watch would overwrite those of the others.
            if let Some(position) = position {
                kind_state.set_position(namespace, position);
            }
        }
        if let Some(change) = change {
            let text = kind_state.joint_position(&*kind_state.by_namespace.lock().await);
            // If the receiver is closed, the next run detects the change again.
            let _ = self
                .shared
                .output
                .send(RecordingEvent::Batch(batch_for_scope_change(&subject, change, text)))
                .await;
        }
        let out_of_scope = objects.extract_if(|name, _| !scope.has_namespace(&name.namespace)).collect();
        self.push_inferred_deletes(&subject, out_of_scope, now).await;
        ResumedKind { subject, kind_state, positions, objects, gap_reason, until }
    }

    /// Reports that a kind is no longer recorded, if it was.
    async fn drop_kind(&mut self, served: &ServedKind) {
        let kind = &served.kind;
        let Some(position) = self.resume_state.positions.get(kind) else { return };
        let now = (self.shared.clock)();
        let objects = self.resume_state.objects.remove(kind).unwrap_or_default();
        let subject = self.subject(served);
        if let Some(batch) =
            batch_for_dropped_kind(&subject, position, self.resume_state.recorded_span(now), now)
        {
            self.resume_state.positions.extend(batch.positions.iter().cloned());
            let _ = self.shared.output.send(RecordingEvent::Batch(batch)).await;
        }
        self.push_inferred_deletes(&subject, objects.into_iter().collect(), now).await;
    }

    /// Reports objects outside the scope as deleted. If the recorder is killed meanwhile, the next run finds the
    /// remaining ones.
    async fn push_inferred_deletes(
        &self,
        subject: &WatchSubject,
        mut objects: Vec<(NamespacedName, VersionId)>,
        now: Moment,
    ) {
        objects.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for chunk in objects.chunks(MAX_INFERRED_DELETES) {
            let changes =
                chunk.iter().map(|(name, version)| subject.inferred_delete(name, version, now)).collect();
            let _ = self
                .shared
                .output
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
        let version_hash = format!("{:016x}", ContentHash::of(&raw).0);
        let known_versions = self
            .resume_state
            .objects
            .get(&version_kind())
            .into_iter()
            .flat_map(|known_versions| known_versions.values());
        if self.reported_version.is_none()
            && known_versions.into_iter().any(|seen| *seen.resource_version == *version_hash)
        {
            self.reported_version = Some(version);
            return Ok(());
        }
        let object = Object::from_trusted(format!(
            r#"{{"apiVersion":"kinescope.io/v1","kind":"ServerVersion","metadata":{{"name":"version","resourceVersion":"{version_hash}"}},"version":{raw}}}"#
        ));
        let was_recorded =
            self.reported_version.is_some() || self.resume_state.objects.contains_key(&version_kind());
        let what = if was_recorded { What::Modified(object) } else { What::Added(object) };
        let seen = (self.shared.clock)();
        let observed =
            IncomingChange { inferred: true, ..IncomingChange::received(seen, &self.shared.source, what) };
        let batch = WatchBatch { changes: vec![observed], ..WatchBatch::default() };
        // A closed receiver needs no version.
        let _ = self.shared.output.send(RecordingEvent::Batch(batch)).await;
        self.reported_version = Some(version);
        Ok(())
    }

    async fn warn(&self, kind: Kind, error: &Error) {
        let _ = self.shared.output.send(RecordingEvent::Warning { kind, message: error.to_string() }).await;
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

fn version_kind() -> Kind {
    Kind::new("kinescope.io", "ServerVersion")
}
