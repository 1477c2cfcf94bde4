//! `kinescope get`: `kubectl get` at a moment of the history.

use std::io::Write;
use std::path::PathBuf;

use anyhow::bail;
use clap_complete::engine::ArgValueCompleter;
use history::Selection;
use kubernetes::selector::{FieldSelector, Selector, matches_labels};
use kubernetes::table::{PrintOptions, Table, TableConvertor, TableRow, render};
use model::{Moment, Object, ObjectVersion};
use query::{KindResolver, ResourceType};
use serde_json::{Value, json};

use super::output::Printer;
use super::sort_by::SortBy;
use super::{Outcome, completion, history_arg};

const AFTER: &str = "\
Examples:
  kinescope get pods -n web --at 14:03
  kinescope get deploy,rs -A --at -2h -o wide
  kinescope get pod/checkout-0 -n web -o yaml --at '2026-11-01T14:03Z'
  kinescope get pods -A -l app=web --sort-by .metadata.creationTimestamp
  kinescope get pods -A --field-selector status.phase=Pending
  kinescope get events -A --field-selector reason=FailedScheduling";

/// Display objects as of a time, like kubectl get
#[derive(clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Get {
    /// Resource types, or a type and a name: pods | po,svc | pod/NAME | all
    #[arg(value_name = "KIND", add = ArgValueCompleter::new(completion::kinds))]
    kind: String,
    /// Names of objects
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(completion::names))]
    names: Vec<String>,
    /// Time to display [default: the end of the history]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<String>,
    #[command(flatten)]
    scope: Scope,
    /// Label selector: app=web,tier!=db,env in (a,b),!canary
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Field selector: status.phase=Pending,spec.nodeName!=node-1
    #[arg(long, value_name = "FIELDS")]
    field_selector: Option<String>,
    /// Output format
    #[arg(short, long, value_parser = ["table", "wide", "json", "yaml", "name"], default_value = "table")]
    output: String,
    /// Sort by a field: .metadata.creationTimestamp
    #[arg(long, value_name = "PATH")]
    sort_by: Option<String>,
    /// Do not print headers
    #[arg(long)]
    no_headers: bool,
    /// Show all labels as the last column
    #[arg(long)]
    show_labels: bool,
    /// Labels to show as columns
    #[arg(short = 'L', long, value_name = "LABEL", value_delimiter = ',')]
    label_columns: Vec<String>,
    /// Keep managedFields in JSON and YAML output
    #[arg(long)]
    show_managed_fields: bool,
    /// Source to read; required if the history has several
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// History to read [default: $KINESCOPE_HISTORY, else the only .kine file in the current directory]
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
}

/// One namespace or all of them.
#[derive(clap::Args)]
pub(super) struct Scope {
    /// Namespace
    #[arg(short, long, value_name = "NAME", default_value = "default", add = ArgValueCompleter::new(completion::namespaces))]
    pub(super) namespace: String,
    /// All namespaces; overrides -n
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
    objects: Vec<SelectedObject>,
}

/// A selected object, in the form that is printed. Each object is parsed once, for selectors, order and output.
enum SelectedObject {
    Name(String),
    Row(TableRow),
    Value(serde_json::Result<Value>),
}

/// What decides which objects are selected, their order, and their form.
struct ObjectSelector<'a> {
    labels: Option<&'a Selector>,
    fields: Option<FieldSelector>,
    sort_by: Option<&'a SortBy>,
    form: OutputForm,
    /// The time to which ages are counted.
    moment: Moment,
}

enum OutputForm {
    Names,
    Rows(TableConvertor),
    Values,
}

