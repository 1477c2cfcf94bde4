//! Manifests as `kubectl apply` takes them: YAML or JSON, one object or several, lists, several documents.
//!
//! They are read by [`kwok`](crate::kwok), whose recordings begin with manifests.

use std::borrow::Cow;
use std::io::{BufRead, Cursor, Write};

use model::{BadObject, Change, Gap, Meta, Object};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_values::{JsonValues, MAX_VALUE_BYTES};
use crate::{Error, Input, Result, WriteSummary};

pub(crate) mod yaml;

pub use yaml::to_yaml;

/// Writes objects as YAML documents.
pub struct ManifestWriter<W> {
    out: W,
    written: WriteSummary,
}

/// The documents of a file, each as a JSON text.
pub(crate) enum ManifestDocuments {
    Json(JsonValues),
    Yaml(yaml::YamlDocuments),
}

/// Why a document has no objects.
pub(crate) struct DocumentError {
    /// The line in the text of the document, counted from 0.
    line: u64,
    why: String,
}

/// The fields of a list such as `List` or `PodList`; of any other object `items` is `None`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ManifestList<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

// === impl ManifestDocuments ===

impl ManifestDocuments {
    pub(crate) fn open(mut input: Input) -> Result<ManifestDocuments> {
        let head = input.reader.fill_buf().map_err(|source| Error::cannot_read(&input.name, source))?;
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let is_json = head.trim_ascii_start().starts_with(b"{");
        Ok(if is_json {
            ManifestDocuments::Json(JsonValues::new(&input.name, input.reader))
        } else {
            ManifestDocuments::Yaml(yaml::YamlDocuments::new(&input.name, input.reader))
        })
    }

    /// The next document and the line it begins on.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, String)>> {
        match self {
            ManifestDocuments::Json(values) => Ok(values.next()?.map(|(line, text)| (line, text.to_owned()))),
            ManifestDocuments::Yaml(documents) => documents.next(),
        }
    }

    /// An error in any document that was read.
    pub(crate) fn line_error(&self, line: u64, why: impl Into<String>) -> Error {
        match self {
            ManifestDocuments::Json(values) => values.line_error(line, why),
            ManifestDocuments::Yaml(documents) => documents.earlier_error(line, why.into()),
        }
    }

    /// An error in the document that was read last.
    pub(crate) fn document_error(&self, line: u64, why: impl Into<String>) -> Error {
        match self {
            ManifestDocuments::Json(values) => values.line_error(line, why),
            ManifestDocuments::Yaml(documents) => documents.line_error(line, why.into()),
        }
    }

    /// The error of the objects in a document that begins on this line.
    pub(crate) fn objects_error(&self, first: u64, error: DocumentError) -> Error {
        self.document_error(first + error.line, error.why)
    }
}

// === impl DocumentError ===

impl DocumentError {
    /// Why this text, which is not JSON or not of this shape, is not a manifest.
    fn of_text(text: &str, error: &serde_json::Error) -> DocumentError {
        match serde_json::from_str::<Value>(text) {
            Err(error) => {
                let line = u64::try_from(error.line()).unwrap_or(u64::MAX).saturating_sub(1);
                DocumentError { line, why: format!("not JSON: {}", without_position(&error)) }
            }
            Ok(value) => {
                let why = shape_error(&value).unwrap_or_else(|| without_position(error));
                DocumentError { line: 0, why: format!("not a manifest: {why}") }
            }
        }
    }

    /// Why this text, which is JSON, is not an object.
    fn of_object(text: &str, error: &BadObject) -> DocumentError {
        match error {
            BadObject::Json(error) => DocumentError::of_text(text, error),
            error => DocumentError { line: 0, why: error.to_string() },
        }
    }

    fn of_item(self, index: usize) -> DocumentError {
        // The lines of an item are not those of the document.
        DocumentError { line: 0, why: format!("items[{index}]: {}", self.why) }
    }
}

/// What a manifest lacks: its API version, kind, metadata, name, or a list where one is expected.
fn shape_error(manifest: &Value) -> Option<String> {
    if !manifest.is_object() {
        let found = type_of(manifest);
        return Some(format!("expected an object with apiVersion, kind and metadata, found {found}"));
    }
    let items = &manifest["items"];
    if !(items.is_null() || items.is_array()) {
        return Some(format!("items: expected a list, found {}", type_of(items)));
    }
    let expected = |value: Option<&Value>, field: &str, is_right: fn(&Value) -> bool, what: &str| match value
    {
        None | Some(Value::Null) => Some(format!("{field} is missing")),
        Some(value) if is_right(value) => None,
        Some(value) => Some(format!("{field}: expected {what}, found {}", type_of(value))),
    };
    let metadata = manifest.get("metadata");
    let texts = ["apiVersion", "kind"]
        .into_iter()
        .find_map(|field| expected(manifest.get(field), field, Value::is_string, "a text"));
    texts.or_else(|| expected(metadata, "metadata", Value::is_object, "a map")).or_else(|| {
        let name = metadata.and_then(|metadata| metadata.get("name"));
        expected(name, "metadata.name", Value::is_string, "a text")
    })
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// The text of an error. Positions are those in the JSON that a document was made into.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(why, _)| why.to_owned())
}

