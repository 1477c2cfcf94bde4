//! Where measuring takes place: a folder that is gone afterwards, and the large history that several benches look at.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use history::{BulkWriter, History};
use tempfile::TempDir;
use workload::churn::{Churn, churn};

use crate::Result;

/// The place and the settings of a run.
pub(crate) struct Studio {
    folder: TempDir,
    full: bool,
    keep: Option<PathBuf>,
    reuse: Option<PathBuf>,
    only: Option<String>,
    large: OnceCell<Large>,
}

/// A history too large to keep in memory.
pub(crate) struct Large {
    pub(crate) path: PathBuf,
    pub(crate) changes: u64,
    /// How long its import took, if it was made in this run; the making of its objects does not count.
    pub(crate) import: Option<Duration>,
}

/// What is alive at any moment of the large history.
const ALIVE: usize = 100_000;
const CHANGES: u64 = 1_000_000;
const FULL_CHANGES: u64 = 10_000_000;
/// So many changes are made before they are imported, so that the two can be told apart.
const CHUNK: usize = 10_000;

// === impl Studio ===

impl Studio {
    pub(crate) fn new(
        full: bool,
        keep: Option<PathBuf>,
        reuse: Option<PathBuf>,
        only: Option<String>,
    ) -> Result<Studio> {
        if let Some(path) = keep.as_ref().filter(|path| path.exists()) {
            return Err(format!("{} exists already", path.display()).into());
        }
        let folder = tempfile::Builder::new().prefix("kinescope-bench-").tempdir()?;
        Ok(Studio { folder, full, keep, reuse, only, large: OnceCell::new() })
    }

    /// Whether to measure at the sizes the budgets are meant for.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether something of several is to be measured, by its name.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// A path of that name in the folder of this run.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The large history, which is made when it is first asked for.
    pub(crate) fn large(&self) -> Result<&Large> {
        if let Some(large) = self.large.get() {
            return Ok(large);
        }
        let large = match &self.reuse {
            Some(path) => {
                let sources = History::open(path)?.summary()?.sources;
                let changes = sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum();
                Large { path: path.clone(), changes, import: None }
            }
            None => {
                let path = self.keep.clone().unwrap_or_else(|| self.path("large.kine"));
                let changes = if self.full { FULL_CHANGES } else { CHANGES };
                Large { import: Some(make_large(&path, changes)?), path, changes }
            }
        };
        Ok(self.large.get_or_init(|| large))
    }
}

fn make_large(path: &Path, changes: u64) -> Result<Duration> {
    let mut stream = churn(Churn { alive: ALIVE, changes, ..Churn::default() });
    let mut bulk = BulkWriter::open(path)?;
    let mut took = Duration::ZERO;
    loop {
        let chunk: Vec<_> = stream.by_ref().take(CHUNK).collect();
        if chunk.is_empty() {
            break;
        }
        let start = Instant::now();
        for observed in &chunk {
            bulk.push(observed)?;
        }
        took += start.elapsed();
    }
    let start = Instant::now();
    bulk.finish()?;
    Ok(took + start.elapsed())
}
