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
Formats of a span of time:
  jsonl            a watch event a line, nothing lost
  sched-record     kube-scheduler-simulator's recording; its seven kinds, or those of --kinds
  sktrace          SimKube's trace; --tracer-config says what is tracked and how
  scaling-history  the SQLite file of Gardener's scaling history
  kwok             KWOK's recording; with --at its snapshot
Formats of one moment:
  manifests        the objects as YAML documents
  kss-snapshot     kube-scheduler-simulator's export; YAML if the file's name ends in .yaml or .yml
  kai-snapshot     the KAI scheduler's snapshot, ZIP; --partition narrows it as the scheduler's does

With --from a file begins with the cluster as it was then, as if each object had been added; --changes-only \
leaves that out. What a format has no place for is told. Secrets, which only imports bring into a history, are left \
out and counted; --with-secrets writes them. A file name that ends in .gz or .zst is compressed.

Examples:
  kinescope export --format jsonl --out film.jsonl.gz
  kinescope export prod.kine --format jsonl --from 14:00 --to 14:10 -n web
  kinescope export --format manifests --at 14:03 --kinds pods,nodes > then.yaml
  kinescope export --format sktrace --from -1h --exclude-namespaces kube-system --out hour.sktrace
  kinescope export --format kai-snapshot --at 14:03 --partition kai.scheduler/node-pool=a100 --out then.zip
  kinescope export --format jsonl --anonymise --key ~/anon.key --out stranger.jsonl.zst";

/// Write a history, or one moment of it, for other programs
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Export {
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = format_arg::parser(&FORMATS))]
    format: Format,
    /// From this moment
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Up to and at this moment
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// The moment, for formats that show one [default: the history's end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    at: Option<String>,
    /// With --from: do not begin with the state at that moment
    #[arg(long, requires = "from")]
    changes_only: bool,
    /// Only this namespace [default: all, and what belongs to none]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Not these namespaces
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    exclude_namespaces: Vec<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Not objects with these labels; may be given several times
    #[arg(long, value_name = "LABELS")]
    exclude_labels: Vec<String>,
    /// Only these kinds: pods,nodes
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Only this recording
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Replace every name, label, image and address by a made-up one, the same always by the same
    #[arg(long)]
    anonymise: bool,
    /// The key that made-up names come from, so that two exports agree; made if the file is missing
    #[arg(long, value_name = "FILE", requires = "anonymise")]
    key: Option<PathBuf>,
    /// sched-record: the offset of the times, such as +09:00 [default: Z]
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    utc_offset: Option<String>,
    /// sktrace: the tracer's configuration, YAML [default: workloads and bare pods, with lifecycles]
    #[arg(long, value_name = "FILE")]
    tracer_config: Option<PathBuf>,
    /// kai-snapshot: only nodes, queues and pod groups with this label, or without it if there is no value
    #[arg(long, value_name = "KEY[=VALUE]")]
    partition: Option<String>,
    /// Write Secrets too, into a file that only its owner can read [default: they are left out, and it is said how many]
    #[arg(long, conflicts_with = "anonymise")]
    with_secrets: bool,
}

