//! An open history, with the resolution of the moments and sources that users name.

use std::path::Path;
use std::sync::Arc;

use anyhow::bail;
use formats::sktrace::TracerConfig;
use history::{History, Selection};
use jiff::tz::TimeZone;
use model::{Moment, TimeParser};

/// An open history.
pub struct OpenHistory {
    /// The history.
    pub history: History,
    /// The reference points for the time expressions that users type.
    pub times: TimeParser,
}

// === impl OpenHistory ===

impl OpenHistory {
    /// Opens a history file.
    pub fn open(path: &Path) -> anyhow::Result<OpenHistory> {
        let history = History::open(path)?;
        let (start, end) = history.span()?.unwrap_or_default();
        Ok(OpenHistory { history, times: TimeParser { start, end, zone: TimeZone::system() } })
    }

    /// The moment that a time expression means; without one, the history's end.
    pub fn moment(&self, text: Option<&str>) -> anyhow::Result<Moment> {
        Ok(match text {
            Some(text) => self.times.parse(text)?,
            None => self.times.end,
        })
    }

    /// The source named, or the only one. `None` if the history is empty. `by` is the option with which users name a
    /// source, for the error message.
    pub fn source(&self, named: Option<&str>, by: &str) -> anyhow::Result<Option<Arc<str>>> {
        let sources = self.history.sources()?;
        let names = || sources.iter().map(|source| &**source).collect::<Vec<_>>().join(", ");
        match (named, &sources[..]) {
            (Some(name), _) => match self.history.all_sources()?.into_iter().find(|source| **source == *name)
            {
                Some(source) => Ok(Some(source)),
                None => bail!("source {name:?} not found; the history has: {}", names()),
            },
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only.clone())),
            (None, _) => bail!("the history has several sources; set {by} to one of: {}", names()),
        }
    }

    /// The configuration of SimKube's tracer: that of the imported trace, or the default.
    pub fn tracer_config(&self, source: Option<Arc<str>>) -> anyhow::Result<TracerConfig> {
        let recorded = Selection { kinds: Some(vec![TracerConfig::kind()]), source, ..Selection::default() };
        let recorded = self.history.at(self.times.end, &recorded)?.into_objects();
        let recorded = recorded.iter().find_map(|version| TracerConfig::from_object(&version.object));
        Ok(recorded.unwrap_or_default())
    }
}
