//! Field selectors: `metadata.name=web-1,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

use model::Kind;
use serde_json::Value;

use super::BadSelector;
use crate::go::text::format_value;

/// Requirements on fields of an object of one kind, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<(FieldTerm, SelectedField)>,
}

/// The field that a term is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectedField {
    BuiltIn(&'static SelectableField),
    /// A field of a custom resource, with the names that lead to it.
    Custom(Vec<String>),
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Parses the text given to `kubectl --field-selector`. Only the fields that the API server supports for that
    /// kind can be used. An empty text selects everything.
    pub fn parse(text: &str, kind: &Kind) -> Result<FieldSelector, BadSelector> {
        let fields = fields(kind);
        let resolve = |term: FieldTerm| match fields.iter().find(|field| field.name == term.field) {
            Some(field) => Ok((term, SelectedField::BuiltIn(field))),
            None => {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                let why = format!(
                    "field {:?} is not supported for {kind}; supported: {}",
                    term.field,
                    names.join(", ")
                );
                Err(BadSelector { place: format!("in {text:?}"), why })
            }
        };
        let terms = parse_terms(text)?.into_iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(FieldSelector { terms })
    }

    /// The same for a custom kind, of which the fields of these paths (`spec.color`) can be selected too. Other fields are
    /// refused with the error of an API server.
    pub fn parse_custom<'f>(
        text: &str,
        namespaced: bool,
        fields: impl Iterator<Item = &'f str> + Clone,
    ) -> Result<FieldSelector, String> {
        let resolve = |term: FieldTerm| {
            let is_metadata =
                term.field == "metadata.name" || (namespaced && term.field == "metadata.namespace");
            if !is_metadata && !fields.clone().any(|field| field == term.field) {
                return Err(format!("field label not supported: {}", term.field));
            }
            let names = term.field.split('.').map(str::to_owned).collect();
            Ok((term, SelectedField::Custom(names)))
        };
        let terms = parse_terms(text).map_err(|error| error.to_string())?;
        Ok(FieldSelector { terms: terms.into_iter().map(resolve).collect::<Result<_, _>>()? })
    }

    /// Whether it selects that object, which must be of the selector's kind.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|(term, field)| match field {
            SelectedField::BuiltIn(field) => (field.of(object) == term.value) == term.equal,
            SelectedField::Custom(names) => (custom_text(object, names) == term.value) == term.equal,
        })
    }
}

impl fmt::Display for FieldSelector {
    /// A text that parses to the same selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (term, _)) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    equal: bool,
    value: String,
}

impl fmt::Display for FieldTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.field, if self.equal { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}

/// A field that can be used in a selector.
#[derive(Debug, PartialEq, Eq)]
struct SelectableField {
    name: &'static str,
    /// JSON pointers to its value; the first that is not empty counts.
    pointers: &'static [&'static str],
    /// The value if it is absent, as the API server would default it.
    default_value: &'static str,
}

impl SelectableField {
    fn of<'v>(&self, object: &'v Value) -> Cow<'v, str> {
        let found = self.pointers.iter().find_map(|source| match object.pointer(source)? {
            Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text.as_str())),
            Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        });
        found.unwrap_or(Cow::Borrowed(self.default_value))
    }
}

/// The text of a field of a custom resource; empty if it is absent.
fn custom_text(object: &Value, names: &[String]) -> String {
    let value = names.iter().try_fold(object, |value, name| value.get(name));
    value.filter(|value| !value.is_null()).map(format_value).unwrap_or_default()
}

/// The terms of a text, sorted as in Kubernetes: by the text of each term.
fn parse_terms(text: &str) -> Result<Vec<FieldTerm>, BadSelector> {
    let bad_selector = |why: String| BadSelector { place: format!("in {text:?}"), why };
    let mut parts = split_terms(text);
    parts.sort_unstable();
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        // The first operator counts, and the longer of two at one position.
        let at = part.find('=').ok_or_else(|| bad_selector(format!("expected = or != in {part:?}")))?;
        let (field, equal) = match part[..at].strip_suffix('!') {
            Some(field) => (field, false),
            None => (&part[..at], true),
        };
        let mut value = &part[at + 1..];
        if equal {
            value = value.strip_prefix('=').unwrap_or(value);
        }
        let value = unescape(value).map_err(&bad_selector)?;
        terms.push(FieldTerm { field: field.to_owned(), equal, value });
    }
    Ok(terms)
}

