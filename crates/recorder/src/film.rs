//! News into a history: through the rules, durable before more is taken, kept as short as is wanted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use history::{Batch, Forgetting, History, Position, Retention, Selection, Writer};
use live::{Known, News, Seen};
use model::{Gap, Kind, Moment, Object, Observed, What};

use super::Assignment;
use super::clock::{ClockStep, RecordingClock};
use super::figures::{Figures, lock};
use super::policy::{RecordFilter, is_of_control_plane};

/// A history that is being recorded.
pub(super) struct Film {
    path: PathBuf,
    source: Arc<str>,
    /// `None` while the disk is full.
    writer: Option<Writer>,
    filter: RecordFilter,
    retention: Retention,
    /// Bytes that could not be forgotten: it is not tried again before there are more.
    stubborn: u64,
    /// What is being forgotten, and the bytes there were before.
    forgetting: Option<(Forgetting, u64)>,
    /// What could not be forgotten yet.
    unfinished: Option<UnfinishedForgetting>,
    /// The number of the last change that is safe.
    safe: i64,
    /// What the disk did not take.
    unwritten: Option<Batch>,
    figures: Arc<Mutex<Figures>>,
    clock: Arc<RecordingClock>,
}

/// Forgetting that failed and is tried again.
struct UnfinishedForgetting {
    begins: Moment,
    failures: u32,
    /// Looks that are left out before the next try.
    pause: u32,
}

/// Failures of forgetting after which the pause grows no more: it is 32 looks then.
const LONGEST_PAUSE: u32 = 5;

/// One of the two API servers that a cluster may be recorded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Cluster,
    /// What it says is of the same recording, in a namespace that the cluster itself does not have.
    ControlPlane,
}

/// After the clock was set, nothing is forgotten by age for as long as is kept, but not for longer than this.
const LONGEST_PROBATION: Duration = Duration::from_secs(86_400);
/// A history may end this much after now without a word: it may have been seen by another clock.
const AHEAD: i64 = 60_000_000_000;

// === impl Film ===

impl Film {
    /// Opens or makes a history, and says what it knows of this recording from before.
    pub(super) fn open(
        assignment: &Assignment,
        figures: Arc<Mutex<Figures>>,
        clock: Arc<RecordingClock>,
    ) -> history::Result<(Film, HashMap<Side, Known>)> {
        let mut filter = assignment.policy.filter();
        let path = assignment.into.clone();
        // Before anything is read, so that nobody else writes between, and one that was never begun is begun.
        let writer = Writer::open(&path)?;
        let mut settings: HashMap<Kind, Object> = HashMap::new();
        let mut known = known(&path, assignment, &mut filter, &mut settings)?;
        let safe = writer.flush()?;
        let source = assignment.name.clone();
        let mut film = Film {
            path,
            source,
            writer: Some(writer),
            filter,
            retention: assignment.policy.retention,
            stubborn: 0,
            forgetting: None,
            unfinished: None,
            safe,
            unwritten: None,
            figures,
            clock,
        };
        film.compare_clocks(known.get(&Side::Cluster).and_then(|known| known.until));
        film.set(&assignment.settings, &settings)?;
        if assignment.control_plane.is_none()
            && let Some(of_control) = known.remove(&Side::ControlPlane)
        {
            let ended = live::end(&film.source, &of_control, film.clock.now());
            if !ended.is_empty() {
                film.take(vec![(Side::ControlPlane, ended)])?;
            }
        }
        Ok((film, known))
    }

    /// Compares now with the end of what was recorded before.
    fn compare_clocks(&self, end: Option<Moment>) {
        let (now, Some(end)) = (self.clock.now(), end) else { return };
        let ahead = end.nanos_since(now);
        if ahead > AHEAD {
            let why = format!(
                "the history ends {} after now: what is recorded until then takes effect at its end; record into \
                 another file to have it in its time",
                kubernetes::table::human(ahead)
            );
            self.clock.note(ClockStep { from: now, to: end, why });
        }
        // All of it would be forgotten, and it may be the clock that is wrong.
        if self.retention.nanos.is_some_and(|age| ahead < age.saturating_neg()) {
            self.clock.suspect();
        }
    }

    /// That the history can still be read, and is still there. What cannot be said now is looked at again soon.
    pub(super) fn check(&self) -> history::Result<()> {
        let read = History::open(&self.path).and_then(|history| history.span_of(&self.source));
        match read {
            // It was one when it was opened.
            Err(history::Error::NotOurs { path, why }) => Err(history::Error::Damaged { path, what: why }),
            // What is written to a file without a name is lost.
            Err(error @ history::Error::Missing(_)) => Err(error),
            Err(error) if error.is_damage() => Err(error),
            _ => Ok(()),
        }
    }

