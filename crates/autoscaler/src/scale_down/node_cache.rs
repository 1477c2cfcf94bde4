//! A cache of values that are computed from a node and its pods.

use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;

/// Values by node, each kept until the node or its pods change, or until its time has passed.
#[derive(Debug)]
pub(super) struct NodeCache<T> {
    /// By node ID.
    nodes: Vec<Option<CachedValue<T>>>,
}

#[derive(Debug)]
struct CachedValue<T> {
    /// The generation of the node that it was computed from.
    generation: u64,
    value: T,
}

/// A value that holds until a moment.
pub(super) trait Expiring {
    fn valid_until(&self) -> Moment;
}

impl<T: Expiring> NodeCache<T> {
    /// The value of a node as it is in the snapshot now, if that is known.
    pub(super) fn get(&self, context: &AutoscalingContext<'_>, id: NodeId) -> Option<&T> {
        let cached = self.nodes.get(id.index())?.as_ref()?;
        cached.is_valid(context, id).then_some(&cached.value)
    }

    /// The same, taken out of the cache.
    pub(super) fn take(&mut self, context: &AutoscalingContext<'_>, id: NodeId) -> Option<T> {
        let cached = self.nodes.get_mut(id.index())?.take()?;
        cached.is_valid(context, id).then_some(cached.value)
    }

    /// Keeps a value that was computed from that generation of a node.
    pub(super) fn insert(&mut self, id: NodeId, generation: u64, value: T) {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, || None);
        }
        self.nodes[id.index()] = Some(CachedValue { generation, value });
    }
}

impl<T> Default for NodeCache<T> {
    fn default() -> NodeCache<T> {
        NodeCache { nodes: Vec::new() }
    }
}

// === impl CachedValue ===

impl<T: Expiring> CachedValue<T> {
    fn is_valid(&self, context: &AutoscalingContext<'_>, id: NodeId) -> bool {
        self.generation == context.cluster.snapshot.filter_snapshot.generation(id)
            && !context.clock.is_past(self.value.valid_until())
    }
}