/// Splits at commas, except those after a backslash.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == ',' {
            parts.push(&text[start..at]);
            start = at + 1;
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unescape(text: &str) -> Result<String, String> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        value.push(match c {
            '\\' => match characters.next() {
                Some(c @ ('\\' | ',' | '=')) => c,
                _ => {
                    return Err(format!(
                        "invalid escape in {text:?}: a backslash must be followed by \\, ',' or ="
                    ));
                }
            },
            '=' => return Err(format!("the = in the value {text:?} must be escaped with a backslash")),
            c => c,
        });
    }
    Ok(value)
}

/// The fields that the API server supports in selectors of a kind.
fn fields(kind: &Kind) -> &'static [SelectableField] {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => POD,
        ("", "Node") => NODE,
        ("", "Event") => EVENT,
        ("events.k8s.io", "Event") => NEW_EVENT,
        ("", "Namespace") => NAMESPACE,
        ("", "Secret") => SECRET,
        ("", "Service") => SERVICE,
        ("", "ReplicationController") => REPLICATION_CONTROLLER,
        ("batch", "Job") => JOB,
        ("certificates.k8s.io", "CertificateSigningRequest") => SIGNING_REQUEST,
        ("resource.k8s.io", "ResourceSlice") => RESOURCE_SLICE,
        _ => ANY,
    }
}

const fn field(
    name: &'static str,
    sources: &'static [&'static str],
    absent: &'static str,
) -> SelectableField {
    SelectableField { name, pointers: sources, default_value: absent }
}

const NAME_FIELD: SelectableField = field("metadata.name", &["/metadata/name"], "");
const NAMESPACE_FIELD: SelectableField = field("metadata.namespace", &["/metadata/namespace"], "");

const ANY: &[SelectableField] = &[NAME_FIELD, NAMESPACE_FIELD];

const POD: &[SelectableField] = &[
    NAME_FIELD,
    NAMESPACE_FIELD,
    field("spec.nodeName", &["/spec/nodeName"], ""),
    // The old name of spec.nodeName.
    field("spec.host", &["/spec/nodeName"], ""),
    field("spec.restartPolicy", &["/spec/restartPolicy"], "Always"),
    field("spec.schedulerName", &["/spec/schedulerName"], "default-scheduler"),
    field("spec.serviceAccountName", &["/spec/serviceAccountName", "/spec/serviceAccount"], ""),
    field("spec.hostNetwork", &["/spec/hostNetwork"], "false"),
    field("status.phase", &["/status/phase"], ""),
    field("status.podIP", &["/status/podIP", "/status/podIPs/0/ip"], ""),
    // Accepted, but never set.
    field("status.podIPs", &[], ""),
    field("status.nominatedNodeName", &["/status/nominatedNodeName"], ""),
];

const NODE: &[SelectableField] =
    &[NAME_FIELD, field("spec.unschedulable", &["/spec/unschedulable"], "false")];

const EVENT: &[SelectableField] = &[
    NAME_FIELD,
    NAMESPACE_FIELD,
    field("involvedObject.kind", &["/involvedObject/kind"], ""),
    field("involvedObject.namespace", &["/involvedObject/namespace"], ""),
    field("involvedObject.name", &["/involvedObject/name"], ""),
    field("involvedObject.uid", &["/involvedObject/uid"], ""),
    field("involvedObject.apiVersion", &["/involvedObject/apiVersion"], ""),
    field("involvedObject.resourceVersion", &["/involvedObject/resourceVersion"], ""),
    field("involvedObject.fieldPath", &["/involvedObject/fieldPath"], ""),
    field("reason", &["/reason"], ""),
    field("reportingComponent", &["/reportingComponent"], ""),
    field("source", &["/source/component", "/reportingComponent"], ""),
    field("type", &["/type"], ""),
];

