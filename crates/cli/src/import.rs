//! `kinescope import`: foreign files into a history.

mod audit;
mod found;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use anyhow::{Context, bail};
use formats::{Format, Given, Input, Item};
use history::{Bulk, History};
use jiff::tz::TimeZone;
use kubernetes::kinds::is_secret;
use model::{Gap, Moment, Object, Observed, TimeWords, What, audit_source, is_audit_source, recorded_source};
use recorder::policy::{RecordFilter, RecordingPolicy};
use recorder::secret_key;
use serde_json::json;

use self::audit::AuditLogs;
use self::found::{Found, expand, stem};
use super::output::{Out, bytes, counted, grouped};
use super::progress::Progress;
use super::{Outcome, format_word, signals};

/// Pieces that travel together from the thread that reads to the one that writes.
const BATCH: usize = 256;
/// Their bytes, if they are large.
const BATCH_BYTES: usize = 1 << 20;
/// So many warnings are told.
const MAX_WARNINGS: usize = 20;
/// Batches that may wait in between.
const QUEUE: usize = 8;

const AFTER: &str = "\
Formats are recognised by content, compressed with gzip or zstd or not:
  jsonl             a watch event a line: {\"at\": …, \"type\": \"ADDED\", \"object\": {…}}; also what
                    kubectl get --watch --output-watch-events -o json prints
  manifests         YAML or JSON as kubectl takes it, lists, several documents, a folder
  sched-record      kube-scheduler-simulator's recording, JSON lines
  kss-snapshot      kube-scheduler-simulator's export, JSON or YAML
  sktrace           SimKube's trace, of any version
  scaling-history   the SQLite file of Gardener's scaling history
  scaling-scenario  a report of Gardener's replayer, JSON
  kai-snapshot      the KAI scheduler's snapshot, ZIP
  kwok              KWOK's snapshot or recording, YAML
  snapshotz         the cluster autoscaler's debugging snapshot, JSON
  dlrm              Alibaba's trace of recommendation services, CSV; it begins at --at, or now
  audit             the audit log of an API server, JSON lines; it joins a history, and log tells by whom

Examples:
  kinescope import film.jsonl.gz                         makes film.kine
  kinescope import record.jsonl                          a recording of kube-scheduler-simulator
  kinescope import trace.sktrace --into prod.kine --source simkube
  kinescope import monday.jsonl tuesday.jsonl --into week.kine --source prod
  kubectl get all -A -o json | kinescope import - --into now.kine
  kinescope import manifests/ --at 2026-11-01T09:00Z
  kinescope import audit*.log --into prod.kine           who wrote what: all files of all API servers together
  kinescope import film.jsonl.gz --strip                 keeps what matters to scheduling, hides environment values";

/// Bring files of other programs into a history
///
/// The history is there as a whole or not at all. Into one that exists goes a new source, or what is later than the
/// end of a source.
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Import {
    /// Files or folders; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The history [default: the first file's name with .kine]
    #[arg(long, value_name = "HISTORY")]
    into: Option<PathBuf>,
    /// The format, if it is not to be guessed
    #[arg(long, value_name = "FORMAT", value_parser = format_word::parser(&Format::ALL))]
    format: Option<Format>,
    /// When it was like this, for files without times [default: the newest time in the objects]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    /// The name of the recording [default: that of the file or folder]
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Apply the recorder's rules: leave out what means nothing to scheduling, Secrets and the data of ConfigMaps, hide
    /// environment values
    #[arg(long)]
    strip: bool,
    /// With --strip: keep environment values
    #[arg(long, requires = "strip")]
    no_redact: bool,
    /// With --strip: the file with the key that environment values are hidden with
    #[arg(long, value_name = "FILE", requires = "strip", conflicts_with = "no_redact")]
    redact_key: Option<PathBuf>,
    /// How to print what was done
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
}

/// What the reading thread sends.
enum Message {
    Pieces(Vec<Piece>),
    /// This source's times were worked out.
    TimesInferred(Arc<str>),
}

/// What goes into the history.
enum Piece {
    Change(Observed),
    Gap(Gap),
}

/// What was read and what became of it.
#[derive(Default)]
struct Tally {
    changes: u64,
    gaps: u64,
    dropped: u64,
    /// Changes of Secrets that the recorder's rules left out.
    secrets: u64,
    raw_bytes: u64,
    warnings: Warnings,
}

/// What the user should know of the files. Of many warnings the first are told and the others counted.
#[derive(Default)]
struct Warnings {
    told: Vec<String>,
    more: u64,
}

impl Import {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let into = match &self.into {
            Some(path) => path.clone(),
            None => default_history(&self.files[0])?,
        };
        let existed = history::exists(&into)?;
        let at = self.at.as_deref().map(wall_time).transpose()?;
        let filter = self.strip.then(|| self.filter()).transpose()?;
        let files = expand(&self.files)?;
        let audit_logs = AuditLogs::joining(self.into.as_deref(), existed, self.source.as_deref());
        let total = files.iter().map(|file| std::fs::metadata(&file.path).map(|data| data.len()).ok()).sum();
        let progress = Progress::bytes(out, total);

        signals::listen()?;
        let mut bulk = Bulk::into(&into)?;
        signals::remove_if_interrupted(bulk.own_files());
        let (sender, receiver) = sync_channel(QUEUE);
        let (this, files, progress_bar) = (&self, &files, &progress);
        let tally = std::thread::scope(|scope| {
            // The sender goes with the reading thread: when that ends, so does the writing.
            let reading =
                scope.spawn(move || this.read(files, at, audit_logs, filter, progress_bar, &sender));
            let written = write(&mut bulk, receiver);
            let read = reading.join().unwrap_or_else(|_| bail!("the reading thread broke"));
            // A broken write ends the reading too; it is the one to tell of.
            written.and(read)
        })?;
        bulk.finish()?;
        drop(progress);
        self.report(out, &into, existed, &tally)
    }

    /// Reads all files and sends what they say.
    fn read(
        &self,
        files: &[Found],
        at: Option<Moment>,
        mut audit_logs: AuditLogs,
        mut filter: Option<RecordFilter>,
        progress: &Progress,
        sender: &SyncSender<Message>,
    ) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        // Manifests are one moment, however many files they come in.
        let mut snapshot: Vec<(Arc<str>, Object)> = Vec::new();
        let now = jiff::Timestamp::now().into();
        // Where each source stood when the file before ended.
        let mut ends: HashMap<Arc<str>, Moment> = HashMap::new();
        for Found { path, source } in files {
            let before = ends.clone();
            let source: Arc<str> = self.source.as_deref().unwrap_or(source).into();
            let input = open(path, progress)?;
            let Some(format) = self.format.or(input.format) else {
                if History::open(path).is_ok() {
                    bail!("{} is a history already: look into it with --history", input.name);
                }
                bail!("{}: nothing known here begins like this; say what it is with --format", input.name);
            };
            if format == Format::Audit {
                audit_logs.add(input, now)?;
                continue;
            }
            let mut batch = Batch { pieces: Vec::new(), bytes: 0, sender };
            let mut renaming = self.source.is_some().then(|| Renaming::to(&source));
            for item in formats::read(input, format, Given { source: source.clone(), at, now })? {
                signals::check()?;
                let mut item = item?;
                if let Some(renaming) = &mut renaming {
                    renaming.apply(path, &mut item)?;
                }
                match item {
                    Item::Object(object) => snapshot.push((source.clone(), object)),
                    Item::Warning(text) => tally.warnings.add(text),
                    Item::TimesInferred(source) => {
                        let _ = sender.send(Message::TimesInferred(source));
                    }
                    Item::Change(observed) => {
                        let (source, seen) = (&observed.key.source, observed.seen);
                        if let Some(end) = before.get(source).filter(|end| seen < **end) {
                            bail!(
                                "{} begins at {seen}, before the file that was named before it ends at {end}: name \
                                 files of one source in the order of their times",
                                path.display()
                            );
                        }
                        match ends.get_mut(source) {
                            Some(end) => *end = seen.max(*end),
                            None => drop(ends.insert(source.clone(), seen)),
                        }
                        batch.change(observed, &mut filter, &mut tally)?;
                    }
                    Item::Gap(gap) => {
                        tally.gaps += 1;
                        batch.push(Piece::Gap(gap))?;
                    }
                }
            }
            batch.send()?;
        }
        if let Some((source, _)) = snapshot.iter().find(|(source, _)| ends.contains_key(source)) {
            bail!(
                "objects without times and a recording of {source} in one import: import them one after the other, \
                 the earlier first"
            );
        }
        self.send_snapshot(&snapshot, at, &mut filter, &mut tally, sender)?;
        audit_logs.send(&mut tally, sender)?;
        Ok(tally)
    }

    fn send_snapshot(
        &self,
        snapshot: &[(Arc<str>, Object)],
        at: Option<Moment>,
        filter: &mut Option<RecordFilter>,
        tally: &mut Tally,
        sender: &SyncSender<Message>,
    ) -> anyhow::Result<()> {
        let moment = match at {
            Some(at) => at,
            None => snapshot
                .iter()
                .filter_map(|(_, object)| formats::newest_time(object))
                .max()
                .unwrap_or_else(|| jiff::Timestamp::now().into()),
        };
        let mut batch = Batch { pieces: Vec::new(), bytes: 0, sender };
        let mut sources: Vec<&Arc<str>> = Vec::new();
        for (source, object) in snapshot {
            if !sources.contains(&source) {
                sources.push(source);
            }
            let observed = Observed::received(moment, source, What::Added(object.clone()));
            batch.change(observed, filter, tally)?;
        }
        batch.send()?;
        for source in sources {
            let _ = sender.send(Message::TimesInferred(source.clone()));
        }
        Ok(())
    }

    fn filter(&self) -> anyhow::Result<RecordFilter> {
        let redaction = match (&self.redact_key, self.no_redact) {
            (_, true) => None,
            (Some(path), _) => Some(secret_key::redact_key(path)?),
            (None, _) => Some(secret_key::redact_key(&secret_key::default_path()?)?),
        };
        Ok(RecordingPolicy { redaction, ..RecordingPolicy::default() }.filter())
    }

    fn report(&self, out: &mut Out, into: &Path, existed: bool, tally: &Tally) -> anyhow::Result<Outcome> {
        use std::io::Write;
        tally.warnings.tell(out);
        let size = std::fs::metadata(into).map_or(0, |file| file.len());
        if self.output == "json" {
            let report = json!({
                "history": into.display().to_string(),
                "appended": existed,
                "changes": tally.changes,
                "gaps": tally.gaps,
                "dropped": tally.dropped,
                "secretsLeftOut": tally.secrets,
                "warnings": tally.warnings.told,
                "objectBytes": tally.raw_bytes,
                "fileBytes": size,
            });
            writeln!(out, "{report:#}")?;
            return Ok(Outcome::Done);
        }
        let verb = if existed { "appended to" } else { "written to" };
        writeln!(out, "{} {verb} {}", counted(tally.changes, "change"), into.display())?;
        if tally.dropped > 0 {
            let dropped = counted(tally.dropped, "change");
            writeln!(out, "{dropped} left out that mean nothing to scheduling")?;
        }
        if tally.secrets > 0 {
            writeln!(out, "{} of Secrets left out", counted(tally.secrets, "change"))?;
        }
        if tally.gaps > 0 {
            writeln!(out, "{}: times in which something may have been missed", counted(tally.gaps, "gap"))?;
        }
        // Below some hundreds of changes a file is mostly its own tables.
        if !existed && tally.changes >= 500 {
            let each = size as f64 / tally.changes as f64;
            writeln!(
                out,
                "{} of objects in a file of {}, {each:.0} bytes a change",
                bytes(tally.raw_bytes),
                bytes(size)
            )?;
        }
        Ok(Outcome::Done)
    }
}

