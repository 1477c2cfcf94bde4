//! Limits of the whole cluster: cores, memory, GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use scheduler::ids::NodeId;

use super::super::cloud::GroupId;
use super::super::node::Node;
use super::super::{AutoscalingContext, gpu};

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
    pub(super) fn new(context: &AutoscalingContext<'_>, nodes: &[NodeId]) -> Result<Quotas, String> {
        let settings = context.settings;
        let mut left: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        left.insert("cpu".into(), settings.cores_total.max);
        left.insert("memory".into(), settings.memory_total.max.saturating_mul(GIB));
        left.extend(settings.gpu_total.iter().map(|(kind, range)| (kind.clone(), range.max)));
        let mut quotas = Quotas { left, of_group: BTreeMap::new() };
        let mut counts: BTreeMap<GroupId, i64> = BTreeMap::new();
        for id in nodes {
            let Some(group) = context.group_of_machine(*id) else { continue };
            match group {
                Some(group) if quotas.of_group.contains_key(&group) => {
                    *counts.entry(group).or_default() += 1;
                }
                _ => {
                    let has = quotas.of(context, group, context.cluster.snapshot.node(*id))?;
                    quotas.take(&has, 1);
                }
            }
        }
        for (group, count) in counts {
            let has = quotas.of_group[&group].clone();
            quotas.take(&has, count);
        }
        quotas.left.values_mut().for_each(|left| *left = (*left).max(0));
        Ok(quotas)
    }

    /// So many nodes have so much each.
    fn take(&mut self, has: &Has, nodes: i64) {
        for (resource, amount) in has {
            if let Some(left) = self.left.get_mut(resource) {
                *left = left.saturating_sub(amount.saturating_mul(nodes));
            }
        }
    }

    /// How many nodes like this one a group may get.
    pub(super) fn check(
        &mut self,
        context: &AutoscalingContext<'_>,
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
        context: &AutoscalingContext<'_>,
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

    fn of(
        &mut self,
        context: &AutoscalingContext<'_>,
        group: Option<GroupId>,
        node: &Node,
    ) -> Result<Has, String> {
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