    /// Records settings that are not in the history already.
    fn set(&mut self, settings: &[Object], before: &HashMap<Kind, Object>) -> history::Result<()> {
        let mut changes = Vec::new();
        for object in settings {
            let kind = object.key(&self.source).kind;
            let what = match before.get(&kind) {
                Some(before) if before.as_str() == object.as_str() => continue,
                Some(_) => What::Modified(object.clone()),
                None => What::Added(object.clone()),
            };
            changes.push(Observed {
                inferred: true,
                ..Observed::received(self.clock.now(), &self.source, what)
            });
        }
        match changes.is_empty() {
            true => Ok(()),
            false => self.write(Batch { changes, ..Batch::default() }),
        }
    }

    /// Makes news durable. After an error of the disk nothing is lost: see [`resume`](Film::resume).
    pub(super) fn take(&mut self, news: Vec<(Side, News)>) -> history::Result<()> {
        let at = self.clock.now();
        let mut batch = Batch::default();
        let figures = self.figures.clone();
        let mut figures = lock(&figures);
        for (side, news) in news {
            for observed in news.changes {
                if !side.wants(&observed) {
                    continue;
                }
                let of_kind = figures.kinds.entry(observed.key.kind.clone()).or_default();
                let bytes = observed.what.object().as_str().len() as u64;
                match self.filter.pass(&observed.key, &observed.what) {
                    Some(what) => {
                        of_kind.kept += 1;
                        of_kind.bytes += bytes;
                        batch.changes.push(Observed { what, ..observed });
                    }
                    None => of_kind.dropped += 1,
                }
            }
            figures.missed(&news.gaps, &news.closed_gaps);
            batch.gaps.extend(news.gaps);
            batch.closed_gaps.extend(news.closed_gaps);
            let position = |(kind, resource_version)| Position {
                source: self.source.clone(),
                kind: side.position_kind(kind),
                resource_version,
                at,
            };
            batch.positions.extend(news.positions.into_iter().map(position));
        }
        drop(figures);
        self.write(batch)
    }

    fn write(&mut self, batch: Batch) -> history::Result<()> {
        let first_seen = batch.changes.iter().map(|observed| observed.seen).min();
        let writer = self.writer.as_ref().expect("nothing is taken while the disk is full");
        // A batch is in one transaction: it is there as a whole or not at all.
        let written = writer.append(batch.clone()).and_then(|()| writer.flush());
        match written {
            Ok(seq) => self.safe = seq,
            Err(error) => {
                // The next one goes on with what this one was forgetting.
                (self.writer, self.forgetting) = (None, None);
                self.unwritten = Some(batch);
                return Err(error);
            }
        }
        lock(&self.figures).lag =
            first_seen.map_or(0.0, |seen| self.clock.now().nanos_since(seen) as f64 / 1e9);
        Ok(())
    }

    /// Tries again to write what could not be written since `from`, and tells of that time as a gap.
    pub(super) fn resume(&mut self, from: Moment, why: &str) -> history::Result<()> {
        self.writer = None;
        // In a new one what does not change would be missing.
        if !history::exists(&self.path)? {
            return Err(history::Error::Missing(self.path.clone()));
        }
        let writer = Writer::open(&self.path)?;
        let safe = writer.flush()?;
        self.writer = Some(writer);
        let mut batch = self.unwritten.take().unwrap_or_default();
        // A transaction may arrive although the system said that it did not.
        if safe > self.safe {
            batch = Batch::default();
        }
        batch.gaps.push(Gap {
            source: self.source.clone(),
            kinds: Vec::new(),
            from,
            to: self.clock.now(),
            why: format!("it could not be written: {why}"),
        });
        let written = self.write(batch);
        if written.is_err()
            && let Some(unwritten) = &mut self.unwritten
        {
            // It is longer the next time.
            unwritten.gaps.pop();
        }
        written
    }

    /// Forgets what is older, or more, than is wanted: in small steps, while recording goes on.
    pub(super) fn keep_short(&mut self) -> history::Result<()> {
        if self.retention == Retention::default() || self.writer.is_none() || self.is_forgetting()? {
            return Ok(());
        }
        if let Some(unfinished) = &mut self.unfinished
            && unfinished.pause > 0
        {
            unfinished.pause -= 1;
            return Ok(());
        }
        // What cannot be looked at now is looked at again soon.
        let overdue = self.overdue().ok().flatten();
        let begins = overdue.or(self.unfinished.as_ref().map(|unfinished| unfinished.begins));
        if let (Some(writer), Some(begins)) = (&self.writer, begins) {
            let before = History::open(&self.path)?.used_bytes()?;
            let failures = self.unfinished.as_ref().map_or(0, |unfinished| unfinished.failures);
            self.unfinished = Some(UnfinishedForgetting { begins, failures, pause: 0 });
            self.forgetting = Some((writer.forget(begins)?, before));
        }
        Ok(())
    }

