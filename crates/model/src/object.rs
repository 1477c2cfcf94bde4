//! A Kubernetes object as it was received.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use xxhash_rust::xxh3::xxh3_64;

use crate::{Key, Kind, Text};

/// How deep an object may nest. JSON parsers of this program stop at 128; the difference is room for envelopes.
pub const MAX_DEPTH: usize = 120;

/// A Kubernetes object: the bytes received, never re-encoded, known to be JSON with an apiVersion, a kind and a name.
///
/// Views are parsed out of the bytes on demand, so fields that nobody here has heard of survive.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    json: Arc<str>,
}

/// What identifies an object and one version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: Cow<'a, str>,
    /// `Pod`.
    pub kind: Cow<'a, str>,
    /// Empty for objects of the whole cluster.
    pub namespace: Cow<'a, str>,
    /// The name; never empty.
    pub name: Cow<'a, str>,
    /// Separates the lives of one name; absent in manifests.
    pub uid: Option<Cow<'a, str>>,
    /// The API server's mark for this version.
    pub resource_version: Option<Cow<'a, str>>,
}

/// A fingerprint of an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(pub u64);

/// Why bytes are not an object.
#[derive(Debug, thiserror::Error)]
pub enum BadObject {
    /// Not JSON, or a field that identifies the object is missing, doubled or of the wrong type.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// An identifying field is empty.
    #[error("not a Kubernetes object: {0} is empty")]
    Empty(&'static str),
    /// The name could not be part of an API path, so no API server ever served it.
    #[error("{0:?} cannot be the {1} of a Kubernetes object")]
    Name(String, &'static str),
    /// Arrays and maps inside each other beyond [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at byte {0}")]
    Deep(usize),
    /// An escape that is half a character.
    #[error("the escape at byte {0} is no character")]
    Escape(usize),
    /// A number no program can hold.
    #[error("the number {0} at byte {1} is out of range")]
    Number(String, usize),
}

// === impl Object ===

impl Object {
    /// Takes the text of one JSON object, checking all that later readers rely on.
    pub fn parse(json: &str) -> Result<Object, BadObject> {
        check_shape(json)?;
        let meta = Meta::read(json)?;
        for (field, text) in
            [("apiVersion", &meta.api_version), ("kind", &meta.kind), ("metadata.name", &meta.name)]
        {
            if text.is_empty() {
                return Err(BadObject::Empty(field));
            }
        }
        for (field, text) in [("name", &meta.name), ("namespace", &meta.namespace), ("kind", &meta.kind)] {
            check_name(field, text)?;
        }
        Ok(Object { json: json.into() })
    }

    /// Takes text of which [`Meta::read`] or [`Meta::read_first`] is known to succeed.
    pub fn trusted(json: impl Into<Arc<str>>) -> Object {
        Object { json: json.into() }
    }

    /// The bytes received.
    pub fn as_str(&self) -> &str {
        &self.json
    }

    /// What identifies it.
    ///
    /// # Panics
    /// If bytes that are no object were called [`trusted`](Object::trusted).
    pub fn meta(&self) -> Meta<'_> {
        Meta::read_first(&self.json).expect("an object is checked before it is made")
    }

    /// Its name in the history of `source`.
    pub fn key(&self, source: &Arc<str>) -> Key {
        let meta = self.meta();
        Key {
            source: source.clone(),
            kind: Kind::of(&meta.api_version, &meta.kind),
            namespace: (*meta.namespace).into(),
            name: (*meta.name).into(),
        }
    }

    /// Some of its fields, borrowed from its bytes.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// All of it as a tree. This cannot fail for what [`parse`](Object::parse) let in.
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// The fingerprint of its bytes.
    pub fn content_hash(&self) -> ContentHash {
        ContentHash::of(&self.json)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// Reads what identifies the object of this text, going through all of it.
    pub fn read(json: &'a str) -> Result<Meta<'a>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outer<'b> {
            #[serde(borrow)]
            api_version: Text<'b>,
            #[serde(borrow)]
            kind: Text<'b>,
            #[serde(borrow)]
            metadata: Metadata<'b>,
        }
        let Outer { api_version, kind, metadata } = serde_json::from_str(json)?;
        Ok(Meta::new(api_version, kind, metadata))
    }

    /// Reads what identifies the object of a text that is known to be one, stopping as soon as all is found: API
    /// servers put it first. `None` if it is not there after all.
    pub fn read_first(json: &'a str) -> Option<Meta<'a>> {
        let mut found = Heading::default();
        // Stopping in the middle of an object is an error to the parser; what counts is what was found.
        let _ = found.deserialize(&mut serde_json::Deserializer::from_str(json));
        found.meta()
    }

    fn new(api_version: Text<'a>, kind: Text<'a>, metadata: Metadata<'a>) -> Meta<'a> {
        let unless_empty = |text: Option<Text<'a>>| text.map(|text| text.0).filter(|text| !text.is_empty());
        Meta {
            api_version: api_version.0,
            kind: kind.0,
            namespace: metadata.namespace.unwrap_or_default().0,
            name: metadata.name.0,
            uid: unless_empty(metadata.uid),
            resource_version: unless_empty(metadata.resource_version),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    namespace: Option<Text<'a>>,
    #[serde(borrow, default)]
    uid: Option<Text<'a>>,
    #[serde(borrow, default)]
    resource_version: Option<Text<'a>>,
}

/// The fields that identify an object, as far as they have been met.
#[derive(Default)]
struct Heading<'a> {
    api_version: Option<Text<'a>>,
    kind: Option<Text<'a>>,
    metadata: Option<Names<'a>>,
}

/// The same of its metadata.
#[derive(Default)]
struct Names<'a> {
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    uid: Option<Text<'a>>,
    resource_version: Option<Text<'a>>,
    /// Nothing is looked for behind them.
    is_last: bool,
}

// === impl Heading ===

impl<'de> Heading<'de> {
    fn meta(self) -> Option<Meta<'de>> {
        let Names { name, namespace, uid, resource_version, is_last: _ } = self.metadata?;
        let metadata = Metadata { name: name?, namespace, uid, resource_version };
        Some(Meta::new(self.api_version?, self.kind?, metadata))
    }
}

impl<'de> DeserializeSeed<'de> for &mut Heading<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Heading<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while self.api_version.is_none() || self.kind.is_none() || self.metadata.is_none() {
            match fields.next_key::<Text<'de>>()?.as_deref() {
                Some("apiVersion") => self.api_version = Some(fields.next_value()?),
                Some("kind") => self.kind = Some(fields.next_value()?),
                Some("metadata") => {
                    let is_last = self.api_version.is_some() && self.kind.is_some();
                    let names = self.metadata.insert(Names { is_last, ..Names::default() });
                    fields.next_value_seed(names)?;
                }
                Some(_) => drop(fields.next_value::<IgnoredAny>()?),
                None => break,
            }
        }
        Ok(())
    }
}

