//! Overviews of the histories, cached until their files change.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use history::History;
use model::Moment;
use query::count_changes;
use recorder::lock;

use super::catalog::CatalogEntry;
use super::file_stamp::FileStamp;

/// The summary of a history in lists of histories.
pub(super) struct Overview {
    /// The first and the last moment; `None` if it is empty.
    pub(super) span: Option<(Moment, Moment)>,
    pub(super) changes: u64,
    /// Of the file, and of its write-ahead log while it is written.
    pub(super) bytes: u64,
    pub(super) gaps: u64,
    pub(super) sources: Vec<Arc<str>>,
}

/// A cache of overviews by path, each with the stamp of its files before it was read.
#[derive(Default)]
pub(super) struct OverviewCache(Mutex<HashMap<PathBuf, (FileStamp, Arc<Overview>)>>);

// === impl OverviewCache ===

impl OverviewCache {
    /// Reads the overview of each history that has changed since the last call. Only the histories of this call stay
    /// cached.
    pub(super) fn read_all(
        &self,
        all: Vec<CatalogEntry>,
    ) -> Vec<(CatalogEntry, history::Result<Arc<Overview>>)> {
        let mut cached = std::mem::take(&mut *lock(&self.0));
        let mut next = HashMap::new();
        let mut overviews = Vec::new();
        for entry in all {
            let stamp = FileStamp::of(&entry.path);
            let overview = match cached.remove(&entry.path) {
                Some((before, overview)) if before == stamp => Ok(overview),
                _ => Overview::read(&entry).map(Arc::new),
            };
            if let Ok(overview) = &overview
                && stamp.is_settled()
            {
                next.insert(entry.path.clone(), (stamp, overview.clone()));
            }
            overviews.push((entry, overview));
        }
        *lock(&self.0) = next;
        overviews
    }
}

// === impl Overview ===

impl Overview {
    fn read(entry: &CatalogEntry) -> history::Result<Overview> {
        let history = History::open(&entry.path)?;
        Ok(Overview {
            span: history.span()?,
            changes: count_changes(&history.summary()?),
            bytes: history.file_bytes(),
            gaps: history.gap_count()?,
            sources: history.sources()?,
        })
    }
}
