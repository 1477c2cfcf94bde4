//! A read-only cloud provider: its groups have the nodes of a recording, and requests have no effect beyond the loop
//! that makes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::{NodeEvent, NodeView};
use model::{Moment, What};

use super::{CloudProvider, CloudProviderError, GroupId, Instance, InstanceState};
use crate::groups::{MAX_GROUP_SIZE, Membership, NodeGroup, PodPricing};

/// A read-only cloud provider for recorded nodes.
#[derive(Clone, Debug)]
pub struct ObservedCloud {
    groups: Vec<NodeGroup>,
    membership_index: MembershipIndex,
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

/// Finds the first group that a node is a member of, without trying all groups.
#[derive(Clone, Debug, Default)]
struct MembershipIndex {
    /// By key and value of a label, the first group whose members have that label.
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, usize>>,
    /// All groups with other rules.
    others: Vec<usize>,
}

impl ObservedCloud {
    /// A cloud provider with these groups, which have no nodes yet.
    pub fn new(groups: Vec<NodeGroup>, pricing: Option<PodPricing>, gpu_label: Arc<str>) -> ObservedCloud {
        let states =
            groups.iter().map(|group| ObservedGroup { target: group.target, ..ObservedGroup::default() });
        let (observed_groups, membership_index) = (states.collect(), MembershipIndex::of(&groups));
        ObservedCloud { observed_groups, membership_index, groups, pricing, gpu_label }
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
        let index = self.membership_index.find(&self.groups, node)?;
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

    fn has_instance_until_node_changes(&self) -> bool {
        true
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

// === impl MembershipIndex ===

impl MembershipIndex {
    fn of(groups: &[NodeGroup]) -> MembershipIndex {
        let mut index = MembershipIndex::default();
        for (number, group) in groups.iter().enumerate() {
            match &group.members {
                Membership::Label { key, value } => {
                    let by_value = index.by_label.entry(key.clone()).or_default();
                    by_value.entry(value.clone()).or_insert(number);
                }
                Membership::ProviderIdPrefix(_) | Membership::Annotation { .. } | Membership::Named(_) => {
                    index.others.push(number);
                }
            }
        }
        index
    }

    /// The index of the first group that a node is a member of.
    fn find(&self, groups: &[NodeGroup], node: &NodeView) -> Option<usize> {
        let by_label = self.by_label.iter().filter_map(|(key, by_value)| by_value.get(node.label(key)?));
        let first_by_label = by_label.min().copied();
        let mut others = self.others.iter().copied();
        let first_other = others.find(|index| groups[*index].members.matches(node));
        first_by_label.into_iter().chain(first_other).min()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::testing::group;

    #[test]
    fn a_node_belongs_to_the_first_group_that_matches_it() {
        let label = |key: &str, value: &str| Membership::Label { key: key.into(), value: value.into() };
        let members = [
            label("pool", "a"),
            Membership::Named(BTreeSet::from(["n3".into()])),
            label("zone", "z"),
            label("pool", "b"),
            label("pool", "a"),
            Membership::ProviderIdPrefix("p://".into()),
        ];
        let groups: Vec<NodeGroup> =
            members.into_iter().map(|members| NodeGroup { members, ..group("g") }).collect();
        let cloud = ObservedCloud::new(groups.clone(), None, "".into());
        for (number, pool) in ["a", "b", "c", "b", "a"].into_iter().enumerate() {
            for (zone, provider_id) in [("z", ""), ("y", ""), ("z", "p://1"), ("y", "p://2")] {
                let node = testobjects::node(&format!("n{number}"));
                let node = node.label("pool", pool).label("zone", zone).provider_id(provider_id);
                let node = NodeView::parse(&node.object());
                let expected = groups.iter().position(|group| group.members.matches(&node));
                let found = cloud.group_for_node(&node).map(GroupId::index);
                assert_eq!(found, expected, "{number} {zone} {provider_id}");
            }
        }
    }
}
