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
        let moved = |step: &&crate::recording_metrics::NodeCountStep| step.at > after && step.delta == delta;
        for step in recorded.0.iter().filter(moved) {
            if let Some(times) = times.get_mut(&*step.class) {
                times.recorded.push(step.at);
                times.recorded_nodes.insert(&step.node);
            }
        }
        for step in replayed.0.iter().filter(moved) {
            if let Some(times) = times.get_mut(&*step.class) {
                times.replayed.push(step.at);
                times.replayed_nodes.insert(&step.node);
            }
        }
        let mut moves = ScalingFidelity::default();
        for times in times.values() {
            let (was, is) = (times.recorded.len() as u64, times.replayed.len() as u64);
            moves.recorded += was;
            moves.same_node += times.recorded_nodes.intersection(&times.replayed_nodes).count() as u64;
            moves.same_group += was.min(is);
            moves.within_ten_seconds += count_matches(&times.recorded, &times.replayed, TEN_SECONDS);
            moves.within_a_minute += count_matches(&times.recorded, &times.replayed, MINUTE);
            moves.not_happened += was.saturating_sub(is);
            moves.not_recorded += is.saturating_sub(was);
        }
        moves
    }
}

/// The maximum number of pairs, one of each side, at most `apart` from each other. Both sides are sorted: an element
/// that is too early for the next one of the other side is too early for all.
fn count_matches(ones: &[Moment], others: &[Moment], apart: i64) -> u64 {
    let (mut ones, mut others, mut count) = (ones.iter().peekable(), others.iter().peekable(), 0);
    while let (Some(one), Some(other)) = (ones.peek(), others.peek()) {
        match one.nanos_since(**other) {
            gap if gap > apart => drop(others.next()),
            gap if gap < -apart => drop(ones.next()),
            _ => {
                count += 1;
                ones.next();
                others.next();
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording_metrics::NodeCountStep;

    fn step(second: i64, class: &str, node: &str, by: i64) -> NodeCountStep {
        let at = Moment::from_nanos(second * 1_000_000_000);
        NodeCountStep { at, class: class.into(), node: node.into(), delta: by }
    }

    #[test]
    fn nodes_match_one_to_one_within_their_group() {
        let came = |second, class, node| step(second, class, node, 1);
        let was = NodeCountCurve(vec![
            came(0, "a", "a0"),
            came(10, "a", "a1"),
            came(12, "a", "a2"),
            came(50, "a", "a3"),
            came(60, "b", "b1"),
            came(61, "none of the groups", "x"),
            step(70, "a", "a1", -1),
        ]);
        let is = NodeCountCurve(vec![
            came(0, "a", "a0"),
            came(19, "a", "a1"),
            came(90, "a", "a2"),
            came(62, "c", "c1"),
        ]);
        let groups: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let groups: Vec<&Arc<str>> = groups.iter().collect();
        let ups = ScalingFidelity::of(&groups, &was, &is, Moment::from_nanos(0), 1);
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
        let downs = ScalingFidelity::of(&groups, &was, &is, Moment::from_nanos(0), -1);
        assert_eq!(downs, ScalingFidelity { recorded: 1, not_happened: 1, ..ScalingFidelity::default() });
    }
}