impl Get {
    pub(super) fn run(self, out: &mut Printer) -> anyhow::Result<Outcome> {
        let open_history = history_arg::open(self.history.as_deref())?;
        let moment = open_history.moment(self.at.as_deref())?;
        let source = open_history.source(self.source.as_deref(), "--source")?;
        let kind_resolver = KindResolver::read(&open_history.history, moment)?;
        let labels = self.selector.as_deref().map(Selector::parse).transpose()?;
        let sort_by = self.sort_by.as_deref().map(SortBy::parse).transpose()?;
        let requests = self.resource_requests(&kind_resolver)?;

        let mut results = Vec::new();
        let mut missing = Vec::new();
        for ResourceRequest { found, names } in requests {
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
                versions = open_history.history.at(moment, &selection)?.into_objects();
            }
            for name in &names {
                selection.name = Some(name.clone());
                let named_versions = open_history.history.at(moment, &selection)?.into_objects();
                if named_versions.is_empty() {
                    missing.push(format!("{} \"{name}\" not found", KindResolver::plural(&found.shown)));
                }
                versions.extend(named_versions);
            }
            let selector = ObjectSelector {
                labels: labels.as_ref(),
                fields,
                sort_by: sort_by.as_ref(),
                form: self.output_form(&kind_resolver, &found),
                moment,
            };
            results.push(ResourceResult { found, objects: selector.select(versions) });
        }
        let gaps = open_history.history.gaps()?;
        out.warn_of_gaps(gaps.iter().filter(|gap| {
            let concerns = results.iter().any(|result| gap.concerns(&result.found.kind));
            concerns && gap.from <= moment && moment < gap.to
        }));
        self.print(out, &kind_resolver, results, &missing)?;
        if missing.is_empty() {
            return Ok(Outcome::Done);
        }
        out.flush()?;
        bail!("{} at {moment}", missing.join(", "))
    }

    /// Parses kubectl's three forms: `pods a b`, `pod/a svc/b` and `po,svc`.
    fn resource_requests(&self, kind_resolver: &KindResolver) -> anyhow::Result<Vec<ResourceRequest>> {
        if !self.kind.contains('/') {
            if let Some(odd) = self.names.iter().find(|name| name.contains('/')) {
                bail!("no separate resource type is needed with {odd:?}: omit {:?}", self.kind);
            }
            let found = kind_resolver.resolve(&self.kind)?;
            return Ok(found
                .into_iter()
                .map(|found| ResourceRequest { found, names: self.names.clone() })
                .collect());
        }
        let mut requests: Vec<ResourceRequest> = Vec::new();
        for argument in std::iter::once(&self.kind).chain(&self.names) {
            let Some((kind, name)) =
                argument.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty())
            else {
                bail!("{argument:?} must be in resource/name form, such as pod/NAME");
            };
            for found in kind_resolver.resolve(kind)? {
                match requests.iter_mut().find(|requests| requests.found == found) {
                    Some(requests) => requests.names.push(name.to_owned()),
                    None => requests.push(ResourceRequest { found, names: vec![name.to_owned()] }),
                }
            }
        }
        Ok(requests)
    }

    fn output_form(&self, kind_resolver: &KindResolver, found: &ResourceType) -> OutputForm {
        match self.output.as_str() {
            "json" | "yaml" => OutputForm::Values,
            "name" => OutputForm::Names,
            _ => OutputForm::Rows(kind_resolver.layout(&found.kind)),
        }
    }

    fn print(
        &self,
        out: &mut Printer,
        kind_resolver: &KindResolver,
        results: Vec<ResourceResult>,
        missing: &[String],
    ) -> anyhow::Result<()> {
        let count: usize = results.iter().map(|result| result.objects.len()).sum();
        match self.output.as_str() {
            "json" | "yaml" => {
                let objects = results.into_iter().flat_map(|result| result.objects);
                let mut objects: Vec<Value> =
                    objects.filter_map(SelectedObject::value).collect::<Result<_, _>>()?;
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
                for result in results {
                    let kind = result.found.shown.to_string().to_lowercase();
                    for name in result.objects.into_iter().filter_map(SelectedObject::name) {
                        writeln!(out, "{kind}/{name}")?;
                    }
                }
            }
            _ if count == 0 => {
                if missing.is_empty() {
                    self.print_nothing_found(out, &results);
                }
            }
            _ => {
                let style = PrintOptions {
                    wide: self.output == "wide",
                    with_namespace: self.scope.all_namespaces,
                    with_kind: results.len() > 1,
                    no_headers: self.no_headers,
                    show_labels: self.show_labels,
                    column_labels: self.label_columns.clone(),
                };
                let table = |ResourceResult { found, objects }| Table {
                    columns: kind_resolver.layout(&found.kind).columns().to_vec(),
                    namespaced: found.namespaced,
                    kind: found.shown,
                    rows: objects.into_iter().filter_map(SelectedObject::row).collect(),
                };
                let tables: Vec<Table> = results.into_iter().map(table).collect();
                write!(out, "{}", render(&tables, &style))?;
            }
        }
        Ok(())
    }

    fn print_nothing_found(&self, out: &mut Printer, results: &[ResourceResult]) {
        let namespaced = results.iter().any(|result| result.found.namespaced);
        if !namespaced || self.scope.all_namespaces {
            out.print_to_stderr("No resources found");
        } else {
            out.print_to_stderr(&format!("No resources found in {} namespace.", self.scope.namespace));
        }
    }
}

