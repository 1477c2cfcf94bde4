//! Deserialization helpers: absent or null fields become defaults, malformed ones are reported with their path.

use std::sync::Arc;

use model::{JsonStr, Moment, Object};
use serde::{Deserialize, Deserializer};

/// Deserializes null as the default.
pub fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Deserializes a name; null and empty are none.
pub fn non_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    Ok(Option::<Arc<str>>::deserialize(deserializer)?.filter(|name| !name.is_empty()))
}

/// Deserializes a Kubernetes timestamp.
pub fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Moment>, D::Error> {
    let text = Option::<JsonStr<'de>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

/// A typed view of an object; the error names the path of the malformed field.
pub fn view<'a, T: Deserialize<'a>>(object: &'a Object) -> Result<T, String> {
    object.view().or_else(|_| {
        // Slower, so only on failure: it tracks the path.
        let mut json = serde_json::Deserializer::from_str(object.as_str());
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| format!("{}: {}", error.path(), without_position(error.inner())))
    })
}

/// Parses a part of an object from its text; the error names the path of the malformed field within `part`.
pub fn parse_text<'a, T: Deserialize<'a>>(part: &str, text: &'a str) -> Result<T, String> {
    serde_json::from_str(text).or_else(|_| {
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let (path, inner) = (error.path().to_string(), without_position(error.inner()));
            if path == "." { format!("{part}: {inner}") } else { format!("{part}.{path}: {inner}") }
        })
    })
}

/// Removes line and column, which mean nothing without the bytes.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}
