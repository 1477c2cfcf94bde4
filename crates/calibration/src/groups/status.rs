//! Node groups in the autoscaler's status, with the nodes that appear to be theirs.

use autoscaler::node_template::POOL_LABELS;
use autoscaler::{Membership, NodeGroup, yaml};
use serde_json::Value;

use super::{DerivedGroups, SourceObjects, join_words, label, name, nodes};

/// A group in the status.
struct StatusGroup<'a> {
    name: &'a str,
    min: i64,
    max: i64,
    target: Option<i64>,
}

/// The score of a match by name, which outweighs all matches by label.
const NAME_MATCH_SCORE: usize = 1 << 16;

/// Adds the groups of the status ConfigMap.
pub(super) fn add_groups(source_objects: &SourceObjects, derived: &mut DerivedGroups) {
    let default_name = "cluster-autoscaler-status";
    let map = source_objects
        .autoscaler
        .as_ref()
        .map_or(default_name, |deployed| &*deployed.settings.status_config_map_name);
    let Some(text) = source_objects.config_map(map).and_then(|map| map["data"]["status"].as_str()) else {
        return;
    };
    let status = match yaml::parse(text) {
        Ok(status) => status,
        Err(_) => {
            derived
                .assumptions
                .push(format!("ConfigMap {map} is ignored: it is not in the format since 1.30"));
            return;
        }
    };
    let reported: Vec<StatusGroup<'_>> =
        status["nodeGroups"].as_array().into_iter().flatten().filter_map(StatusGroup::parse).collect();
    let mut nodes_by_group: Vec<Vec<&Value>> = reported.iter().map(|_| Vec::new()).collect();
    for node in &source_objects.nodes {
        if let Some(index) = best_group(node, &reported) {
            nodes_by_group[index].push(node);
        }
    }
    let mut unknown = Vec::new();
    for (index, (reported, nodes)) in reported.iter().zip(&nodes_by_group).enumerate() {
        let others = nodes_by_group
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != index)
            .flat_map(|(_, nodes)| nodes);
        match nodes::node_group(reported.name, nodes, reported.min, reported.max) {
            Some(group) => {
                let members = common_pool_label(nodes, others).unwrap_or_else(|| group.members.clone());
                derived.groups.push(NodeGroup { target: reported.target, members, ..group });
            }
            None => unknown.push(reported.name),
        }
    }
    if !derived.groups.is_empty() {
        derived.assumptions.push(format!("node groups and their sizes are those of the ConfigMap {map}; a node belongs to the group whose name is in its providerID, its name or its pool label, and new nodes are like the newest ready node of their group"));
    }
    if !unknown.is_empty() {
        let reason = "groups without nodes have no template";
        derived.assumptions.push(format!("{reason} and never grow: {}", join_words(&unknown)));
    }
}

// === impl StatusGroup ===

impl<'a> StatusGroup<'a> {
    fn parse(group: &'a Value) -> Option<StatusGroup<'a>> {
        let health = &group["health"];
        let (min, max) = (health["minSize"].as_i64().unwrap_or(0), health["maxSize"].as_i64()?);
        let name = group["name"].as_str().filter(|name| !name.is_empty())?;
        let target = health["cloudProviderTarget"].as_i64().filter(|target| *target >= 0);
        (0 <= min && min <= max).then_some(StatusGroup { name, min, max, target })
    }

    /// Returns how well a node matches this group: the longer the matching part of the name the better; zero for no
    /// match.
    fn match_score(&self, node: &Value) -> usize {
        // The nodes of `https://…/instanceGroups/gke-c-pool-1-grp` are named `gke-c-pool-1-…`.
        let local = self.name.rsplit('/').next().unwrap_or(self.name);
        let stem = local.strip_suffix("-grp").unwrap_or(local);
        let id = node["spec"]["providerID"].as_str().unwrap_or_default();
        if has_word(id, stem) || has_suffix(name(node), stem) {
            return NAME_MATCH_SCORE + stem.len();
        }
        let pools = POOL_LABELS.iter().filter_map(|key| label(node, key));
        pools.filter(|pool| has_word(local, pool)).map(str::len).max().unwrap_or(0)
    }
}

/// Returns the group that a node matches best; `None` if several match equally.
fn best_group(node: &Value, groups: &[StatusGroup<'_>]) -> Option<usize> {
    let scores: Vec<usize> = groups.iter().map(|group| group.match_score(node)).collect();
    let best = *scores.iter().max().filter(|best| **best > 0)?;
    let mut winners = scores.iter().enumerate().filter(|(_, score)| **score == best);
    let (index, _) = winners.next()?;
    winners.next().is_none().then_some(index)
}

/// Returns the pool label that all nodes of a group and no others have: later nodes will have it too.
fn common_pool_label<'a>(
    nodes: &[&Value],
    others: impl Iterator<Item = &'a &'a Value> + Clone,
) -> Option<Membership> {
    let (first, rest) = nodes.split_first()?;
    let is_distinctive = |key: &&&str| {
        let value = label(first, key);
        value.is_some()
            && rest.iter().all(|node| label(node, key) == value)
            && others.clone().all(|node| label(node, key) != value)
    };
    let key = POOL_LABELS.iter().find(is_distinctive)?;
    Some(Membership::Label { key: (*key).into(), value: label(first, key)?.into() })
}

/// Whether a text contains a word as a whole.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !word.is_empty() && !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a name is a stem with a suffix: `-abc`, or the digits of a scale set.
fn has_suffix(name: &str, stem: &str) -> bool {
    let Some(rest) = name.strip_prefix(stem).filter(|_| !stem.is_empty()) else { return false };
    rest.starts_with('-')
        || rest.starts_with('.')
        || (rest.len() == 6 && rest.chars().all(|c| c.is_ascii_alphanumeric()))
}
