//! `kinescope diff`: what changed between two moments.

use std::io::Write;
use std::path::PathBuf;

use history::Selection;
use kubernetes::selector::Selector;
use model::{Difference, FieldChange, Kind, Version, changed_fields, difference};
use serde_json::json;

use super::noise::is_noise;
use super::output::{HEADING, NEW, OLD, Out};
use super::{Outcome, chosen};
use crate::look::{KindWords, has_labels};

const AFTER: &str = "\
Examples:
  kinescope diff 14:00 14:10
  kinescope diff -1h now pods,nodes -n web
  kinescope diff start end deploy -o json | jq '.[].kind'

Events are counted, and listed only if asked for as a kind.
Exit codes: 0 nothing differs, 1 something does, 2 trouble.";

/// Show what differs between two moments, by kind and object
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Diff {
    /// The earlier moment
    #[arg(value_name = "TIME1", allow_hyphen_values = true)]
    before: String,
    /// The later moment
    #[arg(value_name = "TIME2", allow_hyphen_values = true)]
    after: String,
    /// Only these kinds
    #[arg(value_name = "KINDS")]
    kinds: Option<String>,
    /// Only this namespace [default: all, and what belongs to none]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Only objects with these labels, before or after
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// How to print it
    #[arg(short, long, value_parser = ["text", "json", "name"], default_value = "text")]
    output: String,
    /// The recording, if the history holds several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// How many of one kind.
#[derive(Default)]
struct Count {
    created: u64,
    deleted: u64,
    changed: u64,
}

impl Diff {
    pub(super) fn run(self, out: &mut Out) -> anyhow::Result<Outcome> {
        let chosen = chosen::open(self.history.as_deref())?;
        let (before, after) = (chosen.moment(Some(&self.before))?, chosen.moment(Some(&self.after))?);
        let words = KindWords::read(&chosen.history, after)?;
        let kinds = self.kinds.as_deref().map(|text| words.find(text)).transpose()?;
        let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
        let labels = self.selector.as_deref().map(Selector::parse).transpose()?;
        let selection = Selection {
            kinds,
            source: chosen.source(self.source.as_deref(), "--source")?,
            namespace: self.namespace.clone(),
            name: None,
        };
        let gaps = chosen.history.gaps()?;
        let (first, last) = (before.min(after), before.max(after));
        out.warn_of_gaps(gaps.iter().filter(|gap| {
            let kinds = selection.kinds.as_ref();
            let concerns = kinds.is_none_or(|kinds| kinds.iter().any(|kind| gap.concerns(kind)));
            concerns && gap.from < last && first < gap.to
        }));
        let (old, new) = (chosen.history.at(before, &selection)?, chosen.history.at(after, &selection)?);
        let wanted =
            |version: &Version| labels.as_ref().is_none_or(|labels| has_labels(&version.object, labels));
        let mut found = difference(&old, &new);
        found.retain(|difference| match difference {
            Difference::Created(version) | Difference::Deleted(version) => wanted(version),
            Difference::Changed(old, new) => wanted(old) || wanted(new),
        });
        let mut shown = Vec::new();
        for difference in &found {
            let fields = match difference {
                Difference::Changed(old, new) => changed_fields(Some(&old.object), Some(&new.object))?,
                _ => Vec::new(),
            };
            let fields: Vec<FieldChange> =
                fields.into_iter().filter(|field| !is_noise(&field.path)).collect();
            // An object that was only written again, or that only sent a heartbeat, is the same to everyone.
            if !matches!(difference, Difference::Changed(..)) || !fields.is_empty() {
                shown.push((difference, fields));
            }
        }
        match self.output.as_str() {
            "json" => as_json(out, &shown)?,
            "name" => as_names(out, &shown)?,
            _ => as_text(out, &shown, self.kinds.is_some())?,
        }
        Ok(if shown.is_empty() { Outcome::Done } else { Outcome::Otherwise })
    }
}

type Shown<'a> = (&'a Difference<'a>, Vec<FieldChange>);

fn as_text(out: &mut Out, shown: &[Shown<'_>], with_events: bool) -> anyhow::Result<()> {
    let mut rest = shown;
    while let Some((first, _)) = rest.first() {
        let kind = &version(first).key.kind;
        let length = rest.iter().take_while(|(difference, _)| version(difference).key.kind == *kind).count();
        let (group, others) = rest.split_at(length);
        rest = others;
        let count = Count::of(group);
        writeln!(out, "{HEADING}{}{HEADING:#}: {}", KindWords::plural(kind), count.words())?;
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
                        writeln!(out, "      {}: {OLD}{before}{OLD:#} → {NEW}{after}{NEW:#}", field.path)?;
                    }
                    (Some(before), None) => writeln!(out, "      {OLD}- {}: {before}{OLD:#}", field.path)?,
                    (None, Some(after)) => writeln!(out, "      {NEW}+ {}: {after}{NEW:#}", field.path)?,
                    (None, None) => {}
                }
            }
        }
    }
    let total = Count::of(shown);
    let words =
        if shown.is_empty() { "nothing differs".to_owned() } else { format!("in all: {}", total.words()) };
    writeln!(out, "{words}")?;
    Ok(())
}

fn as_names(out: &mut Out, shown: &[Shown<'_>]) -> anyhow::Result<()> {
    for (difference, _) in shown {
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

fn as_json(out: &mut Out, shown: &[Shown<'_>]) -> anyhow::Result<()> {
    let list: Vec<_> = shown
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

fn version<'a>(difference: &'a Difference<'a>) -> &'a Version {
    match difference {
        Difference::Created(version) | Difference::Deleted(version) | Difference::Changed(_, version) => {
            version
        }
    }
}

// === impl Count ===

impl Count {
    fn of(shown: &[Shown<'_>]) -> Count {
        let mut count = Count::default();
        for (difference, _) in shown {
            match difference {
                Difference::Created(_) => count.created += 1,
                Difference::Deleted(_) => count.deleted += 1,
                Difference::Changed(..) => count.changed += 1,
            }
        }
        count
    }

    fn words(&self) -> String {
        let words = [(self.created, "created"), (self.deleted, "deleted"), (self.changed, "changed")];
        let words: Vec<String> = words
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        words.join(", ")
    }
}