// === impl ObjectSelector ===

impl ObjectSelector<'_> {
    fn select(&self, versions: Vec<ObjectVersion>) -> Vec<SelectedObject> {
        let mut selected: Vec<(Option<Value>, SelectedObject)> =
            versions.into_iter().filter_map(|version| self.select_one(&version.object)).collect();
        if self.sort_by.is_some() {
            selected.sort_by(|(a, _), (b, _)| SortBy::compare(a.as_ref(), b.as_ref()));
        }
        selected.into_iter().map(|(_, object)| object).collect()
    }

    /// An object with the value it is sorted by; `None` if it is not selected.
    fn select_one(&self, object: &Object) -> Option<(Option<Value>, SelectedObject)> {
        if self.labels.is_some_and(|labels| !matches_labels(object, labels)) {
            return None;
        }
        let is_name_only =
            matches!(self.form, OutputForm::Names) && self.fields.is_none() && self.sort_by.is_none();
        let parsed = if is_name_only { Ok(Value::Null) } else { object.value() };
        let value = parsed.as_ref().ok();
        if self.fields.as_ref().is_some_and(|fields| !value.is_some_and(|value| fields.matches(value))) {
            return None;
        }
        let sort_value = self.sort_by.zip(value).and_then(|(sort_by, value)| sort_by.value(value).cloned());
        let printed = match (&self.form, parsed) {
            (OutputForm::Names, _) => SelectedObject::Name(object.meta().name.into_owned()),
            (OutputForm::Rows(layout), Ok(value)) => {
                SelectedObject::Row(layout.row_of_value(&value, self.moment))
            }
            (OutputForm::Rows(layout), Err(_)) => SelectedObject::Row(layout.row(object, self.moment)),
            (OutputForm::Values, parsed) => SelectedObject::Value(parsed),
        };
        Some((sort_value, printed))
    }
}

// === impl SelectedObject ===

impl SelectedObject {
    fn name(self) -> Option<String> {
        match self {
            SelectedObject::Name(name) => Some(name),
            SelectedObject::Row(_) | SelectedObject::Value(_) => None,
        }
    }

    fn row(self) -> Option<TableRow> {
        match self {
            SelectedObject::Row(row) => Some(row),
            SelectedObject::Name(_) | SelectedObject::Value(_) => None,
        }
    }

    fn value(self) -> Option<serde_json::Result<Value>> {
        match self {
            SelectedObject::Value(value) => Some(value),
            SelectedObject::Name(_) | SelectedObject::Row(_) => None,
        }
    }
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
