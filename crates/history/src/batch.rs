//! What becomes durable together.

use std::path::Path;
use std::sync::Arc;

use model::{Gap, Kind, Moment, Observed};
use rusqlite::{Connection, params};

use crate::error::{Doing, Result};

/// Changes, gaps and watch positions that become durable together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of arrival.
    pub changes: Vec<Observed>,
    /// What was missed.
    pub gaps: Vec<Gap>,
    /// Gaps that were written as open ones and have ended: found by their source, kinds and beginning.
    pub closed_gaps: Vec<Gap>,
    /// Where watching goes on after these changes.
    pub positions: Vec<Position>,
}

/// Where watching one kind goes on after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The recording.
    pub source: Arc<str>,
    /// The kind watched.
    pub kind: Kind,
    /// The API server's mark.
    pub resource_version: String,
    /// When it was reached.
    pub at: Moment,
}

impl Position {
    /// Puts it in the file, in place of the one before.
    pub(crate) fn insert(&self, connection: &Connection, path: &Path, source: i64) -> Result<()> {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO position (source, api_group, kind, resource_version, at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    source,
                    &*self.kind.group,
                    &*self.kind.kind,
                    self.resource_version,
                    self.at.nanos()
                ])
            })
            .doing("write a position to", path)?;
        Ok(())
    }
}
