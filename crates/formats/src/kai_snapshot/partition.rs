//! The partition (shard, node pool) of a cluster that one of several schedulers is responsible for.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;

use kubernetes::selector::{LabelSelector, Selector};
use model::Object;
use serde::Deserialize;

/// The nodes, queues and pod groups that one of several schedulers is responsible for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The label that selects them. Empty: all belong to this partition.
    pub key: String,
    /// Its value. Empty: the objects without the label.
    pub value: String,
}

/// A text that is not a partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid partition {text:?}: expected LABEL=VALUE, or LABEL for nodes and queues without the label ({why})"
)]
pub struct BadPartition {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

// === impl Partition ===

impl Partition {
    /// The label that schedulers use by default.
    pub(super) const DEFAULT_KEY: &str = "kai.scheduler/node-pool";

    /// Whether an object belongs to it.
    pub fn contains(&self, object: &Object) -> bool {
        #[derive(Deserialize)]
        struct Labeled<'a> {
            #[serde(borrow)]
            metadata: Metadata<'a>,
        }
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            labels: Option<BTreeMap<Cow<'a, str>, Option<Cow<'a, str>>>>,
        }
        if self.key.is_empty() {
            return true;
        }
        let labels = object.view::<Labeled<'_>>().ok().and_then(|labeled| labeled.metadata.labels);
        match labels.as_ref().and_then(|labels| labels.get(&*self.key)) {
            None => self.value.is_empty(),
            Some(value) => !self.value.is_empty() && value.as_deref() == Some(&*self.value),
        }
    }
}

impl FromStr for Partition {
    type Err = BadPartition;

    fn from_str(text: &str) -> std::result::Result<Partition, BadPartition> {
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        // An invalid label would select nothing, or make the scheduler's tool fail.
        let label = LabelSelector {
            match_labels: Some(BTreeMap::from([(key.to_owned(), value.to_owned())])),
            match_expressions: None,
        };
        match Selector::of(Some(&label)) {
            Ok(_) => Ok(Partition { key: key.to_owned(), value: value.to_owned() }),
            Err(error) => Err(BadPartition { text: text.to_owned(), why: error.why }),
        }
    }
}
