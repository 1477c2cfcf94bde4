//! Cluster-wide minimum quotas for scale-down: cores, memory, GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::requests::{CPU, MEMORY};
use scheduler::ids::NodeId;

use super::super::cloud::GroupId;
use super::super::{AutoscalingContext, gpu};

/// The amount of each resource that may still be removed.
#[derive(Clone, Debug)]
pub(super) struct MinQuotaTracker {
    cores: i64,
    memory: i64,
    /// By GPU type.
    gpus: Vec<(Arc<str>, i64)>,
    /// The resources of a node of each group: those of the first node count for all.
    node_capacity_by_group: Vec<Option<NodeCapacity>>,
}

/// The resources of a node.
#[derive(Clone, Debug, Default)]
struct NodeCapacity {
    cores: i64,
    memory: i64,
    gpu: Option<(Arc<str>, i64)>,
}

const GIB: i64 = 1 << 30;

impl MinQuotaTracker {
    /// The resources of the snapshot's nodes beyond the minimum. `None` if a node without a group has the GPU label but
    /// no GPU, so that its GPUs cannot be counted.
    pub(super) fn of(context: &mut AutoscalingContext<'_>) -> Option<MinQuotaTracker> {
        let settings = context.settings;
        // Of a GPU type that is given twice the last value counts.
        let min_gpus: BTreeMap<Arc<str>, i64> =
            settings.gpu_total.iter().map(|(kind, range)| (kind.clone(), range.min)).collect();
        let mut quotas = MinQuotaTracker {
            cores: 0,
            memory: 0,
            gpus: min_gpus.keys().map(|kind| (kind.clone(), 0)).collect(),
            node_capacity_by_group: vec![None; context.cloud.groups().len()],
        };
        let mut counts = vec![0_i64; quotas.node_capacity_by_group.len()];
        for id in context.cluster.snapshot.order() {
            let Some(group) = context.group_for_quota(*id) else { continue };
            match group {
                Some(group) if quotas.node_capacity_by_group[group.index()].is_some() => {
                    counts[group.index()] += 1
                }
                _ => {
                    let capacity = quotas.node_capacity(context, *id, group)?;
                    quotas.add(&capacity, 1);
                }
            }
        }
        for (group_capacity, count) in quotas.node_capacity_by_group.clone().into_iter().zip(counts) {
            group_capacity.iter().for_each(|capacity| quotas.add(capacity, count));
        }
        quotas.cores = quotas.cores.saturating_sub(settings.cores_total.min.max(0)).max(0);
        quotas.memory =
            quotas.memory.saturating_sub(settings.memory_total.min.max(0).saturating_mul(GIB)).max(0);
        for ((_, remaining), min_gpus) in quotas.gpus.iter_mut().zip(min_gpus.values()) {
            *remaining = remaining.saturating_sub((*min_gpus).max(0)).max(0);
        }
        Some(quotas)
    }

    /// Adds the resources of that many nodes.
    fn add(&mut self, capacity: &NodeCapacity, nodes: i64) {
        self.cores = self.cores.saturating_add(capacity.cores.saturating_mul(nodes));
        self.memory = self.memory.saturating_add(capacity.memory.saturating_mul(nodes));
        if let Some((kind, count)) = &capacity.gpu
            && let Some(remaining) = self.gpu_left(kind)
        {
            *remaining = remaining.saturating_add(count.saturating_mul(nodes));
        }
    }

    /// Subtracts a node if the minimum is kept without it. Returns whether it is.
    pub(super) fn try_remove_node(
        &mut self,
        context: &AutoscalingContext<'_>,
        id: NodeId,
        group: GroupId,
    ) -> bool {
        let Some(capacity) = self.node_capacity(context, id, Some(group)) else { return false };
        let fits = |amount: i64, left: i64| amount <= 0 || amount <= left;
        let gpus_fit = capacity
            .gpu
            .as_ref()
            .is_none_or(|(kind, count)| self.gpu_left(kind).is_none_or(|remaining| fits(*count, *remaining)));
        if !(gpus_fit && fits(capacity.cores, self.cores) && fits(capacity.memory, self.memory)) {
            return false;
        }
        self.cores = (self.cores - capacity.cores).max(0);
        self.memory = (self.memory - capacity.memory).max(0);
        if let Some((kind, count)) = capacity.gpu
            && let Some(remaining) = self.gpu_left(&kind)
        {
            *remaining = (*remaining - count).max(0);
        }
        true
    }

    fn gpu_left(&mut self, kind: &str) -> Option<&mut i64> {
        self.gpus.iter_mut().find(|(other, _)| &**other == kind).map(|(_, remaining)| remaining)
    }

    fn node_capacity(
        &mut self,
        context: &AutoscalingContext<'_>,
        id: NodeId,
        group: Option<GroupId>,
    ) -> Option<NodeCapacity> {
        if let Some(group) = group
            && let Some(cached_capacity) = &self.node_capacity_by_group[group.index()]
        {
            return Some(cached_capacity.clone());
        }
        let node = context.cluster.snapshot.node(id);
        let capacity = NodeCapacity {
            cores: node.capacity.value(CPU).max(0),
            memory: node.capacity.value(MEMORY).max(0),
            gpu: gpu::of_node(node, group, &*context.cloud).ok()?,
        };
        if let Some(group) = group {
            self.node_capacity_by_group[group.index()] = Some(capacity.clone());
        }
        Some(capacity)
    }
}
