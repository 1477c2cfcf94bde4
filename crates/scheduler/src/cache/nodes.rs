//! Nodes with the usage of their pods (kube-scheduler's NodeInfo), the node tree that orders them, and image
//! states.

use std::sync::Arc;

use indexmap::IndexMap;
use kubernetes::amounts::ScalarResourceId;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::super::ids::{NodeId, PodId};
use super::super::node::{Node, NodeUsage, Zone};

/// All nodes with the usage of their pods, the node tree that orders them, and image states. Includes
/// placeholders for nodes that are known only by the pods assigned to them.
#[derive(Debug, Default)]
pub(crate) struct NodeTable {
    slots: Vec<NodeSlot>,
    /// The generation of each slot: changes with the node and with its pods. Read often, so stored apart.
    generations: Vec<u64>,
    /// The last generation issued. None is issued twice, so that an old one can be restored.
    last_generation: u64,
    /// Nodes whose generation changed since [`take_generation_changes`](NodeTable::take_generation_changes).
    generation_changes: Vec<NodeId>,
    /// Whether a node is in `generation_changes`, by identifier.
    has_generation_change: Vec<bool>,
    free: Vec<NodeId>,
    ids_by_name: FxHashMap<Arc<str>, NodeId>,
    /// Zones in the order first seen, each with its nodes in the order added.
    zones: IndexMap<Zone, Vec<NodeId>, FxBuildHasher>,
    /// All nodes in the scheduler's order, as of the last snapshot.
    order: Vec<NodeId>,
    /// The names of the nodes in `order`.
    order_names: Vec<Arc<str>>,
    /// A node was added or removed since the last snapshot.
    order_is_stale: bool,
    /// Nodes that changed since the last snapshot.
    changed_since_snapshot: Vec<NodeId>,
    image_states: FxHashMap<Arc<str>, ImageState>,
}

/// A node, or a placeholder for the pods of a node that does not exist.
#[derive(Debug, Default)]
struct NodeSlot {
    name: Arc<str>,
    spec: Node,
    /// False for a placeholder.
    present: bool,
    usage: NodeUsage,
    /// The number of changes of its pods' order and start times. They do not change the generation: only the choice of
    /// preemption victims depends on them.
    victim_order_changes: u32,
    is_changed: bool,
    image_states: ImageStates,
}

#[derive(Debug)]
struct ImageState {
    /// The size that the first node reported.
    size: i64,
    nodes: u32,
}

/// The image states of a node as of its last snapshot: kube-scheduler freezes the number of nodes that have an image
/// until the node itself changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ImageStates(Vec<(Arc<str>, i64, u32)>);

// === impl ImageStates ===

