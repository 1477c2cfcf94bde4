//! A Kubernetes object as it was received.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use memchr::memchr2;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use xxhash_rust::xxh3::xxh3_64;

use crate::json_cursor::MAX_DEPTH;
use crate::outline::{IdentifyingField, ObjectOutline};
use crate::{JsonStr, Key, Kind};

/// A Kubernetes object: the bytes received, never re-encoded, validated as JSON with an apiVersion, a kind and a
/// name.
///
/// Views are parsed from the bytes on demand, so unknown fields survive.
#[derive(Clone)]
pub struct Object {
    json: Arc<str>,
    /// `None` if the text was not scanned, or is unusual.
    outline: Option<Arc<ObjectOutline>>,
}

/// The fields that identify an object and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: Cow<'a, str>,
    /// `Pod`.
    pub kind: Cow<'a, str>,
    /// Empty for cluster-scoped objects.
    pub namespace: Cow<'a, str>,
    /// The name; never empty.
    pub name: Cow<'a, str>,
    /// Distinguishes incarnations of one name; absent in manifests.
    pub uid: Option<Cow<'a, str>>,
    /// The API server's identifier of this version.
    pub resource_version: Option<Cow<'a, str>>,
}

/// A hash of an object's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(pub u64);

/// The reason why a text is not a valid object.
#[derive(Debug, thiserror::Error)]
pub enum BadObject {
    /// Not JSON, or an identifying field is missing, duplicated or of the wrong type.
    #[error("not a Kubernetes object: {0}")]
    Json(#[from] serde_json::Error),
    /// An identifying field is empty.
    #[error("not a Kubernetes object: {0} is empty")]
    EmptyField(&'static str),
    /// The name could not be part of an API path, so no API server ever served it.
    #[error("{0:?} is not a valid {1} of a Kubernetes object")]
    InvalidName(String, &'static str),
    /// Arrays and maps nested deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels at byte {0}")]
    TooDeep(usize),
    /// An escape that is half of a surrogate pair.
    #[error("invalid escape at byte {0}")]
    LoneSurrogate(usize),
    /// A number that does not fit an `f64`.
    #[error("the number {0} at byte {1} is out of range")]
    NumberOutOfRange(String, usize),
}

// === impl Object ===

impl Object {
    /// Parses the text of one JSON object, checking everything that later readers rely on.
    pub fn parse(json: &str) -> Result<Object, BadObject> {
        let outline = ObjectOutline::scan(json);
        let meta = match &outline {
            Some(outline) => Meta::of_outline(outline, json),
            None => {
                check_depth_and_scalars(json)?;
                Meta::read(json)?
            }
        };
        meta.check()?;
        Ok(Object::from_trusted_outline(json, outline))
    }

    /// Wraps text for which [`Meta::read`] or [`Meta::read_prefix`] is known to succeed.
    pub fn from_trusted(json: impl Into<Arc<str>>) -> Object {
        Object::from_trusted_outline(json, None)
    }

    /// The same for a text whose outline is known.
    pub fn from_trusted_outline(json: impl Into<Arc<str>>, outline: Option<ObjectOutline>) -> Object {
        Object { json: json.into(), outline: outline.map(Arc::new) }
    }

    /// The bytes received.
    pub fn as_str(&self) -> &str {
        &self.json
    }

    /// The fields that identify it.
    ///
    /// # Panics
    /// If text that is not an object was passed to [`from_trusted`](Object::from_trusted).
    pub fn meta(&self) -> Meta<'_> {
        match &self.outline {
            Some(outline) => Meta::of_outline(outline, &self.json),
            None => Meta::read_prefix(&self.json).expect("an object is validated when it is built"),
        }
    }

    /// The outline of its text, if it is known.
    pub fn outline(&self) -> Option<&ObjectOutline> {
        self.outline.as_deref()
    }

    /// Its key in the history of `source`.
    pub fn key(&self, source: &Arc<str>) -> Key {
        let meta = self.meta();
        Key {
            source: source.clone(),
            kind: Kind::of(&meta.api_version, &meta.kind),
            namespace: (*meta.namespace).into(),
            name: (*meta.name).into(),
        }
    }

    /// A typed view of some of its fields, borrowed from its bytes.
    pub fn view<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// The whole object as a JSON value. This cannot fail for an object that passed [`parse`](Object::parse).
    pub fn value(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::from_str(&self.json)
    }

    /// The hash of its bytes.
    pub fn content_hash(&self) -> ContentHash {
        ContentHash::of(&self.json)
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Object) -> bool {
        self.json == other.json
    }
}

impl Eq for Object {}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}

// === impl Meta ===

impl<'a> Meta<'a> {
    /// Reads the identifying fields, parsing the whole text.
    pub fn read(json: &'a str) -> Result<Meta<'a>, serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Outer<'b> {
            #[serde(borrow)]
            api_version: JsonStr<'b>,
            #[serde(borrow)]
            kind: JsonStr<'b>,
            #[serde(borrow, deserialize_with = "from_map")]
            metadata: Metadata<'b>,
        }
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let Outer { api_version, kind, metadata } = from_map(&mut deserializer)?;
        deserializer.end()?;
        Ok(Meta::new(api_version, kind, metadata))
    }