/// The name that a user gives the only recording of a file, and its audit log, whatever the file calls it.
struct Renaming {
    to: Arc<str>,
    from: Option<Arc<str>>,
}

impl Renaming {
    fn to(name: &Arc<str>) -> Renaming {
        Renaming { to: name.clone(), from: None }
    }

    fn apply(&mut self, file: &Path, item: &mut Item) -> anyhow::Result<()> {
        let source = match item {
            Item::Change(observed) => &mut observed.key.source,
            Item::Gap(gap) => &mut gap.source,
            Item::TimesInferred(source) => source,
            Item::Object(_) | Item::Warning(_) => return Ok(()),
        };
        let recorded = recorded_source(source);
        let from = self.from.get_or_insert_with(|| recorded.into());
        if **from != *recorded {
            bail!(
                "{} holds several recordings, {from} and {recorded}: without --source each keeps its name",
                file.display()
            );
        }
        *source = if is_audit_source(source) { audit_source(&self.to) } else { self.to.clone() };
        Ok(())
    }
}

/// Pieces on their way to the writer.
struct Batch<'a> {
    pieces: Vec<Piece>,
    bytes: usize,
    sender: &'a SyncSender<Message>,
}

impl Batch<'_> {
    fn change(
        &mut self,
        mut observed: Observed,
        filter: &mut Option<RecordFilter>,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        if let Some(filter) = filter {
            if is_secret(&observed.key.kind) {
                tally.secrets += 1;
                return Ok(());
            }
            match filter.pass(&observed.key, &observed.what) {
                Some(what) => observed.what = what,
                None => {
                    tally.dropped += 1;
                    return Ok(());
                }
            }
        }
        tally.count(&observed);
        self.bytes += observed.what.object().as_str().len();
        self.push(Piece::Change(observed))
    }

    fn push(&mut self, piece: Piece) -> anyhow::Result<()> {
        self.pieces.push(piece);
        if self.pieces.len() >= BATCH || self.bytes >= BATCH_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> anyhow::Result<()> {
        let pieces = std::mem::take(&mut self.pieces);
        self.bytes = 0;
        self.sender.send(Message::Pieces(pieces)).context("the writing thread has ended")
    }
}

