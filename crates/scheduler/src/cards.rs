//! What is remembered of nodes and shapes: what the node itself, and what is on it, mean to pods of that shape. A card
//! holds until the node changes. Pods whose shapes differ only in what the node is not asked about share their cards.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::ids::NodeId;
use super::pod::Shape;
use super::verdict::{Refusal, Usual};

/// All that is remembered.
#[derive(Debug, Default)]
pub(super) struct Cards {
    by_shape: FxHashMap<u32, ShapeCards>,
    /// Every refusal there was, once.
    refusals: IndexSet<Refusal, FxBuildHasher>,
    /// The numbers of the last few: most nodes are refused as the one before.
    recent: [u32; 4],
    usual: [Option<u32>; Usual::COUNT],
    clock: u64,
}

/// What is remembered for one shape.
#[derive(Debug)]
pub(super) struct ShapeCards {
    shape: Arc<Shape>,
    cards: Vec<Card>,
    last_used: u64,
}

/// What a node means to pods of one shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub generation: u64,
    /// The place of the first filter that refuses, in the profile's order; [`u8::MAX`] if none does.
    pub stopped_at: u8,
    pub refusal: u32,
    pub taints: i64,
    pub affinity: i64,
    pub fit: i64,
    pub balance: i64,
    /// Whether the node has any images at all.
    pub has_images: bool,
}

/// As many shapes are remembered. Each takes half a hundred bytes a node.
const SHAPES_KEPT: usize = 512;
const REFUSALS_KEPT: usize = 1 << 16;

// === impl Card ===

impl Card {
    /// Its refusal by number, if it refuses.
    pub(super) fn refused(&self) -> Option<u32> {
        (self.stopped_at != u8::MAX).then_some(self.refusal)
    }
}

// === impl Cards ===

impl Cards {
    /// What is remembered for a shape, taken out: whoever takes it puts it back.
    pub(super) fn take(&mut self, id: u32, shape: &Arc<Shape>) -> ShapeCards {
        self.clock += 1;
        let kept = self.by_shape.remove(&id).filter(|kept| Arc::ptr_eq(&kept.shape, shape));
        let mut cards =
            kept.unwrap_or_else(|| ShapeCards { shape: shape.clone(), cards: Vec::new(), last_used: 0 });
        cards.last_used = self.clock;
        cards
    }

    pub(super) fn put_back(&mut self, id: u32, cards: ShapeCards) {
        self.by_shape.insert(id, cards);
        if self.by_shape.len() > SHAPES_KEPT {
            let mut ages: Vec<(u64, u32)> =
                self.by_shape.iter().map(|(id, cards)| (cards.last_used, *id)).collect();
            ages.sort_unstable();
            for (_, id) in &ages[..SHAPES_KEPT / 2] {
                self.by_shape.remove(id);
            }
        }
    }

    /// Forgets everything, if there are more refusals than can be remembered: cards name them by number.
    pub(super) fn tidy(&mut self) {
        if self.refusals.len() > REFUSALS_KEPT {
            self.forget();
        }
    }

    pub(super) fn forget(&mut self) {
        self.by_shape.clear();
        self.refusals.clear();
        self.usual = Default::default();
    }

    /// The number of a refusal.
    pub(super) fn id(&mut self, refusal: Refusal) -> u32 {
        let is_it = |id: &&u32| self.refusals.get_index(**id as usize).is_some_and(|other| *other == refusal);
        if let Some(id) = self.recent.iter().find(is_it) {
            return *id;
        }
        let index = match self.refusals.get_index_of(&refusal) {
            Some(index) => index,
            None => self.refusals.insert_full(refusal).0,
        };
        self.recent.rotate_right(1);
        self.recent[0] = index as u32;
        index as u32
    }

    /// The number of one of the usual refusals.
    pub(super) fn usual(&mut self, usual: Usual) -> u32 {
        if let Some(id) = self.usual[usual as usize] {
            return id;
        }
        let id = self.id(usual.into());
        self.usual[usual as usize] = Some(id);
        id
    }

    pub(super) fn refusal(&self, id: u32) -> &Refusal {
        &self.refusals[id as usize]
    }

    /// No refusal has this number or a higher one.
    pub(super) fn end(&self) -> usize {
        self.refusals.len()
    }
}

// === impl ShapeCards ===

impl ShapeCards {
    /// Whether there is a card of a node as it is.
    #[inline]
    pub(super) fn is_current(&self, node: NodeId, generation: u64) -> bool {
        self.cards.get(node.index()).is_some_and(|card| card.generation == generation)
    }

    /// The card of a node, which there is.
    #[inline]
    pub(super) fn get(&self, node: NodeId) -> &Card {
        &self.cards[node.index()]
    }

    /// Keeps the card of one of so many nodes.
    pub(super) fn put(&mut self, node: NodeId, nodes: usize, card: Card) {
        if self.cards.len() <= node.index() {
            // A generation that no node has: they begin at one.
            self.cards.resize(nodes, Card { generation: 0, ..card });
        }
        self.cards[node.index()] = card;
    }
}
