//! Numbers that stand for things: places in the scheduler's tables. One that is freed may be given out again.

/// A pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(pub u32);

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl PodId {
    /// Its place in a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl NodeId {
    /// Its place in a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
