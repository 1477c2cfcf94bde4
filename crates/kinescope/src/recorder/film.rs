//! News into a history: through the rules, durable before more is taken, kept as short as is wanted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use history::{Batch, History, Position, Retention, Selection, Writer};
use kubernetes::rules::{Sieve, Verdict};
use live::{Known, News, Seen};
use model::{Gap, Kind, Moment, Object, Observed, What};

use super::figures::{Figures, lock};
use super::{Assignment, Keep, now};

/// A history that is being recorded.
pub(super) struct Film {
    path: PathBuf,
    source: Arc<str>,
    /// `None` while the disk is full.
    writer: Option<Writer>,
    /// `None`: everything is kept.
    sieve: Option<Sieve>,
    retention: Retention,
    /// Bytes that could not be forgotten: it is not tried again before there are more.
    stubborn: u64,
    /// The number of the last change that is safe.
    safe: i64,
    /// What the disk did not take.
    unwritten: Option<Batch>,
    figures: Arc<Mutex<Figures>>,
}

/// One of the two API servers that a cluster may be recorded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Cluster,
    /// What it says is of the same recording, in a namespace that the cluster itself does not have.
    ControlPlane,
}

// === impl Film ===

impl Film {
    /// Opens or makes a history, and says what it knows of this recording from before.
    pub(super) fn open(
        assignment: &Assignment,
        figures: Arc<Mutex<Figures>>,
    ) -> history::Result<(Film, HashMap<Side, Known>)> {
        let mut sieve = match &assignment.keep {
            Keep::Everything => None,
            Keep::Significant(rules) => Some(Sieve::new(rules.clone())),
        };
        let path = assignment.into.clone();
        // Before anything is read, so that nobody else writes between, and one that was never begun is begun.
        let writer = Writer::open(&path)?;
        let mut settings: HashMap<Kind, Object> = HashMap::new();
        let known = known(&path, assignment, sieve.as_mut(), &mut settings)?;
        let safe = writer.flush()?;
        let source = assignment.name.clone();
        let mut film = Film {
            path,
            source,
            writer: Some(writer),
            sieve,
            retention: assignment.retention,
            stubborn: 0,
            safe,
            unwritten: None,
            figures,
        };
        film.set(&assignment.settings, &settings)?;
        Ok((film, known))
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
            changes.push(Observed { inferred: true, ..Observed::received(now(), &self.source, what) });
        }
        match changes.is_empty() {
            true => Ok(()),
            false => self.write(Batch { changes, ..Batch::default() }),
        }
    }

    /// Makes news durable. After an error of the disk nothing is lost: see [`resume`](Film::resume).
    pub(super) fn take(&mut self, news: Vec<(Side, News)>) -> history::Result<()> {
        let at = now();
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
                match self.sifted(observed) {
                    Some(observed) => {
                        of_kind.kept += 1;
                        of_kind.bytes += bytes;
                        batch.changes.push(observed);
                    }
                    None => of_kind.dropped += 1,
                }
            }
            figures.missed(&news.gaps);
            batch.gaps.extend(news.gaps);
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

    fn sifted(&mut self, observed: Observed) -> Option<Observed> {
        let Some(sieve) = &mut self.sieve else { return Some(observed) };
        match sieve.pass(&observed.key, &observed.what) {
            Verdict::Keep(what) => Some(Observed { what, ..observed }),
            Verdict::Drop(_) => None,
        }
    }

    fn write(&mut self, batch: Batch) -> history::Result<()> {
        let first_seen = batch.changes.iter().map(|observed| observed.seen).min();
        let writer = self.writer.as_ref().expect("nothing is taken while the disk is full");
        // A batch is in one transaction: it is there as a whole or not at all.
        let written = writer.append(batch.clone()).and_then(|()| writer.flush());
        match written {
            Ok(seq) => self.safe = seq,
            Err(error) => {
                self.writer = None;
                self.unwritten = Some(batch);
                return Err(error);
            }
        }
        lock(&self.figures).lag = first_seen.map_or(0.0, |seen| now().nanos_since(seen) as f64 / 1e9);
        Ok(())
    }

    /// Tries again to write what could not be written since `from`, and tells of that time as a gap.
    pub(super) fn resume(&mut self, from: Moment, why: &str) -> history::Result<()> {
        self.writer = None;
        // In a new one what does not change would be missing.
        if !self.path.exists() {
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
            to: now(),
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

    /// Forgets what is older, or more, than is wanted.
    pub(super) fn keep_short(&mut self) -> history::Result<()> {
        if self.retention == Retention::default() || self.writer.is_none() {
            return Ok(());
        }
        // What cannot be looked at now is looked at again soon.
        let Ok(Some(begins)) = self.overdue() else { return Ok(()) };
        if let Some(writer) = self.writer.take() {
            writer.close()?;
        }
        history::forget(&self.path, begins)?;
        let left = History::open(&self.path)?.used_bytes()?;
        self.stubborn = left + self.retention.bytes.unwrap_or(0) / 20;
        self.writer = Some(Writer::open(&self.path)?);
        Ok(())
    }

    fn overdue(&self) -> history::Result<Option<Moment>> {
        let history = History::open(&self.path)?;
        // What is alive stays, however much it is: only growth is worth another try.
        let by_size = match history.used_bytes()? >= self.stubborn {
            true => self.retention.by_size(&history)?,
            false => None,
        };
        Ok(self.retention.by_age(&history, now())?.max(by_size))
    }

    pub(super) fn close(self) -> history::Result<()> {
        self.writer.map_or(Ok(()), Writer::close)
    }
}

// === impl Side ===

impl Side {
    /// Whether something is of interest. A control plane looks after many things of many clusters.
    fn wants(self, observed: &Observed) -> bool {
        match (self, &*observed.key.kind.kind) {
            (Side::Cluster, _) => true,
            (Side::ControlPlane, "Deployment") => *observed.key.name == *"cluster-autoscaler",
            (Side::ControlPlane, kind) => kind != "ServerVersion",
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

/// Where a recording stopped and what was there then. The rules are told of it.
fn known(
    path: &Path,
    assignment: &Assignment,
    mut sieve: Option<&mut Sieve>,
    settings: &mut HashMap<Kind, Object>,
) -> history::Result<HashMap<Side, Known>> {
    let history = History::open(path)?;
    let mut known: HashMap<Side, Known> = HashMap::new();
    let source = &assignment.name;
    let Some(end) = history.end_of(source)? else { return Ok(known) };
    let control_namespaces =
        assignment.control_plane.as_ref().map_or(&[][..], |plane| &plane.wanted.namespaces);
    for side in [Side::Cluster, Side::ControlPlane] {
        known.entry(side).or_default().until = Some(end);
    }
    for position in history.positions()?.into_iter().filter(|position| position.source == *source) {
        let (side, kind) = Side::of_position(&position.kind);
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
        if let Some(sieve) = &mut sieve {
            sieve.know(&version.key, &version.object);
        }
        let is_control = control_namespaces.iter().any(|namespace| **namespace == *version.key.namespace);
        let side = if is_control { Side::ControlPlane } else { Side::Cluster };
        let name = (version.key.namespace.clone(), version.key.name.clone());
        let of_side = known.entry(side).or_default();
        of_side.objects.entry(version.key.kind.clone()).or_default().insert(name, seen);
    })?;
    Ok(known)
}
