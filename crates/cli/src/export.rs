//! `kinescope export`: writes a history, or one moment of it, as files of other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::sktrace::{self, TraceFilters, TracerConfig};
use formats::{
    Format, WriteSummary, Writer, jsonl, kai_snapshot, kss_snapshot, kwok, manifests, scaling_history,
    sched_record,
};
use history::Selection;
use jiff::tz::Offset;
use kubernetes::anonymize::Anonymizer;
use kubernetes::selector::Selector;
use model::{Kind, Moment, Window};
use query::{ExportScope, ExportStream, ExportSummary, KindResolver, OpenHistory};
use recorder::secret_key;

use super::out_file::PendingFile;
use super::output::{Printer, group_digits};
use super::progress::Progress;
use super::{Outcome, format_arg, history_arg, signals, tracer_config};

/// The formats that can be written.
const FORMATS: [Format; 8] = [
    Format::Jsonl,
    Format::Manifests,
    Format::SchedRecord,
    Format::KssSnapshot,
    Format::Sktrace,
    Format::ScalingHistory,
    Format::KaiSnapshot,
    Format::Kwok,
];

const AFTER: &str = "\
Formats of a time range:
  jsonl            one watch event per line, lossless
  sched-record     recording of kube-scheduler-simulator: its seven kinds, or
                   those of --kinds
  sktrace          SimKube trace of the objects selected by --tracer-config
  scaling-history  SQLite file of Gardener's scaling history
  kwok             recording of KWOK; with --at a snapshot
Formats of one time:
  manifests        YAML documents
  kss-snapshot     export of kube-scheduler-simulator, JSON; YAML if the file
                   name ends in .yaml or .yml
  kai-snapshot     snapshot of the KAI scheduler, ZIP; --partition selects nodes
                   as the scheduler does

With --from, an export starts with the objects that exist then, as ADDED events; --changes-only omits them. Data that \
a format cannot represent is skipped and counted. So are Secrets, which a history has only from imports, unless \
--with-secrets is given. Files ending in .gz or .zst are compressed.

Examples:
  kinescope export --format jsonl --out film.jsonl.gz
  kinescope export prod.kine --format jsonl --from 14:00 --to 14:10 -n web
  kinescope export --format manifests --at 14:03 --kinds pods,nodes > then.yaml
  kinescope export --format sktrace --from -1h \\
    --exclude-namespaces kube-system --out hour.sktrace
  kinescope export --format kai-snapshot --at 14:03 \\
    --partition kai.scheduler/node-pool=a100 --out then.zip
  kinescope export --format jsonl --anonymize --key ~/anon.key \\
    --out shareable.jsonl.zst";

/// Export a history, or its state at one time, to another format
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Export {
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    history: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_parser = format_arg::parser(&FORMATS))]
    format: Format,
    /// Start time, inclusive [default: the start of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End time, inclusive [default: the end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Time, for formats of one time [default: the end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    at: Option<String>,
    /// Omit the state at --from
    #[arg(long, requires = "from")]
    changes_only: bool,
    /// Namespace [default: all namespaces, and cluster-scoped objects]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Namespaces to exclude
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exclude_namespaces: Vec<String>,
    /// Label selector: app=web,tier!=db
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Label selector of objects to exclude; repeatable
    #[arg(long, value_name = "LABELS")]
    exclude_labels: Vec<String>,
    /// Resource types: pods,nodes [default: all]
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Source to export; required by most formats if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Output file; - for standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Replace names, labels, images and addresses by generated ones, equal values by equal ones
    #[arg(long, alias = "anonymise")]
    anonymize: bool,
    /// Key file for --anonymize, created if missing; exports with the same key use the same names
    #[arg(long, value_name = "FILE", requires = "anonymize")]
    key: Option<PathBuf>,
    /// sched-record: UTC offset of times, such as +09:00 [default: Z]
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    utc_offset: Option<String>,
    /// sktrace: tracer configuration, YAML [default: workloads and bare pods, with lifecycles]
    #[arg(long, value_name = "FILE")]
    tracer_config: Option<PathBuf>,
    /// kai-snapshot: select nodes, queues and pod groups with this label, or without it if no value is given
    #[arg(long, value_name = "KEY[=VALUE]")]
    partition: Option<String>,
    /// Export Secrets too, to a file readable only by its owner [default: skipped and counted]
    #[arg(long, conflicts_with = "anonymize")]
    with_secrets: bool,
}

