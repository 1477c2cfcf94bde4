//! Pods counted by place, and the places they are counted on.

use std::collections::BTreeMap;

use super::super::ids::NodeId;

/// The nodes that count, each at its place. Counts of other pods by the same places share it, so that a node that comes or
/// goes is not asked once for each of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ground {
    /// The place of each node, by its number; `None` for those that do not count.
    places: Vec<Option<u32>>,
    /// How many nodes count at each place.
    nodes: Vec<u32>,
    /// How many places have one.
    peopled: usize,
}

/// A count of pods by place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// By the number of the place.
    counts: Vec<u32>,
    total: u64,
    /// How many places have so many pods, but for those that have none.
    places: BTreeMap<u32, usize>,
}

// === impl Ground ===

impl Ground {
    /// The place of a node that counts.
    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        self.places.get(node.index()).copied().flatten().map(|place| place as usize)
    }

    /// A node came that counts at this place, or does not.
    pub(super) fn node_came(&mut self, node: NodeId, place: Option<usize>) {
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, None);
        }
        self.places[node.index()] = place.map(|place| place as u32);
        let Some(place) = place else { return };
        if self.nodes.len() <= place {
            self.nodes.resize(place + 1, 0);
        }
        self.peopled += usize::from(self.nodes[place] == 0);
        self.nodes[place] += 1;
    }

    /// A node goes. Nobody on it is counted any more.
    pub(super) fn node_goes(&mut self, node: NodeId) {
        let Some(place) = self.place(node) else { return };
        self.places[node.index()] = None;
        self.nodes[place] -= 1;
        self.peopled -= usize::from(self.nodes[place] == 0);
    }
}

// === impl Tally ===

impl Tally {
    /// How many pods there are at a place.
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.counts.get(place).copied().unwrap_or(0)
    }

    /// How many there are in all.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Of the places with a node that counts: how many there are, and the fewest pods at one of them, `but` one apart.
    pub(super) fn fewest(&self, ground: &Ground, but: Option<usize>) -> (usize, Option<u32>) {
        let but = but.filter(|place| ground.nodes.get(*place).is_some_and(|nodes| *nodes > 0));
        let apart = but.map(|place| self.at(place));
        let others = ground.peopled - usize::from(but.is_some());
        let with_pods: usize = self.places.values().sum();
        let others_with_pods = with_pods - usize::from(apart.is_some_and(|count| count > 0));
        let fewest = if others > others_with_pods {
            Some(0)
        } else {
            let is_other = |(count, places): &(&u32, &usize)| **places > usize::from(Some(**count) == apart);
            self.places.iter().find(is_other).map(|(count, _)| *count)
        };
        (ground.peopled, fewest)
    }

    pub(super) fn add(&mut self, place: usize, heads: u32) {
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.set(place, self.counts[place] + heads);
        self.total += u64::from(heads);
    }

    pub(super) fn subtract(&mut self, place: usize, heads: u32) {
        self.set(place, self.counts[place] - heads);
        self.total -= u64::from(heads);
    }

    fn set(&mut self, place: usize, count: u32) {
        let before = std::mem::replace(&mut self.counts[place], count);
        if before > 0 {
            let places = self.places.get_mut(&before).expect("a place with pods is counted");
            *places -= 1;
            if *places == 0 {
                self.places.remove(&before);
            }
        }
        if count > 0 {
            *self.places.entry(count).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// The same by looking at every place.
    fn looked_up(tally: &Tally, ground: &Ground, but: Option<usize>) -> (usize, Option<u32>) {
        let peopled = || (0..ground.nodes.len()).filter(|place| ground.nodes[*place] > 0);
        let fewest = peopled().filter(|place| Some(*place) != but).map(|place| tally.at(place)).min();
        (peopled().count(), fewest)
    }

    #[test]
    fn the_fewest_are_known_without_looking_at_every_place() {
        for seed in 0..200 {
            let mut dice = Pcg64::seed_from_u64(seed);
            let (mut ground, mut tally) = (Ground::default(), Tally::default());
            let mut heads = [0_u32; 12];
            for _ in 0..60 {
                let number = dice.random_range(0..12_usize);
                let node = NodeId(number as u32);
                match (ground.place(node), dice.random_range(0..4)) {
                    (None, _) => ground.node_came(node, Some(dice.random_range(0..5))),
                    (Some(place), 0) => {
                        if heads[number] > 0 {
                            tally.subtract(place, std::mem::take(&mut heads[number]));
                        }
                        ground.node_goes(node);
                    }
                    (Some(place), 1) if heads[number] > 0 => {
                        tally.subtract(place, 1);
                        heads[number] -= 1;
                    }
                    (Some(place), _) => {
                        tally.add(place, 1);
                        heads[number] += 1;
                    }
                }
                assert_eq!(tally.total(), u64::from(heads.iter().sum::<u32>()), "seed {seed}");
                for but in [None, Some(dice.random_range(0..6))] {
                    assert_eq!(
                        tally.fewest(&ground, but),
                        looked_up(&tally, &ground, but),
                        "seed {seed}, {but:?}"
                    );
                }
            }
        }
    }
}
