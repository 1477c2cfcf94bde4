//! The catalog of served histories: files named by the user, and the files in folders named by the user.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axum::http::StatusCode;

use super::api_error::{ApiError, Result};

/// The files and folders that are served. Folders are listed for each request, so that a new history appears without a
/// restart.
#[derive(Clone)]
pub struct HistoryCatalog {
    folders: Vec<PathBuf>,
    files: Vec<CatalogEntry>,
}

/// A history of the catalog, named after its file without `.kine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    pub name: String,
    pub path: PathBuf,
}

// === impl HistoryCatalog ===

impl HistoryCatalog {
    /// Opens a catalog of these folders and files. All must exist, and no two histories may have the same name.
    pub fn open(places: &[PathBuf]) -> anyhow::Result<HistoryCatalog> {
        let mut shelf = HistoryCatalog { folders: Vec::new(), files: Vec::new() };
        let mut seen = HashSet::new();
        for place in places {
            // Ignore duplicates.
            if !seen.insert(place.canonicalize().unwrap_or_else(|_| place.clone())) {
                continue;
            }
            let kind = place.metadata().with_context(|| format!("cannot serve {}", place.display()))?;
            if kind.is_dir() {
                shelf.folders.push(place.clone());
            } else {
                let listed = CatalogEntry::at(place.clone()).with_context(|| {
                    format!("{} is no history: its name does not end in .kine", place.display())
                })?;
                shelf.files.push(listed);
            }
        }
        let all = shelf.list()?;
        if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let (one, other) = (pair[0].path.display(), pair[1].path.display());
            bail!("{one} and {other} would both be called {}: serve them apart, or rename one", pair[0].name);
        }
        Ok(shelf)
    }

    /// Lists all histories that exist now, sorted by name.
    pub fn list(&self) -> anyhow::Result<Vec<CatalogEntry>> {
        let mut all = self.files.clone();
        for folder in &self.folders {
            let entries = std::fs::read_dir(folder)
                .with_context(|| format!("cannot look for histories in {}", folder.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            // Regular files only: opening a pipe would block until its other end is opened.
            all.extend(paths.filter_map(CatalogEntry::at).filter(|listed| listed.path.is_file()));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Finds a history by its name. The name is only compared, never turned into a path.
    pub(super) fn find(&self, name: &str) -> Result<CatalogEntry> {
        let all = self.list()?;
        all.iter().find(|listed| listed.name == name).cloned().ok_or_else(|| {
            let words = format!("there is no history {name:?}; there are: {}", names(&all));
            ApiError::new(StatusCode::NOT_FOUND, words)
        })
    }

    /// Finds a history by its name, or, without one, the only history.
    pub(super) fn find_or_only(&self, named: Option<&str>) -> Result<CatalogEntry> {
        if let Some(name) = named {
            return self.find(name);
        }
        match &self.list()?[..] {
            [only] => Ok(only.clone()),
            [] => Err(ApiError::new(StatusCode::NOT_FOUND, "there is no history here yet")),
            several => {
                let words =
                    format!("there are several histories: name one with ?history=: {}", names(several));
                Err(ApiError::new(StatusCode::BAD_REQUEST, words))
            }
        }
    }
}

// === impl CatalogEntry ===

impl CatalogEntry {
    fn at(path: PathBuf) -> Option<CatalogEntry> {
        if path.extension()? != "kine" {
            return None;
        }
        let name = Path::new(path.file_stem()?).to_str()?.to_owned();
        Some(CatalogEntry { name, path })
    }
}

fn names(all: &[CatalogEntry]) -> String {
    all.iter().map(|listed| &*listed.name).collect::<Vec<_>>().join(", ")
}
