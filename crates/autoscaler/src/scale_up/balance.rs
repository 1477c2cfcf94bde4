//! Balancing of new nodes between similar groups: the smallest group is increased first.

use kubernetes::go;

use super::super::cloud::{CloudProvider, GroupId};

/// A planned increase of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlannedIncrease {
    pub group: GroupId,
    pub from: i64,
    pub to: i64,
    pub max: i64,
}

/// Distributes new nodes between groups, up to their maximum sizes. Returns only groups that are increased.
pub(super) fn balance(cloud: &dyn CloudProvider, groups: &[GroupId], mut nodes: i64) -> Vec<PlannedIncrease> {
    let increases = groups.iter().map(|group| {
        let (from, max) = (cloud.target_size(*group), cloud.groups()[group.index()].max);
        PlannedIncrease { group: *group, from, to: from, max }
    });
    let mut increases: Vec<PlannedIncrease> =
        increases.filter(|increase| increase.from != increase.max).collect();
    let headroom = |increase: &PlannedIncrease| increase.max.saturating_sub(increase.from).max(0);
    nodes = nodes.min(increases.iter().map(headroom).fold(0, i64::saturating_add));
    if let [single_increase] = &mut *increases {
        single_increase.to += nodes.max(0);
    } else {
        // Go's sort determines the order of groups of equal size.
        go::sort(&mut increases, |a, b| a.from < b.from);
        distribute(&mut increases, nodes);
    }
    increases.retain(|increase| increase.to != increase.from);
    increases
}

/// Distributes one node at a time. Groups before `start` are full; those from there to `current` have one more than
/// those that follow.
fn distribute(increases: &mut [PlannedIncrease], mut nodes: i64) {
    let (mut start, mut current) = (0, 0);
    while nodes > 0 {
        // After a full group is swapped to the start, the comparison below uses the group that took its position.
        if increases[current].to < increases[current].max {
            increases[current].to += 1;
            nodes -= 1;
        } else {
            increases.swap(start, current);
            start += 1;
        }
        let next_is_smaller = increases.get(current + 1).is_some_and(|next| increases[current].to > next.to);
        current = if next_is_smaller { current + 1 } else { start };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{harness, node};
    use super::*;

    // Cases of TestBalance… of cluster-autoscaler.

    #[track_caller]
    fn check_balance(groups: &[(i64, i64)], nodes: i64, expected: &[(u32, i64)]) {
        let named: Vec<String> = (0..groups.len()).map(|n| format!("g{n}")).collect();
        let groups: Vec<_> = groups
            .iter()
            .zip(&named)
            .map(|((target, max), name)| (&**name, *target, *max, node(name, 1, 1, 1)))
            .collect();
        let harness = harness(&groups);
        let ids: Vec<GroupId> = (0..groups.len() as u32).map(GroupId).collect();
        let mut increases: Vec<(u32, i64)> = balance(&harness.cloud, &ids, nodes)
            .iter()
            .map(|increase| (increase.group.0, increase.to))
            .collect();
        increases.sort_unstable();
        assert_eq!(increases, expected);
    }

    #[test]
    fn the_smallest_group_is_increased_first() {
        check_balance(&[(1, 10)], 4, &[(0, 5)]);
        let four = [(1, 10), (3, 10), (5, 10), (5, 10)];
        check_balance(&four, 1, &[(0, 2)]);
        check_balance(&four, 2, &[(0, 3)]);
        check_balance(&four, 4, &[(0, 4), (1, 4)]);
        check_balance(&four, 5, &[(0, 5), (1, 4)]);
        check_balance(&four, 10, &[(0, 6), (1, 6), (2, 6), (3, 6)]);
        check_balance(&[(1, 1)], 1, &[]);
        check_balance(&[(1, 1), (1, 3)], 1, &[(1, 2)]);
        check_balance(&[(1, 1), (1, 3)], 5, &[(1, 3)]);
        check_balance(&[(1, 3), (3, 10)], 4, &[(0, 3), (1, 5)]);
        check_balance(&[(1, 3), (3, 10), (5, 7)], 9, &[(0, 3), (1, 8), (2, 7)]);
        check_balance(&[(1, 3), (3, 10), (5, 7)], 900, &[(0, 3), (1, 10), (2, 7)]);
        check_balance(&[(1, 3), (6, 3)], 1, &[(0, 2)]);
    }
}
