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
        counts: &mut ImportCounts,
        sender: &SyncSender<ReaderMessage>,
    ) -> anyhow::Result<()> {
        let Some(mut joined) = self.audit_source else { return Ok(()) };
        let (mut skipped, mut recorded) = (0, 0);
        let mut batch = ImportBatch { items: Vec::new(), bytes: 0, sender };
        for item in formats::audit::merge(self.logs) {
            signals::check()?;
            match item? {
                ImportItem::Change(observed) => {
                    recorded += u64::from(joined.is_within_recording(&observed));
                    if joined.has_write(&observed)? {
                        skipped += 1;
                    } else {
                        batch.push_change(observed, &mut None, counts)?;
                    }
                }
                ImportItem::Warning(text) => counts.warnings.add(text),
                ImportItem::Gap(_)
                | ImportItem::Object(_)
                | ImportItem::TimesInferred(_)
                | ImportItem::CaptureTime(_) => {}
            }
        }
        batch.send()?;
        if skipped > 0 {
            counts.warnings.add(format!("{} skipped: already in the history", count_noun(skipped, "write")));
        }
        if let (0, Some((from, to))) = (recorded, joined.recording_span) {
            counts.warnings.add(format!(
                "no write is within the recording, {from} to {to}: is the log from another cluster?"
            ));
        }
        Ok(())
    }

    /// Opens the history and finds the source that the logs belong to.
    fn find_source(&self, log: &str) -> anyhow::Result<AuditSource> {
        let path = match &self.into {
            Some((path, true)) => path,
            Some((path, false)) => {
                bail!(
                    "history {} not found: audit logs can only be added to an existing history",
                    path.display()
                )
            }
            None => bail!("{log}: audit logs can only be added to an existing history: pass --into HISTORY"),
        };
        let open_history = OpenHistory::open(path)?;
        let Some(source) = open_history.source(self.source_name.as_deref(), "--source")? else {
            bail!("{} is empty: audit logs can only be added to a recording", path.display());
        };
        let name = if is_audit_source(&source) { source.clone() } else { audit_source(&source) };
        let recorded = open_history.history.span_of(&source)?;
        let end = open_history.history.end_of(&name)?;
        Ok(AuditSource {
            history: open_history.history,
            name,
            recording_span: recorded,
            end,
            known_writes: None,
        })
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
        let known_writes = match &self.known_writes {
            Some(known_writes) => known_writes,
            None => {
                let window = Window { from: write.seen.plus_nanos(-MAX_DISORDER_NANOS), ..Window::ALL };
                let of_source = Selection { source: Some(self.name.clone()), ..Selection::default() };
                let mut known_writes = HashSet::new();
                for change in self.history.between(window, &of_source)? {
                    known_writes.insert(ContentHash::of(change?.what.object().as_str()));
                }
                self.known_writes.insert(known_writes)
            }
        };
        if known_writes.contains(&ContentHash::of(write.what.object().as_str())) {
            return Ok(true);
        }
        bail!(
            "the history has audit logs up to {end}, but not this write of {}: {}. Import overlapping logs together, \
             and earlier ones first. To start over, export the history without its audit logs: `kinescope export {} \
             --format jsonl --source NAME`",
            write.seen,
            write.key.name,
            self.history.path().display()
        )
    }
}
