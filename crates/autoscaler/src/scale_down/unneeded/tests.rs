//! Cases of cluster-autoscaler's own tests of unneeded nodes.

use kubernetes::time::seconds;

use super::super::super::settings::Settings;
use super::super::super::testing::Harness;
use super::super::tests::{harness, node};
use super::*;

fn found(harness: &Harness, names: &[&str]) -> Vec<(Arc<str>, NodeToBeRemoved)> {
    let removable = |name: &&str| {
        let node = harness.state.cluster.snapshot.find_node(name).expect("it is there");
        let candidate = ScaleDownCandidate { node, group: GroupId(0) };
        let drains = name.starts_with("drain");
        (
            Arc::from(*name),
            NodeToBeRemoved {
                candidate,
                needs_drain: drains,
                has_on_completion_pods: false,
                is_risky: false,
            },
        )
    };
    names.iter().map(removable).collect()
}

fn removable_now(harness: &mut Harness, unneeded: &UnneededNodes, deleting: i64) -> RemovableNodes {
    let mut in_progress = DeletionsInProgress::default();
    in_progress.count_by_group.insert(GroupId(0), deleting);
    let nodes: Vec<_> = harness.state.cluster.nodes().collect();
    harness.with(|context| {
        context.cluster.snapshot.begin_loop(nodes);
        let groups = ScaleDownGroups::of(context);
        let quotas = MinQuotaTracker::of(context).expect("there are no GPUs");
        unneeded.removable_now(context, &groups, &in_progress, quotas)
    })
}

#[test]
fn moments_are_kept_as_long_as_a_node_stays_unneeded() {
    let mut harness = harness(Settings::default(), 0);
    for name in ["n1", "n2", "n3"] {
        harness.add_node("g", node("g", name));
    }
    let (first, then) = (harness.now, harness.now.plus_nanos(seconds(60)));
    let mut unneeded = UnneededNodes::default();
    unneeded.update(found(&harness, &["n2"]), first);
    unneeded.update(found(&harness, &["n1", "n2", "n3"]), then);
    let since: Vec<Moment> = unneeded.iter().map(|(_, since)| since).collect();
    assert_eq!(since, [then, first, then]);
    unneeded.update(found(&harness, &["n1"]), then.plus_nanos(1));
    assert_eq!(unneeded.iter().map(|(name, _)| &**name).collect::<Vec<_>>(), ["n1"]);
}

#[test]
fn a_group_keeps_its_minimum_size() {
    // Empty and drained nodes, minimum size, target, deletions in progress; how many of both are removable.
    for (empty, drained, min, target, deleting, expected) in
        [(3, 2, 1, 10, 2, (3, 2)), (3, 5, 1, 10, 2, (3, 4)), (3, 5, 1, 5, 2, (2, 0))]
    {
        let mut harness = harness(Settings::default(), min);
        let names = (0..empty).map(|number| format!("empty-{number}"));
        let names: Vec<String> = names.chain((0..drained).map(|number| format!("drain-{number}"))).collect();
        for name in &names {
            harness.add_node("g", node("g", name));
        }
        harness.cloud.targets[0] = target;
        let mut unneeded = UnneededNodes::default();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        unneeded.update(found(&harness, &names), harness.now);
        harness.wait(3600);
        let RemovableNodes { empty, need_drain: drained, .. } =
            removable_now(&mut harness, &unneeded, deleting);
        assert_eq!((empty.len(), drained.len()), expected);
    }
}

#[test]
fn a_node_must_be_unneeded_for_longer_than_the_threshold_unless_it_is_zero() {
    use UnremovableReason::{NotUnneededLongEnough, NotUnreadyLongEnough};
    // Whether it is ready, seconds since it was found, threshold in seconds; why it is unremovable.
    for (ready, waited, wait, expected) in [
        (true, 60, 60, Some(NotUnneededLongEnough)),
        (true, 61, 60, None),
        (false, 60, 60, Some(NotUnreadyLongEnough)),
        (false, 61, 60, None),
        (true, 0, 0, None),
    ] {
        let mut settings = Settings::default();
        settings.group_defaults.scale_down_unneeded_time = Duration::from_secs(if ready { wait } else { 0 });
        settings.group_defaults.scale_down_unready_time = Duration::from_secs(if ready { 0 } else { wait });
        let mut harness = harness(settings, 0);
        let node = node("g", "n");
        let node = if ready { node } else { node.not_ready_since("2025-12-31T00:00:00Z") };
        harness.add_node("g", node);
        let mut unneeded = UnneededNodes::default();
        unneeded.update(found(&harness, &["n"]), harness.now);
        harness.wait(waited);
        let not = removable_now(&mut harness, &unneeded, 0).unremovable;
        assert_eq!(not.first().map(|(_, reason)| *reason), expected);
    }
}

#[test]
fn the_cluster_keeps_its_minimum_of_cores() {
    let mut settings = Settings::default();
    settings.cores_total.min = 3;
    let mut harness = harness(settings, 0);
    for name in ["n1", "n2", "n3"] {
        harness.add_node("g", node("g", name));
    }
    let mut unneeded = UnneededNodes::default();
    unneeded.update(found(&harness, &["n1", "n2", "n3"]), harness.now);
    harness.wait(3600);
    let RemovableNodes { empty, unremovable: not, .. } = removable_now(&mut harness, &unneeded, 0);
    // Of six cores two may be removed: four are left, and two would be too few.
    assert_eq!(empty.len(), 1);
    assert!(not.iter().all(|(_, reason)| *reason == UnremovableReason::MinimalResourceLimitExceeded));
}
