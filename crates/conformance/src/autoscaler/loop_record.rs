//! The record of one loop, of the real autoscaler or of ours.

mod facts;

use std::collections::BTreeMap;

use serde::Deserialize;

/// The record of one loop, as cases have it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopRecord {
    /// The second.
    pub at: i64,
    /// Events in the cluster since the previous loop.
    pub before: Vec<ClusterEvent>,
    /// Cloud calls of background work since the previous loop.
    pub async_calls: Vec<String>,
    /// The loop's error.
    pub error: Option<String>,
    /// Cloud calls of the loop.
    pub calls: Vec<String>,
    /// The scale-up.
    pub scale_up: Option<ScaleUpRecord>,
    /// Further scale-ups of a salvo.
    pub salvo: Vec<ScaleUpRecord>,
    /// The scale-up of groups below their minimum size.
    pub min_size_scale_up: Option<ScaleUpRecord>,
    /// The scale-down.
    pub scale_down: ScaleDownRecord,
    /// The target size of every group.
    pub targets: BTreeMap<String, i64>,
    /// The number of upcoming nodes, by group.
    pub upcoming: BTreeMap<String, i64>,
    /// Groups in backoff.
    pub backoff: Vec<String>,
    /// Unhealthy groups, or `cluster`.
    pub unhealthy: Vec<String>,
    /// Nodes with the soft taint: deletion candidates.
    pub soft_taint: Vec<String>,
    /// Nodes with the hard taint: to be deleted.
    pub to_be_deleted: Vec<String>,
    /// Events.
    pub events: Vec<String>,
    /// Counts by group in place of lists of nodes, for cases with interchangeable nodes.
    pub loose: Option<GroupCounts>,
}

/// An event in the cluster between loops.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(deny_unknown_fields)]
pub struct ClusterEvent {
    /// The second.
    pub at: i64,
    /// The kind of event.
    pub what: ClusterEventKind,
    /// The node, if any.
    #[serde(default)]
    pub node: String,
    /// The pod, if any.
    #[serde(default)]
    pub pod: String,
}

/// The kinds of events, in the order in which cases list them.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ClusterEventKind {
    NodeRegistered,
    NodeReady,
    PodDeleted,
    PodEvicted,
    PodCreated,
    NodeDeleted,
    PodBound,
}

/// A scale-up.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ScaleUpRecord {
    pub result: String,
    pub error: Option<String>,
    pub options: Vec<ExpansionOption>,
    pub best: Option<String>,
    pub increases: Vec<GroupIncrease>,
    pub triggered: BTreeMap<String, i64>,
    pub remaining: Vec<RemainingPods>,
    pub awaiting: BTreeMap<String, i64>,
    pub failed_groups: Vec<String>,
}

/// An expansion option.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ExpansionOption {
    pub group: String,
    pub nodes: i64,
    pub pods: BTreeMap<String, i64>,
    pub similar: Vec<String>,
}

/// The increase of a group's size.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupIncrease {
    pub group: String,
    pub from: i64,
    pub to: i64,
}

/// Pods that no option helps, with the reasons by group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RemainingPods {
    pub pod: String,
    pub count: i64,
    pub rejected: BTreeMap<String, Vec<String>>,
    pub skipped: BTreeMap<String, Vec<String>>,
}

/// A scale-down.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct ScaleDownRecord {
    pub result: String,
    pub nodes: Vec<RemovedNode>,
    pub unneeded: Vec<UnneededNode>,
    pub unremovable: Vec<UnremovableNode>,
    pub utilization: BTreeMap<String, f64>,
    pub delete_results: BTreeMap<String, String>,
}

/// A node whose removal began.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct RemovedNode {
    pub node: String,
    pub drain: Vec<String>,
}

/// An unneeded node, and since when.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct UnneededNode {
    pub node: String,
    pub since: i64,
}

