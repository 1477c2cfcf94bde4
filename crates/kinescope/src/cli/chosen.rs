//! Which history, which moment, which source: what most commands ask first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use history::History;
use jiff::tz::TimeZone;
use model::{Moment, TimeWords};

/// The history a command is about.
pub(super) struct Chosen {
    pub(super) history: History,
    pub(super) times: TimeWords,
}

/// The file named, or the one everybody would mean.
pub(super) fn path(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    if let Some(path) = std::env::var_os("KINESCOPE_HISTORY").filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let mut found: Vec<PathBuf> = std::fs::read_dir(".")
        .context("cannot look for a history in this folder")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "kine"))
        .map(|path| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path))
        .collect();
    found.sort_unstable();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => bail!("there is no .kine file in this folder: name a history, or set $KINESCOPE_HISTORY"),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "there are several histories in this folder ({}): name one, or set $KINESCOPE_HISTORY",
                names.join(", ")
            )
        }
    }
}

// === impl Chosen ===

impl Chosen {
    pub(super) fn open(named: Option<&Path>) -> anyhow::Result<Chosen> {
        let history = History::open(&path(named)?)?;
        let (start, end) = history.span()?.unwrap_or_default();
        Ok(Chosen { history, times: TimeWords { start, end, zone: TimeZone::system() } })
    }

    /// The moment a word means; the end if there is none.
    pub(super) fn moment(&self, word: Option<&str>) -> anyhow::Result<Moment> {
        Ok(match word {
            Some(word) => self.times.read(word)?,
            None => self.times.end,
        })
    }

    /// The source named, or the only one. `None`: the history is empty.
    pub(super) fn source(&self, named: Option<&str>) -> anyhow::Result<Option<Arc<str>>> {
        let sources = self.history.sources()?;
        let names = || sources.iter().map(|source| &**source).collect::<Vec<_>>().join(", ");
        match (named, &sources[..]) {
            (Some(name), _) => match sources.iter().find(|source| ***source == *name) {
                Some(source) => Ok(Some(source.clone())),
                None => bail!("the history has no source {name:?}; it has: {}", names()),
            },
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only.clone())),
            (None, _) => bail!("the history has several sources: name one with --source: {}", names()),
        }
    }
}
