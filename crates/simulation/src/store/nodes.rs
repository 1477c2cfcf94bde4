//! The nodes of a run, and deleted nodes that still have pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::Object;

/// The nodes of a run.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    nodes: BTreeMap<Arc<str>, StoredNode>,
    /// Deleted nodes whose pods still exist.
    missing: BTreeSet<Arc<str>>,
}

/// A node as JSON and as components see it.
#[derive(Clone, Debug)]
pub(crate) struct StoredNode {
    pub(crate) object: Object,
    pub(crate) view: Arc<NodeView>,
}

impl StoredNode {
    pub(crate) fn parse(object: Object) -> StoredNode {
        StoredNode { view: Arc::new(NodeView::parse(&object)), object }
    }
}

impl NodeTable {
    pub(crate) fn get(&self, name: &str) -> Option<&StoredNode> {
        self.nodes.get(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Adds or modifies a node. Returns whether it is new.
    pub(crate) fn set(&mut self, name: &Arc<str>, node: StoredNode) -> bool {
        self.missing.remove(name);
        self.nodes.insert(name.clone(), node).is_none()
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<StoredNode> {
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
