//! The answers' bytes: pages of lists and lines of watches, of which objects are cut out as they are.

use std::borrow::Cow;
use std::str::Utf8Error;

use model::{BadObject, Key, Moment, Object, Observed, What};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Failure, Subject};
use crate::news::{Name, Seen};

/// A page of a list.
pub(super) struct Page<'a> {
    /// The version of the cluster that the list shows.
    pub(super) version: String,
    /// Where the next page begins; `None` on the last one.
    pub(super) next: Option<String>,
    pub(super) items: Vec<&'a str>,
}

/// A line of a watch.
pub(super) enum Line {
    Object(Word, Object),
    /// Nothing happened up to this version.
    Bookmark(String),
    /// What happened to something that cannot be kept, up to this version.
    Unkept(String, String),
    Error(Failure),
}

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Added,
    Modified,
    Deleted,
}

/// Bytes that are not what a server sends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Bad {
    #[error("not text: {0}")]
    Text(#[from] Utf8Error),
    #[error("not what an API server answers: {0}")]
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

// === impl Subject ===

impl Subject {
    /// What may be told of an object that the server sent; `None` if it is nothing.
    pub(super) fn disclosed(&self, object: Object) -> Option<Object> {
        if !(self.keep)(&object) {
            return None;
        }
        kubernetes::rules::disclosed(object, &self.kind, None)
    }

    /// That an object is not there any more, of which the server did not say so.
    pub(crate) fn deleted(&self, name: &Name, last: &Seen, seen: Moment) -> Observed {
        let what = What::Deleted(stub(self, name, last));
        Observed { seen, key: self.key(name), what, inferred: true }
    }

    pub(super) fn key(&self, (namespace, name): &Name) -> Key {
        Key {
            source: self.source.clone(),
            kind: self.kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
        }
    }
}

// === impl Page ===

impl<'a> Page<'a> {
    pub(super) fn read(bytes: &'a [u8]) -> Result<Page<'a>, Bad> {
        #[derive(Deserialize)]
        struct List<'b> {
            metadata: ListMeta,
            // Whatever has none is no list, and nobody was deleted.
            #[serde(borrow, deserialize_with = "Option::deserialize")]
            items: Option<Vec<&'b RawValue>>,
        }
        let List { metadata, items } = serde_json::from_str(std::str::from_utf8(bytes)?)?;
        // Go prints an empty list of some kinds as null.
        let items = items.unwrap_or_default().into_iter().map(RawValue::get).collect();
        let next = Some(metadata.r#continue).filter(|next| !next.is_empty());
        Ok(Page { version: metadata.resource_version, next, items })
    }
}

// === impl Line ===

impl Line {
    pub(super) fn read(bytes: &[u8]) -> Result<Line, Bad> {
        #[derive(Deserialize)]
        struct Event<'b> {
            #[serde(borrow)]
            r#type: Cow<'b, str>,
            #[serde(borrow)]
            object: &'b RawValue,
        }
        let text = std::str::from_utf8(bytes)?;
        if let Some(line) = Line::usual(text) {
            return Ok(line);
        }
        let Event { r#type, object } = serde_json::from_str(text)?;
        let word = match (Word::of(&r#type), &*r#type) {
            (Some(word), _) => word,
            (None, "BOOKMARK") => return Ok(Line::Bookmark(version(object)?)),
            // Words of the future would carry no object that this program understands.
            (None, _) => return Ok(Line::Error(Failure::of_status(object.get(), None))),
        };
        match Object::parse(object.get()) {
            Ok(object) => Ok(Line::Object(word, object)),
            Err(error) => Ok(Line::Unkept(version(object)?, error.to_string())),
        }
    }

    /// A line as API servers write them, of which the object is cut out without reading it for its end.
    fn usual(text: &str) -> Option<Line> {
        let (word, rest) = text.strip_prefix(r#"{"type":""#)?.split_once('"')?;
        let object = rest.strip_prefix(r#","object":"#)?.trim_ascii_end().strip_suffix('}')?;
        Some(Line::Object(Word::of(word)?, Object::parse(object).ok()?))
    }
}

// === impl Word ===

impl Word {
    fn of(text: &str) -> Option<Word> {
        match text {
            "ADDED" => Some(Word::Added),
            "MODIFIED" => Some(Word::Modified),
            "DELETED" => Some(Word::Deleted),
            _ => None,
        }
    }
}

fn version(object: &RawValue) -> Result<String, Bad> {
    #[derive(Deserialize)]
    struct Versioned {
        metadata: ListMeta,
    }
    let Versioned { metadata } = serde_json::from_str(object.get())?;
    Ok(metadata.resource_version)
}

/// An item of a list as an object: it carries no apiVersion and kind, only the list does.
pub(super) fn named(item: &str, api_version: &str, kind: &str) -> Result<Object, Bad> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Names {
        api_version: Option<serde::de::IgnoredAny>,
        kind: Option<serde::de::IgnoredAny>,
    }
    let names: Names = serde_json::from_str(item)?;
    let Some(rest) = item.strip_prefix('{') else { return Ok(Object::parse(item)?) };
    let mut text = String::with_capacity(item.len() + 64);
    text.push('{');
    // In the order of watches, so that an object has the same bytes whichever way it comes.
    for (name, value, missing) in
        [("kind", kind, names.kind.is_none()), ("apiVersion", api_version, names.api_version.is_none())]
    {
        if missing {
            let value = serde_json::to_string(value).expect("a text is JSON");
            text.push_str(&format!("\"{name}\":{value},"));
        }
    }
    text.push_str(rest);
    Ok(Object::parse(&text)?)
}

/// What is known of an object of which the server says nothing any more.
fn stub(subject: &Subject, (namespace, name): &Name, seen: &Seen) -> Object {
    let mut metadata = serde_json::json!({
        "name": **name,
        "resourceVersion": *seen.resource_version,
    });
    // What the recorder makes itself has no uid.
    for (field, value) in [("uid", &*seen.uid), ("namespace", &**namespace)] {
        if !value.is_empty() {
            metadata[field] = value.into();
        }
    }
    // Written out, because what identifies an object is looked for at its beginning.
    let text = |value: &str| serde_json::to_string(value).expect("a text is JSON");
    let (api_version, kind) = (text(&subject.api_version), text(&subject.kind.kind));
    Object::trusted(format!(r#"{{"apiVersion":{api_version},"kind":{kind},"metadata":{metadata}}}"#))
}
