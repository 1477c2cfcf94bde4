//! Deserialization helpers: absent or null fields become defaults, malformed ones are reported with their path.

use model::{JsonStr, Moment, Object};
use serde::{Deserialize, Deserializer};

/// Deserializes null as the default.
pub fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
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

/// Removes line and column, which mean nothing without the bytes.
fn without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}
