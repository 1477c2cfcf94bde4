//! The nodes, their order, and the images on them.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::super::ids::NodeId;
use super::super::node::{Load, NodeSpec, Zone};

/// The nodes.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    slots: Vec<Slot>,
    /// For each slot a number that changes with the node and with the pods on it. Looked at all the time, so apart.
    generations: Vec<u64>,
    /// The last one given out. None is ever given out again, so that an old one can be restored.
    last_generation: u64,
    /// Nodes that got another one since this was last asked.
    touched: Vec<NodeId>,
    /// Whether a node is among them, by number.
    is_touched: Vec<bool>,
    free: Vec<NodeId>,
    by_name: FxHashMap<Arc<str>, NodeId>,
    /// Nodes by zone, each in the order they came; zones too.
    zones: IndexMap<Zone, Vec<NodeId>, FxBuildHasher>,
    /// All nodes in the scheduler's order, as of the last look.
    order: Vec<NodeId>,
    /// Their names.
    seen: Vec<Arc<str>>,
    /// A node came or went since.
    order_is_old: bool,
    /// Nodes that changed since the last look.
    changed: Vec<NodeId>,
    images: FxHashMap<Arc<str>, Image>,
}

/// A place for a node, or for the pods of one that is not there.
#[derive(Debug, Default)]
struct Slot {
    name: Arc<str>,
    spec: NodeSpec,
    /// False for a node that is known only by the pods on it.
    present: bool,
    load: Load,
    is_changed: bool,
    images: ImageView,
}

#[derive(Debug)]
struct Image {
    /// As the first node said.
    size: i64,
    nodes: u32,
}

/// The images on a node, as the scheduler saw them when it last had reason to look at the node: how many other nodes
/// have one may have changed since.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ImageView(Vec<(Arc<str>, i64, u32)>);

// === impl ImageView ===

