//! The nodes of a run, and those that are gone and left pods behind.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Object;

/// The nodes of a run.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    nodes: BTreeMap<Arc<str>, Object>,
    /// Nodes that are gone, whose pods are still there.
    missing: BTreeSet<Arc<str>>,
}

impl NodeTable {
    pub(crate) fn get(&self, name: &str) -> Option<&Object> {
        self.nodes.get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Adds a node, or changes it. Says whether it is new.
    pub(crate) fn set(&mut self, name: &Arc<str>, node: Object) -> bool {
        self.missing.remove(name);
        self.nodes.insert(name.clone(), node).is_none()
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Object> {
        self.nodes.remove(name)
    }

    /// Pods are left on a node that is not there. Says whether that is news.
    pub(crate) fn miss(&mut self, name: &Arc<str>) -> bool {
        self.missing.insert(name.clone())
    }

    /// The pods of a missing node are being collected. False if it has come back, or they have been collected.
    pub(crate) fn collect(&mut self, name: &str) -> bool {
        self.missing.remove(name)
    }
}
