//! `kinescope log`: the versions of one object, and the changes between them.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap_complete::engine::ArgValueCompleter;
use model::{Change, FieldChange, Key, Moment, Object, What, changed_fields};
use query::{AuditedWrites, KindResolver, OpenHistory, WriteAttribution};
use serde_json::json;

use super::get::Scope;
use super::lines::escape_line;
use super::noise::{is_below, is_noise};
use super::output::{HEADING, NEW, OLD, Printer, format_duration};
use super::{Outcome, completion, history_arg, secret_mask};

const AFTER: &str = "\
If the history has an audit log (see `kinescope import --help`), versions show who wrote them.

Examples:
  kinescope log pod/checkout-0 -n web
  kinescope log node/node-a2 --from 14:00 --to 14:10
  kinescope log deploy/web -n web --fields spec.replicas,status.readyReplicas
  kinescope log pod/checkout-0 -n web -o json | jq .changed";

/// Display all versions of an object, with the fields that changed
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Log {
    /// Object: pod/NAME
    #[arg(value_name = "KIND/NAME", add = ArgValueCompleter::new(completion::kinds_and_names))]
    object: String,
    /// Name, if KIND is a separate argument
    #[arg(value_name = "NAME", hide = true, add = ArgValueCompleter::new(completion::names))]
    name: Option<String>,
    #[command(flatten)]
    scope: Scope,
    /// Start time, inclusive
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<String>,
    /// End time, inclusive
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<String>,
    /// Fields to show, with their subfields; versions that do not change them are skipped
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    fields: Vec<String>,
    /// Also show all fields of first versions, and fields that change in every version
    #[arg(long)]
    full: bool,
    /// Output format; json prints one line per version
    #[arg(short, long, value_parser = ["text", "json"], default_value = "text")]
    output: String,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// A version of the object, with its changed fields.
struct VersionEntry<'a> {
    change: &'a Change,
    /// Whether this is the object's first version, or the first with a new uid.
    is_first: bool,
    changed: Vec<FieldChange>,
    written_by: Vec<WriteAttribution>,
    since_last: Option<i64>,
}

impl Log {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let (kind, name) = match (self.object.split_once('/'), &self.name) {
            (Some((kind, name)), None) if !name.is_empty() => (kind, name),
            (None, Some(name)) => (self.object.as_str(), name.as_str()),
            _ => bail!("specify one object: pod/NAME"),
        };
        let open_history = history_arg::open(self.history.as_deref())?;
        let from = self.from.as_deref().map_or(Ok(Moment::MIN), |text| open_history.moment(Some(text)))?;
        let to = self.to.as_deref().map_or(Ok(Moment::MAX), |text| open_history.moment(Some(text)))?;
        let source = open_history.source(self.source.as_deref(), "--source")?;
        let kind_resolver = KindResolver::read(&open_history.history, to.min(open_history.times.end))?;
        let found = match &kind_resolver.resolve(kind)?[..] {
            [found] => found.clone(),
            _ => bail!("{kind:?} matches several resource types: specify one"),
        };
        let namespace = if found.namespaced { self.scope.namespace.as_str() } else { "" };
        let key = Key {
            source: source.unwrap_or_default(),
            kind: found.kind,
            namespace: namespace.into(),
            name: name.into(),
        };
        let gaps = open_history.history.gaps()?;
        out.warn_of_gaps(gaps.iter().filter(|gap| gap.from < to && from < gap.to && gap.concerns(&key.kind)));
        self.show(out, &open_history, &key, from, to)
    }

    fn show(
        &self,
        out: &mut Printer,
        open_history: &OpenHistory,
        key: &Key,
        from: Moment,
        to: Moment,
    ) -> anyhow::Result<Outcome> {
        let mut before: Option<Change> = None;
        let (mut any, mut last_shown) = (false, None);
        let mut writes = AuditedWrites::for_object(&open_history.history, key)?;
        for change in open_history.history.of(key)? {
            let change = change?;
            any = true;
            if change.at > to {
                break;
            }
            let written_by = writes.attribute(&change);
            if change.at >= from {
                let entry = self.entry(&change, before.as_ref(), written_by, last_shown)?;
                if self.fields.is_empty()
                    || !entry.changed.is_empty()
                    || matches!(change.what, What::Deleted(_))
                {
                    last_shown = Some(change.at);
                    if self.output == "json" {
                        entry.write_json(out)?;
                    } else {
                        entry.write_text(out, self.full || !self.fields.is_empty())?;
                    }
                }
            }
            before = Some(change);
        }
        if !any {
            let namespace_text = if key.namespace.is_empty() {
                String::new()
            } else {
                format!(" (namespace {})", key.namespace)
            };
            bail!(
                "{} \"{}\" not found in the history{namespace_text}",
                KindResolver::plural(&key.kind),
                key.name
            );
        }
        if last_shown.is_none() {
            out.print_to_stderr("No changes found");
        }
        Ok(Outcome::Done)
    }

    fn entry<'a>(
        &self,
        change: &'a Change,
        before: Option<&Change>,
        written_by: Vec<WriteAttribution>,
        last_shown: Option<Moment>,
    ) -> anyhow::Result<VersionEntry<'a>> {
        let uid = |change: &Change| change.what.object().meta().uid.map(|uid| uid.into_owned());
        let last = before.filter(|before| before.what.state().is_some() && uid(before) == uid(change));
        let first: Option<&Object> = change.what.state().filter(|_| last.is_none());
        let mut changed = match (&change.what, last) {
            // A DELETED event carries the last state; if the state before is unknown every field would look new.
            (What::Deleted(_), None) => Vec::new(),
            (what, last) => changed_fields(last.map(|last| last.what.object()), Some(what.object()))?,
        };
        changed.retain(|field| self.is_selected(&field.path));
        secret_mask::mask(&change.key.kind, &mut changed);
        Ok(VersionEntry {
            change,
            is_first: first.is_some(),
            changed,
            written_by,
            since_last: last_shown.map(|last| change.at.nanos_since(last)),
        })
    }

    fn is_selected(&self, path: &str) -> bool {
        if self.fields.is_empty() {
            return self.full || !is_noise(path);
        }
        self.fields.iter().any(|field| is_below(path, field.trim_start_matches('.')))
    }
}

