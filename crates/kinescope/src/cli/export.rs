//! `kinescope export`: a history, or one moment of it, into files of other programs.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::{jsonl, manifests};
use history::Selection;
use kubernetes::anonymise::Anonymiser;
use kubernetes::selector::Selector;
use model::{Change, Gap, Key, Kind, Moment, Object, What, Window};

use super::chosen::Chosen;
use super::get::has_labels;
use super::kind_words::KindWords;
use super::output::{Out, grouped};
use super::progress::Progress;
use super::{Outcome, secret_key};

const AFTER: &str = "\
Formats:
  jsonl      a watch event a line, nothing lost
  manifests  the objects of one moment as YAML documents

With --from a jsonl file begins with the cluster as it was then, as if each object had been added; --changes-only \
leaves that out. A file name that ends in .gz or .zst is compressed.

Examples:
  kinescope export --format jsonl --out film.jsonl.gz
  kinescope export prod.kine --format jsonl --from 14:00 --to 14:10 -n web
  kinescope export --format manifests --at 14:03 --kinds pods,nodes > then.yaml
  kinescope export --format jsonl --anonymise --key ~/anon.key --out stranger.jsonl.zst";

/// Write a history, or one moment of it, for other programs
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Export {
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    history: Option<PathBuf>,
    /// The format
    #[arg(long, value_name = "FORMAT", value_parser = ["jsonl", "manifests"])]
    format: String,
    /// From this moment
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// Up to and at this moment
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// The moment, for manifests [default: the history's end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    at: Option<String>,
    /// With --from: do not begin with the state at that moment
    #[arg(long, requires = "from")]
    changes_only: bool,
    /// Only this namespace [default: all, and what belongs to none]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
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
}

/// What was written, and what was not.
#[derive(Default)]
struct Tally {
    written: u64,
    state: u64,
    gaps: u64,
    left_out: Vec<String>,
}

impl Export {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let chosen = Chosen::open(self.history.as_deref())?;
        let end = self.at.as_deref().or(self.to.as_deref());
        let end = end.map(|word| chosen.moment(Some(word))).transpose()?;
        let words = KindWords::read(&chosen.history, end.unwrap_or(chosen.times.end))?;
        let kinds = self.kinds.as_deref().map(|text| words.find(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        let selection = Selection {
            kinds,
            source: match &self.source {
                Some(name) => chosen.source(Some(name))?,
                None => None,
            },
            namespace: self.namespace.clone(),
            name: None,
        };
        let labels = self.selector.as_deref().map(Selector::parse).transpose()?;
        let masks = self.anonymise.then(|| self.anonymiser()).transpose()?;
        let job = Job { export: &self, chosen: &chosen, selection, labels, masks, end };

        let mut tally = Tally::default();
        if self.out == Path::new("-") {
            let mut writer = BufWriter::new(&mut *out);
            job.write(&mut writer, None, &mut tally)?;
            writer.flush()?;
        } else {
            let progress = Progress::changes(out, total(&chosen)?);
            let scratch = scratch_beside(&self.out);
            let written = self.write_file(&scratch, |writer| job.write(writer, Some(&progress), &mut tally));
            if let Err(error) = written {
                let _ = std::fs::remove_file(&scratch);
                return Err(error);
            }
            std::fs::rename(&scratch, &self.out)
                .with_context(|| format!("cannot write {}", self.out.display()))?;
        }
        self.report(out, &tally);
        Ok(Outcome::Done)
    }

    /// Writes a file, compressed if its name says so.
    fn write_file(
        &self,
        scratch: &Path,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let doing = || format!("cannot write {}", self.out.display());
        let file = BufWriter::with_capacity(1 << 18, File::create(scratch).with_context(doing)?);
        let file = match self.out.extension().and_then(|end| end.to_str()) {
            Some("gz") => {
                let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::default());
                fill(&mut encoder)?;
                encoder.finish().with_context(doing)?
            }
            Some("zst") => {
                let mut encoder = zstd::Encoder::new(file, 3).with_context(doing)?;
                fill(&mut encoder)?;
                encoder.finish().with_context(doing)?
            }
            _ => {
                let mut file = file;
                fill(&mut file)?;
                file
            }
        };
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_all())
            .with_context(doing)
    }

    fn anonymiser(&self) -> anyhow::Result<Anonymiser> {
        let key = match &self.key {
            Some(path) => secret_key::in_file(path)?,
            None => secret_key::random()?,
        };
        Ok(Anonymiser::new(key))
    }

    fn report(&self, out: &mut Out, tally: &Tally) {
        let place =
            if self.out == Path::new("-") { String::new() } else { format!(" to {}", self.out.display()) };
        let noun = if self.format == "manifests" { "objects" } else { "changes" };
        let mut text = format!("{} {noun} written{place}", grouped(tally.written));
        if tally.state > 0 {
            text += &format!(", after {} objects as they were at the beginning", grouped(tally.state));
        }
        if tally.gaps > 0 {
            text += &format!(", with {} gaps", grouped(tally.gaps));
        }
        out.complain(&text);
        if !tally.left_out.is_empty() {
            out.complain(&format!("left out: {}", tally.left_out.join(", ")));
        }
    }
}

/// What is written, of what.
struct Job<'a> {
    export: &'a Export,
    chosen: &'a Chosen,
    selection: Selection,
    labels: Option<Selector>,
    masks: Option<Anonymiser>,
    /// The moment of `--at` or `--to`.
    end: Option<Moment>,
}

