//! A read-only cloud provider: its groups have the nodes of a recording, and requests have no effect beyond the loop
//! that makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{NodeEvent, NodeView};
use model::{Moment, What};

use super::{CloudProvider, CloudProviderError, GroupId, Instance, InstanceState};
use crate::groups::{MAX_GROUP_SIZE, NodeGroup, PodPricing};

/// A read-only cloud provider for recorded nodes.
#[derive(Clone, Debug)]
pub struct ObservedCloud {
    groups: Vec<NodeGroup>,
    observed_groups: Vec<ObservedGroup>,
    pricing: Option<PodPricing>,
    gpu_label: Arc<str>,
}

#[derive(Clone, Debug, Default)]
struct ObservedGroup {
    /// Instance IDs by node name.
    nodes: BTreeMap<Arc<str>, Arc<str>>,
    /// The target size, if known; else the number of nodes.
    target: Option<i64>,
    /// The change of the target size requested since the loop began.
    requested_change: i64,
}

impl ObservedCloud {
    /// A cloud provider with these groups, which have no nodes yet.
    pub fn new(groups: Vec<NodeGroup>, pricing: Option<PodPricing>, gpu_label: Arc<str>) -> ObservedCloud {
        let states =
            groups.iter().map(|group| ObservedGroup { target: group.target, ..ObservedGroup::default() });
        ObservedCloud { observed_groups: states.collect(), groups, pricing, gpu_label }
    }

    /// Applies a change of a node. Other objects are ignored.
    pub fn apply(&mut self, event: &What) {
        let meta = event.object().meta();
        if meta.kind == "Node" && meta.api_version == "v1" {
            self.apply_node(&NodeEvent::of_node(event));
        }
    }

    /// Applies an informer event of a node.
    pub fn apply_node(&mut self, event: &NodeEvent) {
        for state in &mut self.observed_groups {
            state.nodes.remove(&event.object().name);
        }
        if let Some(node) = event.state()
            && let Some(group) = self.group_for_node(node)
        {
            let nodes = &mut self.observed_groups[group.index()].nodes;
            nodes.insert(node.name.clone(), node.instance_id().clone());
        }
    }

    /// Sets the target size of a group.
    pub fn set_target(&mut self, group: &str, target: i64) {
        if let Some(index) = self.groups.iter().position(|other| *other.name == *group) {
            self.observed_groups[index].target = Some(target.clamp(0, MAX_GROUP_SIZE));
        }
    }

    /// Begins a loop: requests of the last one are dropped.
    pub fn begin_loop(&mut self) {
        for state in &mut self.observed_groups {
            state.requested_change = 0;
        }
    }
}

impl CloudProvider for ObservedCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_for_node(&self, node: &NodeView) -> Option<GroupId> {
        let index = self.groups.iter().position(|group| group.members.matches(node))?;
        Some(GroupId(index as u32))
    }

    fn target_size(&self, group: GroupId) -> i64 {
        let state = &self.observed_groups[group.index()];
        state.target.unwrap_or(state.nodes.len() as i64) + state.requested_change
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let ids = self.observed_groups[group.index()].nodes.values();
        ids.map(|id| Instance { id: id.clone(), state: InstanceState::Running }).collect()
    }

    /// An instance exists as long as its node does.
    fn has_instance(&self, node: &NodeView) -> Option<bool> {
        self.group_for_node(node).map(|_| true)
    }

    fn increase_size(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        self.observed_groups[group.index()].requested_change += by;
        Ok(())
    }

    fn delete_nodes(&mut self, _: Moment, _: GroupId, _: &[Arc<str>]) -> Result<(), CloudProviderError> {
        Ok(())
    }

    fn decrease_target_size(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError> {
        self.observed_groups[group.index()].requested_change -= by;
        Ok(())
    }

    fn pricing(&self) -> Option<&PodPricing> {
        self.pricing.as_ref()
    }

    fn gpu_label(&self) -> &str {
        &self.gpu_label
    }
}