impl Export {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        self.check_options()?;
        let chosen = history_arg::open(self.history.as_deref())?;
        if self.out.try_exists().with_context(|| format!("cannot look for {}", self.out.display()))?
            && std::fs::canonicalize(&self.out)? == std::fs::canonicalize(chosen.history.path())?
        {
            bail!("{} is the history itself: say another file with --out", self.out.display());
        }
        let tracer = self.resolve_tracer_config(&chosen, out)?;
        let feed = self.export_stream(&chosen)?;
        let (written, fed) = if self.out == Path::new("-") {
            let mut writer = self.writer(out.data()?, &feed, tracer)?;
            let fed = feed.write_to(&mut *writer, || Ok(()))?;
            (writer.finish()?, fed)
        } else {
            let progress = Progress::changes(out, feed.total_changes()?);
            self.write_file(&feed, tracer, &progress)?
        };
        self.print_summary(out, &feed, &written, fed)?;
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
                bail!("{name} belongs to {}, not to {}", format.name(), self.format.name());
            }
        }
        if self.format == Format::ScalingHistory {
            let compressed = self.out.extension().is_some_and(|end| end == "gz" || end == "zst");
            if self.out == Path::new("-") {
                bail!("a database cannot go to standard output: say with --out where to put it");
            }
            if compressed {
                bail!("a database is not compressed on the way: give it a name without .gz or .zst");
            }
        }
        if self.partition.is_some() && self.anonymise {
            bail!("--partition goes by labels, which --anonymise replaces: say one of them");
        }
        if self.format == Format::Sktrace {
            if self.kinds.is_some() {
                bail!("which kinds a trace has is said by --tracer-config, not by --kinds");
            }
            if self.selector.is_some() {
                bail!(
                    "a trace follows pods to their owners, whatever their labels: say --exclude-labels, or -n"
                );
            }
            if self.changes_only {
                bail!("a trace always begins with the state: --changes-only means nothing to it");
            }
        }
        Ok(())
    }

    /// The stream of changes to export, as the options select it.
    fn export_stream<'a>(&self, chosen: &'a OpenHistory) -> anyhow::Result<ExportStream<'a>> {
        let end = self.at.as_deref().or(self.to.as_deref());
        let end = end.map(|word| chosen.moment(Some(word))).transpose()?;
        let words = KindResolver::read(&chosen.history, end.unwrap_or(chosen.times.end))?;
        let kinds = self.kinds.as_deref().map(|text| words.resolve(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        // Only jsonl names the source of a change, and manifests never did.
        let many_sources = matches!(self.format, Format::Jsonl | Format::Manifests);
        let source = match &self.source {
            None if many_sources => None,
            named => chosen.source(named.as_deref(), "--source")?,
        };
        // SimKube's tracer applies exclusions itself, because it needs to see what excluded objects own. After
        // anonymization it cannot: names and labels have changed.
        let excludes = self.format != Format::Sktrace || self.anonymise;
        Ok(ExportStream {
            open_history: chosen,
            scope: self.export_span(chosen, end)?,
            selection: Selection { kinds, source, namespace: self.namespace.clone(), name: None },
            labels: self.selector.as_deref().map(Selector::parse).transpose()?,
            excluded_namespaces: if excludes { self.exclude_namespaces.clone() } else { Vec::new() },
            excluded_labels: if excludes { self.excluded_labels()? } else { Vec::new() },
            anonymiser: self.anonymise.then(|| self.anonymiser()).transpose()?,
            with_settings: matches!(self.format, Format::KssSnapshot | Format::KaiSnapshot),
            with_secrets: self.with_secrets,
            with_audit_logs: self.format == Format::Jsonl && !self.anonymise,
        })
    }

    fn excluded_labels(&self) -> anyhow::Result<Vec<Selector>> {
        self.exclude_labels.iter().map(|text| Ok(Selector::parse(text)?)).collect()
    }

    fn export_span(&self, chosen: &OpenHistory, end: Option<Moment>) -> anyhow::Result<ExportScope> {
        let name = self.format.name();
        let one_moment = match self.format {
            Format::Manifests | Format::KssSnapshot | Format::KaiSnapshot => true,
            Format::Kwok => self.at.is_some(),
            _ => false,
        };
        if one_moment {
            if self.from.is_some() {
                bail!("{name} shows one moment: say --at, not --from");
            }
            return Ok(ExportScope::Moment(end.unwrap_or(chosen.times.end)));
        }
        if self.at.is_some() {
            bail!("{name} holds a span of time: say --from and --to, not --at");
        }
        let mut window = Window { to: end.map_or(Moment::MAX, |end| end.plus_nanos(1)), ..Window::ALL };
        if let Some(word) = &self.from {
            window.from = chosen.moment(Some(word))?;
            if window.to <= window.from {
                bail!("the window ends at {} before it begins at {}", end.unwrap_or_default(), window.from);
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
        chosen: &OpenHistory,
        out: &mut Printer,
    ) -> anyhow::Result<Option<TracerConfig>> {
        if self.format != Format::Sktrace {
            return Ok(None);
        }
        if let Some(path) = &self.tracer_config {
            return tracer_config::read(path, out).map(Some);
        }
        let source = chosen.source(self.source.as_deref(), "--source")?;
        chosen.tracer_config(source).map(Some)
    }

    fn writer<'a>(
        &self,
        out: impl Write + 'a,
        feed: &ExportStream<'_>,
        tracer: Option<TracerConfig>,
    ) -> anyhow::Result<Box<dyn Writer + 'a>> {
        if let (Some(config), ExportScope::WindowAndPast(window)) = (tracer, feed.scope) {
            let filters = match self.anonymise {
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
        feed: &ExportStream<'_>,
        tracer: Option<TracerConfig>,
        progress: &Progress,
    ) -> anyhow::Result<(WriteSummary, ExportSummary)> {
        signals::defer_signals()?;
        let scratch = PendingFile::for_target(&self.out, self.with_secrets);
        let doing = || format!("cannot write {}", self.out.display());
        if self.format == Format::ScalingHistory {
            let mut writer = Box::new(scaling_history::ScalingHistoryWriter::create(scratch.path())?);
            let fed = feed.write_to(&mut *writer, || {
                progress.increment();
                signals::check()
            })?;
            let written = writer.finish().with_context(doing)?;
            scratch.publish()?;
            return Ok((written, fed));
        }
        let mut file = scratch.create()?;
        let mut writer = self.writer(&mut file, feed, tracer)?;
        let fed = feed.write_to(&mut *writer, || {
            progress.increment();
            signals::check()
        })?;
        let written = writer.finish().with_context(doing)?;
        file.finish().with_context(doing)?;
        scratch.publish()?;
        Ok((written, fed))
    }

    fn anonymiser(&self) -> anyhow::Result<Anonymizer> {
        let key = match &self.key {
            Some(path) => secret_key::read_or_create(path)?,
            None => secret_key::random_key()?,
        };
        Ok(Anonymizer::new(key))
    }

    /// Reports what was written and what was left out.
    fn print_summary(
        &self,
        out: &mut Printer,
        feed: &ExportStream<'_>,
        written: &WriteSummary,
        fed: ExportSummary,
    ) -> anyhow::Result<()> {
        let there = fed.initial_objects;
        let place =
            if self.out == Path::new("-") { String::new() } else { format!(" to {}", self.out.display()) };
        let mut left_out: Vec<String> =
            written.left_out.iter().map(|(what, count)| count_text(count, what)).collect();
        let mut text = format!("{} changes written{place}", group_digits(written.count));
        match feed.scope {
            ExportScope::Moment(moment) => {
                text = format!("{} objects written{place}", group_digits(written.count));
                let others = feed.total_changes()?.saturating_sub(there);
                if others > 0 {
                    left_out.insert(
                        0,
                        count_text(
                            others,
                            &format!("changes of the history that are not this state of {moment}"),
                        ),
                    );
                }
            }
            _ if there > 0 => {
                text += &format!(", beginning with the {} objects that were there", group_digits(there));
            }
            _ => {}
        }
        out.print_to_stderr(&text);
        if self.anonymise {
            let hidden = feed.settings_at(feed.open_history.times.end)?.len() as u64;
            if hidden > 0 {
                left_out.push(count_text(hidden, "settings of schedulers, which cannot be anonymised"));
            }
        }
        if fed.audit_events_left_out > 0 {
            left_out.push(count_text(fed.audit_events_left_out, "writes of the audit log"));
        }
        if fed.secrets_left_out > 0 {
            let what = match feed.scope {
                ExportScope::Moment(_) => "Secrets",
                _ => "changes of Secrets",
            };
            left_out.push(count_text(fed.secrets_left_out, what) + " (--with-secrets writes them)");
        }
        if !left_out.is_empty() {
            out.print_to_stderr(&format!("left out: {}", left_out.join(", ")));
        }
        Ok(())
    }
}

/// A count with its noun, given in the plural: `1 change`, `2 changes`.
fn count_text(count: u64, what: &str) -> String {
    let (noun, rest) = what.split_at(what.find(' ').unwrap_or(what.len()));
    let noun = match (count, noun) {
        (1, "lives") => "life",
        (1, noun) => noun.strip_suffix('s').unwrap_or(noun),
        (_, noun) => noun,
    };
    format!("{} {noun}{rest}", group_digits(count))
}

/// Parses an offset from UTC: `+09:00`, `-03:30`, `Z`.
fn parse_offset(text: &str) -> anyhow::Result<Offset> {
    let wrong = || format!("{text:?} is no offset from UTC such as +09:00 or Z");
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
