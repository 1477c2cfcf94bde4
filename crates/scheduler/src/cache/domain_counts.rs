//! Pod counts by topology domain, and the eligible domains they are counted in.

use std::collections::BTreeMap;

use super::super::ids::NodeId;

/// The eligible nodes and their domains. Counts of different pods over the same nodes share it, so that a node that is
/// added or removed is evaluated once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EligibleDomains {
    /// The domain of each node, by identifier; [`NO_DOMAIN`] for nodes that are not eligible.
    domain_by_node: Vec<u32>,
    /// The number of eligible nodes in each domain.
    nodes_by_domain: Vec<u32>,
    /// The number of domains with an eligible node.
    non_empty_domains: usize,
}

/// Pod counts by domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DomainCounts {
    /// By domain, in pages. Domains without pods take no memory unless others of their page have some: a domain may be a
    /// node, and most workloads have pods on few nodes.
    pages: Vec<Option<Box<CountPage>>>,
    used_pages: usize,
    total: u64,
    /// The number of domains by their count, without those of count zero.
    domains_by_count: BTreeMap<u32, usize>,
}

/// The counts of consecutive domains, at least one of which is not zero.
#[derive(Clone, Debug, PartialEq)]
struct CountPage {
    counts: [u32; PAGE_SIZE],
    non_zero: u32,
}

const PAGE_SIZE: usize = 64;
const NO_DOMAIN: u32 = u32::MAX;

// === impl EligibleDomains ===

impl EligibleDomains {
    /// The domain of an eligible node.
    pub(super) fn domain(&self, node: NodeId) -> Option<usize> {
        let domain = self.domain_by_node.get(node.index()).copied();
        domain.filter(|domain| *domain != NO_DOMAIN).map(|domain| domain as usize)
    }

    /// Its size in memory, about.
    pub(super) fn byte_size(&self) -> usize {
        size_of::<EligibleDomains>()
            + size_of_val(&*self.domain_by_node)
            + size_of_val(&*self.nodes_by_domain)
    }

    /// Adds a node, in a domain if it is eligible.
    pub(super) fn add_node(&mut self, node: NodeId, domain: Option<usize>) {
        if self.domain_by_node.len() <= node.index() {
            self.domain_by_node.resize(node.index() + 1, NO_DOMAIN);
        }
        self.domain_by_node[node.index()] = domain.map_or(NO_DOMAIN, |domain| domain as u32);
        let Some(domain) = domain else { return };
        if self.nodes_by_domain.len() <= domain {
            self.nodes_by_domain.resize(domain + 1, 0);
        }
        self.non_empty_domains += usize::from(self.nodes_by_domain[domain] == 0);
        self.nodes_by_domain[domain] += 1;
    }

    /// Removes a node. Its pods must no longer be counted.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        let Some(domain) = self.domain(node) else { return };
        self.domain_by_node[node.index()] = NO_DOMAIN;
        self.nodes_by_domain[domain] -= 1;
        self.non_empty_domains -= usize::from(self.nodes_by_domain[domain] == 0);
    }
}

// === impl DomainCounts ===

impl DomainCounts {
    /// The number of pods in a domain.
    #[inline]
    pub(crate) fn at(&self, domain: usize) -> u32 {
        match self.pages.get(domain / PAGE_SIZE) {
            Some(Some(page)) => page.counts[domain % PAGE_SIZE],
            _ => 0,
        }
    }

    /// Its size in memory, about.
    pub(super) fn byte_size(&self) -> usize {
        size_of::<DomainCounts>() + size_of_val(&*self.pages) + self.used_pages * size_of::<CountPage>()
    }

    /// The number of pods in all domains.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of eligible domains, and the lowest count of any of them except `except`.
    pub(super) fn min_match(&self, domains: &EligibleDomains, except: Option<usize>) -> (usize, Option<u32>) {
        let except =
            except.filter(|domain| domains.nodes_by_domain.get(*domain).is_some_and(|nodes| *nodes > 0));
        let excluded_count = except.map(|domain| self.at(domain));
        let others = domains.non_empty_domains - usize::from(except.is_some());
        let with_pods: usize = self.domains_by_count.values().sum();
        let others_with_pods = with_pods - usize::from(excluded_count.is_some_and(|count| count > 0));
        let min_count = if others > others_with_pods {
            Some(0)
        } else {
            let is_other = |(count, domain_count): &(&u32, &usize)| {
                **domain_count > usize::from(Some(**count) == excluded_count)
            };
            self.domains_by_count.iter().find(is_other).map(|(count, _)| *count)
        };
        (domains.non_empty_domains, min_count)
    }

