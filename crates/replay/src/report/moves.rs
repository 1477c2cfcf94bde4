//! How recorded scale-ups and scale-downs came out: each node that came to a group or left it is one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Moment;
use serde::Serialize;

use crate::recorded::Curve;

const TEN_SECONDS: i64 = 10_000_000_000;
const MINUTE: i64 = 60_000_000_000;

/// How recorded scale-ups, or scale-downs, came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Moves {
    /// All that were recorded.
    pub recorded: u64,
    /// Of a node of the same name.
    pub same_node: u64,
    /// Of a node of the same group, at any time: as many as there were on either side.
    pub same_group: u64,
    /// Of a node of the same group within ten seconds of the recorded moment; each counts for one.
    pub within_ten_seconds: u64,
    /// Within a minute.
    pub within_a_minute: u64,
    /// Not at all.
    pub not_happened: u64,
    /// Though nothing of the sort was recorded.
    pub not_recorded: u64,
}

/// When nodes of a group moved, and which.
#[derive(Default)]
struct Times<'a> {
    recorded: Vec<Moment>,
    replayed: Vec<Moment>,
    recorded_nodes: BTreeSet<&'a str>,
    replayed_nodes: BTreeSet<&'a str>,
}

impl Moves {
    /// Those of these groups after a moment: nodes that came (`by` is 1), or went (-1).
    pub(super) fn of(
        groups: &[&Arc<str>],
        recorded: &Curve,
        replayed: &Curve,
        after: Moment,
        by: i64,
    ) -> Moves {
        let mut times: BTreeMap<&str, Times<'_>> =
            groups.iter().map(|group| (&***group, Times::default())).collect();
        let moved = |step: &&crate::recorded::Step| step.at > after && step.by == by;
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
        let mut moves = Moves::default();
        for times in times.values() {
            let (was, is) = (times.recorded.len() as u64, times.replayed.len() as u64);
            moves.recorded += was;
            moves.same_node += times.recorded_nodes.intersection(&times.replayed_nodes).count() as u64;
            moves.same_group += was.min(is);
            moves.within_ten_seconds += matched(&times.recorded, &times.replayed, TEN_SECONDS);
            moves.within_a_minute += matched(&times.recorded, &times.replayed, MINUTE);
            moves.not_happened += was.saturating_sub(is);
            moves.not_recorded += is.saturating_sub(was);
        }
        moves
    }
}

/// The most pairs, one of each side, that are no further apart. Both are in order: whoever is too early for the next of
/// the other side is too early for all.
fn matched(ones: &[Moment], others: &[Moment], apart: i64) -> u64 {
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
    use crate::recorded::Step;

    fn step(second: i64, class: &str, node: &str, by: i64) -> Step {
        let at = Moment::from_nanos(second * 1_000_000_000);
        Step { at, class: class.into(), node: node.into(), by }
    }

    #[test]
    fn each_counts_for_one_of_its_group() {
        let came = |second, class, node| step(second, class, node, 1);
        let was = Curve(vec![
            came(0, "a", "a0"),
            came(10, "a", "a1"),
            came(12, "a", "a2"),
            came(50, "a", "a3"),
            came(60, "b", "b1"),
            came(61, "none of the groups", "x"),
            step(70, "a", "a1", -1),
        ]);
        let is =
            Curve(vec![came(0, "a", "a0"), came(19, "a", "a1"), came(90, "a", "a2"), came(62, "c", "c1")]);
        let groups: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let groups: Vec<&Arc<str>> = groups.iter().collect();
        let ups = Moves::of(&groups, &was, &is, Moment::from_nanos(0), 1);
        // Of a's three two came, one of them nine seconds late; b's did not come, c's was not recorded.
        assert_eq!(
            ups,
            Moves {
                recorded: 4,
                same_node: 2,
                same_group: 2,
                within_ten_seconds: 1,
                within_a_minute: 2,
                not_happened: 2,
                not_recorded: 1,
            }
        );
        let downs = Moves::of(&groups, &was, &is, Moment::from_nanos(0), -1);
        assert_eq!(downs, Moves { recorded: 1, not_happened: 1, ..Moves::default() });
    }
}
