//! Overviews of the histories, remembered until their files change.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use history::History;
use model::Moment;
use query::changes;
use recorder::lock;

use super::file_stamp::FileStamp;
use super::shelf::Listed;

/// What lists of histories tell of one.
pub(super) struct Overview {
    /// The first and the last moment; `None` if it is empty.
    pub(super) span: Option<(Moment, Moment)>,
    pub(super) changes: u64,
    /// Of the file, and of what lies beside it while it is written.
    pub(super) bytes: u64,
    pub(super) gaps: u64,
    pub(super) sources: Vec<Arc<str>>,
}

/// The overviews that were read last, each with the state its files had before.
#[derive(Default)]
pub(super) struct Overviews(Mutex<HashMap<PathBuf, (FileStamp, Arc<Overview>)>>);

// === impl Overviews ===

impl Overviews {
    /// Reads the overview of each history that has changed since the last call. Only histories of the last call are
    /// remembered.
    pub(super) fn of_all(&self, all: Vec<Listed>) -> Vec<(Listed, history::Result<Arc<Overview>>)> {
        let mut known = std::mem::take(&mut *lock(&self.0));
        let mut next = HashMap::new();
        let mut answers = Vec::new();
        for listed in all {
            let stamp = FileStamp::of(&listed.path);
            let overview = match known.remove(&listed.path) {
                Some((before, overview)) if before == stamp => Ok(overview),
                _ => Overview::read(&listed).map(Arc::new),
            };
            if let Ok(overview) = &overview
                && stamp.is_settled()
            {
                next.insert(listed.path.clone(), (stamp, overview.clone()));
            }
            answers.push((listed, overview));
        }
        *lock(&self.0) = next;
        answers
    }
}

// === impl Overview ===

impl Overview {
    fn read(listed: &Listed) -> history::Result<Overview> {
        let history = History::open(&listed.path)?;
        Ok(Overview {
            span: history.span()?,
            changes: changes(&history.summary()?),
            bytes: history.file_bytes(),
            gaps: history.gap_count()?,
            sources: history.sources()?,
        })
    }
}