    pub(super) fn add(&mut self, domain: usize, count: u32) {
        self.set(domain, self.at(domain) + count);
        self.total += u64::from(count);
    }

    pub(super) fn subtract(&mut self, domain: usize, count: u32) {
        self.set(domain, self.at(domain) - count);
        self.total -= u64::from(count);
    }

    fn set(&mut self, domain: usize, count: u32) {
        let old_count = self.replace(domain, count);
        if old_count > 0 {
            let domain_count = self
                .domains_by_count
                .get_mut(&old_count)
                .expect("a domain with pods is indexed by its count");
            *domain_count -= 1;
            if *domain_count == 0 {
                self.domains_by_count.remove(&old_count);
            }
        }
        if count > 0 {
            *self.domains_by_count.entry(count).or_default() += 1;
        }
    }

    /// Stores a count and returns the old one.
    fn replace(&mut self, domain: usize, count: u32) -> u32 {
        let (index, offset) = (domain / PAGE_SIZE, domain % PAGE_SIZE);
        if self.pages.len() <= index {
            if count == 0 {
                return 0;
            }
            self.pages.resize(index + 1, None);
        }
        let slot = &mut self.pages[index];
        let page = match slot {
            None if count == 0 => return 0,
            None => {
                self.used_pages += 1;
                slot.insert(Box::new(CountPage { counts: [0; PAGE_SIZE], non_zero: 0 }))
            }
            Some(page) => page,
        };
        let old_count = std::mem::replace(&mut page.counts[offset], count);
        page.non_zero += u32::from(count > 0);
        page.non_zero -= u32::from(old_count > 0);
        if page.non_zero == 0 {
            *slot = None;
            self.used_pages -= 1;
        }
        old_count
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// The same by scanning every domain.
    fn min_match_by_scan(
        counts: &DomainCounts,
        domains: &EligibleDomains,
        except: Option<usize>,
    ) -> (usize, Option<u32>) {
        let non_empty =
            || (0..domains.nodes_by_domain.len()).filter(|domain| domains.nodes_by_domain[*domain] > 0);
        let min_count =
            non_empty().filter(|domain| Some(*domain) != except).map(|domain| counts.at(domain)).min();
        (non_empty().count(), min_count)
    }

    #[test]
    fn the_minimum_is_the_same_as_by_scanning_all_domains() {
        for seed in 0..200 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let (mut eligible, mut counts) = (EligibleDomains::default(), DomainCounts::default());
            let mut pods_on_node = [0_u32; 12];
            for _ in 0..60 {
                let index = rng.random_range(0..12_usize);
                let node = NodeId(index as u32);
                match (eligible.domain(node), rng.random_range(0..4)) {
                    (None, _) => eligible.add_node(node, Some(rng.random_range(0..5))),
                    (Some(domain), 0) => {
                        if pods_on_node[index] > 0 {
                            counts.subtract(domain, std::mem::take(&mut pods_on_node[index]));
                        }
                        eligible.remove_node(node);
                    }
                    (Some(domain), 1) if pods_on_node[index] > 0 => {
                        counts.subtract(domain, 1);
                        pods_on_node[index] -= 1;
                    }
                    (Some(domain), _) => {
                        counts.add(domain, 1);
                        pods_on_node[index] += 1;
                    }
                }
                assert_eq!(counts.total(), u64::from(pods_on_node.iter().sum::<u32>()), "seed {seed}");
                for except in [None, Some(rng.random_range(0..6))] {
                    assert_eq!(
                        counts.min_match(&eligible, except),
                        min_match_by_scan(&counts, &eligible, except),
                        "seed {seed}, {except:?}"
                    );
                }
            }
        }
    }
}