impl ImageStates {
    /// An image's size, and the number of nodes that have it.
    pub(crate) fn get(&self, name: &str) -> Option<(i64, u32)> {
        let index = self.0.binary_search_by(|(other, ..)| (**other).cmp(name)).ok()?;
        Some((self.0[index].1, self.0[index].2))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl NodeTable ===

impl NodeTable {
    /// Every existing node, by identifier.
    pub(crate) fn present(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.present);
        slots.map(|(id, slot)| (NodeId(id as u32), &slot.spec))
    }

    /// The node of that name, if it exists.
    pub(crate) fn by_name(&self, name: &str) -> Option<NodeId> {
        self.ids_by_name.get(name).copied().filter(|id| self.is_present(*id))
    }

    /// The identifier of a node; a placeholder is created if it does not exist.
    pub(crate) fn by_name_or_placeholder(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(&id) = self.ids_by_name.get(name) {
            return id;
        }
        let id = self.free.pop().unwrap_or(NodeId(self.slots.len() as u32));
        if id.index() == self.slots.len() {
            self.slots.push(NodeSlot::default());
            self.generations.push(0);
            self.has_generation_change.push(false);
        }
        // Caches keyed by generation must not take it for the identifier's previous node.
        self.renew_generation(id);
        let is_changed = self.slots[id.index()].is_changed;
        self.slots[id.index()] = NodeSlot { name: name.clone(), is_changed, ..NodeSlot::default() };
        self.ids_by_name.insert(name.clone(), id);
        id
    }

    pub(crate) fn is_present(&self, id: NodeId) -> bool {
        self.slots[id.index()].present
    }

    pub(crate) fn spec(&self, id: NodeId) -> &Node {
        &self.slots[id.index()].spec
    }

    pub(crate) fn name(&self, id: NodeId) -> &Arc<str> {
        &self.slots[id.index()].name
    }

    pub(crate) fn usage(&self, id: NodeId) -> &NodeUsage {
        &self.slots[id.index()].usage
    }

    pub(crate) fn image_states(&self, id: NodeId) -> &ImageStates {
        &self.slots[id.index()].image_states
    }

    /// Changes with the order and the start times of its pods.
    pub(crate) fn victim_order_changes(&self, id: NodeId) -> u32 {
        self.slots[id.index()].victim_order_changes
    }

    /// Changes with the node and with its pods.
    pub(crate) fn generation(&self, id: NodeId) -> u64 {
        self.generations[id.index()]
    }

    /// Returns the nodes whose generation changed since the last call, even if it was restored since.
    pub(crate) fn take_generation_changes(&mut self) -> Vec<NodeId> {
        for id in &self.generation_changes {
            self.has_generation_change[id.index()] = false;
        }
        std::mem::take(&mut self.generation_changes)
    }

    /// All identifiers are below this.
    pub(crate) fn id_bound(&self) -> usize {
        self.slots.len()
    }

    /// Moves a pod to the end of its node's list, as kube-scheduler does with every updated pod, and updates the node in
    /// the next snapshot. The node's usage stays the same, and so does its generation.
    pub(crate) fn move_pod_to_end(&mut self, node: NodeId, pod: PodId) {
        let slot = &mut self.slots[node.index()];
        let pods = &mut slot.usage.pods;
        if let Some(position) = pods.iter().position(|other| *other == pod) {
            pods.swap_remove(position);
            pods.push(pod);
        }
        slot.victim_order_changes = slot.victim_order_changes.wrapping_add(1);
        self.update_in_snapshot(node);
    }

    /// Updates a node's usage.
    pub(crate) fn update_usage(&mut self, id: NodeId, change: impl FnOnce(&mut NodeUsage)) {
        change(&mut self.slots[id.index()].usage);
        self.touch(id);
    }

    /// Drops scalar resources that no pod requests any more.
    pub(crate) fn drop_unused_scalars(&mut self, is_used: impl Fn(ScalarResourceId) -> bool) {
        for slot in &mut self.slots {
            slot.usage.requested.drop_unused_scalars(&is_used);
        }
    }

    /// Adds or updates a node.
    pub(crate) fn set(&mut self, id: NodeId, spec: Node) {
        let zone = spec.zone();
        let slot = &mut self.slots[id.index()];
        let old = std::mem::replace(&mut slot.spec, spec);
        let was_present = std::mem::replace(&mut slot.present, true);
        if was_present {
            self.remove_image_states(&old);
            // As in kube-scheduler the snapshot order changes only when the next node is added or removed.
            if old.zone() != zone {
                self.leave_zone(id, &old.zone());
                self.zones.entry(zone).or_default().push(id);
            }
        } else {
            self.order_is_stale = true;
            self.zones.entry(zone).or_default().push(id);
        }
        self.add_image_states(id);
        self.touch(id);
    }

    pub(crate) fn remove(&mut self, id: NodeId) {
        let slot = &mut self.slots[id.index()];
        slot.present = false;
        let spec = std::mem::take(&mut slot.spec);
        self.leave_zone(id, &spec.zone());
        self.remove_image_states(&spec);
        self.order_is_stale = true;
        self.touch(id);
    }

    /// Frees the identifier of a placeholder without pods.
    pub(crate) fn release_if_unused(&mut self, id: NodeId) {
        let slot = &self.slots[id.index()];
        if !slot.present && slot.usage.pods.is_empty() {
            self.ids_by_name.remove(&slot.name);
            self.free.push(id);
        }
    }

    /// Updates the order and the image states of nodes, which kube-scheduler takes from its snapshot. Everything else is
    /// read from the cache directly: nothing changes it during a cycle. Returns whether a node was added or removed.
    pub(crate) fn update_snapshot(&mut self) -> bool {
        let mut changed = std::mem::take(&mut self.changed_since_snapshot);
        for id in changed.drain(..) {
            let slot = &mut self.slots[id.index()];
            slot.is_changed = false;
            if slot.present {
                self.snapshot_image_states(id);
            }
        }
        self.changed_since_snapshot = changed;
        let rebuilt = std::mem::take(&mut self.order_is_stale);
        if rebuilt {
            let order = round_robin(self.zones.values());
            // A node that was removed and added again in between keeps its position.
            let previous_order: Option<Vec<NodeId>> = (order.len() == self.order_names.len())
                .then(|| self.order_names.iter().map(|name| self.by_name(name)).collect())
                .flatten();
            self.order = previous_order.unwrap_or(order);
            self.order_names = self.order.iter().map(|id| self.name(*id).clone()).collect();
        }
        rebuilt
    }

    /// All nodes in the scheduler's order, as of the last snapshot.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    fn renew_generation(&mut self, id: NodeId) {
        self.last_generation += 1;
        self.restore_generation(id, self.last_generation);
    }

