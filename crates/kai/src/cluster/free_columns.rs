//! The free cpu and GPUs of all nodes, those being released included, in columns: most nodes are ruled out for a pod by
//! these alone.

use super::ids::NodeId;
use super::node::Node;
use super::resources::{CPU, GPU};

/// What is idle or being released of cpu and GPUs on all nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeColumns {
    pub cpu: FreeColumn,
    pub gpu: FreeColumn,
}

/// What is idle or being released of a resource, by node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeColumn {
    amounts: Vec<f64>,
    /// Whether nodes have the resource at all.
    is_allocatable: Vec<bool>,
}

impl FreeColumns {
    pub(super) fn new(nodes: &[Node]) -> FreeColumns {
        FreeColumns { cpu: FreeColumn::new(nodes, CPU), gpu: FreeColumn::new(nodes, GPU) }
    }

    /// Takes the amounts of a node over after it changed.
    pub(super) fn update(&mut self, id: NodeId, node: &Node) {
        self.cpu.amounts[id.index()] = free(node, CPU);
        self.gpu.amounts[id.index()] = free(node, GPU);
    }
}

impl FreeColumn {
    fn new(nodes: &[Node], resource: usize) -> FreeColumn {
        FreeColumn {
            amounts: nodes.iter().map(|node| free(node, resource)).collect(),
            is_allocatable: nodes.iter().map(|node| node.allocatable.get(resource) != 0.0).collect(),
        }
    }

    /// What is free on a node.
    pub(crate) fn get(&self, node: NodeId) -> f64 {
        self.amounts[node.index()]
    }

    /// Whether a node has the resource at all.
    pub(crate) fn is_allocatable(&self, node: NodeId) -> bool {
        self.is_allocatable[node.index()]
    }
}

fn free(node: &Node, resource: usize) -> f64 {
    node.idle.get(resource) + node.releasing.get(resource)
}