impl Job<'_> {
    fn write(
        &self,
        writer: &mut dyn Write,
        progress: Option<&Progress>,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        match (self.export.format.as_str(), &self.export.from, &self.export.at) {
            ("manifests", Some(_), _) => bail!("manifests show one moment: say --at, not --from"),
            ("manifests", None, _) => self.write_manifests(writer, tally),
            (_, _, Some(_)) => bail!("jsonl holds a span of time: say --from and --to, not --at"),
            _ => self.write_lines(writer, progress, tally),
        }
    }

    fn write_lines(
        &self,
        writer: &mut dyn Write,
        progress: Option<&Progress>,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut lines = jsonl::Writer::new(writer, None);
        let mut filter = Filter { labels: self.labels.as_ref(), inside: HashSet::new() };
        let mut window = Window { to: self.end.map_or(Moment::MAX, |end| end.plus_nanos(1)), ..Window::ALL };
        if let Some(word) = &self.export.from {
            window.from = self.chosen.moment(Some(word))?;
            if window.to <= window.from {
                bail!(
                    "the window ends at {} before it begins at {}",
                    self.end.unwrap_or_default(),
                    window.from
                );
            }
            if !self.export.changes_only {
                for change in self.state_at(window.from)? {
                    if let Some(change) = filter.pass(change) {
                        lines.change(&self.masked(change))?;
                        tally.state += 1;
                    }
                }
                window.from = window.from.plus_nanos(1);
            }
        }
        let gaps = self.chosen.history.gaps()?;
        let wanted = |gap: &&Gap| {
            gap.from < window.to
                && window.from <= gap.to
                && self.selection.source.as_ref().is_none_or(|source| *source == gap.source)
        };
        let mut gaps = gaps.iter().filter(wanted).peekable();
        for change in self.chosen.history.between(window, &self.selection)? {
            let change = change?;
            while let Some(gap) = gaps.next_if(|gap| gap.from <= change.at) {
                self.write_gap(&mut lines, gap, tally)?;
            }
            if let Some(progress) = progress {
                progress.step();
            }
            if let Some(change) = filter.pass(change) {
                lines.change(&self.masked(change))?;
                tally.written += 1;
            }
        }
        gaps.try_for_each(|gap| self.write_gap(&mut lines, gap, tally))?;
        Ok(())
    }

    /// The cluster as it was, as if each object had been added then.
    fn state_at(&self, at: Moment) -> anyhow::Result<impl Iterator<Item = Change>> {
        let mut state = self.chosen.history.at(at, &self.selection)?.into_objects();
        state.sort_unstable_by_key(|version| version.seq);
        Ok(state.into_iter().map(move |version| Change {
            seq: version.seq,
            at,
            seen: at,
            key: version.key,
            what: What::Added(version.object),
            inferred: false,
        }))
    }

    fn write_manifests(&self, writer: &mut dyn Write, tally: &mut Tally) -> anyhow::Result<()> {
        let moment = self.end.unwrap_or(self.chosen.times.end);
        let objects: Vec<Object> = self
            .chosen
            .history
            .at(moment, &self.selection)?
            .into_objects()
            .into_iter()
            .map(|version| version.object)
            .filter(|object| self.labels.as_ref().is_none_or(|labels| has_labels(object, labels)))
            .map(|object| self.masks.as_ref().map_or(object.clone(), |masks| masks.object(&object)))
            .collect();
        manifests::write(writer, objects.iter())?;
        tally.written = objects.len() as u64;
        let changes = total(self.chosen)?;
        if changes > tally.written {
            let left_out = grouped(changes - tally.written);
            tally.left_out.push(format!("{left_out} changes that are not the state at {moment}"));
        }
        let gaps = self.chosen.history.gaps()?.len() as u64;
        if gaps > 0 {
            tally.left_out.push(format!("{} gaps", grouped(gaps)));
        }
        Ok(())
    }

    fn masked(&self, change: Change) -> Change {
        match &self.masks {
            Some(masks) => Change { key: masks.key(&change.key), what: masks.what(&change.what), ..change },
            None => change,
        }
    }

    fn write_gap(
        &self,
        lines: &mut jsonl::Writer<&mut dyn Write>,
        gap: &Gap,
        tally: &mut Tally,
    ) -> io::Result<()> {
        tally.gaps += 1;
        match &self.masks {
            Some(masks) => lines.gap(&masks.gap(gap)),
            None => lines.gap(gap),
        }
    }
}

/// Which changes pass a label selector. As in a watch with a selector, an object that no longer has the labels is
/// gone for those who asked for them.
struct Filter<'a> {
    labels: Option<&'a Selector>,
    inside: HashSet<Key>,
}

impl Filter<'_> {
    fn pass(&mut self, change: Change) -> Option<Change> {
        let Some(labels) = self.labels else { return Some(change) };
        let was_inside = self.inside.contains(&change.key);
        match &change.what {
            What::Deleted(_) => self.inside.remove(&change.key).then_some(change),
            what if has_labels(what.object(), labels) => {
                self.inside.insert(change.key.clone());
                Some(change)
            }
            what if was_inside => {
                self.inside.remove(&change.key);
                let what = What::Deleted(what.object().clone());
                Some(Change { what, inferred: true, ..change })
            }
            _ => None,
        }
    }
}

fn total(chosen: &Chosen) -> anyhow::Result<u64> {
    let summary = chosen.history.summary()?;
    Ok(summary.sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes).sum())
}

fn scratch_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}