/// Parses a text with a single document, YAML or JSON, that need not be a named object, such as a configuration.
pub fn parse_yaml(file: &str, text: &str) -> Result<Value> {
    let mut documents = yaml::YamlDocuments::new(file, Box::new(Cursor::new(text.as_bytes().to_vec())));
    let Some((line, text)) = documents.next()? else { return Err(Error::invalid_file(file, "empty")) };
    if let Some((line, _)) = documents.next()? {
        return Err(Error::invalid_line(file, line, "more than one document; expected one"));
    }
    serde_json::from_str(&text).map_err(|error| Error::invalid_line(file, line, without_position(&error)))
}

/// Calls `each` with every object of a file that is to be created. An object with `generateName` and no name gets the
/// prefix as its name.
pub fn for_each_new_object(input: Input, mut each: impl FnMut(Object)) -> Result<()> {
    let mut documents = ManifestDocuments::open(input)?;
    while let Some((line, text)) = documents.next()? {
        let objects = objects_of_document_with(&text, &parse_with_generate_name)
            .map_err(|error| documents.objects_error(line, error))?;
        objects.into_iter().for_each(&mut each);
    }
    Ok(())
}

fn parse_with_generate_name(text: &str) -> std::result::Result<Object, BadObject> {
    let nameless = match Object::parse(text) {
        Err(error) if text.contains("generateName") => error,
        parsed => return parsed,
    };
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return Err(nameless) };
    let prefix = value["metadata"]["generateName"].as_str().unwrap_or_default().to_owned();
    match value.get_mut("metadata").and_then(Value::as_object_mut) {
        Some(metadata) if metadata.get("name").is_none_or(|name| name.is_null() || name == "") => {
            metadata.insert("name".to_owned(), prefix.into());
            Object::parse(&value.to_string())
        }
        _ => Err(nameless),
    }
}

/// The objects of one document: the object itself, or the items of a list, including nested lists.
pub(crate) fn objects_of_document(text: &str) -> std::result::Result<Vec<Object>, DocumentError> {
    objects_of_document_with(text, &Object::parse)
}

fn objects_of_document_with(
    text: &str,
    parse: &dyn Fn(&str) -> std::result::Result<Object, BadObject>,
) -> std::result::Result<Vec<Object>, DocumentError> {
    let list: ManifestList<'_> =
        serde_json::from_str(text).map_err(|error| DocumentError::of_text(text, &error))?;
    let Some(kind) = list.kind.strip_suffix("List").filter(|_| list.items.is_some()) else {
        return Ok(vec![parse(text).map_err(|error| DocumentError::of_object(text, &error))?]);
    };
    let mut objects = Vec::new();
    for (index, item) in list.items.into_iter().flatten().enumerate() {
        let at = |error: DocumentError| error.of_item(index);
        let text = with_type_meta(item.get(), &list.api_version, kind);
        if Meta::read(&text).is_err()
            && let Ok(ManifestList { kind, items: Some(_), .. }) = serde_json::from_str(&text)
            && kind.ends_with("List")
        {
            // kubectl prints no list of lists, but users concatenate its output.
            objects.extend(objects_of_document_with(&text, parse).map_err(at)?);
            continue;
        }
        objects.push(parse(&text).map_err(|error| at(DocumentError::of_object(&text, &error)))?);
    }
    Ok(objects)
}

/// Adds apiVersion and kind to an item: in an API server's list only the list has them.
pub(crate) fn with_type_meta<'a>(item: &'a str, api_version: &str, kind: &str) -> Cow<'a, str> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Names {
        api_version: Option<serde::de::IgnoredAny>,
        kind: Option<serde::de::IgnoredAny>,
    }
    let Ok(names) = serde_json::from_str::<Names>(item) else { return item.into() };
    // A plain `List` does not determine the kind of its items.
    if kind.is_empty() || (names.api_version.is_some() && names.kind.is_some()) {
        return item.into();
    }
    let Some(rest) = item.trim_start().strip_prefix('{') else { return item.into() };
    let mut text = String::with_capacity(item.len() + 64);
    text.push('{');
    for (name, value, missing) in
        [("apiVersion", api_version, names.api_version.is_none()), ("kind", kind, names.kind.is_none())]
    {
        if missing {
            let value = serde_json::to_string(value).expect("a string serializes as JSON");
            text.push_str(&format!("\"{name}\":{value},"));
        }
    }
    if rest.trim_start().starts_with('}') {
        text.pop();
    }
    text.push_str(rest);
    text.into()
}

