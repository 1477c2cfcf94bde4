//! Label selection of objects.

use std::collections::HashMap;
use std::fmt;

use model::{JsonStr, Object};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Selector;

/// Whether an object's labels match a selector. The object is read no further than its metadata, which API servers
/// write first.
pub fn matches_labels(object: &Object, selector: &Selector) -> bool {
    let mut reader = LabelReader { labels: None };
    // Stopping in the middle of an object is an error to the parser. Labels of a wrong type are ignored.
    let _ = serde_json::Deserializer::from_str(object.as_str()).deserialize_map(&mut reader);
    let labels = reader.labels.unwrap_or_default();
    selector.matches(|name| labels.get(name).map(|value| &**value))
}

/// The labels of an object.
struct LabelReader<'a> {
    labels: Option<HashMap<JsonStr<'a>, JsonStr<'a>>>,
}

impl<'de> Visitor<'de> for &mut LabelReader<'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            labels: Option<HashMap<JsonStr<'a>, JsonStr<'a>>>,
        }
        while let Some(name) = fields.next_key::<JsonStr<'de>>()? {
            if &*name == "metadata" {
                self.labels = fields.next_value::<Metadata<'de>>()?.labels;
                break;
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: bool) {
        let selector = Selector::parse("app=web,tier!=db").unwrap();
        assert_eq!(matches_labels(&Object::from_trusted(json), &selector), expected, "{json}");
    }

    #[test]
    fn labels_are_found_wherever_metadata_stands() {
        check(r#"{"kind":"Pod","metadata":{"name":"a","labels":{"app":"web","x":"y"}},"spec":{}}"#, true);
        check(r#"{"spec":{"metadata":{"labels":{}}},"metadata":{"labels":{"a\u0070p":"w\u0065b"}}}"#, true);
        check(r#"{"metadata":{"labels":{"app":"web","tier":"db"}}}"#, false);
        check(r#"{"metadata":{"labels":{"tier":"x"}}}"#, false);
    }

    #[test]
    fn missing_labels_and_labels_of_a_wrong_type_match_nothing() {
        for labels in ["null", "7", r#"{"app":"web","n":1}"#, r#"["app"]"#] {
            check(&format!(r#"{{"metadata":{{"labels":{labels}}}}}"#), false);
        }
        check(r#"{"metadata":{"name":"a"}}"#, false);
        check(r#"{"kind":"Pod"}"#, false);
    }
}
