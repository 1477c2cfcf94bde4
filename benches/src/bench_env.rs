//! The environment of a run: a temporary folder, the options, and the large history that several benchmarks use.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use history::{BulkWriter, History};
use tempfile::TempDir;
use workload::churn::{ChurnOptions, churn};

use crate::Result;

/// The temporary folder and the options of a run.
pub(crate) struct BenchEnv {
    folder: TempDir,
    full: bool,
    keep: Option<PathBuf>,
    reuse: Option<PathBuf>,
    only: Option<String>,
    large_history: OnceCell<LargeHistory>,
}

/// A history too large to keep in memory.
pub(crate) struct LargeHistory {
    pub(crate) path: PathBuf,
    pub(crate) changes: u64,
    /// The duration of its import, if it was generated in this run; the generation of its objects is not counted.
    pub(crate) import_time: Option<Duration>,
}

/// The number of live objects at any moment of the large history.
const LIVE_OBJECTS: usize = 100_000;
const CHANGES: u64 = 1_000_000;
const FULL_CHANGES: u64 = 10_000_000;
/// How many changes are generated before they are imported, so that the two can be timed separately.
const CHUNK: usize = 10_000;

// === impl BenchEnv ===

impl BenchEnv {
    pub(crate) fn new(
        full: bool,
        keep: Option<PathBuf>,
        reuse: Option<PathBuf>,
        only: Option<String>,
    ) -> Result<BenchEnv> {
        if let Some(path) = keep.as_ref().filter(|path| path.exists()) {
            return Err(format!("{} exists already", path.display()).into());
        }
        let folder = tempfile::Builder::new().prefix("kinescope-bench-").tempdir()?;
        Ok(BenchEnv { folder, full, keep, reuse, only, large_history: OnceCell::new() })
    }

    /// Whether to measure at the sizes the budgets are meant for.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Whether a workload of this name is selected.
    pub(crate) fn is_selected(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// A path of this name in the temporary folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The large history, which is generated on first use.
    pub(crate) fn large_history(&self) -> Result<&LargeHistory> {
        if let Some(large) = self.large_history.get() {
            return Ok(large);
        }
        let large = match &self.reuse {
            Some(path) => {
                let sources = History::open(path)?.summary()?.sources;
                let changes = sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum();
                LargeHistory { path: path.clone(), changes, import_time: None }
            }
            None => {
                let path = self.keep.clone().unwrap_or_else(|| self.path("large.kine"));
                let changes = if self.full { FULL_CHANGES } else { CHANGES };
                LargeHistory { import_time: Some(make_large_history(&path, changes)?), path, changes }
            }
        };
        Ok(self.large_history.get_or_init(|| large))
    }
}

fn make_large_history(path: &Path, changes: u64) -> Result<Duration> {
    let mut stream = churn(ChurnOptions { live_objects: LIVE_OBJECTS, changes, ..ChurnOptions::default() });
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