/// An object without apiVersion and kind, as an item of a list that determines them. Fields are sorted by name; Go
/// writes them in the order of its types, but reads any order.
pub(crate) fn without_type_meta(object: &Object) -> Result<Value> {
    let mut value = object.value().map_err(std::io::Error::other)?;
    if let Some(fields) = value.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    Ok(value)
}

// === impl ManifestWriter ===

impl<W: Write> ManifestWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> ManifestWriter<W> {
        ManifestWriter { out, written: WriteSummary::default() }
    }
}

impl<W: Write> crate::Writer for ManifestWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        if let Some(object) = change.what.state() {
            let value = object.value().map_err(std::io::Error::other)?;
            write!(self.out, "---\n{}", to_yaml(&value))?;
            self.written.count += 1;
        }
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        self.out.flush()?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, ImportItem, ReadOptions};
    use model::Moment;

    fn read(text: &str) -> Result<Vec<String>> {
        let input = Input::open("file", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
        let options = ReadOptions { source: "s".into(), at: None, now: Moment::default() };
        let text = |item| match item {
            ImportItem::Object(object) => object.as_str().to_owned(),
            other => panic!("{other:?} is not an object"),
        };
        crate::read(input, Format::Manifests, options)?.map(|item| item.map(text)).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(read(text).unwrap(), expected);
    }

    #[track_caller]
    fn refused(text: &str, message: &str) {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(message), "{error:?} should say {message:?}");
    }

    const A: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}"#;

    #[test]
    fn json_keeps_its_bytes() {
        check(A, &[A]);
        check(&format!("{A}\n{A}"), &[A, A]);
        check(&format!(r#"{{"apiVersion":"v1","kind":"List","items":[{A}, {A}]}}"#), &[A, A]);
    }

    #[test]
    fn items_of_a_list_get_its_api_version_and_kind() {
        check(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"a"}}]}"#,
            &[A],
        );
        check(r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#, &[]);
    }

    #[test]
    fn yaml_documents_keep_the_order_of_their_fields() {
        check(
            "# two\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\n",
            &[A, r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b"}}"#],
        );
    }

    #[test]
    fn an_object_with_generate_name_gets_its_prefix_as_name() {
        let names = |text: &str| {
            let input = Input::open("file", Box::new(Cursor::new(text.as_bytes().to_vec()))).unwrap();
            let mut names = Vec::new();
            for_each_new_object(input, |object| names.push(object.meta().name.into_owned())).map(|()| names)
        };
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n---\n\
                    apiVersion: v1\nkind: Pod\nmetadata: {generateName: b-, name: b}\n";
        assert_eq!(names(text).unwrap(), ["a-", "b"]);
        let list = r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"generateName":"c-"}}]}"#;
        assert_eq!(names(list).unwrap(), ["c-"]);
        for bad in ["metadata: {generateName: [a]}", "metadata: {}", "generateName: a"] {
            assert!(names(&format!("apiVersion: v1\nkind: Pod\n{bad}\n")).is_err(), "{bad}");
        }
        refused("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "line 1: ");
    }

    #[test]
    fn errors_have_their_line() {
        refused("apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: Pod\n", "line 1: ");
        refused(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\nkind: [\n",
            "file, document 2, line 6: not YAML: unclosed bracket",
        );
        refused(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\n# third\napiVersion: v1\nkind: Pod\n",
            "file, document 2, line 5: not a manifest: metadata is missing",
        );
        refused(
            "- a\n",
            "file, line 1: not a manifest: expected an object with apiVersion, kind and metadata, found a list",
        );
        refused(
            "apiVersion: 1\nkind: Pod\n",
            "line 1: not a manifest: apiVersion: expected a text, found a number",
        );
        refused(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n",
            "metadata.name: expected a text, found a number",
        );
        refused("apiVersion: v1\nkind: PodList\nitems: {a: b}\n", "items: expected a list, found a map");
        refused("{\n\"apiVersion\": \"v1\",\n\"kind\" \"Pod\"}", "file, line 3: not JSON: expected `:`");
        refused("a: 1\na: 2\n", "line 2: not YAML: duplicate key \"a\"");
        refused(&"[".repeat(300), "line 1: not YAML: too many lists and maps in one another");
        refused(r#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{}}]}"#, "items[0]");
        refused(
            "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n",
            "too large, or becomes so when its aliases are expanded",
        );
    }
}
