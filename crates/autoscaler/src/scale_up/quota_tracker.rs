//! Cluster-wide quotas for scale-up: cores, memory, GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use scheduler::ids::NodeId;
use scheduler::node::Node;

use super::super::cloud::GroupId;
use super::super::{AutoscalingContext, gpu};

/// The remaining amount of each limited resource.
#[derive(Debug)]
pub(super) struct QuotaTracker {
    limits_left: BTreeMap<Arc<str>, i64>,
    /// The resources of a node of each group. Those of the first node count for all.
    node_resources_by_group: BTreeMap<GroupId, ResourceAmounts>,
}

/// Amounts of resources by name.
type ResourceAmounts = BTreeMap<Arc<str>, i64>;

/// The result of a quota check.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CheckDeltaResult {
    /// The number of nodes allowed, at most the number requested.
    pub allowed_nodes: i64,
    /// The resources whose quota would be exceeded.
    pub exceeded_resources: Vec<Arc<str>>,
}

const GIB: i64 = 1 << 30;

impl QuotaTracker {
    /// The quotas less the resources of these nodes.
    pub(super) fn new(context: &AutoscalingContext<'_>, nodes: &[NodeId]) -> Result<QuotaTracker, String> {
        let settings = context.settings;
        let mut remaining: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        remaining.insert("cpu".into(), settings.cores_total.max);
        remaining.insert("memory".into(), settings.memory_total.max.saturating_mul(GIB));
        remaining.extend(settings.gpu_total.iter().map(|(kind, range)| (kind.clone(), range.max)));
        let mut quotas = QuotaTracker { limits_left: remaining, node_resources_by_group: BTreeMap::new() };
        let mut counts: BTreeMap<GroupId, i64> = BTreeMap::new();
        for id in nodes {
            let Some(group) = context.group_for_quota(*id) else { continue };
            match group {
                Some(group) if quotas.node_resources_by_group.contains_key(&group) => {
                    *counts.entry(group).or_default() += 1;
                }
                _ => {
                    let resources =
                        quotas.node_resources(context, group, context.cluster.snapshot.node(*id))?;
                    quotas.subtract(&resources, 1);
                }
            }
        }
        for (group, count) in counts {
            let resources = quotas.node_resources_by_group[&group].clone();
            quotas.subtract(&resources, count);
        }
        quotas.limits_left.values_mut().for_each(|remaining| *remaining = (*remaining).max(0));
        Ok(quotas)
    }

    /// Subtracts the resources of that many nodes.
    fn subtract(&mut self, resources: &ResourceAmounts, nodes: i64) {
        for (resource, amount) in resources {
            if let Some(remaining) = self.limits_left.get_mut(resource) {
                *remaining = remaining.saturating_sub(amount.saturating_mul(nodes));
            }
        }
    }

    /// Checks how many nodes like this one the quotas allow.
    pub(super) fn check_delta(
        &mut self,
        context: &AutoscalingContext<'_>,
        group: GroupId,
        node: &Node,
        nodes: i64,
    ) -> Result<CheckDeltaResult, String> {
        let resources = self.node_resources(context, Some(group), node)?;
        let mut allowed = CheckDeltaResult { allowed_nodes: nodes, exceeded_resources: Vec::new() };
        for (resource, amount) in resources.into_iter().filter(|(_, amount)| *amount > 0) {
            let Some(&left) = self.limits_left.get(&resource) else { continue };
            if left < amount.saturating_mul(nodes) {
                allowed.allowed_nodes = allowed.allowed_nodes.min(left / amount);
                allowed.exceeded_resources.push(resource);
            }
        }
        Ok(allowed)
    }

    /// Subtracts that many nodes if the quotas allow all of them.
    pub(super) fn apply_delta(
        &mut self,
        context: &AutoscalingContext<'_>,
        group: GroupId,
        node: &Node,
        nodes: i64,
    ) -> Result<(), String> {
        if self.check_delta(context, group, node, nodes)?.allowed_nodes != nodes {
            return Ok(());
        }
        for (resource, amount) in self.node_resources(context, Some(group), node)? {
            if let Some(remaining) = self.limits_left.get_mut(&resource) {
                *remaining = remaining.saturating_sub(amount.saturating_mul(nodes)).max(0);
            }
        }
        Ok(())
    }

    fn node_resources(
        &mut self,
        context: &AutoscalingContext<'_>,
        group: Option<GroupId>,
        node: &Node,
    ) -> Result<ResourceAmounts, String> {
        if let Some(resources) = group.and_then(|group| self.node_resources_by_group.get(&group)) {
            return Ok(resources.clone());
        }
        let amount = |name: &str| node.capacity.value(name).max(0);
        let mut resources: ResourceAmounts =
            [("cpu".into(), amount("cpu")), ("memory".into(), amount("memory"))].into();
        resources.extend(
            gpu::of_node(node, group, &*context.cloud)
                .map_err(|error| format!("failed to get custom resources: {error}"))?
                .into_iter()
                .filter(|(kind, count)| !kind.is_empty() && *count > 0),
        );
        if let Some(group) = group {
            self.node_resources_by_group.insert(group, resources.clone());
        }
        Ok(resources)
    }
}
