//! Plugin nodeplacement: packs pods on few nodes, or spreads them.

use super::arguments::Arguments;
use super::scores::MAX_HIGH_DENSITY;
use crate::cluster::free_columns::FreeColumns;
use crate::cluster::ids::NodeId;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::cluster::resources::{CPU, GPU};

/// The strategies for pods with and without GPUs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodePlacement {
    gpu: Strategy,
    cpu: Strategy,
}

/// The least and the most that nodes have free; for packing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocatableRange {
    min: f64,
    max: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    Pack,
    Spread,
}

impl NodePlacement {
    pub(crate) fn new(arguments: &Arguments<'_>) -> NodePlacement {
        let strategy = |name: &str| match arguments.text(name) {
            Some("spread") => Strategy::Spread,
            _ => Strategy::Pack,
        };
        NodePlacement { gpu: strategy("gpu"), cpu: strategy("cpu") }
    }

    /// The range over the nodes that a pod may be placed on.
    pub(crate) fn range(&self, pod: &Pod, columns: &FreeColumns, nodes: &[NodeId]) -> AllocatableRange {
        let (strategy, resource) = self.strategy(pod);
        let column = if resource == GPU { &columns.gpu } else { &columns.cpu };
        let mut range = AllocatableRange { min: f64::MAX, max: 0.0 };
        if strategy == Strategy::Pack {
            for &node in nodes.iter().filter(|node| column.is_allocatable(**node)) {
                let free = column.get(node);
                range.min = range.min.min(free);
                range.max = range.max.max(free);
            }
        }
        range
    }

    pub(crate) fn score(&self, pod: &Pod, node: &Node, range: AllocatableRange) -> f64 {
        let (strategy, resource) = self.strategy(pod);
        let free = free(node, resource);
        match strategy {
            Strategy::Pack => packing_score(range, free, node.allocatable.get(resource)),
            Strategy::Spread => {
                let all =
                    if resource == GPU { node.gpu_count as f64 } else { node.allocatable.get(resource) };
                if all == 0.0 { 0.0 } else { free / all }
            }
        }
    }

    fn strategy(&self, pod: &Pod) -> (Strategy, usize) {
        if pod.requires_gpu() { (self.gpu, GPU) } else { (self.cpu, CPU) }
    }
}

fn packing_score(range: AllocatableRange, free: f64, all: f64) -> f64 {
    if all == 0.0 || range.max == 0.0 {
        return 0.0;
    }
    if range.min == range.max {
        return MAX_HIGH_DENSITY;
    }
    MAX_HIGH_DENSITY * (1.0 - (free - range.min) / (range.max - range.min))
}

fn free(node: &Node, resource: usize) -> f64 {
    node.idle.get(resource) + node.releasing.get(resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_node_has_the_highest_score() {
        let range = AllocatableRange { min: 2.0, max: 8.0 };
        assert_eq!(packing_score(range, 2.0, 8.0), 9.0);
        assert_eq!(packing_score(range, 5.0, 8.0), 4.5);
        assert_eq!(packing_score(range, 8.0, 8.0), 0.0);
        assert_eq!(packing_score(range, 0.0, 0.0), 0.0);
        assert_eq!(packing_score(AllocatableRange { min: 3.0, max: 3.0 }, 3.0, 8.0), 9.0);
    }
}
