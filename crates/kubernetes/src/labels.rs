//! Sorted labels of an object.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

/// Labels, sorted by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    /// No labels.
    pub const NONE: Labels = Labels(Vec::new());

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

impl FromIterator<(Arc<str>, Arc<str>)> for Labels {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Arc<str>)>>(labels: I) -> Labels {
        let mut labels: Vec<_> = labels.into_iter().collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        // If a document repeats a name, the last value wins.
        labels.reverse();
        labels.dedup_by(|a, b| a.0 == b.0);
        labels.reverse();
        Labels(labels)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        let labels =
            Option::<std::collections::BTreeMap<Arc<str>, Option<Arc<str>>>>::deserialize(deserializer)?;
        Ok(labels.into_iter().flatten().map(|(key, value)| (key, value.unwrap_or_default())).collect())
    }
}
