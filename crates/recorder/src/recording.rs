//! A recording: writes batches through the filter into a history, waits until they are durable, and enforces the
//! retention.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use history::{Batch, History, PruneHandle, Retention, Selection, WatchPosition, Writer};
use live::{ResumeState, VersionId, WatchBatch};
use model::{Gap, IncomingChange, Kind, Moment, NamespacedName, Object, ObjectOutline, What};

use super::Assignment;
use super::clock::{ClockStep, RecordingClock};
use super::metrics::{RecordingMetrics, lock};
use super::policy::{RecordFilter, is_of_control_plane};

/// A history that is being recorded.
pub(super) struct Recording {
    path: PathBuf,
    source: Arc<str>,
    /// `None` after a failed write, until it is retried.
    writer: Option<Writer>,
    filter: RecordFilter,
    retention: Retention,
    /// The size below which deleting by size is pointless: retried only when the history exceeds it.
    min_bytes_to_delete: u64,
    /// The deletion of old data in progress, and the size before it.
    deletion: Option<(PruneHandle, u64)>,
    /// A deletion of old data that failed.
    failed_deletion: Option<FailedDeletion>,
    /// The sequence number of the last durable change.
    durable_seq: i64,
    /// The batch that could not be written.
    unwritten: Option<Batch>,
    metrics: Arc<Mutex<RecordingMetrics>>,
    clock: Arc<RecordingClock>,
}

/// A deletion of old data that failed and is retried.
struct FailedDeletion {
    begins: Moment,
    failures: u32,
    /// Retention checks to skip before the next attempt.
    checks_to_skip: u32,
}

/// The number of failures after which the pause stops growing, at 32 retention checks.
const MAX_PAUSE_FAILURES: u32 = 5;

/// One of the two API servers that a cluster may be recorded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ApiServerRole {
    Cluster,
    /// Its objects belong to the same recording, in a namespace that the cluster itself does not have.
    ControlPlane,
}

/// After a change of the wall clock, nothing is deleted by age for the duration of the retention, or at most this long.
const MAX_PROBATION: Duration = Duration::from_secs(86_400);
/// A history may end this many nanoseconds in the future without a notice: it may have been recorded by another clock.
const MAX_AHEAD_NANOS: i64 = 60_000_000_000;

// === impl Recording ===

impl Recording {
    /// Opens or creates a history, and returns the state from which this recording resumes.
    pub(super) fn open(
        assignment: &Assignment,
        metrics: Arc<Mutex<RecordingMetrics>>,
        clock: Arc<RecordingClock>,
    ) -> history::Result<(Recording, HashMap<ApiServerRole, ResumeState>)> {
        let mut filter = assignment.policy.filter();
        let path = assignment.history_path.clone();
        // Opened before reading, so that no other process writes in between, and a missing history is created.
        let writer = Writer::open(&path)?;
        let mut settings: HashMap<Kind, Object> = HashMap::new();
        let mut resume_states = load_resume_state(&path, assignment, &mut filter, &mut settings)?;
        let durable_seq = writer.flush()?;
        let source = assignment.name.clone();
        let mut recording = Recording {
            path,
            source,
            writer: Some(writer),
            filter,
            retention: assignment.policy.retention,
            min_bytes_to_delete: 0,
            deletion: None,
            failed_deletion: None,
            durable_seq,
            unwritten: None,
            metrics,
            clock,
        };
        recording.compare_with_history_end(
            resume_states.get(&ApiServerRole::Cluster).and_then(|resume_states| resume_states.until),
        );
        recording.write_settings(&assignment.settings, &settings)?;
        if assignment.control_plane.is_none()
            && let Some(control_plane_state) = resume_states.remove(&ApiServerRole::ControlPlane)
        {
            let batch = live::end_recording(&recording.source, &control_plane_state, recording.clock.now());
            if !batch.is_empty() {
                recording.write_batches(vec![(ApiServerRole::ControlPlane, batch)])?;
            }
        }
        Ok((recording, resume_states))
    }