    /// Reads the identifying fields of a text that is known to be an object, and stops as soon as all are found: API
    /// servers write them first. `None` if one is missing.
    pub fn read_prefix(json: &'a str) -> Option<Meta<'a>> {
        let mut found = PartialMeta::default();
        // Stopping in the middle of an object is an error to the parser; only the fields found so far matter.
        let _ = found.deserialize(&mut serde_json::Deserializer::from_str(json));
        found.meta()
    }

    /// The identifying fields of a text whose outline is known.
    pub fn of_outline(outline: &ObjectOutline, json: &'a str) -> Meta<'a> {
        let text = |field| Cow::Borrowed(outline.text(field, json));
        let unless_empty = |field| Some(text(field)).filter(|text| !text.is_empty());
        Meta {
            api_version: text(IdentifyingField::ApiVersion),
            kind: text(IdentifyingField::Kind),
            namespace: text(IdentifyingField::Namespace),
            name: text(IdentifyingField::Name),
            uid: unless_empty(IdentifyingField::Uid),
            resource_version: unless_empty(IdentifyingField::ResourceVersion),
        }
    }

    /// Checks that no required field is empty, and that the names can be part of an API path.
    pub fn check(&self) -> Result<(), BadObject> {
        for (field, text) in
            [("apiVersion", &self.api_version), ("kind", &self.kind), ("metadata.name", &self.name)]
        {
            if text.is_empty() {
                return Err(BadObject::EmptyField(field));
            }
        }
        for (field, text) in [("name", &self.name), ("namespace", &self.namespace), ("kind", &self.kind)] {
            check_name(field, text)?;
        }
        Ok(())
    }

    fn new(api_version: JsonStr<'a>, kind: JsonStr<'a>, metadata: Metadata<'a>) -> Meta<'a> {
        let unless_empty =
            |text: Option<JsonStr<'a>>| text.map(|text| text.0).filter(|text| !text.is_empty());
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

/// Deserializes a struct from a map only. A derived implementation also accepts a list of the fields' values.
fn from_map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct MapVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for MapVisitor<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(fields))
        }
    }

    deserializer.deserialize_map(MapVisitor(PhantomData))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: JsonStr<'a>,
    #[serde(borrow, default)]
    namespace: Option<JsonStr<'a>>,
    #[serde(borrow, default)]
    uid: Option<JsonStr<'a>>,
    #[serde(borrow, default)]
    resource_version: Option<JsonStr<'a>>,
}

/// The identifying fields found so far.
#[derive(Default)]
struct PartialMeta<'a> {
    api_version: Option<JsonStr<'a>>,
    kind: Option<JsonStr<'a>>,
    metadata: Option<PartialMetadata<'a>>,
}

/// The identifying fields of `metadata` found so far.
#[derive(Default)]
struct PartialMetadata<'a> {
    name: Option<JsonStr<'a>>,
    namespace: Option<JsonStr<'a>>,
    uid: Option<JsonStr<'a>>,
    resource_version: Option<JsonStr<'a>>,
    /// Whether `metadata` is the last identifying field, so that parsing can stop inside it.
    is_last_identifying_field: bool,
}

// === impl PartialMeta ===

impl<'de> PartialMeta<'de> {
    fn meta(self) -> Option<Meta<'de>> {
        let PartialMetadata { name, namespace, uid, resource_version, is_last_identifying_field: _ } =
            self.metadata?;
        let metadata = Metadata { name: name?, namespace, uid, resource_version };
        Some(Meta::new(self.api_version?, self.kind?, metadata))
    }
}

impl<'de> DeserializeSeed<'de> for &mut PartialMeta<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut PartialMeta<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while self.api_version.is_none() || self.kind.is_none() || self.metadata.is_none() {
            match fields.next_key::<JsonStr<'de>>()?.as_deref() {
                Some("apiVersion") => self.api_version = Some(fields.next_value()?),
                Some("kind") => self.kind = Some(fields.next_value()?),
                Some("metadata") => {
                    let is_last = self.api_version.is_some() && self.kind.is_some();
                    let names = self.metadata.insert(PartialMetadata {
                        is_last_identifying_field: is_last,
                        ..PartialMetadata::default()
                    });
                    fields.next_value_seed(names)?;
                }
                Some(_) => drop(fields.next_value::<IgnoredAny>()?),
                None => break,
            }
        }
        Ok(())
    }
}

// === impl PartialMetadata ===

