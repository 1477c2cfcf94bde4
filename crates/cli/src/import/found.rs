//! The files that a user means.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file to be imported.
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// The name of what the user typed: the file, or the folder it is in.
    pub(super) source: String,
}

/// Folders become the manifests in them, in order of their names.
pub(super) fn expand(paths: &[PathBuf]) -> anyhow::Result<Vec<Found>> {
    let mut files = Vec::new();
    for typed in paths {
        let mut folders = 0;
        let mut waiting = vec![typed.clone()];
        while let Some(path) = waiting.pop() {
            if !path.is_dir() {
                files.push(Found { path, source: stem(typed) });
                continue;
            }
            folders += 1;
            // Links may lead in circles.
            if folders > 10_000 {
                bail!("more than 10,000 folders in {}: is there a circle of links?", typed.display());
            }
            let entries = std::fs::read_dir(&path)
                .with_context(|| format!("cannot read the folder {}", path.display()))?;
            let mut entries: Vec<PathBuf> =
                entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            let wanted = ["yaml", "yml", "json"];
            entries.retain(|path| {
                path.is_dir()
                    || path.is_file()
                        && path.extension().is_some_and(|end| wanted.iter().any(|wanted| end == *wanted))
            });
            entries.sort_unstable_by(|a, b| b.cmp(a));
            waiting.extend(entries);
        }
    }
    if files.is_empty() {
        bail!("there are no .yaml, .yml or .json files in what is to be imported");
    }
    Ok(files)
}

/// The name of a file without what follows its first dot: `small.jsonl.gz` is `small`.
pub(super) fn stem(path: &Path) -> String {
    let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.split('.').next().filter(|stem| !stem.is_empty() && *stem != "-") {
        Some(stem) => stem.to_owned(),
        None => "imported".to_owned(),
    }
}
