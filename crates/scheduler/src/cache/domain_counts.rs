//! Pod counts by topology domain, and the eligible domains they are counted in.

use std::collections::BTreeMap;

use super::super::ids::NodeId;

/// The eligible nodes and their domains. Counts of different pods over the same nodes share it, so that a node that is
/// added or removed is evaluated once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EligibleDomains {
    /// The domain of each node, by identifier; `None` for nodes that are not eligible.
    domain_by_node: Vec<Option<u32>>,
    /// The number of eligible nodes in each domain.
    nodes_by_domain: Vec<u32>,
    /// The number of domains with an eligible node.
    non_empty_domains: usize,
}

/// Pod counts by domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DomainCounts {
    /// By domain.
    counts: Vec<u32>,
    total: u64,
    /// The number of domains by their count, without those of count zero.
    domains_by_count: BTreeMap<u32, usize>,
}

// === impl EligibleDomains ===

impl EligibleDomains {
    /// The domain of an eligible node.
    pub(super) fn domain(&self, node: NodeId) -> Option<usize> {
        self.domain_by_node.get(node.index()).copied().flatten().map(|place| place as usize)
    }

    /// Adds a node, in a domain if it is eligible.
    pub(super) fn add_node(&mut self, node: NodeId, place: Option<usize>) {
        if self.domain_by_node.len() <= node.index() {
            self.domain_by_node.resize(node.index() + 1, None);
        }
        self.domain_by_node[node.index()] = place.map(|place| place as u32);
        let Some(place) = place else { return };
        if self.nodes_by_domain.len() <= place {
            self.nodes_by_domain.resize(place + 1, 0);
        }
        self.non_empty_domains += usize::from(self.nodes_by_domain[place] == 0);
        self.nodes_by_domain[place] += 1;
    }

    /// Removes a node. Its pods must no longer be counted.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        let Some(place) = self.domain(node) else { return };
        self.domain_by_node[node.index()] = None;
        self.nodes_by_domain[place] -= 1;
        self.non_empty_domains -= usize::from(self.nodes_by_domain[place] == 0);
    }
}

// === impl DomainCounts ===

impl DomainCounts {
    /// The number of pods in a domain.
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.counts.get(place).copied().unwrap_or(0)
    }

    /// The number of pods in all domains.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of eligible domains, and the lowest count of any of them except `but`.
    pub(super) fn min_match(&self, domains: &EligibleDomains, but: Option<usize>) -> (usize, Option<u32>) {
        let but = but.filter(|place| domains.nodes_by_domain.get(*place).is_some_and(|nodes| *nodes > 0));
        let apart = but.map(|place| self.at(place));
        let others = domains.non_empty_domains - usize::from(but.is_some());
        let with_pods: usize = self.domains_by_count.values().sum();
        let others_with_pods = with_pods - usize::from(apart.is_some_and(|count| count > 0));
        let fewest = if others > others_with_pods {
            Some(0)
        } else {
            let is_other = |(count, places): &(&u32, &usize)| **places > usize::from(Some(**count) == apart);
            self.domains_by_count.iter().find(is_other).map(|(count, _)| *count)
        };
        (domains.non_empty_domains, fewest)
    }

    pub(super) fn add(&mut self, place: usize, count: u32) {
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.set(place, self.counts[place] + count);
        self.total += u64::from(count);
    }

    pub(super) fn subtract(&mut self, place: usize, count: u32) {
        self.set(place, self.counts[place] - count);
        self.total -= u64::from(count);
    }

    fn set(&mut self, place: usize, count: u32) {
        let before = std::mem::replace(&mut self.counts[place], count);
        if before > 0 {
            let places = self.domains_by_count.get_mut(&before).expect("a place with pods is counted");
            *places -= 1;
            if *places == 0 {
                self.domains_by_count.remove(&before);
            }
        }
        if count > 0 {
            *self.domains_by_count.entry(count).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// The same by scanning every domain.
    fn min_match_by_scan(
        tally: &DomainCounts,
        domains: &EligibleDomains,
        but: Option<usize>,
    ) -> (usize, Option<u32>) {
        let peopled =
            || (0..domains.nodes_by_domain.len()).filter(|place| domains.nodes_by_domain[*place] > 0);
        let fewest = peopled().filter(|place| Some(*place) != but).map(|place| tally.at(place)).min();
        (peopled().count(), fewest)
    }

    #[test]
    fn the_minimum_is_the_same_as_by_scanning_all_domains() {
        for seed in 0..200 {
            let mut dice = Pcg64::seed_from_u64(seed);
            let (mut ground, mut tally) = (EligibleDomains::default(), DomainCounts::default());
            let mut heads = [0_u32; 12];
            for _ in 0..60 {
                let number = dice.random_range(0..12_usize);
                let node = NodeId(number as u32);
                match (ground.domain(node), dice.random_range(0..4)) {
                    (None, _) => ground.add_node(node, Some(dice.random_range(0..5))),
                    (Some(place), 0) => {
                        if heads[number] > 0 {
                            tally.subtract(place, std::mem::take(&mut heads[number]));
                        }
                        ground.remove_node(node);
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
                        tally.min_match(&ground, but),
                        min_match_by_scan(&tally, &ground, but),
                        "seed {seed}, {but:?}"
                    );
                }
            }
        }
    }
}
