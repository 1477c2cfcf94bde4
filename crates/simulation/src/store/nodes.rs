//! The nodes of a run, and deleted nodes that still have pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Object;

/// The nodes of a run.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    nodes: BTreeMap<Arc<str>, Object>,
    /// Deleted nodes whose pods still exist.
    missing: BTreeSet<Arc<str>>,
}

impl NodeTable {
    pub(crate) fn get(&self, name: &str) -> Option<&Object> {
        self.nodes.get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Adds or modifies a node. Returns whether it is new.
    pub(crate) fn set(&mut self, name: &Arc<str>, node: Object) -> bool {
        self.missing.remove(name);
        self.nodes.insert(name.clone(), node).is_none()
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Object> {
        self.nodes.remove(name)
    }

    /// Notes that pods are left on a deleted node. Returns whether it was not noted before.
    pub(crate) fn mark_missing(&mut self, name: &Arc<str>) -> bool {
        self.missing.insert(name.clone())
    }

    /// Pod GC deletes the pods of a missing node. Returns false if the node is back, or its pods are deleted already.
    pub(crate) fn take_missing(&mut self, name: &str) -> bool {
        self.missing.remove(name)
    }
}