const NEW_EVENT: &[SelectableField] = &[
    NAME_FIELD,
    NAMESPACE_FIELD,
    field("regarding.kind", &["/regarding/kind"], ""),
    field("regarding.namespace", &["/regarding/namespace"], ""),
    field("regarding.name", &["/regarding/name"], ""),
    field("regarding.uid", &["/regarding/uid"], ""),
    field("regarding.apiVersion", &["/regarding/apiVersion"], ""),
    field("regarding.resourceVersion", &["/regarding/resourceVersion"], ""),
    field("regarding.fieldPath", &["/regarding/fieldPath"], ""),
    field("reason", &["/reason"], ""),
    field("reportingController", &["/reportingController"], ""),
    field("type", &["/type"], ""),
];

const NAMESPACE: &[SelectableField] = &[NAME_FIELD, field("status.phase", &["/status/phase"], "Active")];

const SECRET: &[SelectableField] = &[NAME_FIELD, NAMESPACE_FIELD, field("type", &["/type"], "Opaque")];

const SERVICE: &[SelectableField] = &[
    NAME_FIELD,
    NAMESPACE_FIELD,
    field("spec.clusterIP", &["/spec/clusterIP"], ""),
    field("spec.type", &["/spec/type"], "ClusterIP"),
];

const REPLICATION_CONTROLLER: &[SelectableField] =
    &[NAME_FIELD, NAMESPACE_FIELD, field("status.replicas", &["/status/replicas"], "0")];

const JOB: &[SelectableField] =
    &[NAME_FIELD, NAMESPACE_FIELD, field("status.successful", &["/status/succeeded"], "0")];

const SIGNING_REQUEST: &[SelectableField] =
    &[NAME_FIELD, field("spec.signerName", &["/spec/signerName"], "")];

const RESOURCE_SLICE: &[SelectableField] = &[
    NAME_FIELD,
    field("spec.nodeName", &["/spec/nodeName"], ""),
    field("spec.driver", &["/spec/driver"], ""),
];

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_split_as_kubernetes_splits_them() {
        let (_, rows) = rows("fieldSelector");
        assert!(rows.len() > 20);
        for row in rows {
            let found = parse_terms(row["fieldSelector"].as_str().unwrap());
            if row.get("error").is_some() {
                assert!(found.is_err(), "{row}");
                continue;
            }
            let found = found.unwrap();
            let shown: Vec<String> = found.iter().map(FieldTerm::to_string).collect();
            assert_eq!(shown.join(","), row["string"].as_str().unwrap(), "{row}");
            let parts: Vec<Value> = found
                .iter()
                .map(|term| json!([term.field, if term.equal { "=" } else { "!=" }, term.value]))
                .collect();
            assert_eq!(Value::from(parts), row["requirements"], "{row}");
        }
    }

    #[test]
    fn each_kind_has_the_fields_and_values_it_has_in_kubernetes() {
        let (subjects, rows) = rows("object");
        assert!(rows.len() > 20);
        for row in rows {
            let object = &row["object"];
            let kind = Kind::of(object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
            for name in subjects["fieldNames"].as_array().unwrap() {
                let name = name.as_str().unwrap();
                let Some(expected) = row["fields"].get(name) else {
                    let error = FieldSelector::parse(&format!("{name}=x"), &kind).unwrap_err();
                    assert!(error.why.contains("metadata.name"), "{error}");
                    continue;
                };
                let term = FieldTerm {
                    field: name.to_owned(),
                    equal: true,
                    value: expected.as_str().unwrap().to_owned(),
                };
                let selector = FieldSelector::parse(&term.to_string(), &kind).unwrap();
                assert!(selector.matches(object), "{selector} of {row}");
                let other = FieldSelector::parse(&format!("{name}!={}", term.value), &kind).unwrap();
                assert!(!other.matches(object), "{other} of {row}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_fields_there_are() {
        let error = FieldSelector::parse("spec.color=red", &Kind::new("", "Node")).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"invalid selector: field "spec.color" is not supported for Node; supported: metadata.name, spec.unschedulable (in "spec.color=red")"#
        );
    }
}