    /// Compares the clock with the end of the history.
    fn compare_with_history_end(&self, end: Option<Moment>) {
        let (now, Some(end)) = (self.clock.now(), end) else { return };
        let ahead_nanos = end.nanos_since(now);
        if ahead_nanos > MAX_AHEAD_NANOS {
            let why = format!(
                "the history ends {} in the future: changes until then are recorded at its end; use another file to keep their times",
                kubernetes::table::human_duration(ahead_nanos)
            );
            self.clock.push_step(ClockStep { from: now, to: end, why });
        }
        // The whole history would be deleted by age, and the clock may be wrong.
        if self.retention.nanos.is_some_and(|retention_nanos| ahead_nanos < retention_nanos.saturating_neg())
        {
            self.clock.note_suspected_step();
        }
    }

    /// Verifies that the history exists and is readable. Transient errors are ignored until the next check.
    pub(super) fn check(&self) -> history::Result<()> {
        let read = History::open(&self.path).and_then(|history| history.span_of(&self.source));
        match read {
            // It was one when it was opened.
            Err(history::Error::NotAHistory { path, why }) => {
                Err(history::Error::Damaged { path, what: why })
            }
            // Writes to an unlinked file are lost.
            Err(error @ history::Error::Missing(_)) => Err(error),
            Err(error) if error.is_damage() => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes settings that differ from those in the history.
    fn write_settings(
        &mut self,
        settings: &[Object],
        recorded: &HashMap<Kind, Object>,
    ) -> history::Result<()> {
        let mut changes = Vec::new();
        for object in settings {
            let kind = object.key(&self.source).kind;
            let what = match recorded.get(&kind) {
                Some(recorded) if recorded.as_str() == object.as_str() => continue,
                Some(_) => What::Modified(object.clone()),
                None => What::Added(object.clone()),
            };
            changes.push(IncomingChange {
                inferred: true,
                ..IncomingChange::received(self.clock.now(), &self.source, what)
            });
        }
        match changes.is_empty() {
            true => Ok(()),
            false => self.write(Batch { changes, ..Batch::default() }),
        }
    }

    /// Writes batches durably. After a disk error nothing is lost: see [`resume`](Recording::resume).
    pub(super) fn write_batches(
        &mut self,
        incoming: Vec<(ApiServerRole, WatchBatch)>,
    ) -> history::Result<()> {
        let at = self.clock.now();
        let mut batch = Batch::default();
        let metrics = self.metrics.clone();
        let mut metrics = lock(&metrics);
        for (role, incoming) in incoming {
            for observed in incoming.changes {
                if !role.includes(&observed) {
                    continue;
                }
                let kind_metrics = metrics.kinds.entry(observed.key.kind.clone()).or_default();
                let bytes = received_bytes(observed.what.object()) as u64;
                match self.filter.apply(&observed.key, &observed.what) {
                    Some(what) => {
                        kind_metrics.recorded += 1;
                        kind_metrics.bytes += bytes;
                        batch.changes.push(IncomingChange { what, ..observed });
                    }
                    None => kind_metrics.dropped += 1,
                }
            }
            metrics.note_gaps(&incoming.gaps, &incoming.closed_gaps);
            batch.gaps.extend(incoming.gaps);
            batch.closed_gaps.extend(incoming.closed_gaps);
            let position = |(kind, resource_version)| WatchPosition {
                source: self.source.clone(),
                kind: role.position_kind(kind),
                resource_version,
                at,
            };
            batch.positions.extend(incoming.positions.into_iter().map(position));
        }
        drop(metrics);
        self.write(batch)
    }

    fn write(&mut self, batch: Batch) -> history::Result<()> {
        let batch = Arc::new(batch);
        let first_seen = batch.changes.iter().map(|observed| observed.seen).min();
        let writer = self.writer.as_ref().expect("no changes are accepted while the disk is full");
        // A batch is one transaction.
        let written = writer.append(batch.clone()).and_then(|()| writer.flush());
        match written {
            Ok(seq) => self.durable_seq = seq,
            Err(error) => {
                // The next writer continues the deletion of old data.
                (self.writer, self.deletion) = (None, None);
                self.unwritten = Some(Arc::unwrap_or_clone(batch));
                return Err(error);
            }
        }
        lock(&self.metrics).lag_seconds =
            first_seen.map_or(0.0, |seen| self.clock.now().nanos_since(seen) as f64 / 1e9);
        Ok(())
    }

    /// Retries the failed write, and records the time since `from` as a gap.
    pub(super) fn resume(&mut self, from: Moment, why: &str) -> history::Result<()> {
        self.writer = None;
        // A new history would lack the objects that do not change.
        if !history::exists(&self.path)? {
            return Err(history::Error::Missing(self.path.clone()));
        }
        let writer = Writer::open(&self.path)?;
        let durable_seq = writer.flush()?;
        self.writer = Some(writer);
        let mut batch = self.unwritten.take().unwrap_or_default();
        // A transaction may have been committed although the system reported an error.
        if durable_seq > self.durable_seq {
            batch = Batch::default();
        }
        batch.gaps.push(Gap {
            source: self.source.clone(),
            kinds: Vec::new(),
            from,
            to: self.clock.now(),
            why: format!("the history could not be written: {why}"),
        });
        let written = self.write(batch);
        if written.is_err()
            && let Some(unwritten) = &mut self.unwritten
        {
            // The gap is longer at the next attempt.
            unwritten.gaps.pop();
        }
        written
    }

    /// Deletes data beyond the retention, in small steps while recording continues.
    pub(super) fn enforce_retention(&mut self) -> history::Result<()> {
        if self.retention == Retention::default() || self.writer.is_none() || self.is_deleting()? {
            return Ok(());
        }
        if let Some(failed) = &mut self.failed_deletion
            && failed.checks_to_skip > 0
        {
            failed.checks_to_skip -= 1;
            return Ok(());
        }
        // Errors are ignored until the next check.
        let cutoff = self.retention_start().ok().flatten();
        let begins = cutoff.or(self.failed_deletion.as_ref().map(|failed| failed.begins));
        if let (Some(writer), Some(begins)) = (&self.writer, begins) {
            let bytes_before = History::open(&self.path)?.used_bytes()?;
            let failures = self.failed_deletion.as_ref().map_or(0, |failed| failed.failures);
            self.failed_deletion = Some(FailedDeletion { begins, failures, checks_to_skip: 0 });
            self.deletion = Some((writer.prune(begins)?, bytes_before));
        }
        Ok(())
    }

    /// Whether old data is being deleted. Notes the outcome when the deletion has ended.
    fn is_deleting(&mut self) -> history::Result<bool> {
        let Some((prune, bytes_before)) = &self.deletion else { return Ok(false) };
        let Some(outcome) = prune.outcome() else { return Ok(true) };
        let bytes_before = *bytes_before;
        self.deletion = None;
        match outcome {
            Ok(_) => {
                self.failed_deletion = None;
                let bytes_after = History::open(&self.path)?.used_bytes()?;
                let growth = self.retention.bytes.unwrap_or(0) / 20;
                self.min_bytes_to_delete =
                    if bytes_after + growth > bytes_before { bytes_after + growth } else { 0 };
            }
            // If the writer itself has failed, the next write returns the error.
            Err(error) if error.is_transient() || matches!(error, history::Error::Stopped { .. }) => {
                lock(&self.metrics).retention_failures += 1;
                if let Some(failed) = &mut self.failed_deletion {
                    failed.checks_to_skip = 1 << failed.failures;
                    failed.failures = (failed.failures + 1).min(MAX_PAUSE_FAILURES);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(false)
    }

    fn retention_start(&self) -> history::Result<Option<Moment>> {
        let history = History::open(&self.path)?;
        // Live objects are never deleted: another attempt makes sense only after growth.
        let by_size = match history.used_bytes()? >= self.min_bytes_to_delete {
            true => self.retention.cutoff_by_size(&history)?,
            false => None,
        };
        let by_age = match self.clock.is_stable_for(self.probation()) {
            true => self.retention.cutoff_by_age(&history, self.clock.now())?,
            false => None,
        };
        Ok(by_age.max(by_size))
    }

    /// How long the wall clock must be stable after a change before data is deleted by age.
    fn probation(&self) -> Duration {
        let retention_nanos = self.retention.nanos.unwrap_or(0).max(0).cast_unsigned();
        Duration::from_nanos(retention_nanos).min(MAX_PROBATION)
    }

    /// Ends without further writes to the damaged file.
    pub(super) fn abandon(self) {
        if let Some(writer) = self.writer {
            writer.abandon();
        }
    }

    pub(super) fn close(self) -> history::Result<()> {
        self.writer.map_or(Ok(()), Writer::close)
    }
}

// === impl ApiServerRole ===

impl ApiServerRole {
    /// Whether a change received from this server belongs to the recording.
    fn includes(self, observed: &IncomingChange) -> bool {
        match self {
            ApiServerRole::Cluster => true,
            ApiServerRole::ControlPlane => is_of_control_plane(&observed.key),
        }
    }

    /// The kind under which a position is stored, as both servers may have the same kind.
    fn position_kind(self, kind: Kind) -> Kind {
        match self {
            ApiServerRole::Cluster => kind,
            ApiServerRole::ControlPlane => {
                Kind::new(&kind.group, &format!("{}{CONTROL_PLANE_SUFFIX}", kind.kind))
            }
        }
    }

    fn from_position_kind(kind: &Kind) -> (ApiServerRole, Kind) {
        match kind.kind.strip_suffix(CONTROL_PLANE_SUFFIX) {
            Some(name) => (ApiServerRole::ControlPlane, Kind::new(&kind.group, name)),
            None => (ApiServerRole::Cluster, kind.clone()),
        }
    }
}

const CONTROL_PLANE_SUFFIX: &str = "@control-plane";

/// The length of an object's text as it was received.
fn received_bytes(object: &Object) -> usize {
    let mark = object.outline().and_then(ObjectOutline::filter_mark);
    mark.map_or(object.as_str().len(), |mark| mark.received_bytes)
}

/// Loads the state from which a recording resumes, and primes the filter with it.
fn load_resume_state(
    path: &Path,
    assignment: &Assignment,
    filter: &mut RecordFilter,
    settings: &mut HashMap<Kind, Object>,
) -> history::Result<HashMap<ApiServerRole, ResumeState>> {
    let history = History::open(path)?;
    let mut resume_states: HashMap<ApiServerRole, ResumeState> = HashMap::new();
    let source = &assignment.name;
    let Some((start, end)) = history.span_of(source)? else { return Ok(resume_states) };
    let mut control_namespaces: Vec<String> =
        assignment.control_plane.iter().map(|control_plane| control_plane.namespace.clone()).collect();
    for role in [ApiServerRole::Cluster, ApiServerRole::ControlPlane] {
        let resume_state = resume_states.entry(role).or_default();
        (resume_state.from, resume_state.until) = (Some(start), Some(end));
    }
    for position in history.positions()?.into_iter().filter(|position| position.source == *source) {
        let (role, kind) = ApiServerRole::from_position_kind(&position.kind);
        if role == ApiServerRole::ControlPlane {
            // An earlier run may have used another namespace.
            control_namespaces.extend(live::namespaces_in_position(&kind, &position.resource_version));
        }
        resume_states.entry(role).or_default().positions.insert(kind, position.resource_version);
    }
    let selection = Selection { source: Some(source.clone()), ..Selection::default() };
    history.for_each_at(end, &selection, |version| {
        if assignment.settings.iter().any(|object| object.key(source) == version.key) {
            settings.insert(version.key.kind.clone(), version.object.clone());
        }
        let meta = version.object.meta();
        let version_id = VersionId {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        };
        filter.prime(&version.key, &version.object);
        let is_control = control_namespaces.iter().any(|namespace| **namespace == *version.key.namespace);
        let role = if is_control { ApiServerRole::ControlPlane } else { ApiServerRole::Cluster };
        let name = NamespacedName::new(version.key.namespace.clone(), version.key.name.clone());
        let resume_state = resume_states.entry(role).or_default();
        resume_state.objects.entry(version.key.kind.clone()).or_default().insert(name, version_id);
    })?;
    Ok(resume_states)
}
