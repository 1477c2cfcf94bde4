//! Limits of the whole cluster: cores, memory, GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::Context;
use super::super::cloud::{GroupId, Registered};
use super::super::gpu;
use super::super::node::Node;
use crate::scheduler::ids::NodeId;

/// What may still be added of each limited resource.
#[derive(Debug)]
pub(super) struct Quotas {
    left: BTreeMap<Arc<str>, i64>,
    /// What a node of each group has. The first one seen speaks for all.
    of_group: BTreeMap<GroupId, Has>,
}

/// Amounts of resources by name.
type Has = BTreeMap<Arc<str>, i64>;

/// How many nodes the limits allow.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Allowed {
    /// At most as many as were asked for.
    pub nodes: i64,
    /// What there would be too much of, by name.
    pub exceeded: Vec<Arc<str>>,
}

const GIB: i64 = 1 << 30;

impl Quotas {
    /// With what these nodes have taken already.
    pub(super) fn new(context: &Context<'_>, nodes: &[NodeId]) -> Result<Quotas, String> {
        let settings = context.settings;
        let mut left: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        left.insert("cpu".into(), settings.cores_total.max);
        left.insert("memory".into(), settings.memory_total.max.saturating_mul(GIB));
        left.extend(settings.gpu_total.iter().map(|(kind, range)| (kind.clone(), range.max)));
        let mut quotas = Quotas { left, of_group: BTreeMap::new() };
        for id in nodes {
            let node = context.cluster.snapshot.node(*id);
            if node.label("type") == Some("virtual-kubelet") {
                continue;
            }
            let group = context.cloud.group_of(&Registered(node));
            for (resource, amount) in quotas.of(context, group, node)? {
                if let Some(left) = quotas.left.get_mut(&resource) {
                    *left = left.saturating_sub(amount);
                }
            }
        }
        quotas.left.values_mut().for_each(|left| *left = (*left).max(0));
        Ok(quotas)
    }

    /// How many nodes like this one a group may get.
    pub(super) fn check(
        &mut self,
        context: &Context<'_>,
        group: GroupId,
        node: &Node,
        nodes: i64,
    ) -> Result<Allowed, String> {
        let has = self.of(context, Some(group), node)?;
        let mut allowed = Allowed { nodes, exceeded: Vec::new() };
        for (resource, amount) in has.into_iter().filter(|(_, amount)| *amount > 0) {
            let Some(&left) = self.left.get(&resource) else { continue };
            if left < amount.saturating_mul(nodes) {
                allowed.nodes = allowed.nodes.min(left / amount);
                allowed.exceeded.push(resource);
            }
        }
        Ok(allowed)
    }

    /// Takes what so many nodes need, if that is allowed.
    pub(super) fn consume(
        &mut self,
        context: &Context<'_>,
        group: GroupId,
        node: &Node,
        nodes: i64,
    ) -> Result<(), String> {
        if self.check(context, group, node, nodes)?.nodes != nodes {
            return Ok(());
        }
        for (resource, amount) in self.of(context, Some(group), node)? {
            if let Some(left) = self.left.get_mut(&resource) {
                *left = left.saturating_sub(amount.saturating_mul(nodes)).max(0);
            }
        }
        Ok(())
    }

    fn of(&mut self, context: &Context<'_>, group: Option<GroupId>, node: &Node) -> Result<Has, String> {
        if let Some(has) = group.and_then(|group| self.of_group.get(&group)) {
            return Ok(has.clone());
        }
        let amount = |name: &str| node.capacity.value(name).max(0);
        let mut has: Has = [("cpu".into(), amount("cpu")), ("memory".into(), amount("memory"))].into();
        has.extend(
            gpu::of_node(node, group, &*context.cloud)
                .map_err(|error| format!("failed to get custom resources: {error}"))?
                .into_iter()
                .filter(|(kind, count)| !kind.is_empty() && *count > 0),
        );
        if let Some(group) = group {
            self.of_group.insert(group, has.clone());
        }
        Ok(has)
    }
}
