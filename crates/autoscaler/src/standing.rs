//! What a loop needs to know of every node, worked out once for each change of it.

use std::sync::Arc;

use model::Moment;
use scheduler::ids::NodeId;

use super::cloud::{Cloud, GroupId, Registered};
use super::node::Node;
use super::readiness::Readiness;
use super::settings::Settings;
use super::{CANDIDATE, SUSPENDED, TO_BE_DELETED};

/// How a node stands.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// The node that this is about: in the course of a loop another may get its number.
    pub node: Arc<Node>,
    pub readiness: Readiness,
    /// The group it belongs to.
    pub group: Option<GroupId>,
    pub created: Moment,
    pub unschedulable: bool,
    /// It is marked as one that is being deleted.
    pub going: bool,
    /// It is marked as one that could be deleted.
    pub candidate: bool,
    /// It was put to sleep.
    pub suspended: bool,
    /// It is no machine, and none of the cluster's limits means it.
    pub is_virtual: bool,
}

/// The standings of all nodes, by node number.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    nodes: Vec<Option<Standing>>,
    /// The number of nodes that are ready and schedulable.
    pub open: usize,
    /// The number of nodes of groups that are marked as deletion candidates.
    pub marked: usize,
    /// Increases with every update.
    pub revision: u64,
}

// === impl Standing ===

impl Standing {
    pub(crate) fn of(node: &Arc<Node>, settings: &Settings, cloud: &dyn Cloud) -> Standing {
        Standing {
            node: node.clone(),
            readiness: Readiness::of(node, settings, cloud.gpu_label()),
            group: cloud.group_of(&Registered::of(node)),
            created: node.created,
            unschedulable: node.unschedulable,
            going: node.taint(TO_BE_DELETED).is_some(),
            candidate: node.taint(CANDIDATE).is_some(),
            suspended: node.condition(SUSPENDED).is_some_and(|condition| &*condition.status == "True"),
            is_virtual: node.is_virtual(),
        }
    }

    /// Whether it is a node of a group that is marked as one that could be deleted, and is not on its way out.
    pub(crate) fn is_marked(&self) -> bool {
        self.candidate && self.is_ours()
    }

    /// Whether it is a node of a group, and not on its way out.
    pub(crate) fn is_ours(&self) -> bool {
        self.group.is_some() && !self.going
    }

    /// Whether it is ready and takes pods.
    pub(crate) fn is_open(&self) -> bool {
        self.readiness.ready && !self.unschedulable
    }
}

// === impl Standings ===

impl Standings {
    /// The standing of a node as of its last update.
    pub(crate) fn get(&self, id: NodeId) -> Option<&Standing> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// Updates the standing of a node; `None` if the node is gone.
    pub(crate) fn set(&mut self, id: NodeId, standing: Option<Standing>) {
        self.revision += 1;
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, None);
        }
        let is_open = |standing: &Option<Standing>| standing.as_ref().is_some_and(Standing::is_open);
        let is_marked = |standing: &Option<Standing>| standing.as_ref().is_some_and(Standing::is_marked);
        self.open += usize::from(is_open(&standing));
        self.marked += usize::from(is_marked(&standing));
        let before = std::mem::replace(&mut self.nodes[id.index()], standing);
        self.open -= usize::from(is_open(&before));
        self.marked -= usize::from(is_marked(&before));
    }
    /// Forgets all nodes.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        *self = Standings { revision: self.revision + 1, ..Standings::default() };
    }
}