impl Tally {
    fn count(&mut self, observed: &Observed) {
        self.changes += 1;
        self.raw_bytes += observed.what.object().as_str().len() as u64;
    }
}

impl Warnings {
    fn add(&mut self, text: String) {
        if self.told.len() < MAX_WARNINGS {
            self.told.push(text);
        } else {
            self.more += 1;
        }
    }

    fn tell(&self, out: &mut Out) {
        for text in &self.told {
            out.complain(&format!("warning: {text}"));
        }
        if self.more > 0 {
            out.complain(&format!("warning: {} more like these", grouped(self.more)));
        }
    }
}

fn write(bulk: &mut Bulk, messages: Receiver<Message>) -> anyhow::Result<()> {
    for message in messages {
        match message {
            Message::Pieces(pieces) => {
                for piece in &pieces {
                    match piece {
                        Piece::Change(observed) => bulk.push(observed)?,
                        Piece::Gap(gap) => bulk.push_gap(gap)?,
                    }
                }
            }
            Message::TimesInferred(source) => bulk.note_inferred_times(&source)?,
        }
    }
    Ok(())
}

fn open(path: &Path, progress: &Progress) -> anyhow::Result<Input> {
    let reader: Box<dyn Read + Send> = if path == Path::new("-") {
        Box::new(progress.watch(io::stdin()))
    } else {
        Box::new(progress.watch(File::open(path).with_context(|| format!("cannot open {}", path.display()))?))
    };
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let input = Input::open(&name, reader)?;
    // What comes through a pipe lies nowhere, whatever its name.
    Ok(if path != Path::new("-") && path.is_file() { input.lying_at(path) } else { input })
}

fn default_history(first: &Path) -> anyhow::Result<PathBuf> {
    if first == Path::new("-") {
        bail!("standard input has no name: say with --into where to put the history");
    }
    Ok(PathBuf::from(format!("{}.kine", stem(first))))
}

/// A time that counts from the clock on the wall: what is imported has no end yet.
fn wall_time(word: &str) -> anyhow::Result<Moment> {
    let now: Moment = jiff::Timestamp::now().into();
    Ok(TimeWords { start: now, end: now, zone: TimeZone::system() }.read(word)?)
}
