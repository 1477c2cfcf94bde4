//! The state of a cluster: all objects at one moment.

use crate::{Key, Moment, Object};

/// All objects at one moment, sorted by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The moment of the state.
    pub at: Moment,
    objects: Vec<ObjectVersion>,
}

/// One version of one object, with its position in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The sequence number of the change that produced this version.
    pub seq: i64,
    /// When that change took effect.
    pub at: Moment,
    /// The object's name.
    pub key: Key,
    /// The object.
    pub object: Object,
}

// === impl Cluster ===

impl Cluster {
    /// A cluster of these objects, each key at most once.
    pub fn new(at: Moment, mut objects: Vec<ObjectVersion>) -> Cluster {
        objects.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        debug_assert!(objects.is_sorted_by(|a, b| a.key < b.key), "keys are unique and sorted");
        Cluster { at, objects }
    }

    /// All objects, sorted by key.
    pub fn objects(&self) -> &[ObjectVersion] {
        &self.objects
    }

    /// Consumes the cluster and returns its objects, sorted by key.
    pub fn into_objects(self) -> Vec<ObjectVersion> {
        self.objects
    }
}
