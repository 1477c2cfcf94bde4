//! A comparison of recorded and replayed sizes of node groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Window};
use serde::Serialize;

use super::scaling_fidelity::ScalingFidelity;
use crate::recording_metrics::{NodeCountCurve, NodeCountStep};

/// The recorded and replayed sizes of node groups.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalingComparison {
    /// Each group; empty if none are known.
    pub groups: Vec<GroupScaling>,
    /// Scale-ups.
    #[serde(rename = "ups")]
    pub scale_ups: ScalingFidelity,
    /// Scale-downs.
    #[serde(rename = "downs")]
    pub scale_downs: ScalingFidelity,
    /// All nodes.
    pub nodes: NodeCountDifference,
}

/// The recorded and replayed sizes of one group.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupScaling {
    /// Its name.
    pub group: String,
    /// The recorded size.
    pub recorded: GroupSizeStats,
    /// The replayed size.
    pub replayed: GroupSizeStats,
}

/// The size of a group over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSizeStats {
    /// At the beginning.
    pub at_start: i64,
    /// The number of nodes added.
    #[serde(rename = "came")]
    pub added: u64,
    /// The number of nodes removed.
    #[serde(rename = "went")]
    pub removed: u64,
    /// The maximum size.
    #[serde(rename = "most")]
    pub max: i64,
    /// At the end.
    pub at_end: i64,
    /// The time-weighted average.
    pub average: f64,
}

/// The difference between the recorded and the replayed number of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCountDifference {
    /// The area between the two curves, in nodes times seconds.
    #[serde(rename = "apart")]
    pub area_between: f64,
    /// The area under the recorded one.
    #[serde(rename = "recorded")]
    pub recorded_area: f64,
    /// The first divided by the second.
    pub share: f64,
}

// === impl ScalingComparison ===

impl ScalingComparison {
    /// Compares two curves for these groups.
    pub fn of<'a>(
        groups: impl Iterator<Item = &'a Arc<str>>,
        recorded: &NodeCountCurve,
        replayed: &NodeCountCurve,
        window: Window,
    ) -> ScalingComparison {
        let (recorded_sizes, replayed_sizes) = (size_stats(recorded, window), size_stats(replayed, window));
        let stats_of = |sizes: &BTreeMap<&str, GroupSizeStats>, group: &str| {
            sizes.get(group).copied().unwrap_or_default()
        };
        let groups: Vec<&Arc<str>> = groups.collect();
        let fidelity = |delta| ScalingFidelity::of(&groups, recorded, replayed, window.from, delta);
        let (area_between, recorded_area) = recorded.area_between(replayed, window.from, window.to);
        ScalingComparison {
            scale_ups: fidelity(1),
            scale_downs: fidelity(-1),
            groups: groups
                .iter()
                .map(|group| GroupScaling {
                    group: group.to_string(),
                    recorded: stats_of(&recorded_sizes, group),
                    replayed: stats_of(&replayed_sizes, group),
                })
                .collect(),
            nodes: NodeCountDifference {
                area_between,
                recorded_area,
                share: if recorded_area > 0.0 { area_between / recorded_area } else { 0.0 },
            },
        }
    }
}

/// The sizes of each class.
fn size_stats(curve: &NodeCountCurve, window: Window) -> BTreeMap<&str, GroupSizeStats> {
    let mut stats_by_class: BTreeMap<&str, (GroupSizeStats, Moment)> = BTreeMap::new();
    for NodeCountStep { at, class, delta, .. } in &curve.0 {
        let at = (*at).clamp(window.from, window.to);
        let (size, since) = stats_by_class.entry(class).or_insert((GroupSizeStats::default(), window.from));
        size.average += size.at_end as f64 * at.nanos_since(*since) as f64;
        *since = at;
        size.at_end += delta;
        if at == window.from {
            size.at_start += delta;
        } else if *delta > 0 {
            size.added += 1;
        } else {
            size.removed += 1;
        }
        size.max = size.max.max(size.at_end);
    }
    let window_nanos = window.to.nanos_since(window.from).max(1) as f64;
    let finish_average = |(class, (mut size, since)): (_, (GroupSizeStats, Moment))| {
        size.average += size.at_end as f64 * window.to.nanos_since(since) as f64;
        size.average /= window_nanos;
        (class, size)
    };
    stats_by_class.into_iter().map(finish_average).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn group_sizes_have_start_changes_and_end() {
        let group: Arc<str> = "a".into();
        let step =
            |second, delta| NodeCountStep { at: at(second), class: group.clone(), node: "n".into(), delta };
        let recorded_sizes =
            NodeCountCurve(vec![step(0, 1), step(0, 1), step(4, 1), step(8, -1), step(8, -1)]);
        let replayed_sizes = NodeCountCurve(vec![step(0, 1), step(0, 1)]);
        let window = Window { from: at(0), to: at(10) };
        let scaling = ScalingComparison::of([&group].into_iter(), &recorded_sizes, &replayed_sizes, window);
        let [GroupScaling { recorded, replayed, .. }] = &scaling.groups[..] else { panic!("one group") };
        // 2 nodes for 4 seconds, 3 for 4, 1 for 2: 22 node seconds in 10 seconds.
        assert_eq!(
            *recorded,
            GroupSizeStats { at_start: 2, added: 1, removed: 2, max: 3, at_end: 1, average: 2.2 }
        );
        assert_eq!(
            *replayed,
            GroupSizeStats { at_start: 2, added: 0, removed: 0, max: 2, at_end: 2, average: 2.0 }
        );
        // A difference of 1 for 4 seconds, then of -1 for 2.
        assert_eq!(
            scaling.nodes,
            NodeCountDifference { area_between: 6.0, recorded_area: 22.0, share: 6.0 / 22.0 }
        );
    }
}