impl PartialMetadata<'_> {
    /// Whether parsing can stop here. API servers write long fields and `managedFields` after these.
    fn can_stop(&self) -> bool {
        self.is_last_identifying_field
            && self.name.is_some()
            && self.namespace.is_some()
            && self.uid.is_some()
            && self.resource_version.is_some()
    }
}

impl<'de> DeserializeSeed<'de> for &mut PartialMetadata<'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &mut PartialMetadata<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while !self.can_stop() {
            match fields.next_key::<JsonStr<'de>>()?.as_deref() {
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
    /// The hash of an object's text.
    pub fn of(json: &str) -> ContentHash {
        ContentHash(xxh3_64(json.as_bytes()))
    }
}

/// Kubernetes' rule for path segment names; control characters, which Kubernetes rejects elsewhere, are rejected too.
fn check_name(field: &'static str, text: &str) -> Result<(), BadObject> {
    let hostile = |c: char| c == '/' || c == '%' || c.is_control();
    if text == "." || text == ".." || text.len() > 512 || text.contains(hostile) {
        return Err(BadObject::InvalidName(text.chars().take(80).collect(), field));
    }
    Ok(())
}

/// Checks nesting depth, escapes and numbers: a parser that skips values ignores them, but one that builds a tree
/// fails on them.
pub(crate) fn check_depth_and_scalars(json: &str) -> Result<(), BadObject> {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = end_of_string(bytes, at)?,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(BadObject::TooDeep(at));
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
                        return Err(BadObject::NumberOutOfRange(number.chars().take(40).collect(), at));
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

/// The index of the quote that closes the string opened at `start`, or of the last byte if it is not closed.
fn end_of_string(bytes: &[u8], start: usize) -> Result<usize, BadObject> {
    let mut at = start + 1;
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += next;
        if bytes[at] == b'"' {
            return Ok(at);
        }
        at += match (utf16_unit(bytes, at), utf16_unit(bytes, at + 6)) {
            // Characters beyond U+FFFF are escaped as a surrogate pair.
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => return Err(BadObject::LoneSurrogate(at)),
            _ => 2,
        };
    }
    Ok(bytes.len() - 1)
}

/// The UTF-16 code unit of an escape such as `\u00e9`; `None` for anything else, which the parser reports.
fn utf16_unit(bytes: &[u8], at: usize) -> Option<u16> {
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
    fn identifying_fields_are_read_without_parsing_the_whole_text() {
        assert_eq!(Meta::read_prefix(POD), Some(Meta::read(POD).unwrap()));
        let late =
            r#"{"spec":{"a":[1,{}]},"metadata":{"name":"a"},"kind":"Pod","apiVersion":"v1","status":7}"#;
        assert_eq!(Meta::read_prefix(late), Some(Meta::read(late).unwrap()));
        let cut = &POD[..POD.len() - 1];
        assert!(Meta::read_prefix(cut).is_some() && Meta::read(cut).is_err());
        for none in ["", "[]", "{}", r#"{"kind":"Pod","metadata":{"name":"a"}}"#, r#"{"kind":7}"#] {
            assert_eq!(Meta::read_prefix(none), None, "{none}");
        }
    }

    #[test]
    fn an_empty_uid_is_none() {
        let json = POD.replace("u1", "");
        assert_eq!(Object::parse(&json).unwrap().meta().uid, None);
    }

    #[track_caller]
    fn assert_rejected(json: &str, because: &str) {
        let error = Object::parse(json).expect_err(json).to_string();
        assert!(error.contains(because), "{error:?} should say {because:?}");
    }

    #[test]
    fn invalid_objects_are_rejected_with_the_reason() {
        assert_rejected("", "EOF");
        assert_rejected("[]", "invalid");
        assert_rejected(&POD[..POD.len() - 1], "EOF");
        assert_rejected(r#"{"kind":"Pod","metadata":{"name":"a"}}"#, "apiVersion");
        assert_rejected(
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":""}}"#,
            "metadata.name is empty",
        );
        assert_rejected(&POD.replace("web-1", "../etc"), "is not a valid name");
        assert_rejected(&POD.replace("web-1", r"a\u001b[31m"), "is not a valid name");
        assert_rejected(
            &POD.replace(r#""name":"web-1""#, r#""name":"a","name":"b""#),
            "duplicate field `name`",
        );
    }

    #[test]
    fn values_that_a_tree_cannot_hold_are_rejected() {
        let with = |value: &str| POD.replace(r#""uid":"u1""#, &format!(r#""x":{value}"#));
        assert_rejected(&with("1e999"), "out of range");
        assert_rejected(&with(&"9".repeat(400)), "out of range");
        assert_rejected(&with(&("[".repeat(200) + &"]".repeat(200))), "nested deeper");
        assert_rejected(&with(r#""\ud800""#), "invalid escape");
        assert_rejected(&with(r#""\udc00\ud800""#), "invalid escape");
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
