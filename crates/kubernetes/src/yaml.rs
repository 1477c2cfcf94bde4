//! Conversion of YAML to JSON text, with the YAML rules of Kubernetes.

use std::fmt::{self, Write};

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;

/// The limits of a document.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The bytes of all scalars, with aliases expanded.
    pub max_bytes: usize,
    /// The lists and maps in one another.
    pub max_depth: usize,
}

/// What happens to keys that a map has twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeys {
    /// The document is refused.
    Error,
    /// The last one counts.
    LastWins,
}

/// Go's YAML reads `yes` and `on` as true and `012` as ten, and so does this function. The budget bounds the expansion
/// of aliases; the size of the document is the caller's to bound.
pub fn to_json(
    document: &str,
    limits: Limits,
    duplicates: DuplicateKeys,
) -> Result<String, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: 20_000_000,
            max_nodes: 10_000_000,
            max_total_scalar_bytes: limits.max_bytes,
            max_depth: limits.max_depth,
        },
        duplicate_keys: match duplicates {
            DuplicateKeys::Error => DuplicateKeyPolicy::Error,
            DuplicateKeys::LastWins => DuplicateKeyPolicy::LastWins,
        },
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options::<JsonText>(document, options).map(|JsonText(text)| text)
}

const TOO_DEEP: &str = "too many lists and maps in one another";
const TOO_LARGE: &str = "the document is too large, or becomes so when its aliases are expanded";

/// Why a document cannot be read, for those who wrote it. The position is the error's.
pub fn reason(error: &serde_saphyr::Error) -> String {
    match error.without_snippet() {
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => TOO_DEEP.to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_LARGE.to_owned(),
        Error::UnknownAnchor { .. } => "an alias of an anchor that does not exist".to_owned(),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("duplicate key {key:?}"),
        error => {
            // The position counts from the beginning of the document.
            let why = error.to_string();
            match why.split(" at line ").next().unwrap_or(&why) {
                // The parser has limits of its own. Errors within lists and maps reach this only as texts.
                "recursion limit exceeded" => TOO_DEEP.to_owned(),
                why if why.starts_with("alias replay limit exceeded") => TOO_LARGE.to_owned(),
                why => why.to_owned(),
            }
        }
    }
}

/// The line and the key of an error about a duplicate key.
pub fn duplicate_key(error: &serde_saphyr::Error) -> Option<(u64, &str)> {
    match error.without_snippet() {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            Some((location.line(), key.as_deref().unwrap_or_default()))
        }
        _ => None,
    }
}

/// JSON text built from deserialized values, fields in their order in the input.
struct JsonText(String);

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonText, D::Error> {
        let mut text = String::new();
        JsonTextBuilder { text: &mut text, is_key: false }.deserialize(deserializer)?;
        Ok(JsonText(text))
    }
}

struct JsonTextBuilder<'a> {
    text: &'a mut String,
    /// Whether the value is a key: JSON keys are strings.
    is_key: bool,
}

impl JsonTextBuilder<'_> {
    fn push_scalar(self, value: impl fmt::Display) {
        let quote = if self.is_key { "\"" } else { "" };
        write!(self.text, "{quote}{value}{quote}").expect("writing to a String cannot fail");
    }
}

impl<'de> DeserializeSeed<'de> for JsonTextBuilder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonTextBuilder<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.push_scalar("null");
        Ok(())
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<(), E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.push_scalar(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.push_scalar(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.push_scalar(value);
        Ok(())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        if !value.is_finite() {
            return Err(E::custom("JSON has no number that is not finite"));
        }
        self.push_scalar(Value::from(value));
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.text.push_str(&serde_json::to_string(value).expect("a string serializes as JSON"));
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        self.text.push('[');
        let start = self.text.len();
        loop {
            let before = self.text.len();
            if before > start {
                self.text.push(',');
            }
            if entries.next_element_seed(JsonTextBuilder { text: self.text, is_key: false })?.is_none() {
                self.text.truncate(before);
                break;
            }
        }
        self.text.push(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        self.text.push('{');
        let start = self.text.len();
        loop {
            let before = self.text.len();
            if before > start {
                self.text.push(',');
            }
            if fields.next_key_seed(JsonTextBuilder { text: self.text, is_key: true })?.is_none() {
                self.text.truncate(before);
                break;
            }
            self.text.push(':');
            fields.next_value_seed(JsonTextBuilder { text: self.text, is_key: false })?;
        }
        self.text.push('}');
        Ok(())
    }
}
