//! `kinescope diff`: differences between two moments of a history, or between two histories at one moment.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use history::Selection;
use kubernetes::selector::{Selector, matches_labels};
use model::{Cluster, Difference, FieldChange, Kind, Moment, ObjectVersion, changed_fields, difference};
use query::{KindResolver, OpenHistory};
use serde_json::json;

use super::lines::escape_line;
use super::noise::is_noise;
use super::output::{HEADING, NEW, OLD, Printer};
use super::{Outcome, history_arg, secret_mask};

const AFTER: &str = "\
Events are only counted, unless given as a resource type.

Exit codes: 0 no differences, 1 differences, 2 error.

Examples:
  kinescope diff 14:00 14:10
  kinescope diff -1h now pods,nodes -n web
  kinescope diff start end deploy -o json | jq '.[].kind'
  # Compare a recording with its replay
  kinescope diff 14:30 pods --history prod.kine \\
    --against replay-prod/replay.kine";

/// Display differences between two times, or between two histories at one time
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Diff {
    /// Earlier time
    #[arg(value_name = "TIME1", allow_hyphen_values = true)]
    before: String,
    /// Later time; with --against, the resource types
    #[arg(value_name = "TIME2", allow_hyphen_values = true, required_unless_present = "against")]
    after: Option<String>,
    /// Resource types: pods,nodes [default: all]
    #[arg(value_name = "KINDS")]
    kinds: Option<String>,
    /// Another history to compare with, at time TIME1
    #[arg(long, value_name = "FILE", conflicts_with = "kinds")]
    against: Option<PathBuf>,
    /// Namespace [default: all namespaces, and cluster-scoped objects]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Label selector; matches objects that have the labels before or after
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = ["text", "json", "name"], default_value = "text")]
    output: String,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// Counts of differences.
#[derive(Default)]
struct DifferenceCounts {
    created: u64,
    deleted: u64,
    changed: u64,
}

