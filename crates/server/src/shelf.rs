//! The histories that are served: those named, and those that lie in the folders named.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use axum::http::StatusCode;

use super::problem::{Problem, Result};

/// Where histories are looked for. What is added to a folder is there with the next question.
#[derive(Clone)]
pub struct Shelf {
    folders: Vec<PathBuf>,
    files: Vec<Listed>,
}

/// A history, by the name it has here: that of its file, without `.kine`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub path: PathBuf,
}

// === impl Shelf ===

impl Shelf {
    /// The histories at these places, folders or files. All must be there, and no two may have one name.
    pub fn open(places: &[PathBuf]) -> anyhow::Result<Shelf> {
        let mut shelf = Shelf { folders: Vec::new(), files: Vec::new() };
        let mut seen = HashSet::new();
        for place in places {
            // One that is named twice is one.
            if !seen.insert(place.canonicalize().unwrap_or_else(|_| place.clone())) {
                continue;
            }
            let kind = place.metadata().with_context(|| format!("cannot serve {}", place.display()))?;
            if kind.is_dir() {
                shelf.folders.push(place.clone());
            } else {
                let listed = Listed::at(place.clone()).with_context(|| {
                    format!("{} is no history: its name does not end in .kine", place.display())
                })?;
                shelf.files.push(listed);
            }
        }
        let all = shelf.all()?;
        if let Some(pair) = all.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let (one, other) = (pair[0].path.display(), pair[1].path.display());
            bail!("{one} and {other} would both be called {}: serve them apart, or rename one", pair[0].name);
        }
        Ok(shelf)
    }

    /// All that are there now, sorted by name.
    pub fn all(&self) -> anyhow::Result<Vec<Listed>> {
        let mut all = self.files.clone();
        for folder in &self.folders {
            let entries = std::fs::read_dir(folder)
                .with_context(|| format!("cannot look for histories in {}", folder.display()))?;
            let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
            // To open a pipe would be to wait for its other end.
            all.extend(paths.filter_map(Listed::at).filter(|listed| listed.path.is_file()));
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(all)
    }

    /// The one of that name. A name is only ever compared, never made into a path.
    pub(super) fn find(&self, name: &str) -> Result<Listed> {
        let all = self.all()?;
        all.iter().find(|listed| listed.name == name).cloned().ok_or_else(|| {
            let words = format!("there is no history {name:?}; there are: {}", names(&all));
            Problem::new(StatusCode::NOT_FOUND, words)
        })
    }

    /// The one of that name, or the only one.
    pub(super) fn find_or_only(&self, named: Option<&str>) -> Result<Listed> {
        if let Some(name) = named {
            return self.find(name);
        }
        match &self.all()?[..] {
            [only] => Ok(only.clone()),
            [] => Err(Problem::new(StatusCode::NOT_FOUND, "there is no history here yet")),
            several => {
                let words =
                    format!("there are several histories: name one with ?history=: {}", names(several));
                Err(Problem::new(StatusCode::BAD_REQUEST, words))
            }
        }
    }
}

// === impl Listed ===

impl Listed {
    fn at(path: PathBuf) -> Option<Listed> {
        if path.extension()? != "kine" {
            return None;
        }
        let name = Path::new(path.file_stem()?).to_str()?.to_owned();
        Some(Listed { name, path })
    }
}

fn names(all: &[Listed]) -> String {
    all.iter().map(|listed| &*listed.name).collect::<Vec<_>>().join(", ")
}
