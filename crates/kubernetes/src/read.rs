//! Reading objects: what is absent or null is nothing, what makes no sense is named by its path.

use model::{Moment, Object, Text};
use serde::{Deserialize, Deserializer};

/// Null is the default.
pub fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// A time as Kubernetes writes it.
pub fn moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Moment>, D::Error> {
    let text = Option::<Text<'de>>::deserialize(deserializer)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

/// A view of an object, or what in it makes no sense, by its path.
pub fn view<'a, T: Deserialize<'a>>(object: &'a Object) -> Result<T, String> {
    object.view().or_else(|_| {
        // Slower, and only now needed: it follows the path.
        let mut json = serde_json::Deserializer::from_str(object.as_str());
        serde_path_to_error::deserialize(&mut json)
            .map_err(|error| format!("{}: {}", error.path(), without_place(error.inner())))
    })
}

/// Lines and columns mean nothing to one who does not see the bytes.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(text, _)| text.to_owned())
}
