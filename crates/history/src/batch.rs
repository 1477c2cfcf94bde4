//! Batches: changes, gaps and watch positions that are committed together.

use std::path::Path;
use std::sync::Arc;

use model::{Gap, IncomingChange, Kind, Moment};
use rusqlite::{Connection, params};

use crate::error::{ErrorContext, Result};

/// Changes, gaps and watch positions that are committed in one transaction.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// In order of arrival.
    pub changes: Vec<IncomingChange>,
    /// New gaps.
    pub gaps: Vec<Gap>,
    /// Gaps that were written as open and have ended now; they are matched by source, kinds and beginning.
    pub closed_gaps: Vec<Gap>,
    /// The watch positions after these changes.
    pub positions: Vec<WatchPosition>,
}

/// The position at which the watch of one kind resumes after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchPosition {
    /// The recorded source.
    pub source: Arc<str>,
    /// The kind watched.
    pub kind: Kind,
    /// The resourceVersion to resume from.
    pub resource_version: String,
    /// When it was reached.
    pub at: Moment,
}

impl WatchPosition {
    /// Writes it to the file, replacing the previous position of the kind.
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
            .context("write a position to", path)?;
        Ok(())
    }
}
