//! `kinescope get`: `kubectl get` at a moment of the history.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap_complete::engine::ArgValueCompleter;
use history::Selection;
use kubernetes::selector::{FieldSelector, Selector};
use kubernetes::table::{PrintOptions, Table, render};
use model::{Moment, Object, ObjectVersion};
use query::{KindResolver, ResourceType, matches_labels};
use serde_json::{Value, json};

use super::output::Printer;
use super::sort_by::SortBy;
use super::{Outcome, completion, history_arg};

const AFTER: &str = "\
Examples:
  kinescope get pods -n web --at 14:03
  kinescope get deploy,rs -A --at -2h -o wide
  kinescope get pod/checkout-0 -n web -o yaml --at '2026-11-01T14:03Z'
  kinescope get pods -A -l app=web --field-selector status.phase=Pending --sort-by .metadata.creationTimestamp
  kinescope get events -A --at 14:05 --field-selector reason=FailedScheduling";

/// Show objects as they were at a moment, the way kubectl get does
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Get {
    /// What to show: pods | po,svc | pod/NAME | all
    #[arg(value_name = "KIND", add = ArgValueCompleter::new(completion::kinds))]
    kind: String,
    /// Names of objects of that kind
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::names))]
    names: Vec<String>,
    /// The moment to look at [default: the history's end]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    #[command(flatten)]
    scope: Scope,
    /// Only objects with these labels: app=web,tier!=db,env in (a,b),!canary
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Only objects with these fields: status.phase=Pending,spec.nodeName!=node-1
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// How to print them
    #[arg(short, long, value_parser = ["table", "wide", "json", "yaml", "name"], default_value = "table")]
    output: String,
    /// Order by a field: .metadata.creationTimestamp
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,
    /// No line of column names
    #[arg(long)]
    no_headers: bool,
    /// All labels as the last column
    #[arg(long)]
    show_labels: bool,
    /// A column for each of these labels
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Keep managedFields in JSON and YAML
    #[arg(long)]
    show_managed_fields: bool,
    /// The recording, if the history holds several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// The history [default: $KINESCOPE_HISTORY, else the only .kine file here]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// One namespace or all of them.
#[derive(clap::Args)]
pub(super) struct Scope {
    /// The namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", add = ArgValueCompleter::new(completion::namespaces))]
    pub(super) namespace: String,
    /// All namespaces, whatever -n says
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
}

/// A kind requested on the command line, with names of objects.
struct ResourceRequest {
    found: ResourceType,
    names: Vec<String>,
}

/// The objects found for it.
struct ResourceResult {
    found: ResourceType,
    objects: Vec<Object>,
}

impl Get {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let chosen = history_arg::open(self.history.as_deref())?;
        let moment = chosen.moment(self.at.as_deref())?;
        let source = chosen.source(self.source.as_deref(), "--source")?;
        let words = KindResolver::read(&chosen.history, moment)?;
        let labels = self.selector.as_deref().map(Selector::parse).transpose()?;
        let sort_by = self.sort_by.as_deref().map(SortBy::parse).transpose()?;
        let wanted = self.resource_requests(&words)?;

