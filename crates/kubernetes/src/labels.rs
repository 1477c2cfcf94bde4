//! Sorted labels of an object.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Labels or annotations, sorted by key. Clones share their contents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

static NONE: LazyLock<Labels> = LazyLock::new(|| Labels(Arc::new([])));

impl Labels {
    /// No labels.
    pub fn none() -> &'static Labels {
        &NONE
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.get_shared(key).map(|value| &**value)
    }

    /// The value of a label, shared.
    pub fn get_shared(&self, key: &str) -> Option<&Arc<str>> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(key)).ok().map(|index| &self.0[index].1)
    }

    /// All labels, sorted by key.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for Labels {
    fn default() -> Labels {
        NONE.clone()
    }
}

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Labels {
        let mut labels: Vec<_> = labels.into_iter().collect();
        if labels.is_empty() {
            return Labels::default();
        }
        // API servers write labels in this order.
        if !labels.is_sorted_by(|a, b| a.0 < b.0) {
            labels.sort_by(|a, b| a.0.cmp(&b.0));
            // If a document repeats a name, the last value wins.
            labels.reverse();
            labels.dedup_by(|a, b| a.0 == b.0);
            labels.reverse();
        }
        Labels(labels.into())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
                let mut labels = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some((key, value)) = map.next_entry::<Arc<str>, Option<Arc<str>>>()? {
                    labels.push((key, value.unwrap_or_default()));
                }
                Ok(labels.into_iter().collect())
            }

            fn visit_unit<E>(self) -> Result<Labels, E> {
                Ok(Labels::default())
            }
        }

        deserializer.deserialize_any(Entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_the_last_value_wins() {
        let labels: Labels = serde_json::from_str(r#"{"b":"1","a":"2","b":"3","c":null}"#).unwrap();
        let pairs: Vec<(&str, &str)> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
        assert_eq!(pairs, [("a", "2"), ("b", "3"), ("c", "")]);
        assert_eq!((labels.get("b"), labels.get("d")), (Some("3"), None));
        assert_eq!(serde_json::from_str::<Labels>("null").unwrap(), Labels::default());
        assert!(serde_json::from_str::<Labels>(r#"{"a":1}"#).is_err());
    }
}
