//! `kinescope import`: reads files of other programs into a history.

mod audit;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, bail};
use formats::{Format, ImportItem, Input, ReadOptions};
use history::{BulkWriter, History};
use jiff::tz::TimeZone;
use kubernetes::kinds::is_secret;
use model::{
    Gap, IncomingChange, Moment, Object, TimeParser, What, audit_source, is_audit_source, recorded_source,
};
use recorder::policy::{RecordFilter, RecordingPolicy};
use recorder::secret_key;
use serde_json::json;

use self::audit::AuditLogs;
use super::input_files::{InputFile, expand_folders, file_stem, open_file};
use super::output::{Printer, count_noun, format_bytes};
use super::progress::Progress;
use super::warnings::Warnings;
use super::{Outcome, format_arg, signals};

/// The number of items sent in one batch from the reading thread to the writing one.
const BATCH_LENGTH: usize = 256;
/// The bytes after which a batch is sent earlier.
const BATCH_BYTES: usize = 1 << 20;
/// The number of batches queued between the threads.
const BATCH_QUEUE_LENGTH: usize = 8;

const AFTER: &str = "\
Formats are detected from content, also if compressed with gzip or zstd:
  jsonl             one watch event per line:
                    {\"at\": …, \"type\": \"ADDED\", \"object\": {…}}
                    also the output of kubectl get --watch -o json
                    --output-watch-events
  manifests         YAML or JSON as accepted by kubectl: objects, lists,
                    several documents, a folder
  sched-record      recording of kube-scheduler-simulator, JSON lines
  kss-snapshot      export of kube-scheduler-simulator, JSON or YAML
  sktrace           SimKube trace, any version
  scaling-history   SQLite file of Gardener's scaling history
  scaling-scenario  report of Gardener's replayer, JSON
  kai-snapshot      snapshot of the KAI scheduler, ZIP
  kwok              snapshot or recording of KWOK, YAML
  snapshotz         debugging snapshot of cluster-autoscaler, JSON
  dlrm              Alibaba's trace of recommendation services, CSV; starts at
                    --at, or now
  audit             audit log of an API server, JSON lines; import it into an
                    existing history, and `log` shows who wrote each version

The import is atomic: if it fails, the history is not changed. In an existing history it adds a new source, or appends \
changes later than the end of an existing one.

Examples:
  # Create film.kine
  kinescope import film.jsonl.gz
  # Import a recording of kube-scheduler-simulator
  kinescope import record.jsonl
  kinescope import trace.sktrace --into prod.kine --source simkube
  kinescope import monday.jsonl tuesday.jsonl --into week.kine --source prod
  kubectl get all -A -o json | kinescope import - --into now.kine
  kinescope import manifests/ --at 2026-11-01T09:00Z
  # Add the audit logs of all API servers together
  kinescope import audit*.log --into prod.kine
  # Keep only what matters to scheduling, and redact environment values
  kinescope import film.jsonl.gz --strip";

/// Import files of other programs into a history
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Import {
    /// Files or folders; - for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// History to write [default: the first file's name with .kine]
    #[arg(long, value_name = "HISTORY")]
    into: Option<PathBuf>,
    /// Input format [default: detected from content]
    #[arg(long, value_name = "FORMAT", value_parser = format_arg::parser(&Format::ALL))]
    format: Option<Format>,
    /// Time of the objects, for files without times [default: the latest time in the objects]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// Source name [default: the name of the file or folder]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Apply the rules of `record`: drop changes irrelevant to scheduling, Secrets and ConfigMap data; redact environment
    /// values
    #[arg(long)]
    strip: bool,
    /// Keep environment values; requires --strip
    #[arg(long, requires = "strip")]
    no_redact: bool,
    /// Key file to redact environment values with; requires --strip
    #[arg(long, value_name = "FILE", requires = "strip", conflicts_with = "no_redact")]
    redact_key: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

/// A message from the reading thread.
enum ReaderMessage {
    Items(Vec<HistoryItem>),
    /// The times of this source were inferred.
    TimesInferred(Arc<str>),
}

/// An item to be written to the history.
enum HistoryItem {
    Change(IncomingChange),
    Gap(Gap),
}

/// Counts of what was imported and left out.
#[derive(Default)]
struct ImportCounts {
    changes: u64,
    gaps: u64,
    dropped: u64,
    /// Changes of Secrets left out by the recorder's rules.
    secrets: u64,
    raw_bytes: u64,
    warnings: Warnings,
}

impl Import {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let into = match &self.into {
            Some(path) => path.clone(),
            None => default_history(&self.files[0])?,
        };
        history::require_folder(&into)?;
        let existed = history::exists(&into)?;
        let at = self.at.as_deref().map(parse_time).transpose()?;
        let filter = self.strip.then(|| self.filter()).transpose()?;
        let files = expand_folders(&self.files)?;
        let audit_logs = AuditLogs::for_history(self.into.as_deref(), existed, self.source.as_deref());
        let total = files.iter().map(|file| std::fs::metadata(&file.path).map(|data| data.len()).ok()).sum();
        let progress = Progress::bytes(out, total);

        signals::defer_signals()?;
        let mut bulk = BulkWriter::open(&into)?;
        signals::remove_if_interrupted(bulk.temporary_files());
        let (sender, receiver) = sync_channel(BATCH_QUEUE_LENGTH);
        let (this, files, progress_bar) = (&self, &files, &progress);
        let counts = std::thread::scope(|scope| {
            // The reading thread owns the sender, so that writing ends when reading does.
            let reading =
                scope.spawn(move || this.read(files, at, audit_logs, filter, progress_bar, &sender));
            let written = write(&mut bulk, receiver);
            let read = reading.join().unwrap_or_else(|_| bail!("the reader thread panicked"));
            // A failed write makes reading fail too; report the write's error.
            written.and(read)
        })?;
        bulk.finish()?;
        drop(progress);
        self.print_summary(out, &into, existed, &counts)
    }

    /// Reads all files and sends their contents to the writing thread.
    fn read(
        &self,
        files: &[InputFile],
        at: Option<Moment>,
        mut audit_logs: AuditLogs,
        mut filter: Option<RecordFilter>,
        progress: &Progress,
        sender: &SyncSender<ReaderMessage>,
    ) -> anyhow::Result<ImportCounts> {
        let mut counts = ImportCounts::default();
        // All manifests form one snapshot, however many files they are in.
        let mut snapshot: Vec<(Arc<str>, Object)> = Vec::new();
        let mut capture_time: Option<Moment> = None;
        let now = jiff::Timestamp::now().into();
        // The latest time of each source in the files read so far.
        let mut ends: HashMap<Arc<str>, Moment> = HashMap::new();
        for InputFile { path, source } in files {
            let before = ends.clone();
            let source: Arc<str> = self.source.as_deref().unwrap_or(source).into();
            let input = open(path, progress)?;
            let Some(format) = self.format.or(input.format) else {
                if History::open(path).is_ok() {
                    bail!("{} is already a history: pass it with --history", input.name);
                }
                bail!("{}: unrecognized format; pass --format", input.name);
            };
            if format == Format::Audit {
                audit_logs.add(input, now)?;
                continue;
            }
            let mut batch = ImportBatch { items: Vec::new(), bytes: 0, sender };
            let mut renaming = self.source.is_some().then(|| SourceRenaming::to(&source));
            for item in formats::read(input, format, ReadOptions { source: source.clone(), at, now })? {
                signals::check()?;
                let mut item = item?;
                if let Some(renaming) = &mut renaming {
                    renaming.apply(path, &mut item)?;
                }
                match item {
                    ImportItem::Object(object) => snapshot.push((source.clone(), object)),
                    ImportItem::CaptureTime(time) => capture_time = capture_time.max(Some(time)),
                    ImportItem::Warning(text) => counts.warnings.add(text),
                    ImportItem::TimesInferred(source) => {
                        let _ = sender.send(ReaderMessage::TimesInferred(source));
                    }
                    ImportItem::Change(observed) => {
                        let (source, seen) = (&observed.key.source, observed.seen);
                        if let Some(end) = before.get(source).filter(|end| seen < **end) {
                            bail!(
                                "{} begins at {seen}, before the end of the previous file at {end}: list files of \
                                 one source in chronological order",
                                path.display()
                            );
                        }
                        match ends.get_mut(source) {
                            Some(end) => *end = seen.max(*end),
                            None => drop(ends.insert(source.clone(), seen)),
                        }
                        batch.push_change(observed, &mut filter, &mut counts)?;
                    }
                    ImportItem::Gap(gap) => {
                        counts.gaps += 1;
                        batch.push(HistoryItem::Gap(gap))?;
                    }
                }
            }
            batch.send()?;
        }
        if let Some((source, _)) = snapshot.iter().find(|(source, _)| ends.contains_key(source)) {
            bail!(
                "objects without times cannot be imported together with a recording of {source}: import them one \
                 after the other, the earlier one first"
            );
        }
        self.send_snapshot(&snapshot, at.or(capture_time), &mut filter, &mut counts, sender)?;
        audit_logs.send(&mut counts, sender)?;
        Ok(counts)
    }

    fn send_snapshot(
        &self,
        snapshot: &[(Arc<str>, Object)],
        at: Option<Moment>,
        filter: &mut Option<RecordFilter>,
        counts: &mut ImportCounts,
        sender: &SyncSender<ReaderMessage>,
    ) -> anyhow::Result<()> {
        let moment = match at {
            Some(at) => at,
            None => snapshot
                .iter()
                .filter_map(|(_, object)| formats::newest_time(object))
                .max()
                .unwrap_or_else(|| jiff::Timestamp::now().into()),
        };
        let mut batch = ImportBatch { items: Vec::new(), bytes: 0, sender };
        let mut sources: Vec<&Arc<str>> = Vec::new();
        for (source, object) in snapshot {
            if !sources.contains(&source) {
                sources.push(source);
            }
            let observed = IncomingChange::received(moment, source, What::Added(object.clone()));
            batch.push_change(observed, filter, counts)?;
        }
        batch.send()?;
        for source in sources {
            let _ = sender.send(ReaderMessage::TimesInferred(source.clone()));
        }
        Ok(())
    }

    fn filter(&self) -> anyhow::Result<RecordFilter> {
        let redaction = match (&self.redact_key, self.no_redact) {
            (_, true) => None,
            (Some(path), _) => Some(secret_key::read_redact_key(path)?),
            (None, _) => Some(secret_key::read_redact_key(&secret_key::default_path()?)?),
        };
        Ok(RecordingPolicy { redaction, ..RecordingPolicy::default() }.filter())
    }

    fn print_summary(
        &self,
        out: &mut Printer,
        into: &Path,
        existed: bool,
        counts: &ImportCounts,
    ) -> anyhow::Result<Outcome> {
        use std::io::Write;
        counts.warnings.print(out);
        let size = std::fs::metadata(into).map_or(0, |file| file.len());
        if self.output == "json" {
            let report = json!({
                "history": into.display().to_string(),
                "appended": existed,
                "changes": counts.changes,
                "gaps": counts.gaps,
                "dropped": counts.dropped,
                "secretsLeftOut": counts.secrets,
                "warnings": counts.warnings.shown(),
                "objectBytes": counts.raw_bytes,
                "fileBytes": size,
            });
            writeln!(out, "{report:#}")?;
            return Ok(Outcome::Done);
        }
        let verb = if existed { "appended to" } else { "written to" };
        writeln!(out, "{} {verb} {}", count_noun(counts.changes, "change"), into.display())?;
        if counts.dropped > 0 {
            let dropped = count_noun(counts.dropped, "change");
            writeln!(out, "{dropped} dropped: irrelevant to scheduling")?;
        }
        if counts.secrets > 0 {
            writeln!(out, "{} of Secrets skipped", count_noun(counts.secrets, "change"))?;
        }
        if counts.gaps > 0 {
            writeln!(out, "{}: changes may be missing there", count_noun(counts.gaps, "gap"))?;
        }
        // With fewer changes most of the file is its tables.
        if !existed && counts.changes >= 500 {
            let each = size as f64 / counts.changes as f64;
            writeln!(
                out,
                "{} of objects in a file of {}, {each:.0} bytes per change",
                format_bytes(counts.raw_bytes),
                format_bytes(size)
            )?;
        }
        Ok(Outcome::Done)
    }
}

/// Renames the only source of a file, and its audit log, to the name given by `--source`.
struct SourceRenaming {
    to: Arc<str>,
    from: Option<Arc<str>>,
}

impl SourceRenaming {
    fn to(name: &Arc<str>) -> SourceRenaming {
        SourceRenaming { to: name.clone(), from: None }
    }

    fn apply(&mut self, file: &Path, item: &mut ImportItem) -> anyhow::Result<()> {
        let source = match item {
            ImportItem::Change(observed) => &mut observed.key.source,
            ImportItem::Gap(gap) => &mut gap.source,
            ImportItem::TimesInferred(source) => source,
            ImportItem::Object(_) | ImportItem::Warning(_) | ImportItem::CaptureTime(_) => return Ok(()),
        };
        let recorded = recorded_source(source);
        let from = self.from.get_or_insert_with(|| recorded.into());
        if **from != *recorded {
            bail!(
                "{} has several sources, {from} and {recorded}: omit --source to keep their names",
                file.display()
            );
        }
        *source = if is_audit_source(source) { audit_source(&self.to) } else { self.to.clone() };
        Ok(())
    }
}

/// A batch of items for the writing thread.
struct ImportBatch<'a> {
    items: Vec<HistoryItem>,
    bytes: usize,
    sender: &'a SyncSender<ReaderMessage>,
}