// === impl VersionEntry ===

impl VersionEntry<'_> {
    fn write_text(&self, out: &mut Printer, full: bool) -> anyhow::Result<()> {
        let change = self.change;
        let later = self.since_last.map(|nanos| format!("  +{}", format_duration(nanos))).unwrap_or_default();
        let inferred = if change.inferred { "  (inferred)" } else { "" };
        let event_type = change.what.event_type();
        writeln!(
            out,
            "{HEADING}{}  {event_type}{HEADING:#}{later}{inferred}  change {}",
            change.at, change.seq
        )?;
        for written_by in &self.written_by {
            writeln!(out, "    {}", escape_line(&written_by.as_text()))?;
        }
        if self.is_first && !full {
            let size = change.what.object().as_str().len();
            writeln!(
                out,
                "    first version: {} fields, {size} bytes (--full shows them)",
                self.changed.len()
            )?;
            return Ok(());
        }
        for field in &self.changed {
            if let Some(before) = &field.before {
                writeln!(out, "    {OLD}- {}: {before}{OLD:#}", escape_line(&field.path))?;
            }
            if let Some(after) = &field.after {
                writeln!(out, "    {NEW}+ {}: {after}{NEW:#}", escape_line(&field.path))?;
            }
        }
        Ok(())
    }

    fn write_json(&self, out: &mut Printer) -> anyhow::Result<()> {
        let change = self.change;
        let mut changed = Vec::new();
        for field in &self.changed {
            let mut entry = json!({"path": field.path});
            for (name, value) in [("before", &field.before), ("after", &field.after)] {
                if let Some(value) = value {
                    entry[name] = value.clone();
                }
            }
            changed.push(entry);
        }
        let mut line = json!({
            "seq": change.seq,
            "at": change.at.to_string(),
            "seen": change.seen.to_string(),
            "type": change.what.event_type(),
            "inferred": change.inferred,
            "first": self.is_first,
            "changed": changed,
        });
        if !self.written_by.is_empty() {
            line["by"] = self.written_by.iter().map(WriteAttribution::as_json).collect();
        }
        writeln!(out.data()?, "{line}")?;
        Ok(())
    }
}