    /// Restores a former generation; the node and its pods must be as they were then.
    pub(crate) fn restore_generation(&mut self, id: NodeId, generation: u64) {
        self.generations[id.index()] = generation;
        if !std::mem::replace(&mut self.has_generation_change[id.index()], true) {
            self.generation_changes.push(id);
        }
    }

    fn touch(&mut self, id: NodeId) {
        self.renew_generation(id);
        self.update_in_snapshot(id);
    }

    /// Notes that the next snapshot has to take the node's image states.
    fn update_in_snapshot(&mut self, id: NodeId) {
        let slot = &mut self.slots[id.index()];
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed_since_snapshot.push(id);
        }
    }

    fn leave_zone(&mut self, id: NodeId, zone: &Zone) {
        if let Some(nodes) = self.zones.get_mut(zone) {
            nodes.retain(|other| *other != id);
            if nodes.is_empty() {
                self.zones.shift_remove(zone);
            }
        }
    }

    fn add_image_states(&mut self, id: NodeId) {
        for (name, size) in image_names(&self.slots[id.index()].spec) {
            self.image_states.entry(name.clone()).or_insert(ImageState { size, nodes: 0 }).nodes += 1;
        }
    }

    fn remove_image_states(&mut self, spec: &Node) {
        for (name, _) in image_names(spec) {
            if let Some(image) = self.image_states.get_mut(name) {
                image.nodes -= 1;
                if image.nodes == 0 {
                    self.image_states.remove(name);
                }
            }
        }
    }

    fn snapshot_image_states(&mut self, id: NodeId) {
        let slot = &self.slots[id.index()];
        if slot.spec.images.is_empty() && slot.image_states.is_empty() {
            return;
        }
        let image_states = image_names(&slot.spec).filter_map(|(name, _)| {
            let image = self.image_states.get(name)?;
            Some((name.clone(), image.size, image.nodes))
        });
        let mut image_states: Vec<_> = image_states.collect();
        image_states.sort_unstable();
        self.slots[id.index()].image_states = ImageStates(image_states);
    }
}

/// The names of all images on a node, each once, with the size listed first.
fn image_names(spec: &Node) -> impl Iterator<Item = (&Arc<str>, i64)> {
    let pairs = spec.images.iter().flat_map(|image| image.names.iter().map(|name| (name, image.size_bytes)));
    let mut names: Vec<_> = pairs.collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    names.dedup_by(|later, first| later.0 == first.0);
    names.into_iter()
}

/// Round robin over the zones: the first node of each, then the second of each, and so on.
fn round_robin<'a>(zones: impl Iterator<Item = &'a Vec<NodeId>> + Clone) -> Vec<NodeId> {
    let longest = zones.clone().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|index| zones.clone().filter_map(move |nodes| nodes.get(index)).copied()).collect()
}
