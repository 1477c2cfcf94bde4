//! Which history, which moment, which source: what is asked first.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use formats::sktrace::TracerConfig;
use history::{History, Selection};
use jiff::tz::TimeZone;
use model::{Moment, TimeWords};

/// The history a question is about.
pub struct Chosen {
    /// The history, open.
    pub history: History,
    /// What the words for times mean in it.
    pub times: TimeWords,
}

// === impl Chosen ===

impl Chosen {
    /// Opens a file.
    pub fn open(path: &Path) -> anyhow::Result<Chosen> {
        let history = History::open(path)?;
        let (start, end) = history.span()?.unwrap_or_default();
        Ok(Chosen { history, times: TimeWords { start, end, zone: TimeZone::system() } })
    }

    /// The moment a word means; the end if there is none.
    pub fn moment(&self, word: Option<&str>) -> anyhow::Result<Moment> {
        Ok(match word {
            Some(word) => self.times.read(word)?,
            None => self.times.end,
        })
    }

    /// The source named, or the only one. `None`: the history is empty. `by` is how a user names one.
    pub fn source(&self, named: Option<&str>, by: &str) -> anyhow::Result<Option<Arc<str>>> {
        let sources = self.history.sources()?;
        let names = || sources.iter().map(|source| &**source).collect::<Vec<_>>().join(", ");
        match (named, &sources[..]) {
            (Some(name), _) => match self.history.all_sources()?.into_iter().find(|source| **source == *name)
            {
                Some(source) => Ok(Some(source)),
                None => bail!("the history has no source {name:?}; it has: {}", names()),
            },
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only.clone())),
            (None, _) => bail!("the history has several sources: name one with {by}: {}", names()),
        }
    }

    /// How SimKube's tracer is configured: as the trace that was imported was, or as usual.
    pub fn tracer_config(&self, source: Option<Arc<str>>) -> anyhow::Result<TracerConfig> {
        let kept = Selection { kinds: Some(vec![TracerConfig::kind()]), source, ..Selection::default() };
        let kept = self.history.at(self.times.end, &kept)?.into_objects();
        let kept = kept.iter().find_map(|version| TracerConfig::kept_in(&version.object));
        Ok(kept.unwrap_or_default())
    }
}
