//! The input files of a command, with folders expanded.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A file to be read.
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// The name of the file, or of the folder given that contains it.
    pub(super) source: String,
}

/// Replaces folders by the manifests in them, sorted by name.
pub(super) fn expand_folders(paths: &[PathBuf]) -> anyhow::Result<Vec<InputFile>> {
    let mut files = Vec::new();
    for given_path in paths {
        let mut folders = 0;
        let mut waiting = vec![given_path.clone()];
        while let Some(path) = waiting.pop() {
            if !path.is_dir() {
                files.push(InputFile { path, source: file_stem(given_path) });
                continue;
            }
            folders += 1;
            // Symbolic links may form a cycle.
            if folders > 10_000 {
                bail!(
                    "more than 10,000 folders in {}: do symbolic links form a cycle?",
                    given_path.display()
                );
            }
            let entries = std::fs::read_dir(&path)
                .with_context(|| format!("cannot read the folder {}", path.display()))?;
            let mut entries: Vec<PathBuf> =
                entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
            let extensions = ["yaml", "yml", "json"];
            entries.retain(|path| {
                path.is_dir()
                    || path.is_file()
                        && path
                            .extension()
                            .is_some_and(|end| extensions.iter().any(|extensions| end == *extensions))
            });
            entries.sort_unstable_by(|a, b| b.cmp(a));
            waiting.extend(entries);
        }
    }
    if files.is_empty() {
        let folders: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        bail!("no .yaml, .yml or .json files found in {}", folders.join(", "));
    }
    Ok(files)
}

/// Opens a file, `-` for standard input. Returns its name for messages, too.
pub(super) fn open_file(path: &Path) -> anyhow::Result<(String, Box<dyn Read + Send>)> {
    if path == Path::new("-") {
        return Ok(("standard input".to_owned(), Box::new(io::stdin())));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open {name}"))?;
    Ok((name, Box::new(file)))
}

/// The file name up to its first dot: `small` for `small.jsonl.gz`.
pub(super) fn file_stem(path: &Path) -> String {
    let name = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = name.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match name.split('.').next().filter(|stem| !stem.is_empty() && *stem != "-") {
        Some(stem) => stem.to_owned(),
        None => "imported".to_owned(),
    }
}
