//! Decoding of list pages and watch lines; objects keep their bytes.

use std::borrow::Cow;
use std::str::Utf8Error;

use kubernetes::change_filter::ObjectReader;
use model::{BadObject, IncomingChange, Key, Moment, NamespacedName, Object, What};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{RequestFailure, WatchSubject};
use crate::recording_event::VersionId;

/// A page of a list.
pub(super) struct ListPage<'a> {
    /// The list's resourceVersion.
    pub(super) resource_version: String,
    /// The `continue` token; `None` on the last page.
    pub(super) continue_token: Option<String>,
    pub(super) items: Vec<&'a str>,
}

/// A line of a watch.
pub(super) enum WatchLine {
    Object(EventType, Object),
    /// No events up to this version.
    Bookmark(String),
    /// The version of an event whose object cannot be parsed, and the reason.
    Unreadable(String, String),
    Error(RequestFailure),
}

/// The type of a watch event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EventType {
    Added,
    Modified,
    Deleted,
}

/// A response that cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecodeError {
    #[error("not UTF-8: {0}")]
    Text(#[from] Utf8Error),
    #[error("not a response of an API server: {0}")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Object(#[from] BadObject),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

// === impl WatchSubject ===

impl WatchSubject {
    /// The part of a received object that may be recorded; `None` if it is filtered out.
    pub(super) fn sanitized(&self, object: Object) -> Option<Object> {
        if !(self.keep)(&object) {
            return None;
        }
        kubernetes::change_filter::sanitize(object, &self.kind, None)
    }

    /// A DELETED change for an object for which the server sent no event.
    pub(crate) fn inferred_delete(
        &self,
        name: &NamespacedName,
        version: &VersionId,
        seen: Moment,
    ) -> IncomingChange {
        let what = What::Deleted(deletion_stub(self, name, version));
        IncomingChange { seen, key: self.key(name), what, inferred: true }
    }

    pub(super) fn key(&self, name: &NamespacedName) -> Key {
        let NamespacedName { namespace, name } = name.clone();
        Key { source: self.source.clone(), kind: self.kind.clone(), namespace, name }
    }
}

// === impl ListPage ===

impl<'a> ListPage<'a> {
    pub(super) fn decode(bytes: &'a [u8]) -> Result<ListPage<'a>, DecodeError> {
        #[derive(Deserialize)]
        struct List<'b> {
            metadata: ListMeta,
            // A response without items is not a list, and must not be taken for an empty one.
            #[serde(borrow, deserialize_with = "Option::deserialize")]
            items: Option<Vec<&'b RawValue>>,
        }
        let List { metadata, items } = serde_json::from_str(std::str::from_utf8(bytes)?)?;
        // Go prints an empty list of some kinds as null.
        let items = items.unwrap_or_default().into_iter().map(RawValue::get).collect();
        let continue_token = Some(metadata.r#continue).filter(|continue_token| !continue_token.is_empty());
        Ok(ListPage { resource_version: metadata.resource_version, continue_token, items })
    }
}

// === impl WatchLine ===

impl WatchLine {
    pub(super) fn decode(bytes: &[u8], reader: Option<&ObjectReader>) -> Result<WatchLine, DecodeError> {
        #[derive(Deserialize)]
        struct Event<'b> {
            #[serde(borrow)]
            r#type: Cow<'b, str>,
            #[serde(borrow)]
            object: &'b RawValue,
        }
        let text = std::str::from_utf8(bytes)?;
        if let Some(line) = WatchLine::decode_fast(text, reader) {
            return Ok(line);
        }
        let Event { r#type, object } = serde_json::from_str(text)?;
        let event_type = match (EventType::parse(&r#type), &*r#type) {
            (Some(event_type), _) => event_type,
            (None, "BOOKMARK") => return Ok(WatchLine::Bookmark(resource_version_of(object)?)),
            // Unknown event types carry no object that this program understands.
            (None, _) => return Ok(WatchLine::Error(RequestFailure::from_status(object.get(), None))),
        };
        match read_object(object.get(), reader) {
            Ok(object) => Ok(WatchLine::Object(event_type, object)),
            Err(error) => Ok(WatchLine::Unreadable(resource_version_of(object)?, error.to_string())),
        }
    }

    /// Fast path for lines as API servers write them: the object is cut out without parsing it for its end.
    fn decode_fast(text: &str, reader: Option<&ObjectReader>) -> Option<WatchLine> {
        let (type_name, rest) = text.strip_prefix(r#"{"type":""#)?.split_once('"')?;
        let object = rest.strip_prefix(r#","object":"#)?.trim_ascii_end().strip_suffix('}')?;
        Some(WatchLine::Object(EventType::parse(type_name)?, read_object(object, reader).ok()?))
    }
}

// === impl EventType ===

impl EventType {
    fn parse(text: &str) -> Option<EventType> {
        match text {
            "ADDED" => Some(EventType::Added),
            "MODIFIED" => Some(EventType::Modified),
            "DELETED" => Some(EventType::Deleted),
            _ => None,
        }
    }
}

fn resource_version_of(object: &RawValue) -> Result<String, DecodeError> {
    #[derive(Deserialize)]
    struct Versioned {
        metadata: ListMeta,
    }
    let Versioned { metadata } = serde_json::from_str(object.get())?;
    Ok(metadata.resource_version)
}

/// Parses an object, with a reader in the form in which it is kept.
fn read_object(json: &str, reader: Option<&ObjectReader>) -> Result<Object, BadObject> {
    match reader.and_then(|reader| reader.read(json)) {
        Some(object) => Ok(object),
        None => Object::parse(json),
    }
}

/// Adds apiVersion and kind to an item of a list, which has none.
pub(super) fn with_type_meta(
    item: &str,
    api_version: &str,
    kind: &str,
    reader: Option<&ObjectReader>,
) -> Result<Object, DecodeError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct TypeMeta {
        api_version: Option<serde::de::IgnoredAny>,
        kind: Option<serde::de::IgnoredAny>,
    }
    // In the order of watch events, so that an object has the same bytes from a list and from a watch.
    let fields = [("kind", kind), ("apiVersion", api_version)];
    // A duplicate field is refused: if this is an object, the item had neither field.
    if let Some(Ok(object)) = with_fields(item, &fields).map(|text| read_object(&text, reader)) {
        return Ok(object);
    }
    let names: TypeMeta = serde_json::from_str(item)?;
    let is_missing = [names.kind.is_none(), names.api_version.is_none()];
    let missing: Vec<(&str, &str)> = fields
        .into_iter()
        .zip(is_missing)
        .filter(|(_, is_missing)| *is_missing)
        .map(|(field, _)| field)
        .collect();
    match with_fields(item, &missing) {
        Some(text) => Ok(read_object(&text, reader)?),
        None => Ok(Object::parse(item)?),
    }
}

/// Adds string fields at the beginning of a JSON object; `None` if the text does not begin like one.
fn with_fields(item: &str, fields: &[(&str, &str)]) -> Option<String> {
    let rest = item.strip_prefix('{')?;
    let mut text = String::with_capacity(item.len() + 64);
    text.push('{');
    for (name, value) in fields {
        let value = serde_json::to_string(value).expect("a string serializes as JSON");
        text.push_str(&format!("\"{name}\":{value},"));
    }
    text.push_str(rest);
    Some(text)
}

/// A stub of a deleted object, from the stored version.
fn deletion_stub(subject: &WatchSubject, name: &NamespacedName, version: &VersionId) -> Object {
    let mut metadata = serde_json::json!({
        "name": *name.name,
        "resourceVersion": *version.resource_version,
    });
    // Objects that the recorder generates have no uid.
    for (field, value) in [("uid", &*version.uid), ("namespace", &*name.namespace)] {
        if !value.is_empty() {
            metadata[field] = value.into();
        }
    }
    // Formatted by hand, because the identifying fields are searched for at the beginning of an object.
    let text = |value: &str| serde_json::to_string(value).expect("a string serializes as JSON");
    let (api_version, kind) = (text(&subject.api_version), text(&subject.kind.kind));
    Object::from_trusted(format!(r#"{{"apiVersion":{api_version},"kind":{kind},"metadata":{metadata}}}"#))
}

#[cfg(test)]
mod tests {
    use kubernetes::change_filter::FilterOptions;
    use model::Kind;

    use super::*;

    /// An item is read, or refused, like the text in which the missing fields have been added one by one.
    #[track_caller]
    fn check_item(item: &str, expected: Result<&str, &str>) {
        let reader = ObjectReader::new(&Kind::new("", "Pod"), &FilterOptions::default());
        for reader in [None, reader.as_ref()] {
            let object = with_type_meta(item, "v1", "Pod", reader);
            let text = object.as_ref().map(Object::as_str).map_err(ToString::to_string);
            match (text, expected) {
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (text, expected) => assert_eq!(text, expected.map_err(str::to_owned)),
            }
        }
    }

    #[test]
    fn only_missing_fields_are_added_to_an_item() {
        let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}"#;
        check_item(r#"{"metadata":{"name":"p"}}"#, Ok(pod));
        check_item(pod, Ok(pod));
        check_item(r#"{"apiVersion":"v1","metadata":{"name":"p"}}"#, Ok(pod));
        check_item(
            r#"{"kind":"Pod","metadata":{"name":"p"}}"#,
            Ok(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}"#),
        );
        check_item(
            r#"{"k\u0069nd":"Pod","metadata":{"name":"p"}}"#,
            Ok(r#"{"apiVersion":"v1","k\u0069nd":"Pod","metadata":{"name":"p"}}"#),
        );
    }

    #[test]
    fn items_that_are_no_objects_are_refused() {
        check_item(r#"{"kind":null,"metadata":{"name":"p"}}"#, Err("duplicate field `kind`"));
        check_item(r#"{"kind":7,"metadata":{"name":"p"}}"#, Err("invalid type: integer `7`"));
        check_item(r#"{"metadata":{"name":"p"},"kind":"a","kind":"b"}"#, Err("duplicate field `kind`"));
        check_item(r#"{"metadata":{"name":""}}"#, Err("metadata.name is empty"));
        check_item(r#"{"metadata":{"name":"p"}"#, Err("EOF"));
        check_item("{}", Err("trailing comma"));
        check_item("[]", Err("invalid length 0"));
        check_item("7", Err("invalid type"));
    }
}