impl ImportBatch<'_> {
    fn push_change(
        &mut self,
        mut observed: IncomingChange,
        filter: &mut Option<RecordFilter>,
        counts: &mut ImportCounts,
    ) -> anyhow::Result<()> {
        if let Some(filter) = filter {
            if is_secret(&observed.key.kind) {
                counts.secrets += 1;
                return Ok(());
            }
            match filter.apply(&observed.key, &observed.what) {
                Some(what) => observed.what = what,
                None => {
                    counts.dropped += 1;
                    return Ok(());
                }
            }
        }
        counts.count(&observed);
        self.bytes += observed.what.object().as_str().len();
        self.push(HistoryItem::Change(observed))
    }

    fn push(&mut self, piece: HistoryItem) -> anyhow::Result<()> {
        self.items.push(piece);
        if self.items.len() >= BATCH_LENGTH || self.bytes >= BATCH_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let pieces = std::mem::take(&mut self.items);
        self.bytes = 0;
        self.sender.send(ReaderMessage::Items(pieces)).context("the writer thread has ended")
    }
}

impl ImportCounts {
    fn count(&mut self, observed: &IncomingChange) {
        self.changes += 1;
        self.raw_bytes += observed.what.object().as_str().len() as u64;
    }
}

fn write(bulk: &mut BulkWriter, messages: Receiver<ReaderMessage>) -> anyhow::Result<()> {
    for message in messages {
        match message {
            ReaderMessage::Items(pieces) => {
                for piece in &pieces {
                    match piece {
                        HistoryItem::Change(observed) => bulk.push(observed)?,
                        HistoryItem::Gap(gap) => bulk.push_gap(gap)?,
                    }
                }
            }
            ReaderMessage::TimesInferred(source) => bulk.mark_times_inferred(&source)?,
        }
    }
    Ok(())
}

fn open(path: &Path, progress: &Progress) -> anyhow::Result<Input> {
    let (name, reader) = open_file(path)?;
    let input = Input::open(&name, Box::new(progress.wrap_reader(reader)))?;
    // Only a regular file has a path that a reader may open again.
    Ok(if path != Path::new("-") && path.is_file() { input.with_path(path) } else { input })
}

fn default_history(first: &Path) -> anyhow::Result<PathBuf> {
    if first == Path::new("-") {
        bail!("standard input has no name: pass --into HISTORY");
    }
    Ok(PathBuf::from(format!("{}.kine", file_stem(first))))
}

/// Parses a time relative to now: what is imported has no end yet.
fn parse_time(text: &str) -> anyhow::Result<Moment> {
    let now: Moment = jiff::Timestamp::now().into();
    Ok(TimeParser { start: now, end: now, zone: TimeZone::system() }.parse(text)?)
}