/// An unremovable node, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct UnremovableNode {
    pub node: String,
    pub reason: String,
    pub pod: String,
    pub pod_reason: String,
}

/// Counts by group in place of lists of nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupCounts {
    pub async_calls: BTreeMap<String, i64>,
    pub calls: BTreeMap<String, i64>,
    pub removed: BTreeMap<String, i64>,
    pub unneeded: BTreeMap<String, i64>,
    pub unremovable: BTreeMap<String, i64>,
    pub soft_taint: BTreeMap<String, i64>,
    pub to_be_deleted: BTreeMap<String, i64>,
}

impl LoopRecord {
    /// The same record with counts by group in place of lists of nodes.
    pub(super) fn with_group_counts(self) -> LoopRecord {
        let without_node = |call: &String| match call.split(' ').collect::<Vec<_>>()[..] {
            ["delete", group, _] => format!("delete {group}"),
            [second, "delete", group, _] => format!("{second} delete {group}"),
            _ => call.clone(),
        };
        let nodes = |names: &[String]| count_names(names.iter().map(|name| group_of(name).to_owned()));
        let down = &self.scale_down;
        let loose = GroupCounts {
            async_calls: count_names(self.async_calls.iter().map(without_node)),
            calls: count_names(self.calls.iter().map(without_node)),
            removed: count_names(down.nodes.iter().map(|one| {
                let suffix = if one.drain.is_empty() { "" } else { " drain" };
                format!("{}{suffix}", group_of(&one.node))
            })),
            unneeded: count_names(
                down.unneeded.iter().map(|one| format!("{} {}", group_of(&one.node), one.since)),
            ),
            unremovable: count_names(
                down.unremovable.iter().map(|one| format!("{} {}", group_of(&one.node), one.reason)),
            ),
            soft_taint: nodes(&self.soft_taint),
            to_be_deleted: nodes(&self.to_be_deleted),
        };
        LoopRecord {
            before: Vec::new(),
            async_calls: Vec::new(),
            calls: Vec::new(),
            soft_taint: Vec::new(),
            to_be_deleted: Vec::new(),
            scale_down: ScaleDownRecord { result: self.scale_down.result, ..ScaleDownRecord::default() },
            loose: Some(loose),
            ..self
        }
    }
}

/// Counts equal names.
pub(super) fn count_names(names: impl Iterator<Item = String>) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// The group of a node, by its name.
fn group_of(node: &str) -> &str {
    let cut = node.find("-new-").or_else(|| node.find("-lost-")).or_else(|| node.rfind('-'));
    cut.map_or(node, |cut| &node[..cut])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_counts_do_not_depend_on_node_names() {
        let strict = |node: &str| -> LoopRecord {
            let json = format!(
                r#"{{"at":5,"calls":["delete pool-a {node}","increase b 2"],"asyncCalls":["3 delete pool-a {node}"],
                    "softTaint":["{node}"],"scaleDown":{{"result":"R","nodes":[{{"node":"{node}","drain":["d/p"]}}],
                    "unneeded":[{{"node":"{node}","since":4}}],"unremovable":[{{"node":"{node}","reason":"W"}}]}}}}"#
            );
            serde_json::from_str(&json).unwrap()
        };
        let loose: LoopRecord = serde_json::from_str(
            r#"{"at":5,"scaleDown":{"result":"R"},"loose":{"calls":{"delete pool-a":1,"increase b 2":1},
                "asyncCalls":{"3 delete pool-a":1},"softTaint":{"pool-a":1},"removed":{"pool-a drain":1},
                "unneeded":{"pool-a 4":1},"unremovable":{"pool-a W":1}}}"#,
        )
        .unwrap();
        for node in ["pool-a-7", "pool-a-new-001", "pool-a-lost-2"] {
            assert_eq!(strict(node).with_group_counts().facts(), loose.facts(), "{node}");
        }
        assert_ne!(strict("pool-a-7").facts(), strict("pool-a-8").facts());
    }
}
