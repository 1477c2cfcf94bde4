//! JSON strings that borrow from the document where possible.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A JSON string, borrowed from the document unless it contains escapes.
///
/// serde borrows a `Cow` only in a field marked `#[serde(borrow)]`: as a map key, in an `Option` or in a list it is
/// copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonStr<'a>(pub Cow<'a, str>);

// === impl JsonStr ===

impl Deref for JsonStr<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for JsonStr<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonStr<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonStr<'a>, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = JsonStr<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonStr<'de>, E> {
                Ok(JsonStr(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<JsonStr<'de>, E> {
                Ok(JsonStr(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_escapes_are_copied() {
        let texts: Vec<Option<JsonStr<'_>>> = serde_json::from_str(r#"["a", "\u0062", null]"#).unwrap();
        assert!(matches!(&texts[0], Some(JsonStr(Cow::Borrowed("a")))));
        assert!(matches!(&texts[1], Some(JsonStr(Cow::Owned(text))) if text == "b"));
        assert_eq!(texts[2], None);
    }
}
