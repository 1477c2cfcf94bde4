//! How groups of nodes grew and shrank, recorded and replayed.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Window};
use serde::Serialize;

use super::moves::Moves;
use crate::recorded::{Curve, Step};

/// How groups of nodes grew and shrank.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scaling {
    /// Group by group; none if none are known.
    pub groups: Vec<GroupScaling>,
    /// Nodes that came to the groups.
    pub ups: Moves,
    /// Nodes that left them.
    pub downs: Moves,
    /// All nodes.
    pub nodes: NodeCurves,
}

/// How one group grew and shrank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupScaling {
    /// Its name.
    pub group: String,
    /// What happened.
    pub recorded: Size,
    /// What would have happened.
    pub replayed: Size,
}

/// How many nodes a group had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Size {
    /// When it began.
    pub at_start: i64,
    /// How many came.
    pub came: u64,
    /// How many went.
    pub went: u64,
    /// The most there were at once.
    pub most: i64,
    /// When it ended.
    pub at_end: i64,
    /// On average, over the time.
    pub average: f64,
}

/// How far the numbers of nodes are apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCurves {
    /// The area between the two curves, in nodes times seconds.
    pub apart: f64,
    /// The area under the recorded one.
    pub recorded: f64,
    /// The one as a share of the other.
    pub share: f64,
}

// === impl Scaling ===

impl Scaling {
    /// What two curves come to for these groups.
    pub fn of<'a>(
        groups: impl Iterator<Item = &'a Arc<str>>,
        recorded: &Curve,
        replayed: &Curve,
        window: Window,
    ) -> Scaling {
        let (was, is) = (sizes(recorded, window), sizes(replayed, window));
        let of = |sizes: &BTreeMap<&str, Size>, group: &str| sizes.get(group).copied().unwrap_or_default();
        let groups: Vec<&Arc<str>> = groups.collect();
        let moves = |by| Moves::of(&groups, recorded, replayed, window.from, by);
        let (apart, under) = recorded.apart(replayed, window.from, window.to);
        Scaling {
            ups: moves(1),
            downs: moves(-1),
            groups: groups
                .iter()
                .map(|group| GroupScaling {
                    group: group.to_string(),
                    recorded: of(&was, group),
                    replayed: of(&is, group),
                })
                .collect(),
            nodes: NodeCurves {
                apart,
                recorded: under,
                share: if under > 0.0 { apart / under } else { 0.0 },
            },
        }
    }
}

/// By class.
fn sizes(curve: &Curve, window: Window) -> BTreeMap<&str, Size> {
    let mut found: BTreeMap<&str, (Size, Moment)> = BTreeMap::new();
    for Step { at, class, by, .. } in &curve.0 {
        let at = (*at).clamp(window.from, window.to);
        let (size, since) = found.entry(class).or_insert((Size::default(), window.from));
        size.average += size.at_end as f64 * at.nanos_since(*since) as f64;
        *since = at;
        size.at_end += by;
        if at == window.from {
            size.at_start += by;
        } else if *by > 0 {
            size.came += 1;
        } else {
            size.went += 1;
        }
        size.most = size.most.max(size.at_end);
    }
    let whole = window.to.nanos_since(window.from).max(1) as f64;
    let close = |(class, (mut size, since)): (_, (Size, Moment))| {
        size.average += size.at_end as f64 * window.to.nanos_since(since) as f64;
        size.average /= whole;
        (class, size)
    };
    found.into_iter().map(close).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn a_group_is_told_by_its_beginning_its_moves_and_its_end() {
        let group: Arc<str> = "a".into();
        let step = |second, by| Step { at: at(second), class: group.clone(), node: "n".into(), by };
        let was = Curve(vec![step(0, 1), step(0, 1), step(4, 1), step(8, -1), step(8, -1)]);
        let is = Curve(vec![step(0, 1), step(0, 1)]);
        let window = Window { from: at(0), to: at(10) };
        let scaling = Scaling::of([&group].into_iter(), &was, &is, window);
        let [GroupScaling { recorded, replayed, .. }] = &scaling.groups[..] else { panic!("one group") };
        // 2 for 4 seconds, 3 for 4, 1 for 2: 22 of 10.
        assert_eq!(*recorded, Size { at_start: 2, came: 1, went: 2, most: 3, at_end: 1, average: 2.2 });
        assert_eq!(*replayed, Size { at_start: 2, came: 0, went: 0, most: 2, at_end: 2, average: 2.0 });
        // One apart for 4 seconds, then one the other way for 2.
        assert_eq!(scaling.nodes, NodeCurves { apart: 6.0, recorded: 22.0, share: 6.0 / 22.0 });
    }
}
