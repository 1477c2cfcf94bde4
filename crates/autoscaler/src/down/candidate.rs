//! A node that may be removed.

use scheduler::ids::NodeId;

use super::super::cloud::GroupId;

/// A node that might go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub node: NodeId,
    pub group: GroupId,
}
