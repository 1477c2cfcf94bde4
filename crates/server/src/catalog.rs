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
    pub fn open(paths: &[PathBuf]) -> anyhow::Result<HistoryCatalog> {
        let mut catalog = HistoryCatalog { folders: Vec::new(), files: Vec::new() };
        let mut seen = HashSet::new();
        for path in paths {
            // Ignore duplicates.
            if !seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())) {
                continue;
            }
            let kind = path.metadata().with_context(|| format!("cannot serve {}", path.display()))?;
            if kind.is_dir() {
                catalog.folders.push(path.clone());
            } else {
                let catalog_entry = CatalogEntry::at(path.clone()).with_context(|| {
                    format!("{} is not a history: its name must end in .kine", path.display())
                })?;
                catalog.files.push(catalog_entry);
            }
        }
        let all = catalog.list()?;
        if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let (first, second) = (pair[0].path.display(), pair[1].path.display());
            bail!(
                "{first} and {second} have the same name {}: rename one, or serve them separately",
                pair[0].name
            );
        }
        Ok(catalog)
    }

    /// Lists all histories that exist now, sorted by name.
    pub fn list(&self) -> anyhow::Result<Vec<CatalogEntry>> {
        let mut all = self.files.clone();
        for folder in &self.folders {
            let entries = std::fs::read_dir(folder)
                .with_context(|| format!("cannot list histories in {}", folder.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            // Regular files only: opening a pipe would block until its other end is opened.
            all.extend(
                paths.filter_map(CatalogEntry::at).filter(|catalog_entry| catalog_entry.path.is_file()),
            );
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// Finds a history by its name. The name is only compared, never turned into a path.
    pub(super) fn find(&self, name: &str) -> Result<CatalogEntry> {
        let all = self.list()?;
        all.iter().find(|catalog_entry| catalog_entry.name == name).cloned().ok_or_else(|| {
            let message = format!("history {name:?} not found; available: {}", names(&all));
            ApiError::new(StatusCode::NOT_FOUND, message)
        })
    }

    /// Finds a history by its name, or, without one, the only history.
    pub(super) fn find_or_only(&self, named: Option<&str>) -> Result<CatalogEntry> {
        if let Some(name) = named {
            return self.find(name);
        }
        match &self.list()?[..] {
            [only] => Ok(only.clone()),
            [] => Err(ApiError::new(StatusCode::NOT_FOUND, "no histories found")),
            several => {
                let message =
                    format!("several histories found: specify one with ?history=: {}", names(several));
                Err(ApiError::new(StatusCode::BAD_REQUEST, message))
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
    all.iter().map(|catalog_entry| &*catalog_entry.name).collect::<Vec<_>>().join(", ")
}
