//! Identifiers of pods and nodes: indexes into the scheduler's tables. A freed identifier may be reused.

/// The identifier of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

/// The identifier of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl PodId {
    /// Its index in a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Its index in a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
