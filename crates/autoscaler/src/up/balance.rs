//! New nodes shared by groups that are alike: the smallest grows first.

use kubernetes::go;

use super::super::cloud::{Cloud, GroupId};

/// A group that grows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Growth {
    pub group: GroupId,
    pub from: i64,
    pub to: i64,
    pub max: i64,
}

/// Shares out nodes; as many as the groups have room for. Only groups that grow are told.
pub(super) fn balance(cloud: &dyn Cloud, groups: &[GroupId], mut nodes: i64) -> Vec<Growth> {
    let grown = groups.iter().map(|group| {
        let (from, max) = (cloud.target(*group), cloud.groups()[group.index()].max);
        Growth { group: *group, from, to: from, max }
    });
    let mut grown: Vec<Growth> = grown.filter(|growth| growth.from != growth.max).collect();
    let room = |growth: &Growth| growth.max.saturating_sub(growth.from).max(0);
    nodes = nodes.min(grown.iter().map(room).fold(0, i64::saturating_add));
    if let [only] = &mut *grown {
        only.to += nodes.max(0);
    } else {
        // The order of groups of one size is what Go's sort makes of it.
        go::sort(&mut grown, |a, b| a.from < b.from);
        share(&mut grown, nodes);
    }
    grown.retain(|growth| growth.to != growth.from);
    grown
}

/// One node after the other. Groups before `start` are full; those from there to `current` have got one more than those
/// that follow.
fn share(grown: &mut [Growth], mut nodes: i64) {
    let (mut start, mut current) = (0, 0);
    while nodes > 0 {
        // Where a full group is moved to the start, what follows looks at the one that took its place.
        if grown[current].to < grown[current].max {
            grown[current].to += 1;
            nodes -= 1;
        } else {
            grown.swap(start, current);
            start += 1;
        }
        let goes_on = grown.get(current + 1).is_some_and(|next| grown[current].to > next.to);
        current = if goes_on { current + 1 } else { start };
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
        let mut grown: Vec<(u32, i64)> =
            balance(&harness.cloud, &ids, nodes).iter().map(|growth| (growth.group.0, growth.to)).collect();
        grown.sort_unstable();
        assert_eq!(grown, expected);
    }

    #[test]
    fn the_smallest_group_grows_first() {
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
