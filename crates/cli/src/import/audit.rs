//! The import of audit logs into an existing history.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use anyhow::bail;
use formats::{Format, ImportItem, ImportItems, Input, ReadOptions};
use history::{History, Selection};
use model::{ContentHash, IncomingChange, Moment, Window, audit_source, is_audit_source};
use query::OpenHistory;

use super::super::output::count_noun;
use super::super::signals;
use super::{ImportBatch, ImportCounts, ReaderMessage};

/// All audit logs of the command line, merged by time: each API server of a cluster writes its own, and they overlap.
pub(super) struct AuditLogs {
    /// The history to import into, as given, and whether it exists.
    into: Option<(PathBuf, bool)>,
    /// The source that the logs belong to, as given.
    source_name: Option<String>,
    logs: Vec<ImportItems>,
    /// Set with the first log.
    audit_source: Option<AuditSource>,
}

/// The audit source in the history.
struct AuditSource {
    history: History,
    name: Arc<str>,
    /// The span of the recording.
    recording_span: Option<(Moment, Moment)>,
    /// The end of the audit logs imported before.
    end: Option<Moment>,
    /// Hashes of the writes imported before, from the first one that is read again.
    known_writes: Option<HashSet<ContentHash>>,
}

/// How far entries of a log may be out of order: concurrent requests are logged as they end.
const MAX_DISORDER_NANOS: i64 = 60_000_000_000;

// === impl AuditLogs ===

impl AuditLogs {
    /// No logs yet, to be imported into this history, which may not exist.
    pub(super) fn for_history(into: Option<&Path>, is_there: bool, named: Option<&str>) -> AuditLogs {
        AuditLogs {
            into: into.map(|path| (path.to_owned(), is_there)),
            source_name: named.map(str::to_owned),
            logs: Vec::new(),
            audit_source: None,
        }
    }

    pub(super) fn add(&mut self, input: Input, now: Moment) -> anyhow::Result<()> {
        let source = match &self.audit_source {
            Some(joined) => joined.name.clone(),
            None => {
                let joined = self.find_source(&input.name)?;
                self.audit_source.insert(joined).name.clone()
            }
        };
        self.logs.push(formats::read(input, Format::Audit, ReadOptions { source, at: None, now })?);
        Ok(())
    }

    /// Sends the merged writes, except those imported before.
    pub(super) fn send(
        self,
        tally: &mut ImportCounts,
        sender: &SyncSender<ReaderMessage>,
    ) -> anyhow::Result<()> {
        let Some(mut joined) = self.audit_source else { return Ok(()) };
        let (mut known, mut recorded) = (0, 0);
        let mut batch = ImportBatch { items: Vec::new(), bytes: 0, sender };
        for item in formats::audit::merge(self.logs) {
            signals::check()?;
            match item? {
                ImportItem::Change(observed) => {
                    recorded += u64::from(joined.is_within_recording(&observed));
                    if joined.has_write(&observed)? {
                        known += 1;
                    } else {
                        batch.push_change(observed, &mut None, tally)?;
                    }
                }
                ImportItem::Warning(text) => tally.warnings.add(text),
                ImportItem::Gap(_) | ImportItem::Object(_) | ImportItem::TimesInferred(_) => {}
            }
        }
        batch.send()?;
        if known > 0 {
            tally
                .warnings
                .add(format!("{} left out that the history has already", count_noun(known, "write")));
        }
        if let (0, Some((from, to))) = (recorded, joined.recording_span) {
            tally.warnings.add(format!(
                "no write is of the time that was recorded, {from} to {to}: is this the log of the same cluster?"
            ));
        }
        Ok(())
    }

    /// Opens the history and finds the source that the logs belong to.
    fn find_source(&self, log: &str) -> anyhow::Result<AuditSource> {
        let path = match &self.into {
            Some((path, true)) => path,
            Some((path, false)) => {
                bail!("there is no history at {}: an audit log joins one that exists", path.display())
            }
            None => bail!(
                "{log}: an audit log tells who wrote, and joins a history that tells what: name one with --into"
            ),
        };
        let chosen = OpenHistory::open(path)?;
        let Some(source) = chosen.source(self.source_name.as_deref(), "--source")? else {
            bail!("{} is empty: an audit log joins a history that records something", path.display());
        };
        let name = if is_audit_source(&source) { source.clone() } else { audit_source(&source) };
        let recorded = chosen.history.span_of(&source)?;
        let end = chosen.history.end_of(&name)?;
        Ok(AuditSource { history: chosen.history, name, recording_span: recorded, end, known_writes: None })
    }
}

// === impl AuditSource ===

impl AuditSource {
    fn is_within_recording(&self, write: &IncomingChange) -> bool {
        self.recording_span.is_some_and(|(from, to)| from <= write.seen && write.seen <= to)
    }

    /// Whether the history already has this write. Fails if it has only later ones, since the times of a source must
    /// not decrease.
    fn has_write(&mut self, write: &IncomingChange) -> anyhow::Result<bool> {
        let Some(end) = self.end.filter(|end| write.seen <= *end) else { return Ok(false) };
        let known = match &self.known_writes {
            Some(known) => known,
            None => {
                let window = Window { from: write.seen.plus_nanos(-MAX_DISORDER_NANOS), ..Window::ALL };
                let of_source = Selection { source: Some(self.name.clone()), ..Selection::default() };
                let mut known = HashSet::new();
                for change in self.history.between(window, &of_source)? {
                    known.insert(ContentHash::of(change?.what.object().as_str()));
                }
                self.known_writes.insert(known)
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
