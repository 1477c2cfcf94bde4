//! Audit logs on their way into the history that they join.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use anyhow::bail;
use formats::{Format, Given, Input, Item, Items};
use history::{History, Selection};
use model::{ContentHash, Moment, Observed, Window, audit_source, is_audit_source};
use query::Chosen;

use super::super::output::counted;
use super::super::signals;
use super::{Batch, Message, Tally};

/// The logs that were named, read together: API servers of one cluster have one each, and they overlap.
pub(super) struct AuditLogs {
    /// The history that they are to join, as the user named it, and whether it is there.
    into: Option<(PathBuf, bool)>,
    /// The source that they belong to, as the user named it.
    named: Option<String>,
    logs: Vec<Items>,
    /// Known with the first log.
    joined: Option<JoinedSource>,
}

/// The source of the logs in the history that they join.
struct JoinedSource {
    history: History,
    name: Arc<str>,
    /// The time of the recording.
    recorded: Option<(Moment, Moment)>,
    /// Up to when logs were imported before.
    end: Option<Moment>,
    /// The writes that were, from the first on that is read again.
    known: Option<HashSet<ContentHash>>,
}

/// Times of one log rise, but for requests that end at the same time.
const DISORDER: i64 = 60_000_000_000;

// === impl AuditLogs ===

impl AuditLogs {
    /// None yet. They are to join this history, which may not be there.
    pub(super) fn joining(into: Option<&Path>, is_there: bool, named: Option<&str>) -> AuditLogs {
        AuditLogs {
            into: into.map(|path| (path.to_owned(), is_there)),
            named: named.map(str::to_owned),
            logs: Vec::new(),
            joined: None,
        }
    }

    /// Adds a log.
    pub(super) fn add(&mut self, input: Input, now: Moment) -> anyhow::Result<()> {
        let source = match &self.joined {
            Some(joined) => joined.name.clone(),
            None => {
                let joined = self.find(&input.name)?;
                self.joined.insert(joined).name.clone()
            }
        };
        self.logs.push(formats::read(input, Format::Audit, Given { source, at: None, now })?);
        Ok(())
    }

    /// Sends what they say. What an earlier import of the same files has brought is left out.
    pub(super) fn send(self, tally: &mut Tally, sender: &SyncSender<Message>) -> anyhow::Result<()> {
        let Some(mut joined) = self.joined else { return Ok(()) };
        let (mut known, mut recorded) = (0, 0);
        let mut batch = Batch { pieces: Vec::new(), bytes: 0, sender };
        for item in formats::audit::merge(self.logs) {
            signals::check()?;
            match item? {
                Item::Change(observed) => {
                    recorded += u64::from(joined.is_of_the_recording(&observed));
                    if joined.knows(&observed)? {
                        known += 1;
                    } else {
                        batch.change(observed, &mut None, tally)?;
                    }
                }
                Item::Warning(text) => tally.warnings.add(text),
                Item::Gap(_) | Item::Object(_) | Item::TimesInferred(_) => {}
            }
        }
        batch.send()?;
        if known > 0 {
            tally.warnings.add(format!("{} left out that the history has already", counted(known, "write")));
        }
        if let (0, Some((from, to))) = (recorded, joined.recorded) {
            tally.warnings.add(format!(
                "no write is of the time that was recorded, {from} to {to}: is this the log of the same cluster?"
            ));
        }
        Ok(())
    }

    /// The source of a log.
    fn find(&self, log: &str) -> anyhow::Result<JoinedSource> {
        let path = match &self.into {
            Some((path, true)) => path,
            Some((path, false)) => {
                bail!("there is no history at {}: an audit log joins one that exists", path.display())
            }
            None => bail!(
                "{log}: an audit log tells who wrote, and joins a history that tells what: name one with --into"
            ),
        };
        let chosen = Chosen::open(path)?;
        let Some(source) = chosen.source(self.named.as_deref(), "--source")? else {
            bail!("{} is empty: an audit log joins a history that records something", path.display());
        };
        let name = if is_audit_source(&source) { source.clone() } else { audit_source(&source) };
        let recorded = chosen.history.span_of(&source)?;
        let end = chosen.history.end_of(&name)?;
        Ok(JoinedSource { history: chosen.history, name, recorded, end, known: None })
    }
}

// === impl JoinedSource ===

impl JoinedSource {
    fn is_of_the_recording(&self, write: &Observed) -> bool {
        self.recorded.is_some_and(|(from, to)| from <= write.seen && write.seen <= to)
    }

    /// Whether the history has a write. It is an error if it has only later ones: times of a source rise.
    fn knows(&mut self, write: &Observed) -> anyhow::Result<bool> {
        let Some(end) = self.end.filter(|end| write.seen <= *end) else { return Ok(false) };
        let known = match &self.known {
            Some(known) => known,
            None => {
                let window = Window { from: write.seen.plus_nanos(-DISORDER), ..Window::ALL };
                let of_source = Selection { source: Some(self.name.clone()), ..Selection::default() };
                let mut known = HashSet::new();
                for change in self.history.between(window, &of_source)? {
                    known.insert(ContentHash::of(change?.what.object().as_str()));
                }
                self.known.insert(known)
            }
        };
        if known.contains(&ContentHash::of(write.what.object().as_str())) {
            return Ok(true);
        }
        bail!(
            "the history has audit logs up to {end}, but not this write of {}: {}. Logs of one time are imported \
             together, and earlier ones first; `kinescope export {} --format jsonl --source NAME` gives the history \
             without them, to begin again with",
            write.seen,
            write.key.name,
            self.history.path().display()
        )
    }
}
