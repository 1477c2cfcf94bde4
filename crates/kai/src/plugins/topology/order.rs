//! The order in which domains are tried: the narrowest first, and of one level those that the pods fill most.

use std::collections::BTreeSet;

use super::domains::{DomainId, TopologyTree};
use super::fit::GroupFit;

impl TopologyTree {
    /// Sorts the domains below one, down to a level. The order of others stays as it was.
    pub(super) fn sort(&mut self, root: DomainId, deepest: &str, fit: &GroupFit<'_>) {
        if deepest.is_empty() {
            return;
        }
        let mut children: Vec<(f64, DomainId)> = self
            .domain(root)
            .children
            .iter()
            .map(|child| (fit.ratio(self.domain(*child).free.as_ref()), *child))
            .collect();
        children.sort_by(|(left_ratio, left), (right_ratio, right)| {
            let ids = || self.domain(*left).id.cmp(&self.domain(*right).id);
            right_ratio.total_cmp(left_ratio).then_with(ids)
        });
        let children: Vec<DomainId> = children.into_iter().map(|(_, child)| child).collect();
        self.domain_mut(root).children.clone_from(&children);
        if *self.domain(root).level == *deepest {
            return;
        }
        for child in children {
            self.sort(child, deepest, fit);
        }
    }

    /// These domains, level by level from below, in the order of the tree.
    pub(super) fn in_search_order(&self, domains: &BTreeSet<DomainId>) -> Vec<DomainId> {
        let mut levels = vec![vec![self.root()]];
        loop {
            let last = levels.last().expect("the root is a level");
            let next: Vec<DomainId> =
                last.iter().flat_map(|domain| self.domain(*domain).children.iter().copied()).collect();
            if next.is_empty() {
                break;
            }
            levels.push(next);
        }
        let from_below = levels.into_iter().rev().flatten();
        from_below.filter(|domain| domains.contains(domain)).collect()
    }
}
