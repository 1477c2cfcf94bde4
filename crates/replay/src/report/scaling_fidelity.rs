//! A comparison of recorded and replayed scale-ups and scale-downs, node by node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Moment;
use serde::Serialize;

use crate::recording_metrics::NodeCountCurve;

const TEN_SECONDS: i64 = 10_000_000_000;
const MINUTE: i64 = 60_000_000_000;

/// How many recorded scale-ups, or scale-downs, the replay matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingFidelity {
    /// The number of recorded nodes.
    pub recorded: u64,
    /// Matched by a node of the same name.
    pub same_node: u64,
    /// Matched by a node of the same group, at any time: the minimum of both counts.
    pub same_group: u64,
    /// Matched one to one by a node of the same group within ten seconds of the recorded moment.
    pub within_ten_seconds: u64,
    /// The same within a minute.
    pub within_a_minute: u64,
    /// Recorded but not replayed.
    pub not_happened: u64,
    /// Replayed but not recorded.
    pub not_recorded: u64,
}

/// The nodes of one group that were added, or removed, and when.
#[derive(Default)]
struct GroupScalingTimes<'a> {
    recorded: Vec<Moment>,
    replayed: Vec<Moment>,
    recorded_nodes: BTreeSet<&'a str>,
    replayed_nodes: BTreeSet<&'a str>,
}

impl ScalingFidelity {
    /// Compares the nodes of these groups that were added (`delta` is 1) or removed (-1) after a moment.
    pub(super) fn of(
        groups: &[&Arc<str>],
        recorded: &NodeCountCurve,
        replayed: &NodeCountCurve,
        after: Moment,
        delta: i64,
    ) -> ScalingFidelity {
        let mut times: BTreeMap<&str, GroupScalingTimes<'_>> =
            groups.iter().map(|group| (&***group, GroupScalingTimes::default())).collect();
        let is_counted =
            |step: &&crate::recording_metrics::NodeCountStep| step.at > after && step.delta == delta;
        for step in recorded.0.iter().filter(is_counted) {
            if let Some(times) = times.get_mut(&*step.class) {
                times.recorded.push(step.at);
                times.recorded_nodes.insert(&step.node);
            }
        }
        for step in replayed.0.iter().filter(is_counted) {
            if let Some(times) = times.get_mut(&*step.class) {
                times.replayed.push(step.at);
                times.replayed_nodes.insert(&step.node);
            }
        }
        let mut fidelity = ScalingFidelity::default();
        for times in times.values() {
            let (recorded_count, replayed_count) = (times.recorded.len() as u64, times.replayed.len() as u64);
            fidelity.recorded += recorded_count;
            fidelity.same_node += times.recorded_nodes.intersection(&times.replayed_nodes).count() as u64;
            fidelity.same_group += recorded_count.min(replayed_count);
            fidelity.within_ten_seconds += count_matches(&times.recorded, &times.replayed, TEN_SECONDS);
            fidelity.within_a_minute += count_matches(&times.recorded, &times.replayed, MINUTE);
            fidelity.not_happened += recorded_count.saturating_sub(replayed_count);
            fidelity.not_recorded += replayed_count.saturating_sub(recorded_count);
        }
        fidelity
    }
}

/// The maximum number of pairs, one of each side, at most `apart` from each other. Both sides are sorted: an element
/// that is too early for the next one of the other side is too early for all.
fn count_matches(recorded: &[Moment], replayed: &[Moment], apart: i64) -> u64 {
    let (mut recorded, mut replayed, mut count) = (recorded.iter().peekable(), replayed.iter().peekable(), 0);
    while let (Some(recorded_at), Some(replayed_at)) = (recorded.peek(), replayed.peek()) {
        match recorded_at.nanos_since(**replayed_at) {
            gap if gap > apart => drop(replayed.next()),
            gap if gap < -apart => drop(recorded.next()),
            _ => {
                count += 1;
                recorded.next();
                replayed.next();
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording_metrics::NodeCountStep;

    fn step(second: i64, class: &str, node: &str, delta: i64) -> NodeCountStep {
        let at = Moment::from_nanos(second * 1_000_000_000);
        NodeCountStep { at, class: class.into(), node: node.into(), delta }
    }

    #[test]
    fn nodes_match_one_to_one_within_their_group() {
        let added = |second, class, node| step(second, class, node, 1);
        let recorded = NodeCountCurve(vec![
            added(0, "a", "a0"),
            added(10, "a", "a1"),
            added(12, "a", "a2"),
            added(50, "a", "a3"),
            added(60, "b", "b1"),
            added(61, "none of the groups", "x"),
            step(70, "a", "a1", -1),
        ]);
        let replayed = NodeCountCurve(vec![
            added(0, "a", "a0"),
            added(19, "a", "a1"),
            added(90, "a", "a2"),
            added(62, "c", "c1"),
        ]);
        let groups: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let groups: Vec<&Arc<str>> = groups.iter().collect();
        let ups = ScalingFidelity::of(&groups, &recorded, &replayed, Moment::from_nanos(0), 1);
        // Two of a's three were added, one of them nine seconds late; b's was not added, c's was not recorded.
        assert_eq!(
            ups,
            ScalingFidelity {
                recorded: 4,
                same_node: 2,
                same_group: 2,
                within_ten_seconds: 1,
                within_a_minute: 2,
                not_happened: 2,
                not_recorded: 1,
            }
        );
        let downs = ScalingFidelity::of(&groups, &recorded, &replayed, Moment::from_nanos(0), -1);
        assert_eq!(downs, ScalingFidelity { recorded: 1, not_happened: 1, ..ScalingFidelity::default() });
    }
}