impl Export {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        self.check_options()?;
        let open_history = history_arg::open(self.history.as_deref())?;
        if self.out.try_exists().with_context(|| format!("cannot access {}", self.out.display()))?
            && std::fs::canonicalize(&self.out)? == std::fs::canonicalize(open_history.history.path())?
        {
            bail!("{} is the history itself: pass another file with --out", self.out.display());
        }
        let tracer = self.resolve_tracer_config(&open_history, out)?;
        let stream = self.export_stream(&open_history)?;
        let (written, summary) = if self.out == Path::new("-") {
            let mut writer = self.writer(out.data()?, &stream, tracer)?;
            let summary = stream.write_to(&mut *writer, || Ok(()))?;
            (writer.finish()?, summary)
        } else {
            let progress = Progress::changes(out, stream.total_changes()?);
            self.write_file(&stream, tracer, &progress)?
        };
        self.print_summary(out, &stream, &written, summary)?;
        Ok(Outcome::Done)
    }

    /// Rejects options that do not apply to the format.
    fn check_options(&self) -> anyhow::Result<()> {
        let options = [
            ("--utc-offset", self.utc_offset.is_some(), Format::SchedRecord),
            ("--tracer-config", self.tracer_config.is_some(), Format::Sktrace),
            ("--partition", self.partition.is_some(), Format::KaiSnapshot),
        ];
        for (name, is_given, format) in options {
            if is_given && self.format != format {
                bail!("{name} requires --format {}, not {}", format.name(), self.format.name());
            }
        }
        if self.format == Format::ScalingHistory {
            let compressed = self.out.extension().is_some_and(|end| end == "gz" || end == "zst");
            if self.out == Path::new("-") {
                bail!("a database cannot be written to standard output: pass --out FILE");
            }
            if compressed {
                bail!("a database cannot be compressed: use a name without .gz or .zst");
            }
        }
        if self.partition.is_some() && self.anonymize {
            bail!("--partition cannot be used with --anonymize, which replaces labels");
        }
        if self.format == Format::Sktrace {
            if self.kinds.is_some() {
                bail!("--kinds cannot be used with sktrace: use --tracer-config");
            }
            if self.selector.is_some() {
                bail!("--selector cannot be used with sktrace: use --exclude-labels or --namespace");
            }
            if self.changes_only {
                bail!("--changes-only cannot be used with sktrace: a trace begins with the initial state");
            }
        }
        Ok(())
    }

    /// The stream of changes to export, as the options select it.
    fn export_stream<'a>(&self, open_history: &'a OpenHistory) -> anyhow::Result<ExportStream<'a>> {
        let end = self.at.as_deref().or(self.to.as_deref());
        let end = end.map(|time_text| open_history.moment(Some(time_text))).transpose()?;
        let kind_resolver = KindResolver::read(&open_history.history, end.unwrap_or(open_history.times.end))?;
        let kinds = self.kinds.as_deref().map(|text| kind_resolver.resolve(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        // Only jsonl names the source of a change, and manifests never did.
        let many_sources = matches!(self.format, Format::Jsonl | Format::Manifests);
        let source = match &self.source {
            None if many_sources => None,
            named => open_history.source(named.as_deref(), "--source")?,
        };
        // SimKube's tracer applies exclusions itself, because it needs to see what excluded objects own. After
        // anonymization it cannot: names and labels have changed.
        let excludes = self.format != Format::Sktrace || self.anonymize;
        Ok(ExportStream {
            open_history,
            scope: self.export_span(open_history, end)?,
            selection: Selection { kinds, source, namespace: self.namespace.clone(), name: None },
            labels: self.selector.as_deref().map(Selector::parse).transpose()?,
            excluded_namespaces: if excludes { self.exclude_namespaces.clone() } else { Vec::new() },
            excluded_labels: if excludes { self.excluded_labels()? } else { Vec::new() },
            anonymizer: self.anonymize.then(|| anonymizer(self.key.as_deref())).transpose()?,
            with_settings: matches!(self.format, Format::KssSnapshot | Format::KaiSnapshot),
            with_secrets: self.with_secrets,
            with_audit_logs: self.format == Format::Jsonl && !self.anonymize,
        })
    }

    fn excluded_labels(&self) -> anyhow::Result<Vec<Selector>> {
        self.exclude_labels.iter().map(|text| Ok(Selector::parse(text)?)).collect()
    }

    fn export_span(&self, open_history: &OpenHistory, end: Option<Moment>) -> anyhow::Result<ExportScope> {
        let name = self.format.name();
        let one_moment = match self.format {
            Format::Manifests | Format::KssSnapshot | Format::KaiSnapshot => true,
            Format::Kwok => self.at.is_some(),
            _ => false,
        };
        if one_moment {
            if self.from.is_some() {
                bail!("{name} holds one moment: use --at, not --from");
            }
            return Ok(ExportScope::Moment(end.unwrap_or(open_history.times.end)));
        }
        if self.at.is_some() {
            bail!("{name} holds a time range: use --from and --to, not --at");
        }
        let mut window = Window { to: end.map_or(Moment::MAX, |end| end.plus_nanos(1)), ..Window::ALL };
        if let Some(time_text) = &self.from {
            window.from = open_history.moment(Some(time_text))?;
            if window.to <= window.from {
                bail!("--to {} is before --from {}", end.unwrap_or_default(), window.from);
            }
        }
        Ok(match self.format {
            Format::Sktrace => ExportScope::WindowAndPast(window),
            _ if self.from.is_none() || self.changes_only => ExportScope::Changes(window),
            _ => ExportScope::StateAndChanges(window),
        })
    }

    /// The configuration of SimKube's tracer: the one given, else that of the imported trace, else the default.
    fn resolve_tracer_config(
        &self,
        open_history: &OpenHistory,
        out: &mut Printer,
    ) -> anyhow::Result<Option<TracerConfig>> {
        if self.format != Format::Sktrace {
            return Ok(None);
        }
        if let Some(path) = &self.tracer_config {
            return tracer_config::read(path, out).map(Some);
        }
        let source = open_history.source(self.source.as_deref(), "--source")?;
        open_history.tracer_config(source).map(Some)
    }

    fn writer<'a>(
        &self,
        out: impl Write + 'a,
        stream: &ExportStream<'_>,
        tracer: Option<TracerConfig>,
    ) -> anyhow::Result<Box<dyn Writer + 'a>> {
        if let (Some(config), ExportScope::WindowAndPast(window)) = (tracer, stream.scope) {
            let filters = match self.anonymize {
                true => TraceFilters::default(),
                false => TraceFilters {
                    excluded_namespaces: self.exclude_namespaces.clone(),
                    excluded_labels: self.excluded_labels()?,
                },
            };
            return Ok(Box::new(sktrace::SktraceWriter::new(out, config, window, filters)?));
        }
        Ok(match self.format {
            Format::Manifests => Box::new(manifests::ManifestWriter::new(out)),
            // kube-scheduler-simulator's recorder watches seven kinds, but its replayer accepts any.
            Format::SchedRecord => {
                let offset = self.utc_offset.as_deref().map_or(Ok(Offset::UTC), parse_offset)?;
                Box::new(sched_record::SchedRecordWriter::new(out, offset, self.kinds.is_some()))
            }
            Format::Kwok => Box::new(kwok::KwokWriter::new(out, self.at.is_none())),
            Format::KaiSnapshot => {
                let partition = self.partition.as_deref().map(str::parse).transpose()?;
                Box::new(kai_snapshot::KaiSnapshotWriter::new(out, partition))
            }
            Format::KssSnapshot => Box::new(kss_snapshot::KssSnapshotWriter::new(out, self.is_yaml())),
            _ => Box::new(jsonl::JsonlWriter::new(out, None)),
        })
    }

    /// Whether the file's name ends in .yaml or .yml, ignoring .gz and .zst.
    fn is_yaml(&self) -> bool {
        let name = self.out.to_string_lossy();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        name.ends_with(".yaml") || name.ends_with(".yml")
    }

    /// Writes the file atomically.
    fn write_file(
        &self,
        stream: &ExportStream<'_>,
        tracer: Option<TracerConfig>,
        progress: &Progress,
    ) -> anyhow::Result<(WriteSummary, ExportSummary)> {
        signals::defer_signals()?;
        let scratch = PendingFile::for_target(&self.out, self.with_secrets);
        let doing = || format!("cannot write {}", self.out.display());
        if self.format == Format::ScalingHistory {
            let mut writer = Box::new(scaling_history::ScalingHistoryWriter::create(scratch.path())?);
            let summary = stream.write_to(&mut *writer, || {
                progress.increment();
                signals::check()
            })?;
            let written = writer.finish().with_context(doing)?;
            scratch.publish()?;
            return Ok((written, summary));
        }
        let mut file = scratch.create()?;
        let mut writer = self.writer(&mut file, stream, tracer)?;
        let summary = stream.write_to(&mut *writer, || {
            progress.increment();
            signals::check()
        })?;
        let written = writer.finish().with_context(doing)?;
        file.finish().with_context(doing)?;
        scratch.publish()?;
        Ok((written, summary))
    }

    /// Reports what was written and what was left out.
    fn print_summary(
        &self,
        out: &mut Printer,
        stream: &ExportStream<'_>,
        written: &WriteSummary,
        summary: ExportSummary,
    ) -> anyhow::Result<()> {
        let initial_objects = summary.initial_objects;
        let target_text =
            if self.out == Path::new("-") { String::new() } else { format!(" to {}", self.out.display()) };
        let mut left_out: Vec<String> =
            written.left_out.iter().map(|(what, count)| count_text(count, what)).collect();
        let mut text = format!("{} changes written{target_text}", group_digits(written.count));
        match stream.scope {
            ExportScope::Moment(moment) => {
                text = format!("{} objects written{target_text}", group_digits(written.count));
                let others = stream.total_changes()?.saturating_sub(initial_objects);
                if others > 0 {
                    left_out.insert(0, count_text(others, &format!("changes not in the state at {moment}")));
                }
            }
            _ if initial_objects > 0 => {
                text += &format!(", including {} initial objects", group_digits(initial_objects));
            }
            _ => {}
        }
        out.print_to_stderr(&text);
        if self.anonymize {
            let hidden = stream.settings_at(stream.open_history.times.end)?.len() as u64;
            if hidden > 0 {
                left_out.push(count_text(hidden, "settings of schedulers, which cannot be anonymized"));
            }
        }
        if summary.audit_events_left_out > 0 {
            left_out.push(count_text(summary.audit_events_left_out, "writes of the audit log"));
        }
        if summary.secrets_left_out > 0 {
            let what = match stream.scope {
                ExportScope::Moment(_) => "Secrets",
                _ => "changes of Secrets",
            };
            left_out
                .push(count_text(summary.secrets_left_out, what) + " (use --with-secrets to include them)");
        }
        if !left_out.is_empty() {
            out.print_to_stderr(&format!("skipped: {}", left_out.join(", ")));
        }
        Ok(())
    }
}