impl ImageView {
    /// An image's size, and on how many nodes it is.
    pub(crate) fn get(&self, name: &str) -> Option<(i64, u32)> {
        let index = self.0.binary_search_by(|(other, ..)| (**other).cmp(name)).ok()?;
        Some((self.0[index].1, self.0[index].2))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

// === impl Nodes ===

impl Nodes {
    /// Every node that is there, by number.
    pub(crate) fn present(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)> {
        let slots = self.slots.iter().enumerate().filter(|(_, slot)| slot.present);
        slots.map(|(id, slot)| (NodeId(id as u32), &slot.spec))
    }

    /// The node of that name, if it is there.
    pub(crate) fn by_name(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied().filter(|id| self.is_present(*id))
    }

    /// The number of a node that may not be there.
    pub(crate) fn by_name_or_ghost(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.free.pop().unwrap_or(NodeId(self.slots.len() as u32));
        if id.index() == self.slots.len() {
            self.slots.push(Slot::default());
            self.generations.push(0);
            self.is_touched.push(false);
        }
        // Whoever remembers the number's last node by its generation must not take this one for it.
        self.renew_generation(id);
        let is_changed = self.slots[id.index()].is_changed;
        self.slots[id.index()] = Slot { name: name.clone(), is_changed, ..Slot::default() };
        self.by_name.insert(name.clone(), id);
        id
    }

    pub(crate) fn is_present(&self, id: NodeId) -> bool {
        self.slots[id.index()].present
    }

    pub(crate) fn spec(&self, id: NodeId) -> &NodeSpec {
        &self.slots[id.index()].spec
    }

    pub(crate) fn name(&self, id: NodeId) -> &Arc<str> {
        &self.slots[id.index()].name
    }

    pub(crate) fn load_of(&self, id: NodeId) -> &Load {
        &self.slots[id.index()].load
    }

    pub(crate) fn images(&self, id: NodeId) -> &ImageView {
        &self.slots[id.index()].images
    }

    /// Changes with the node and with the pods on it.
    pub(crate) fn generation(&self, id: NodeId) -> u64 {
        self.generations[id.index()]
    }

    /// Nodes that got another generation since this was last asked, be it that they got their old one back.
    pub(crate) fn take_touched(&mut self) -> Vec<NodeId> {
        for id in &self.touched {
            self.is_touched[id.index()] = false;
        }
        std::mem::take(&mut self.touched)
    }

    /// No node has this number or a higher one.
    pub(crate) fn end(&self) -> usize {
        self.slots.len()
    }

    /// Changes what is on a node.
    pub(crate) fn load(&mut self, id: NodeId, change: impl FnOnce(&mut Load)) {
        change(&mut self.slots[id.index()].load);
        self.touch(id);
    }

    /// A node came, or changed.
    pub(crate) fn set(&mut self, id: NodeId, spec: NodeSpec) {
        let zone = spec.zone();
        let slot = &mut self.slots[id.index()];
        let old = std::mem::replace(&mut slot.spec, spec);
        let was_present = std::mem::replace(&mut slot.present, true);
        if was_present {
            self.forget_images(&old);
            // The order is not looked at for this: it changes with the next node that comes or goes.
            if old.zone() != zone {
                self.leave_zone(id, &old.zone());
                self.zones.entry(zone).or_default().push(id);
            }
        } else {
            self.order_is_old = true;
            self.zones.entry(zone).or_default().push(id);
        }
        self.learn_images(id);
        self.touch(id);
    }

    /// A node is gone.
    pub(crate) fn remove(&mut self, id: NodeId) {
        let slot = &mut self.slots[id.index()];
        slot.present = false;
        let spec = std::mem::take(&mut slot.spec);
        self.leave_zone(id, &spec.zone());
        self.forget_images(&spec);
        self.order_is_old = true;
        self.touch(id);
    }

    /// Gives up the number of a node that is not there and has no pods.
    pub(crate) fn bury(&mut self, id: NodeId) {
        let slot = &self.slots[id.index()];
        if !slot.present && slot.load.pods.is_empty() {
            self.by_name.remove(&slot.name);
            self.free.push(id);
        }
    }

    /// Looks at all that has changed, as the scheduler does before each decision. Says whether a node came or went.
    pub(crate) fn look(&mut self) -> bool {
        let mut changed = std::mem::take(&mut self.changed);
        for id in changed.drain(..) {
            let slot = &mut self.slots[id.index()];
            slot.is_changed = false;
            if slot.present {
                self.see_images(id);
            }
        }
        self.changed = changed;
        let rebuilt = std::mem::take(&mut self.order_is_old);
        if rebuilt {
            let order = in_turn(self.zones.values());
            // One that went and came back in between is where it was.
            let again: Option<Vec<NodeId>> = (order.len() == self.seen.len())
                .then(|| self.seen.iter().map(|name| self.by_name(name)).collect())
                .flatten();
            self.order = again.unwrap_or(order);
            self.seen = self.order.iter().map(|id| self.name(*id).clone()).collect();
        }
        rebuilt
    }

    /// All nodes in the scheduler's order, as of the last look.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    fn renew_generation(&mut self, id: NodeId) {
        self.last_generation += 1;
        self.set_generation(id, self.last_generation);
    }

    /// To be called with a former one if a node and the pods on it are as they were then.
    pub(crate) fn set_generation(&mut self, id: NodeId, generation: u64) {
        self.generations[id.index()] = generation;
        if !std::mem::replace(&mut self.is_touched[id.index()], true) {
            self.touched.push(id);
        }
    }

    fn touch(&mut self, id: NodeId) {
        self.renew_generation(id);
        let slot = &mut self.slots[id.index()];
        if !slot.is_changed {
            slot.is_changed = true;
            self.changed.push(id);
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

    fn learn_images(&mut self, id: NodeId) {
        for (name, size) in image_names(&self.slots[id.index()].spec) {
            self.images.entry(name.clone()).or_insert(Image { size, nodes: 0 }).nodes += 1;
        }
    }

    fn forget_images(&mut self, spec: &NodeSpec) {
        for (name, _) in image_names(spec) {
            if let Some(image) = self.images.get_mut(name) {
                image.nodes -= 1;
                if image.nodes == 0 {
                    self.images.remove(name);
                }
            }
        }
    }

    fn see_images(&mut self, id: NodeId) {
        let slot = &self.slots[id.index()];
        if slot.spec.images.is_empty() && slot.images.is_empty() {
            return;
        }
        let seen = image_names(&slot.spec).filter_map(|(name, _)| {
            let image = self.images.get(name)?;
            Some((name.clone(), image.size, image.nodes))
        });
        let mut seen: Vec<_> = seen.collect();
        seen.sort_unstable();
        self.slots[id.index()].images = ImageView(seen);
    }
}

/// The names of all images on a node, each once, with the size that is said first.
fn image_names(spec: &NodeSpec) -> impl Iterator<Item = (&Arc<str>, i64)> {
    let all = spec.images.iter().flat_map(|(names, size)| names.iter().map(move |name| (name, *size)));
    let mut names: Vec<_> = all.collect();
    names.sort_by(|a, b| a.0.cmp(b.0));
    names.dedup_by(|later, first| later.0 == first.0);
    names.into_iter()
}

/// The first of each zone, then the second of each, and so on.
fn in_turn<'a>(zones: impl Iterator<Item = &'a Vec<NodeId>> + Clone) -> Vec<NodeId> {
    let most = zones.clone().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|turn| zones.clone().filter_map(move |nodes| nodes.get(turn)).copied()).collect()
}
