//! A cloud that is only watched: its groups have the nodes that a recording shows, and what it is told to do has no
//! effect beyond the loop that told it.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, What};

use super::{Cloud, CloudError, GroupId, Instance, InstanceState, Registered, RegisteredNode};
use crate::groups::{MOST_NODES, NodeGroup, Pricing};

/// A cloud that is only watched.
#[derive(Clone, Debug)]
pub struct ObservedCloud {
    groups: Vec<NodeGroup>,
    states: Vec<State>,
    pricing: Option<Pricing>,
    gpu_label: Arc<str>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// What the cloud calls each node, by name.
    nodes: BTreeMap<Arc<str>, Arc<str>>,
    /// How many it is to have, if that was said; else it has as many as it should.
    target: Option<i64>,
    /// By how much it was told to change since the loop began.
    asked: i64,
}

impl ObservedCloud {
    /// A cloud with these groups, of which no node was seen yet.
    pub fn new(groups: Vec<NodeGroup>, pricing: Option<Pricing>, gpu_label: Arc<str>) -> ObservedCloud {
        let states = groups.iter().map(|group| State { target: group.target, ..State::default() });
        ObservedCloud { states: states.collect(), groups, pricing, gpu_label }
    }

    /// A node came, changed or went. Other objects are ignored.
    pub fn see(&mut self, what: &What) {
        let object = what.object();
        if object.meta().kind != "Node" || object.meta().api_version != "v1" {
            return;
        }
        for state in &mut self.states {
            state.nodes.remove(&*object.meta().name);
        }
        if let What::Added(object) | What::Modified(object) = what {
            let node = RegisteredNode::read(object);
            if let Some(group) = self.group_of(&node.registered()) {
                self.states[group.index()].nodes.insert(node.name().clone(), node.instance().clone());
            }
        }
    }

    /// A group is said to be meant to have so many nodes.
    pub fn set_target(&mut self, group: &str, target: i64) {
        if let Some(place) = self.groups.iter().position(|other| *other.name == *group) {
            self.states[place].target = Some(target.clamp(0, MOST_NODES));
        }
    }

    /// A loop begins: what the last one asked for is forgotten.
    pub fn begin(&mut self) {
        for state in &mut self.states {
            state.asked = 0;
        }
    }
}

impl Cloud for ObservedCloud {
    fn groups(&self) -> &[NodeGroup] {
        &self.groups
    }

    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId> {
        let place = self.groups.iter().position(|group| node.is_of(&group.members))?;
        Some(GroupId(place as u32))
    }

    fn target(&self, group: GroupId) -> i64 {
        let state = &self.states[group.index()];
        state.target.unwrap_or(state.nodes.len() as i64) + state.asked
    }

    fn instances(&self, group: GroupId) -> Arc<[Instance]> {
        let ids = self.states[group.index()].nodes.values();
        ids.map(|id| Instance { id: id.clone(), state: InstanceState::Running }).collect()
    }

    /// As long as its node is seen, so is the machine.
    fn has_instance(&self, node: &Registered<'_>) -> Option<bool> {
        self.group_of(node).map(|_| true)
    }

    fn increase(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        self.states[group.index()].asked += by;
        Ok(())
    }

    fn delete(&mut self, _: Moment, _: GroupId, _: &[Arc<str>]) -> Result<(), CloudError> {
        Ok(())
    }

    fn decrease(&mut self, _: Moment, group: GroupId, by: i64) -> Result<(), CloudError> {
        self.states[group.index()].asked -= by;
        Ok(())
    }

    fn pricing(&self) -> Option<&Pricing> {
        self.pricing.as_ref()
    }

    fn gpu_label(&self) -> &str {
        &self.gpu_label
    }
}
