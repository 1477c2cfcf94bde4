//! The history that a command reads: named by the user, by `$KINESCOPE_HISTORY`, or the only one in the folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use query::OpenHistory;

/// Opens the history at the path given, or the default one.
pub(super) fn open(named: Option<&Path>) -> anyhow::Result<OpenHistory> {
    OpenHistory::open(&resolve(named)?)
}

/// The path given, else `$KINESCOPE_HISTORY`, else the only `.kine` file in the working directory.
pub(super) fn resolve(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    if let Some(path) = std::env::var_os("KINESCOPE_HISTORY").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(".")
        .context("cannot list the current directory")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "kine"))
        .map(|path| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path))
        .collect();
    found.sort_unstable();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => bail!("no .kine file in the current directory: specify a history, or set $KINESCOPE_HISTORY"),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "several .kine files in the current directory ({}): specify one, or set $KINESCOPE_HISTORY",
                names.join(", ")
            )
        }
    }
}
