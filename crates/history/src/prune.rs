//! Forgetting: the state at a moment becomes the beginning. And how much is to be kept.

use std::path::Path;

use model::Moment;
use rusqlite::Connection;

use crate::error::{Doing, Error, Result};
use crate::forget::{self, Cut, ForgetStep};
use crate::history::History;
use crate::intake::Intake;
use crate::lock::WriterLock;
use crate::schema::{self, Safety};
use crate::state::Tools;
use crate::writer::Writer;

/// What pruning did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The new beginning: the moment asked for, or the end of the history if that was earlier.
    pub begins: Moment,
    /// Changes before and after.
    pub changes: (u64, u64),
    /// Bytes of the file before and after.
    pub bytes: (u64, u64),
}

/// How much of a history is kept, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The past, in nanoseconds; `None`: all.
    pub nanos: Option<i64>,
    /// Bytes of the file; `None`: as many as there are.
    pub bytes: Option<u64>,
}

/// Forgets what was before `moment`: every later moment shows what it did, and each object that was alive keeps its
/// last version as it was recorded.
pub fn prune(path: &Path, moment: Moment) -> Result<Pruned> {
    refuse_missing(path)?;
    let _lock = WriterLock::take(path)?;
    let connection = schema::open_writable(path, Safety::Durable)?;
    let bytes_before = size(path)?;
    let doing = "prune";
    connection.execute_batch("PRAGMA secure_delete = ON").doing(doing, path)?;
    let changes_before = count(&connection).doing(doing, path)?;
    connection.execute_batch("BEGIN IMMEDIATE").doing(doing, path)?;
    let last_seq = Intake::open(&connection, path)?.last_seq();
    let mut step = |step: ForgetStep| step.apply(&connection, path, last_seq).map(|_| ());
    let begins = forget::forget(&connection, path, &mut Tools::new(), moment, Cut::AtBeginning, &mut step)?;
    connection.execute_batch("COMMIT").doing(doing, path)?;
    // Without this the file keeps its size, and what was forgotten could be dug up.
    connection.execute_batch("VACUUM").doing("compact", path)?;
    let changes_after = count(&connection).doing(doing, path)?;
    schema::close(connection, path)?;
    Ok(Pruned { begins, changes: (changes_before, changes_after), bytes: (bytes_before, size(path)?) })
}

/// Forgets like [`prune`], but as [`Writer::forget`] does: in small steps, without room for a second file. What was
/// forgotten is overwritten with zeros.
pub fn forget(path: &Path, moment: Moment) -> Result<Pruned> {
    refuse_missing(path)?;
    let bytes_before = size(path)?;
    let count = || -> Result<u64> { count(&schema::open_readable(path)?).doing("prune", path) };
    let changes_before = count()?;
    let writer = Writer::open(path)?;
    let begins = writer.forget(moment)?.wait()?;
    writer.close()?;
    Ok(Pruned { begins, changes: (changes_before, count()?), bytes: (bytes_before, size(path)?) })
}

fn refuse_missing(path: &Path) -> Result<()> {
    match schema::exists(path)? {
        true => Ok(()),
        false => Err(Error::Missing(path.to_owned())),
    }
}

// === impl Retention ===

impl Retention {
    /// A retention is kept to when it is exceeded by a tenth, not by every change.
    const SLACK: i64 = 10;
    /// No more than this part of a history's time is forgotten at once, so that no single reading of a wrong clock
    /// erases it.
    const PART: i64 = 10;

    /// Where a history should begin because of its age, or how far it may go there at once. `None`: it may stay as it is.
    pub fn by_age(&self, history: &History, now: Moment) -> Result<Option<Moment>> {
        let Some(nanos) = self.nanos else { return Ok(None) };
        let Some((begins, end)) = beginning_and_end(history)? else { return Ok(None) };
        let wanted = now.plus_nanos(nanos.saturating_neg()).min(end);
        let is_overdue = wanted.nanos_since(begins) > nanos / Retention::SLACK;
        Ok(Some(wanted).filter(|_| is_overdue).and_then(|wanted| bounded(wanted, begins, end)))
    }

    /// Where a history should begin because of its size, or how far it may go there at once. `None`: it may stay as it
    /// is.
    pub fn by_size(&self, history: &History) -> Result<Option<Moment>> {
        let Some(bytes) = self.bytes else { return Ok(None) };
        let Some((begins, end)) = beginning_and_end(history)? else { return Ok(None) };
        let used = history.used_bytes()?;
        if used <= bytes {
            return Ok(None);
        }
        let too_many = used - (bytes - bytes / Retention::SLACK.cast_unsigned());
        let wanted = history.end_of_first(too_many, begins)?;
        Ok(wanted.and_then(|wanted| bounded(wanted, begins, end)))
    }
}

/// How much nearer to `wanted` the beginning of a history may come at once. `None`: not at all.
fn bounded(wanted: Moment, begins: Moment, end: Moment) -> Option<Moment> {
    let most = begins.plus_nanos(end.nanos_since(begins) / Retention::PART);
    Some(wanted.min(most)).filter(|moment| *moment > begins)
}

/// The first moment that can be shown, of whichever source, and the last.
fn beginning_and_end(history: &History) -> Result<Option<(Moment, Moment)>> {
    let pruned_to = history.pruned_to()?;
    // A source that ended before it would seem to begin there for ever.
    Ok(history.span()?.map(|(begins, end)| (pruned_to.map_or(begins, |moment| moment.max(begins)), end)))
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (SELECT coalesce(sum(changes), 0) FROM block) + (SELECT count(*) FROM change)";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

fn size(path: &Path) -> Result<u64> {
    std::fs::metadata(path).map(|file| file.len()).doing("read the size of", path)
}