    /// Whether something is being forgotten. Notes what came of it when it has ended.
    fn is_forgetting(&mut self) -> history::Result<bool> {
        let Some((forgetting, before)) = &self.forgetting else { return Ok(false) };
        let Some(outcome) = forgetting.outcome() else { return Ok(true) };
        let before = *before;
        self.forgetting = None;
        match outcome {
            Ok(_) => {
                self.unfinished = None;
                let left = History::open(&self.path)?.used_bytes()?;
                let growth = self.retention.bytes.unwrap_or(0) / 20;
                self.stubborn = if left + growth > before { left + growth } else { 0 };
            }
            // If the writer itself has failed, the next batch tells.
            Err(error) if error.may_pass() || matches!(error, history::Error::Stopped { .. }) => {
                lock(&self.figures).retention_failures += 1;
                if let Some(unfinished) = &mut self.unfinished {
                    unfinished.pause = 1 << unfinished.failures;
                    unfinished.failures = (unfinished.failures + 1).min(LONGEST_PAUSE);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(false)
    }

    fn overdue(&self) -> history::Result<Option<Moment>> {
        let history = History::open(&self.path)?;
        // What is alive stays, however much it is: only growth is worth another try.
        let by_size = match history.used_bytes()? >= self.stubborn {
            true => self.retention.by_size(&history)?,
            false => None,
        };
        let by_age = match self.clock.is_steady_for(self.probation()) {
            true => self.retention.by_age(&history, self.clock.now())?,
            false => None,
        };
        Ok(by_age.max(by_size))
    }

    /// How long a clock that was set must have been right before anything is forgotten by it.
    fn probation(&self) -> Duration {
        let age = self.retention.nanos.unwrap_or(0).max(0).cast_unsigned();
        Duration::from_nanos(age).min(LONGEST_PROBATION)
    }

    /// Ends without another word to the file, which is damaged.
    pub(super) fn abandon(self) {
        if let Some(writer) = self.writer {
            writer.abandon();
        }
    }

    pub(super) fn close(self) -> history::Result<()> {
        self.writer.map_or(Ok(()), Writer::close)
    }
}

// === impl Side ===

impl Side {
    /// Whether something that was seen there belongs to the recording.
    fn wants(self, observed: &Observed) -> bool {
        match self {
            Side::Cluster => true,
            Side::ControlPlane => is_of_control_plane(&observed.key),
        }
    }

    /// Under which kind the position of a kind is kept: both sides may have it.
    fn position_kind(self, kind: Kind) -> Kind {
        match self {
            Side::Cluster => kind,
            Side::ControlPlane => Kind::new(&kind.group, &format!("{}{CONTROL_PLANE}", kind.kind)),
        }
    }

    fn of_position(kind: &Kind) -> (Side, Kind) {
        match kind.kind.strip_suffix(CONTROL_PLANE) {
            Some(name) => (Side::ControlPlane, Kind::new(&kind.group, name)),
            None => (Side::Cluster, kind.clone()),
        }
    }
}

const CONTROL_PLANE: &str = "@control-plane";

/// Where a recording stopped and what was there then. The filter is told of it.
fn known(
    path: &Path,
    assignment: &Assignment,
    filter: &mut RecordFilter,
    settings: &mut HashMap<Kind, Object>,
) -> history::Result<HashMap<Side, Known>> {
    let history = History::open(path)?;
    let mut known: HashMap<Side, Known> = HashMap::new();
    let source = &assignment.name;
    let Some((start, end)) = history.span_of(source)? else { return Ok(known) };
    let mut control_namespaces: Vec<String> =
        assignment.control_plane.iter().map(|control| control.namespace.clone()).collect();
    for side in [Side::Cluster, Side::ControlPlane] {
        let of_side = known.entry(side).or_default();
        (of_side.from, of_side.until) = (Some(start), Some(end));
    }
    for position in history.positions()?.into_iter().filter(|position| position.source == *source) {
        let (side, kind) = Side::of_position(&position.kind);
        if side == Side::ControlPlane {
            // The one of an earlier run may be another.
            control_namespaces.extend(live::namespaces_of(&kind, &position.resource_version));
        }
        known.entry(side).or_default().positions.insert(kind, position.resource_version);
    }
    let ours = Selection { source: Some(source.clone()), ..Selection::default() };
    history.each_at(end, &ours, |version| {
        if assignment.settings.iter().any(|object| object.key(source) == version.key) {
            settings.insert(version.key.kind.clone(), version.object.clone());
        }
        let meta = version.object.meta();
        let seen = Seen {
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            resource_version: meta.resource_version.as_deref().unwrap_or_default().into(),
        };
        filter.know(&version.key, &version.object);
        let is_control = control_namespaces.iter().any(|namespace| **namespace == *version.key.namespace);
        let side = if is_control { Side::ControlPlane } else { Side::Cluster };
        let name = (version.key.namespace.clone(), version.key.name.clone());
        let of_side = known.entry(side).or_default();
        of_side.objects.entry(version.key.kind.clone()).or_default().insert(name, seen);
    })?;
    Ok(known)
}