// === impl Names ===

impl Names<'_> {
    /// API servers put what is long, and who manages which field, behind these.
    fn is_enough(&self) -> bool {
        self.is_last
            && self.name.is_some()
            && self.namespace.is_some()
            && self.uid.is_some()
            && self.resource_version.is_some()
    }
}

impl<'de> DeserializeSeed<'de> for &mut Names<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut Names<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while !self.is_enough() {
            match fields.next_key::<Text<'de>>()?.as_deref() {
                Some("name") => self.name = fields.next_value()?,
                Some("namespace") => self.namespace = fields.next_value()?,
                Some("uid") => self.uid = fields.next_value()?,
                Some("resourceVersion") => self.resource_version = fields.next_value()?,
                Some(_) => drop(fields.next_value::<IgnoredAny>()?),
                None => break,
            }
        }
        Ok(())
    }
}

// === impl ContentHash ===

impl ContentHash {
    /// The fingerprint of an object's text.
    pub fn of(json: &str) -> ContentHash {
        ContentHash(xxh3_64(json.as_bytes()))
    }
}

/// Kubernetes' own rule for a name inside a URL path, and no control characters, which it refuses elsewhere.
fn check_name(field: &'static str, text: &str) -> Result<(), BadObject> {
    let hostile = |c: char| c == '/' || c == '%' || c.is_control();
    if text == "." || text == ".." || text.len() > 512 || text.contains(hostile) {
        return Err(BadObject::Name(text.chars().take(80).collect(), field));
    }
    Ok(())
}

