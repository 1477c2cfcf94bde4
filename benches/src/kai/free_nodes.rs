//! The free resources of generated nodes, to place running pods on.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use rand_pcg::Pcg64;

use super::objects::GpuRequest;

/// The free resources of all nodes; those with GPUs come first.
pub(super) struct FreeNodes {
    nodes: Vec<FreeNode>,
    gpu_nodes: usize,
    used_gpus: f64,
    /// The next node that may be entirely free, from the end of those with GPUs.
    next_whole: usize,
    /// What is free of shared GPUs.
    groups: HashMap<String, f64>,
    /// Groups without a reservation pod.
    new_groups: HashSet<String>,
    group_count: usize,
}

#[derive(Clone)]
struct FreeNode {
    cpu_millis: i64,
    pods: usize,
    gpus: u32,
    shared: Vec<String>,
}

const CPU_MILLIS: i64 = 96_000;
const PODS: usize = 110;
const GPUS: u32 = 8;
/// How many nodes are looked at for a pod.
const TRIES: usize = 400;

impl FreeNodes {
    pub(super) fn new(nodes: usize, gpu_nodes: usize) -> FreeNodes {
        let node = |index: usize| FreeNode {
            cpu_millis: CPU_MILLIS,
            pods: PODS,
            gpus: if index < gpu_nodes { GPUS } else { 0 },
            shared: Vec::new(),
        };
        FreeNodes {
            nodes: (0..nodes).map(node).collect(),
            gpu_nodes,
            used_gpus: 0.0,
            next_whole: gpu_nodes,
            groups: HashMap::new(),
            new_groups: HashSet::new(),
            group_count: 0,
        }
    }

    /// The GPUs in use.
    pub(super) fn used_gpus(&self) -> f64 {
        self.used_gpus
    }

    /// Takes cpu and whole GPUs of a node.
    pub(super) fn take(&mut self, node: usize, cpu_millis: i64, gpus: f64) {
        self.nodes[node].cpu_millis -= cpu_millis;
        self.nodes[node].pods -= 1;
        self.nodes[node].gpus -= gpus as u32;
        self.used_gpus += gpus;
    }

    /// A node for a pod, and the group of the GPU that it shares.
    pub(super) fn place(
        &mut self,
        cpu_millis: i64,
        gpu: GpuRequest,
        rng: &mut Pcg64,
    ) -> Option<(usize, Option<String>)> {
        match gpu {
            GpuRequest::Whole(GPUS) => {
                while self.next_whole > 0 {
                    self.next_whole -= 1;
                    let node = self.next_whole;
                    if self.nodes[node].gpus == GPUS && self.nodes[node].cpu_millis >= cpu_millis {
                        self.take(node, cpu_millis, f64::from(GPUS));
                        return Some((node, None));
                    }
                }
                None
            }
            GpuRequest::Whole(count) => {
                let node =
                    self.find(rng, self.gpu_nodes, |node| node.gpus >= count && node.has_room(cpu_millis))?;
                self.take(node, cpu_millis, f64::from(count));
                Some((node, None))
            }
            GpuRequest::Fraction(portion) => {
                let group_count = self.group_count;
                let groups = &self.groups;
                let shared =
                    |node: &FreeNode| node.shared.iter().find(|group| groups[*group] >= portion).cloned();
                let node = self.find(rng, self.gpu_nodes, |node| {
                    node.has_room(cpu_millis) && node.pods >= 2 && (node.gpus > 0 || shared(node).is_some())
                })?;
                let group = match shared(&self.nodes[node]) {
                    Some(group) => group,
                    None => {
                        let group = format!("{group_count:08x}-0000-4000-8000-{node:012x}");
                        self.group_count += 1;
                        self.nodes[node].gpus -= 1;
                        self.nodes[node].pods -= 1;
                        self.nodes[node].shared.push(group.clone());
                        self.groups.insert(group.clone(), 1.0);
                        self.new_groups.insert(group.clone());
                        self.used_gpus += 1.0;
                        group
                    }
                };
                *self.groups.get_mut(&group)? -= portion;
                self.take(node, cpu_millis, 0.0);
                Some((node, Some(group)))
            }
            GpuRequest::None => {
                let node = self.find(rng, self.nodes.len(), |node| node.has_room(cpu_millis))?;
                self.take(node, cpu_millis, 0.0);
                Some((node, None))
            }
        }
    }

    /// Frees what a pod took.
    pub(super) fn put_back(&mut self, node: usize, cpu_millis: i64, gpu: GpuRequest, group: Option<&str>) {
        self.nodes[node].cpu_millis += cpu_millis;
        self.nodes[node].pods += 1;
        match gpu {
            GpuRequest::None => {}
            GpuRequest::Whole(count) => {
                self.nodes[node].gpus += count;
                self.used_gpus -= f64::from(count);
            }
            GpuRequest::Fraction(portion) => {
                if let Some(free) = group.and_then(|group| self.groups.get_mut(group)) {
                    *free += portion;
                }
            }
        }
    }

    /// Whether a group has no reservation pod yet; it gets one now.
    pub(super) fn take_new_group(&mut self, group: &str) -> bool {
        self.new_groups.remove(group)
    }

    /// A node among the first ones, from a random one on.
    fn find(&self, rng: &mut Pcg64, count: usize, has_room: impl Fn(&FreeNode) -> bool) -> Option<usize> {
        let start = rng.random_range(0..count);
        (0..TRIES.min(count)).map(|offset| (start + offset) % count).find(|node| has_room(&self.nodes[*node]))
    }
}

impl FreeNode {
    fn has_room(&self, cpu_millis: i64) -> bool {
        self.cpu_millis >= cpu_millis && self.pods >= 4
    }
}