        let mut answers = Vec::new();
        let mut missing = Vec::new();
        for ResourceRequest { found, names } in wanted {
            let fields = self
                .field_selector
                .as_deref()
                .map(|text| FieldSelector::parse(text, &found.kind))
                .transpose()?;
            let mut selection = Selection {
                kinds: Some(vec![found.kind.clone()]),
                source: source.clone(),
                ..Selection::default()
            };
            if !found.namespaced {
                selection.namespace = Some(String::new());
            } else if !self.scope.all_namespaces {
                selection.namespace = Some(self.scope.namespace.clone());
            }
            let mut versions: Vec<ObjectVersion> = Vec::new();
            if names.is_empty() {
                versions = chosen.history.at(moment, &selection)?.into_objects();
            }
            for name in &names {
                selection.name = Some(name.clone());
                let one = chosen.history.at(moment, &selection)?.into_objects();
                if one.is_empty() {
                    missing.push(format!("{} \"{name}\" not found", KindResolver::plural(&found.kind)));
                }
                versions.extend(one);
            }
            let mut objects: Vec<Object> = versions
                .into_iter()
                .map(|version| version.object)
                .filter(|object| labels.as_ref().is_none_or(|labels| matches_labels(object, labels)))
                .filter(|object| {
                    fields
                        .as_ref()
                        .is_none_or(|fields| object.value().is_ok_and(|value| fields.matches(&value)))
                })
                .collect();
            if let Some(sort_by) = &sort_by {
                sort(&mut objects, sort_by);
            }
            answers.push(ResourceResult { found, objects });
        }
        let gaps = chosen.history.gaps()?;
        out.warn_of_gaps(gaps.iter().filter(|gap| {
            let concerns = answers.iter().any(|answer| gap.concerns(&answer.found.kind));
            concerns && gap.from <= moment && moment < gap.to
        }));
        self.print(out, &words, &answers, moment, &missing)?;
        if missing.is_empty() {
            return Ok(Outcome::Done);
        }
        out.flush()?;
        bail!("{} at {moment}", missing.join(", "))
    }

    /// Parses kubectl's three forms: `pods a b`, `pod/a svc/b` and `po,svc`.
    fn resource_requests(&self, words: &KindResolver) -> anyhow::Result<Vec<ResourceRequest>> {
        if !self.kind.contains('/') {
            if let Some(odd) = self.names.iter().find(|name| name.contains('/')) {
                bail!("{odd:?} is KIND/NAME, but {:?} before it is not: use one form for all", self.kind);
            }
            let found = words.resolve(&self.kind)?;
            return Ok(found
                .into_iter()
                .map(|found| ResourceRequest { found, names: self.names.clone() })
                .collect());
        }
        let mut wanted: Vec<ResourceRequest> = Vec::new();
        for word in std::iter::once(&self.kind).chain(&self.names) {
            let Some((kind, name)) =
                word.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
            else {
                bail!("{word:?} is not KIND/NAME");
            };
            for found in words.resolve(kind)? {
                match wanted.iter_mut().find(|wanted| wanted.found == found) {
                    Some(wanted) => wanted.names.push(name.to_owned()),
                    None => wanted.push(ResourceRequest { found, names: vec![name.to_owned()] }),
                }
            }
        }
        Ok(wanted)
    }

    fn print(
        &self,
        out: &mut Printer,
        words: &KindResolver,
        answers: &[ResourceResult],
        moment: Moment,
        missing: &[String],
    ) -> anyhow::Result<()> {
        let count: usize = answers.iter().map(|answer| answer.objects.len()).sum();
        match self.output.as_str() {
            "json" | "yaml" => {
                let objects = answers.iter().flat_map(|answer| &answer.objects);
                let mut objects: Vec<Value> = objects.map(Object::value).collect::<Result<_, _>>()?;
                if !self.show_managed_fields {
                    objects.iter_mut().for_each(hide_managed_fields);
                }
                let single = !self.kind.contains(',') && (self.kind.contains('/') || !self.names.is_empty());
                let value = match objects.len() {
                    1 if single && missing.is_empty() => objects.remove(0),
                    0 if !missing.is_empty() => return Ok(()),
                    _ => {
                        json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}})
                    }
                };
                if self.output == "json" {
                    out.data()?.write_all(&kubectl_json(&value)?)?;
                } else {
                    write!(out.data()?, "{}", formats::manifests::to_yaml(&value))?;
                }
            }
            "name" => {
                for answer in answers {
                    let kind = answer.found.kind.to_string().to_lowercase();
                    for object in &answer.objects {
                        writeln!(out, "{kind}/{}", object.meta().name)?;
                    }
                }
            }
            _ if count == 0 => {
                if missing.is_empty() {
                    self.print_nothing_found(out, answers);
                }
            }
            _ => {
                let tables: Vec<Table> = answers
                    .iter()
                    .map(|answer| {
                        let layout = words.layout(&answer.found.kind);
                        Table::of(&answer.found.kind, &layout, &answer.objects, moment)
                    })
                    .collect();
                let style = PrintOptions {
                    wide: self.output == "wide",
                    with_namespace: self.scope.all_namespaces,
                    with_kind: answers.len() > 1,
                    no_headers: self.no_headers,
                    show_labels: self.show_labels,
                    column_labels: self.label_columns.clone(),
                };
                write!(out, "{}", render(&tables, &style))?;
            }
        }
        Ok(())
    }

    fn print_nothing_found(&self, out: &mut Printer, answers: &[ResourceResult]) {
        let namespaced = answers.iter().any(|answer| answer.found.namespaced);
        if !namespaced || self.scope.all_namespaces {
            out.print_to_stderr("No resources found");
        } else {
            out.print_to_stderr(&format!("No resources found in {} namespace.", self.scope.namespace));
        }
    }
}

fn sort(objects: &mut Vec<Object>, sort_by: &SortBy) {
    let mut keyed: Vec<(Option<Value>, Object)> = std::mem::take(objects)
        .into_iter()
        .map(|object| (object.value().ok().and_then(|value| sort_by.value(&value).cloned()), object))
        .collect();
    keyed.sort_by(|(a, _), (b, _)| SortBy::compare(a.as_ref(), b.as_ref()));
    objects.extend(keyed.into_iter().map(|(_, object)| object));
}

fn hide_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// JSON indented by four spaces, as kubectl prints it.
fn kubectl_json(value: &Value) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    serde::Serialize::serialize(value, &mut serializer)?;
    text.push(b'\n');
    Ok(text)
}