/// Depth and numbers: what a parser that skips values does not look at, but one that builds a tree stumbles over.
fn check_shape(json: &str) -> Result<(), BadObject> {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(BadObject::Deep(at));
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                let end = at + bytes[at..].iter().take_while(|b| b"+-.eE0123456789".contains(b)).count();
                let number = &json[at..end];
                // Eighteen digits always fit; beyond that the number must at least be finite.
                if number.len() > 18 || number.contains(['e', 'E']) {
                    let finite = number.parse::<f64>().is_ok_and(f64::is_finite);
                    if !finite {
                        return Err(BadObject::Number(number.chars().take(40).collect(), at));
                    }
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// The index of the quote that ends the string begun at `start`, or of the last byte if none does.
fn end_of_string(bytes: &[u8], start: usize) -> Result<usize, BadObject> {
    let mut at = start + 1;
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += next;
        if bytes[at] == b'"' {
            return Ok(at);
        }
        at += match (unit(bytes, at), unit(bytes, at + 6)) {
            // Characters beyond the first 65,536 are escaped in two halves.
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => return Err(BadObject::Escape(at)),
            _ => 2,
        };
    }
    Ok(bytes.len() - 1)
}

/// The number of an escape such as `\u00e9`; what is no such escape is for the parser to complain about.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"u1","resourceVersion":"7"}}"#;

    #[test]
    fn a_pod_is_named_by_group_kind_namespace_and_name() {
        let pod = Object::parse(POD).unwrap();
        let key = pod.key(&"east".into());
        assert_eq!(key.to_string(), "Pod shop/web-1");
        assert_eq!(pod.meta().uid.as_deref(), Some("u1"));
        assert_eq!(pod.meta().resource_version.as_deref(), Some("7"));
        assert_eq!(pod.as_str(), POD);
    }

    #[test]
    fn what_identifies_an_object_is_found_without_reading_all_of_it() {
        assert_eq!(Meta::read_first(POD), Some(Meta::read(POD).unwrap()));
        let late =
            r#"{"spec":{"a":[1,{}]},"metadata":{"name":"a"},"kind":"Pod","apiVersion":"v1","status":7}"#;
        assert_eq!(Meta::read_first(late), Some(Meta::read(late).unwrap()));
        let cut = &POD[..POD.len() - 1];
        assert!(Meta::read_first(cut).is_some() && Meta::read(cut).is_err());
        for none in ["", "[]", "{}", r#"{"kind":"Pod","metadata":{"name":"a"}}"#, r#"{"kind":7}"#] {
            assert_eq!(Meta::read_first(none), None, "{none}");
        }
    }

    #[test]
    fn an_empty_uid_is_none() {
        let json = POD.replace("u1", "");
        assert_eq!(Object::parse(&json).unwrap().meta().uid, None);
    }

    #[track_caller]
    fn refused(json: &str, because: &str) {
        let error = Object::parse(json).expect_err(json).to_string();
        assert!(error.contains(because), "{error:?} should say {because:?}");
    }

    #[test]
    fn what_is_no_object_is_refused_with_the_reason() {
        refused("", "EOF");
        refused("[]", "invalid");
        refused(&POD[..POD.len() - 1], "EOF");
        refused(r#"{"kind":"Pod","metadata":{"name":"a"}}"#, "apiVersion");
        refused(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":""}}"#, "metadata.name is empty");
        refused(&POD.replace("web-1", "../etc"), "cannot be the name");
        refused(&POD.replace("web-1", r"a\u001b[31m"), "cannot be the name");
        refused(&POD.replace(r#""name":"web-1""#, r#""name":"a","name":"b""#), "duplicate field `name`");
    }

    #[test]
    fn what_a_tree_could_not_hold_is_refused() {
        let with = |value: &str| POD.replace(r#""uid":"u1""#, &format!(r#""x":{value}"#));
        refused(&with("1e999"), "out of range");
        refused(&with(&"9".repeat(400)), "out of range");
        refused(&with(&("[".repeat(200) + &"]".repeat(200))), "nested deeper");
        refused(&with(r#""\ud800""#), "is no character");
        refused(&with(r#""\udc00\ud800""#), "is no character");
        for fine in [
            "1e300",
            "123456789012345678901234567890",
            r#""[[[[{{{1e999\"[[""#,
            "-0.5",
            "9223372036854775807",
        ] {
            Object::parse(&with(fine)).unwrap().value().unwrap();
        }
    }
}