impl Diff {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let open_history = history_arg::open(self.history.as_deref())?;
        let before = open_history.moment(Some(&self.before))?;
        let (after, kinds) = match &self.against {
            Some(_) => (before, self.after.as_deref()),
            None => (open_history.moment(self.after.as_deref())?, self.kinds.as_deref()),
        };
        let with_events = kinds.is_some();
        let kind_resolver = KindResolver::read(&open_history.history, after)?;
        let kinds = kinds.map(|text| kind_resolver.resolve(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        let labels = self.selector.as_deref().map(Selector::parse).transpose()?;
        let selection = Selection {
            kinds,
            source: open_history.source(self.source.as_deref(), "--source")?,
            namespace: self.namespace.clone(),
            name: None,
        };
        warn_of_gaps(out, &open_history, &selection, before, after)?;
        let old = open_history.history.at(before, &selection)?;
        let new = match &self.against {
            None => open_history.history.at(after, &selection)?,
            Some(path) => read_other(out, path, &selection, after)?,
        };
        let is_selected = |version: &ObjectVersion| {
            labels.as_ref().is_none_or(|labels| matches_labels(&version.object, labels))
        };
        let mut found = difference(&old, &new);
        found.retain(|difference| match difference {
            Difference::Created(version) | Difference::Deleted(version) => is_selected(version),
            Difference::Changed(old, new) => is_selected(old) || is_selected(new),
        });
        let mut differences = Vec::new();
        for difference in &found {
            let fields = match difference {
                Difference::Changed(old, new) => changed_fields(Some(&old.object), Some(&new.object))?,
                _ => Vec::new(),
            };
            let mut fields: Vec<FieldChange> =
                fields.into_iter().filter(|field| !is_noise(&field.path)).collect();
            secret_mask::mask(&version(difference).key.kind, &mut fields);
            // An object that was rewritten unchanged, or only sent a heartbeat, counts as unchanged.
            if !matches!(difference, Difference::Changed(..)) || !fields.is_empty() {
                differences.push((difference, fields));
            }
        }
        match self.output.as_str() {
            "json" => write_json(out, &differences)?,
            "name" => write_names(out, &differences)?,
            _ => write_text(out, &differences, with_events)?,
        }
        Ok(if differences.is_empty() { Outcome::Done } else { Outcome::Negative })
    }
}

fn warn_of_gaps(
    out: &mut Printer,
    open_history: &OpenHistory,
    selection: &Selection,
    before: Moment,
    after: Moment,
) -> anyhow::Result<()> {
    let gaps = open_history.history.gaps()?;
    let (first, last) = (before.min(after), before.max(after));
    out.warn_of_gaps(gaps.iter().filter(|gap| {
        let kinds = selection.kinds.as_ref();
        let is_relevant = kinds.is_none_or(|kinds| kinds.iter().any(|kind| gap.concerns(kind)));
        is_relevant && gap.from < last && first < gap.to
    }));
    Ok(())
}

/// Reads the objects of another history at a moment, renamed to the source of the first, so that they can be compared.
fn read_other(out: &mut Printer, path: &Path, selection: &Selection, at: Moment) -> anyhow::Result<Cluster> {
    let other = OpenHistory::open(path)?;
    if !(other.times.start..=other.times.end).contains(&at) {
        let (start, end) = (other.times.start, other.times.end);
        bail!("{at} is outside {}, which covers {start} to {end}", path.display());
    }
    let same = selection.source.as_deref();
    let sources = other.history.sources()?;
    let has_it = same.is_some_and(|name| sources.iter().any(|source| **source == *name));
    let source = other.source(same.filter(|_| has_it), "--source")?;
    let selection = Selection { source, ..selection.clone() };
    warn_of_gaps(out, &other, &selection, at, at)?;
    let mut objects = other.history.at(at, &selection)?.into_objects();
    if let Some(name) = same {
        let name: Arc<str> = name.into();
        objects.iter_mut().for_each(|version| version.key.source = name.clone());
    }
    Ok(Cluster::new(at, objects))
}

type ShownDifference<'a> = (&'a Difference<'a>, Vec<FieldChange>);

fn write_text(
    out: &mut Printer,
    differences: &[ShownDifference<'_>],
    with_events: bool,
) -> anyhow::Result<()> {
    let mut rest = differences;
    while let Some((first, _)) = rest.first() {
        let kind = &version(first).key.kind;
        let length = rest.iter().take_while(|(difference, _)| version(difference).key.kind == *kind).count();
        let (group, others) = rest.split_at(length);
        rest = others;
        let count = DifferenceCounts::of(group);
        writeln!(out, "{HEADING}{}{HEADING:#}: {}", KindResolver::plural(kind), count.to_text())?;
        if &*kind.kind == "Event" && !with_events {
            continue;
        }
        for (difference, fields) in group {
            let key = &version(difference).key;
            let name = if key.namespace.is_empty() {
                key.name.to_string()
            } else {
                format!("{}/{}", key.namespace, key.name)
            };
            match difference {
                Difference::Created(_) => writeln!(out, "  {NEW}+ {name}{NEW:#}")?,
                Difference::Deleted(_) => writeln!(out, "  {OLD}- {name}{OLD:#}")?,
                Difference::Changed(..) => writeln!(out, "  ~ {name}")?,
            }
            for field in fields {
                match (&field.before, &field.after) {
                    (Some(before), Some(after)) => {
                        writeln!(
                            out,
                            "      {}: {OLD}{before}{OLD:#} → {NEW}{after}{NEW:#}",
                            escape_line(&field.path)
                        )?;
                    }
                    (Some(before), None) => {
                        writeln!(out, "      {OLD}- {}: {before}{OLD:#}", escape_line(&field.path))?
                    }
                    (None, Some(after)) => {
                        writeln!(out, "      {NEW}+ {}: {after}{NEW:#}", escape_line(&field.path))?
                    }
                    (None, None) => {}
                }
            }
        }
    }
    let total = DifferenceCounts::of(differences);
    let text = if differences.is_empty() {
        "no differences".to_owned()
    } else {
        format!("total: {}", total.to_text())
    };
    writeln!(out, "{text}")?;
    Ok(())
}

fn write_names(out: &mut Printer, differences: &[ShownDifference<'_>]) -> anyhow::Result<()> {
    for (difference, _) in differences {
        let key = &version(difference).key;
        let mark = match difference {
            Difference::Created(_) => '+',
            Difference::Deleted(_) => '-',
            Difference::Changed(..) => '~',
        };
        let kind = key.kind.to_string().to_lowercase();
        let slash = if key.namespace.is_empty() { "" } else { "/" };
        writeln!(out, "{mark} {kind} {}{slash}{}", key.namespace, key.name)?;
    }
    Ok(())
}

fn write_json(out: &mut Printer, differences: &[ShownDifference<'_>]) -> anyhow::Result<()> {
    let list: Vec<_> = differences
        .iter()
        .map(|(difference, fields)| {
            let key = &version(difference).key;
            json!({
                "what": match difference {
                    Difference::Created(_) => "created",
                    Difference::Deleted(_) => "deleted",
                    Difference::Changed(..) => "changed",
                },
                "group": &*key.kind.group,
                "kind": &*key.kind.kind,
                "namespace": &*key.namespace,
                "name": &*key.name,
                "fields": fields.iter().map(|field| json!({
                    "path": field.path,
                    "before": field.before,
                    "after": field.after,
                })).collect::<Vec<_>>(),
            })
        })
        .collect();
    writeln!(out.data()?, "{:#}", serde_json::Value::from(list))?;
    Ok(())
}

fn version<'a>(difference: &'a Difference<'a>) -> &'a ObjectVersion {
    match difference {
        Difference::Created(version) | Difference::Deleted(version) | Difference::Changed(_, version) => {
            version
        }
    }
}

// === impl DifferenceCounts ===

impl DifferenceCounts {
    fn of(differences: &[ShownDifference<'_>]) -> DifferenceCounts {
        let mut count = DifferenceCounts::default();
        for (difference, _) in differences {
            match difference {
                Difference::Created(_) => count.created += 1,
                Difference::Deleted(_) => count.deleted += 1,
                Difference::Changed(..) => count.changed += 1,
            }
        }
        count
    }

    fn to_text(&self) -> String {
        let counts = [(self.created, "created"), (self.deleted, "deleted"), (self.changed, "changed")];
        let counts: Vec<String> = counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, verb)| format!("{count} {verb}"))
            .collect();
        counts.join(", ")
    }
}
