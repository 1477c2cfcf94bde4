//! Cases of cluster-autoscaler's own test of its budgets.

use super::*;

/// The groups of those tests with the targets of zero-or-max groups; `None` for other groups.
const GROUPS: [(&str, Option<i64>); 6] =
    [("ng", None), ("ng2", None), ("a3", Some(3)), ("a4", Some(4)), ("a8", Some(8)), ("a11", Some(11))];

/// `ng 0-10, a3 0-3` as candidates.
fn read(text: &str) -> Vec<ScaleDownCandidate> {
    let mut candidates = Vec::new();
    for format_batch in text.split(", ").filter(|format_batch| !format_batch.is_empty()) {
        let (name, range) = format_batch.split_once(' ').expect("a group and a range");
        let (from, to) = range.split_once('-').expect("a range");
        let group = GROUPS.iter().position(|(other, _)| *other == name).expect("a known group") as u32;
        let (from, to): (u32, u32) = (from.parse().expect("a number"), to.parse().expect("a number"));
        let candidate =
            |node: u32| ScaleDownCandidate { node: NodeId(group * 100 + node), group: GroupId(group) };
        candidates.extend((from..to).map(candidate));
    }
    candidates
}

fn write(batches: &[NodeBatch]) -> String {
    let format_batch = |batch: &NodeBatch| {
        let first = batch.nodes[0].0 % 100;
        format!("{} {first}-{}", GROUPS[batch.group.index()].0, first as usize + batch.nodes.len())
    };
    batches.iter().map(format_batch).collect::<Vec<_>>().join(", ")
}

#[test]
fn nodes_are_cropped_as_cluster_autoscaler_crops_them() {
    // Empty and drained nodes in progress, candidates of both kinds, other registered nodes; the cropped nodes of both.
    let cases = [
        (0, 0, "ng 0-10", "", "", "ng 0-10", ""),
        (0, 0, "ng 0-11", "", "", "ng 0-10", ""),
        (0, 0, "a11 0-11", "", "", "a11 0-11", ""),
        (0, 0, "ng 0-8, a3 0-3", "", "", "a3 0-3, ng 0-7", ""),
        (0, 0, "ng 0-3, a8 0-8, a3 0-3", "", "", "a8 0-8, ng 0-2", ""),
        (1, 1, "ng 0-8", "", "", "ng 0-8", ""),
        (1, 1, "ng 0-10", "", "", "ng 0-8", ""),
        (3, 3, "a8 0-8", "", "", "a8 0-8", ""),
        (5, 5, "ng 0-10", "", "", "", ""),
        (5, 5, "a3 0-3", "", "", "", ""),
        (50, 50, "ng 0-10", "", "", "", ""),
        (0, 0, "", "ng 0-5", "", "", "ng 0-5"),
        (0, 0, "", "ng 0-5, ng2 0-5", "", "", "ng 0-5"),
        (0, 0, "", "ng 0-6", "", "", "ng 0-5"),
        (0, 0, "", "a8 0-8", "", "", "a8 0-8"),
        (0, 0, "", "ng 0-3, a3 0-3", "", "", "a3 0-3, ng 0-2"),
        (0, 0, "", "ng 0-3, a3 0-3, a4 0-4", "", "", "a3 0-3, ng 0-2"),
        (1, 2, "", "ng 0-3", "", "", "ng 0-3"),
        (1, 2, "", "ng 0-5", "", "", "ng 0-3"),
        (1, 2, "", "a4 0-4", "", "", "a4 0-4"),
        (1, 5, "", "ng 0-5", "", "", ""),
        (1, 5, "", "a4 0-4", "", "", ""),
        (1, 50, "", "ng 0-5", "", "", ""),
        (7, 1, "", "ng 0-4", "", "", "ng 0-2"),
        (10, 0, "", "ng 0-4", "", "", ""),
        (50, 0, "", "ng 0-4", "", "", ""),
        (0, 0, "ng 0-5", "ng2 0-5", "", "ng 0-5", "ng2 0-5"),
        (0, 0, "a3 0-3", "a4 0-4", "", "a3 0-3", "a4 0-4"),
        (0, 0, "ng 0-8", "ng2 0-8", "", "ng 0-8", "ng2 0-2"),
        (0, 0, "a8 0-8", "a4 0-4", "", "a8 0-8", ""),
        (0, 0, "a8 0-5", "a8 5-8", "", "a8 0-5", "a8 5-8"),
        (0, 0, "a11 0-8", "a11 8-11", "", "a11 0-8", "a11 8-11"),
        (0, 0, "a8 0-2", "a8 2-8", "", "a8 0-2", "a8 2-8"),
        (0, 0, "a8 0-2", "a8 2-4", "a8 4-8", "", ""),
        (0, 0, "a8 0-2", "a8 2-4", "", "a8 0-2", "a8 2-4"),
        (0, 0, "a4 0-4", "a8 0-8", "", "a4 0-4", ""),
        (0, 0, "ng 0-5, a3 0-3", "a8 0-8", "", "a3 0-3, ng 0-5", ""),
        (0, 0, "ng 0-5, a11 0-8", "a11 8-11", "", "a11 0-8", "a11 8-11"),
        (0, 0, "ng 0-5, a8 0-5, a11 0-8", "a11 8-11, a8 5-8", "", "a8 0-5, ng 0-2", "a8 5-8"),
        (0, 0, "a3 0-3, a4 0-2, a11 0-11", "a4 2-4", "", "a3 0-3, a4 0-2", "a4 2-4"),
        (0, 0, "ng 0-5", "a8 0-8", "", "ng 0-2", "a8 0-8"),
        (0, 0, "ng 0-2", "ng2 0-8", "", "ng 0-2", "ng2 0-5"),
        (10, 0, "ng 0-5", "ng2 0-5", "", "", ""),
        (10, 0, "a4 0-4", "a3 0-3", "", "", ""),
        (10, 0, "a8 0-4", "a8 4-8", "", "", ""),
        (50, 0, "ng 0-5", "ng2 0-5", "", "", ""),
    ];
    for (empty_now, drained_now, empty, drained, others, want_empty, want_drained) in cases {
        let (empty, drained, others) = (read(empty), read(drained), read(others));
        let registered = |group: GroupId| {
            [&empty, &drained, &others]
                .into_iter()
                .flatten()
                .filter(|candidate| candidate.group == group)
                .count()
        };
        let atomic = |group: GroupId| {
            let (_, target) = GROUPS[group.index()];
            target.map(|target| AtomicGroupSize { target, registered: registered(group) })
        };
        let budget =
            DeletionBudget { all: 10 - empty_now - drained_now, drained: 5 - drained_now, empty: i64::MAX };
        let (got_empty, got_drained) = crop_nodes(budget, &empty, &drained, atomic);
        let case = format!("{empty_now} {drained_now} {empty:?} {drained:?}");
        assert_eq!(
            (write(&got_empty), write(&got_drained)),
            (want_empty.into(), want_drained.into()),
            "{case}"
        );
    }
}
