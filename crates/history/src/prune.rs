//! Pruning a whole history, and retention: how much of it is kept.

use std::path::Path;

use model::Moment;
use rusqlite::Connection;

use crate::change_indexer::ChangeIndexer;
use crate::error::{Error, ErrorContext, Result};
use crate::history::History;
use crate::lock::WriterLock;
use crate::prune_steps::{self, PruneBound, PruneStep};
use crate::schema::{self, Durability};
use crate::stream_state::VersionReader;
use crate::writer::Writer;

/// Result of a prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PruneReport {
    /// The new beginning: the requested moment, or the end of the history if that was earlier.
    pub begins: Moment,
    /// Number of changes before and after.
    pub changes: (u64, u64),
    /// Bytes of the file before and after.
    pub bytes: (u64, u64),
}

/// The minimum that is kept of a history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Time span in nanoseconds; `None` for no limit.
    pub nanos: Option<i64>,
    /// Bytes of the file; `None` for no limit.
    pub bytes: Option<u64>,
}

/// Removes everything before `moment`: every later moment shows the same state as before, and each object alive then
/// keeps its last version as it was recorded.
pub fn prune(path: &Path, moment: Moment) -> Result<PruneReport> {
    require_existing(path)?;
    let _lock = WriterLock::take(path)?;
    let connection = schema::open_writable(path, Durability::EveryCommit)?;
    let bytes_before = file_size(path)?;
    let doing = "prune";
    connection.execute_batch("PRAGMA secure_delete = ON").context(doing, path)?;
    let changes_before = count_changes(&connection).context(doing, path)?;
    connection.execute_batch("BEGIN IMMEDIATE").context(doing, path)?;
    let last_seq = ChangeIndexer::open(&connection, path)?.last_seq();
    let mut step = |step: PruneStep| step.apply(&connection, path, last_seq).map(|_| ());
    let start = prune_steps::run_prune(
        &connection,
        path,
        &mut VersionReader::new(),
        moment,
        PruneBound::AtNewBeginning,
        &mut step,
    )?;
    connection.execute_batch("COMMIT").context(doing, path)?;
    // Without VACUUM the file keeps its size, and pruned data could be recovered from free pages.
    connection.execute_batch("VACUUM").context("compact", path)?;
    let changes_after = count_changes(&connection).context(doing, path)?;
    schema::close(connection, path)?;
    Ok(PruneReport {
        begins: start,
        changes: (changes_before, changes_after),
        bytes: (bytes_before, file_size(path)?),
    })
}

/// Prunes like [`prune`], but as [`Writer::prune`] does: in small steps, without space for a second file. Pruned data
/// is overwritten with zeros.
pub fn prune_incrementally(path: &Path, moment: Moment) -> Result<PruneReport> {
    require_existing(path)?;
    let bytes_before = file_size(path)?;
    let count = || -> Result<u64> { count_changes(&schema::open_readable(path)?).context("prune", path) };
    let changes_before = count()?;
    let writer = Writer::open(path)?;
    let start = writer.prune(moment)?.wait()?;
    writer.close()?;
    Ok(PruneReport {
        begins: start,
        changes: (changes_before, count()?),
        bytes: (bytes_before, file_size(path)?),
    })
}

fn require_existing(path: &Path) -> Result<()> {
    match schema::exists(path)? {
        true => Ok(()),
        false => Err(Error::Missing(path.to_owned())),
    }
}

// === impl Retention ===

impl Retention {
    /// Retention is enforced when it is exceeded by a tenth, not after every change.
    const SLACK: i64 = 10;
    /// At most this fraction of a history's time is pruned at once, so that one reading of a wrong clock cannot erase
    /// it.
    const MAX_SHARE: i64 = 10;

    /// The moment to prune to because of age, limited to what may be pruned at once. `None` if nothing is to be
    /// pruned.
    pub fn cutoff_by_age(&self, history: &History, now: Moment) -> Result<Option<Moment>> {
        let Some(nanos) = self.nanos else { return Ok(None) };
        let Some((start, end)) = retained_span(history)? else { return Ok(None) };
        let cutoff = now.plus_nanos(nanos.saturating_neg()).min(end);
        let is_overdue = cutoff.nanos_since(start) > nanos / Retention::SLACK;
        Ok(Some(cutoff).filter(|_| is_overdue).and_then(|cutoff| limit_advance(cutoff, start, end)))
    }

    /// The moment to prune to because of size, limited to what may be pruned at once. `None` if nothing is to be
    /// pruned.
    pub fn cutoff_by_size(&self, history: &History) -> Result<Option<Moment>> {
        let Some(bytes) = self.bytes else { return Ok(None) };
        let Some((start, end)) = retained_span(history)? else { return Ok(None) };
        let used = history.used_bytes()?;
        if used <= bytes {
            return Ok(None);
        }
        let too_many = used - (bytes - bytes / Retention::SLACK.cast_unsigned());
        let cutoff = history.end_of_oldest_bytes(too_many, start)?;
        Ok(cutoff.and_then(|cutoff| limit_advance(cutoff, start, end)))
    }
}

/// Limits how far the beginning moves towards `cutoff` at once. `None` if it does not move.
fn limit_advance(cutoff: Moment, start: Moment, end: Moment) -> Option<Moment> {
    let max_start = start.plus_nanos(end.nanos_since(start) / Retention::MAX_SHARE);
    Some(cutoff.min(max_start)).filter(|moment| *moment > start)
}

/// The first moment that can be shown, over all sources, and the last.
fn retained_span(history: &History) -> Result<Option<(Moment, Moment)>> {
    let pruned_to = history.pruned_to()?;
    // The first moment of a source that ended before the pruned moment stays at its end forever, hence the maximum.
    Ok(history.span()?.map(|(start, end)| (pruned_to.map_or(start, |moment| moment.max(start)), end)))
}

fn count_changes(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (SELECT coalesce(sum(changes), 0) FROM block) + (SELECT count(*) FROM change)";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

fn file_size(path: &Path) -> Result<u64> {
    std::fs::metadata(path).map(|file| file.len()).context("read the size of", path)
}