/// The anonymizer with the key in a file, which is created if it is missing; without a file, with a random key.
pub(super) fn anonymizer(key: Option<&Path>) -> anyhow::Result<Anonymizer> {
    let key = match key {
        Some(path) => secret_key::read_or_create(path)?,
        None => secret_key::random_key()?,
    };
    Ok(Anonymizer::new(key))
}

/// A count with its noun, given in the plural: `1 change`, `2 changes`.
pub(super) fn count_text(count: u64, what: &str) -> String {
    let (noun, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    let noun = match (count, noun) {
        (1, noun) => noun.strip_suffix('s').unwrap_or(noun),
        (_, noun) => noun,
    };
    format!("{} {noun}{rest}", group_digits(count))
}

/// Parses an offset from UTC: `+09:00`, `-03:30`, `Z`.
fn parse_offset(text: &str) -> anyhow::Result<Offset> {
    let wrong = || format!("invalid UTC offset {text:?}: expected Z or an offset such as +09:00");
    if text.eq_ignore_ascii_case("z") {
        return Ok(Offset::UTC);
    }
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("+", rest)) => (1, rest),
        Some(("-", rest)) => (-1, rest),
        _ => bail!(wrong()),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let (hours, minutes): (i32, i32) =
        (hours.parse().with_context(wrong)?, minutes.parse().with_context(wrong)?);
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) {
        bail!(wrong());
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).with_context(wrong)
}
