//! Classes of nodes: node groups, or else instance types.

use std::sync::Arc;

use autoscaler::NodeGroup;
use kubernetes::objects::NodeView;
use kubernetes::well_known::INSTANCE_TYPE;
use simulation::group_of_provider_id;

/// Assigns nodes to classes.
#[derive(Clone, Debug, Default)]
pub struct NodeClasses {
    groups: Vec<NodeGroup>,
}

// === impl NodeClasses ===

impl NodeClasses {
    /// Classes by these groups.
    pub fn new(groups: Vec<NodeGroup>) -> NodeClasses {
        NodeClasses { groups }
    }

    /// Returns the first group that has a node.
    pub fn group_of(&self, node: &NodeView) -> Option<&Arc<str>> {
        let is_member = |group: &&NodeGroup| group.members.matches(node);
        // A group without recorded nodes is only recognizable by the provider ID that the simulated cloud gives its
        // nodes.
        let is_named_in_provider_id =
            |group: &&NodeGroup| group_of_provider_id(&node.provider_id) == Some(&*group.name);
        let group =
            self.groups.iter().find(is_member).or_else(|| self.groups.iter().find(is_named_in_provider_id));
        group.map(|group| &group.name)
    }

    /// Returns the class of a node: its group, else its instance type, else its own name.
    pub fn class_of(&self, node: &NodeView) -> Arc<str> {
        let instance_type = || node.labels.get_shared(INSTANCE_TYPE);
        self.group_of(node).or_else(instance_type).unwrap_or(&node.name).clone()
    }
}
