//! Field selectors: `metadata.name=web-1,status.phase!=Running`.

use std::borrow::Cow;
use std::fmt;

use model::Kind;
use serde_json::Value;

use super::BadSelector;

/// Requirements on fields of an object that must all hold, for one kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<(Term, &'static Field)>,
}

// === impl FieldSelector ===

impl FieldSelector {
    /// Reads the text given to `kubectl --field-selector`. Only the fields that the API server offers for that kind
    /// can be used. An empty text selects everything.
    pub fn parse(text: &str, kind: &Kind) -> Result<FieldSelector, BadSelector> {
        let fields = fields(kind);
        let resolve = |term: Term| match fields.iter().find(|field| field.name == term.field) {
            Some(field) => Ok((term, field)),
            None => {
                let names: Vec<&str> = fields.iter().map(|field| field.name).collect();
                let why =
                    format!("{:?} cannot be selected by for {kind}; {} can", term.field, names.join(", "));
                Err(BadSelector { place: format!("in {text:?}"), why })
            }
        };
        let terms = terms(text)?.into_iter().map(resolve).collect::<Result<_, _>>()?;
        Ok(FieldSelector { terms })
    }

    /// Whether it selects that object, which is of the kind it was made for.
    pub fn matches(&self, object: &Value) -> bool {
        self.terms.iter().all(|(term, field)| (field.of(object) == term.value) == term.equal)
    }
}

impl fmt::Display for FieldSelector {
    /// The text that reads as the same selector.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (term, _)) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    field: String,
    equal: bool,
    value: String,
}

impl fmt::Display for Term {
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

/// A field that can be selected by.
#[derive(Debug, PartialEq, Eq)]
struct Field {
    name: &'static str,
    /// Where in the JSON it is found: the first that is not empty.
    sources: &'static [&'static str],
    /// What it is where it is nowhere found, as the API server would fill it in.
    absent: &'static str,
}

impl Field {
    fn of<'v>(&self, object: &'v Value) -> Cow<'v, str> {
        let found = self.sources.iter().find_map(|source| match object.pointer(source)? {
            Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text.as_str())),
            Value::Bool(flag) => Some(Cow::Borrowed(if *flag { "true" } else { "false" })),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            _ => None,
        });
        found.unwrap_or(Cow::Borrowed(self.absent))
    }
}

/// What the text asks for, sorted as Kubernetes sorts it: by the text of each term.
fn terms(text: &str) -> Result<Vec<Term>, BadSelector> {
    let bad = |why: String| BadSelector { place: format!("in {text:?}"), why };
    let mut parts = split_terms(text);
    parts.sort_unstable();
    let mut terms = Vec::new();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        // The earliest operator counts, and of two at one place the longer.
        let at = part.find('=').ok_or_else(|| bad(format!("expected = or != in {part:?}")))?;
        let (field, equal) = match part[..at].strip_suffix('!') {
            Some(field) => (field, false),
            None => (&part[..at], true),
        };
        let mut value = &part[at + 1..];
        if equal {
            value = value.strip_prefix('=').unwrap_or(value);
        }
        let value = unescape(value).map_err(&bad)?;
        terms.push(Term { field: field.to_owned(), equal, value });
    }
    Ok(terms)
}

/// The parts between commas, those after a backslash not counted.
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
                        "in {text:?} a backslash stands before something else than \\, ',' or ="
                    ));
                }
            },
            '=' => return Err(format!("the = in the value {text:?} needs a backslash before it")),
            c => c,
        });
    }
    Ok(value)
}

/// The fields of a kind that the API server lets one select by.
fn fields(kind: &Kind) -> &'static [Field] {
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

const fn field(name: &'static str, sources: &'static [&'static str], absent: &'static str) -> Field {
    Field { name, sources, absent }
}

const NAME: Field = field("metadata.name", &["/metadata/name"], "");
const SPACE: Field = field("metadata.namespace", &["/metadata/namespace"], "");

const ANY: &[Field] = &[NAME, SPACE];

const POD: &[Field] = &[
    NAME,
    SPACE,
    field("spec.nodeName", &["/spec/nodeName"], ""),
    // The name of old clients for spec.nodeName.
    field("spec.host", &["/spec/nodeName"], ""),
    field("spec.restartPolicy", &["/spec/restartPolicy"], "Always"),
    field("spec.schedulerName", &["/spec/schedulerName"], "default-scheduler"),
    field("spec.serviceAccountName", &["/spec/serviceAccountName", "/spec/serviceAccount"], ""),
    field("spec.hostNetwork", &["/spec/hostNetwork"], "false"),
    field("status.phase", &["/status/phase"], ""),
    field("status.podIP", &["/status/podIP", "/status/podIPs/0/ip"], ""),
    // Accepted but never filled in.
    field("status.podIPs", &[], ""),
    field("status.nominatedNodeName", &["/status/nominatedNodeName"], ""),
];

const NODE: &[Field] = &[NAME, field("spec.unschedulable", &["/spec/unschedulable"], "false")];

const EVENT: &[Field] = &[
    NAME,
    SPACE,
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

const NEW_EVENT: &[Field] = &[
    NAME,
    SPACE,
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

const NAMESPACE: &[Field] = &[NAME, field("status.phase", &["/status/phase"], "Active")];

const SECRET: &[Field] = &[NAME, SPACE, field("type", &["/type"], "Opaque")];

const SERVICE: &[Field] = &[
    NAME,
    SPACE,
    field("spec.clusterIP", &["/spec/clusterIP"], ""),
    field("spec.type", &["/spec/type"], "ClusterIP"),
];

const REPLICATION_CONTROLLER: &[Field] = &[NAME, SPACE, field("status.replicas", &["/status/replicas"], "0")];

const JOB: &[Field] = &[NAME, SPACE, field("status.successful", &["/status/succeeded"], "0")];

const SIGNING_REQUEST: &[Field] = &[NAME, field("spec.signerName", &["/spec/signerName"], "")];

const RESOURCE_SLICE: &[Field] =
    &[NAME, field("spec.nodeName", &["/spec/nodeName"], ""), field("spec.driver", &["/spec/driver"], "")];

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
            let found = terms(row["fieldSelector"].as_str().unwrap());
            if row.get("error").is_some() {
                assert!(found.is_err(), "{row}");
                continue;
            }
            let found = found.unwrap();
            let shown: Vec<String> = found.iter().map(Term::to_string).collect();
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
                let term = Term {
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
            r#"bad selector: "spec.color" cannot be selected by for Node; metadata.name, spec.unschedulable can (in "spec.color=red")"#
        );
    }
}
