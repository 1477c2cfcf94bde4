//! A scale-down candidate: a node with its group.

use scheduler::ids::NodeId;

use super::super::cloud::GroupId;

/// A node that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScaleDownCandidate {
    pub node: NodeId,
    pub group: GroupId,
}
