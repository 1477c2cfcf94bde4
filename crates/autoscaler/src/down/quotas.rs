//! The least that a cluster is to keep of cores, memory and GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::requests::{CPU, MEMORY};
use scheduler::ids::NodeId;

use super::super::cloud::GroupId;
use super::super::{AutoscalingContext, gpu};

/// How much of each may still go.
#[derive(Clone, Debug)]
pub(super) struct Quotas {
    cores: i64,
    memory: i64,
    /// By kind of GPU.
    gpus: Vec<(Arc<str>, i64)>,
    /// What a node of each group has: that of the first one counts for all.
    groups: Vec<Option<Has>>,
}

/// What a node has.
#[derive(Clone, Debug, Default)]
struct Has {
    cores: i64,
    memory: i64,
    gpu: Option<(Arc<str>, i64)>,
}

const GIB: i64 = 1 << 30;

impl Quotas {
    /// What the snapshot's nodes have beyond the least. `None` if a node of no group promises GPUs that nobody can
    /// count.
    pub(super) fn of(context: &mut AutoscalingContext<'_>) -> Option<Quotas> {
        let settings = context.settings;
        // Of a kind that is named twice the last word counts.
        let least: BTreeMap<Arc<str>, i64> =
            settings.gpu_total.iter().map(|(kind, range)| (kind.clone(), range.min)).collect();
        let mut quotas = Quotas {
            cores: 0,
            memory: 0,
            gpus: least.keys().map(|kind| (kind.clone(), 0)).collect(),
            groups: vec![None; context.cloud.groups().len()],
        };
        let mut counts = vec![0_i64; quotas.groups.len()];
        for id in context.cluster.snapshot.order() {
            let Some(group) = context.group_of_machine(*id) else { continue };
            match group {
                Some(group) if quotas.groups[group.index()].is_some() => counts[group.index()] += 1,
                _ => {
                    let has = quotas.has(context, *id, group)?;
                    quotas.add(&has, 1);
                }
            }
        }
        for (has, count) in quotas.groups.clone().into_iter().zip(counts) {
            has.iter().for_each(|has| quotas.add(has, count));
        }
        quotas.cores = quotas.cores.saturating_sub(settings.cores_total.min.max(0)).max(0);
        quotas.memory =
            quotas.memory.saturating_sub(settings.memory_total.min.max(0).saturating_mul(GIB)).max(0);
        for ((_, left), least) in quotas.gpus.iter_mut().zip(least.values()) {
            *left = left.saturating_sub((*least).max(0)).max(0);
        }
        Some(quotas)
    }

    /// So many nodes have so much each.
    fn add(&mut self, has: &Has, nodes: i64) {
        self.cores = self.cores.saturating_add(has.cores.saturating_mul(nodes));
        self.memory = self.memory.saturating_add(has.memory.saturating_mul(nodes));
        if let Some((kind, count)) = &has.gpu
            && let Some(left) = self.gpu(kind)
        {
            *left = left.saturating_add(count.saturating_mul(nodes));
        }
    }

    /// Takes a node away, if enough is left without it.
    pub(super) fn take(&mut self, context: &AutoscalingContext<'_>, id: NodeId, group: GroupId) -> bool {
        let Some(has) = self.has(context, id, Some(group)) else { return false };
        let fits = |amount: i64, left: i64| amount <= 0 || amount <= left;
        let gpus_fit = has
            .gpu
            .as_ref()
            .is_none_or(|(kind, count)| self.gpu(kind).is_none_or(|left| fits(*count, *left)));
        if !(gpus_fit && fits(has.cores, self.cores) && fits(has.memory, self.memory)) {
            return false;
        }
        self.cores = (self.cores - has.cores).max(0);
        self.memory = (self.memory - has.memory).max(0);
        if let Some((kind, count)) = has.gpu
            && let Some(left) = self.gpu(&kind)
        {
            *left = (*left - count).max(0);
        }
        true
    }

    fn gpu(&mut self, kind: &str) -> Option<&mut i64> {
        self.gpus.iter_mut().find(|(other, _)| &**other == kind).map(|(_, left)| left)
    }

    fn has(&mut self, context: &AutoscalingContext<'_>, id: NodeId, group: Option<GroupId>) -> Option<Has> {
        if let Some(group) = group
            && let Some(known) = &self.groups[group.index()]
        {
            return Some(known.clone());
        }
        let node = context.cluster.snapshot.node(id);
        let has = Has {
            cores: node.capacity.value(CPU).max(0),
            memory: node.capacity.value(MEMORY).max(0),
            gpu: gpu::of_node(node, group, &*context.cloud).ok()?,
        };
        if let Some(group) = group {
            self.groups[group.index()] = Some(has.clone());
        }
        Some(has)
    }
}
