//! Groups that the autoscaler's status names, with the nodes that seem to be theirs.

use autoscaler::node_template::POOL_LABELS;
use autoscaler::{Membership, NodeGroup, yaml};
use serde_json::Value;

use super::{Derived, Found, label, listed, name, nodes};

/// What the status says of a group.
struct Told<'a> {
    name: &'a str,
    min: i64,
    max: i64,
    target: Option<i64>,
}

/// What a name counts, against which labels do not come up.
const SURE: usize = 1 << 16;

/// Adds the groups of the status ConfigMap.
pub(super) fn groups(found: &Found, derived: &mut Derived) {
    let usual = "cluster-autoscaler-status";
    let map = found.running.as_ref().map_or(usual, |running| &*running.settings.status_config_map_name);
    let Some(text) = found.config_map(map).and_then(|map| map["data"]["status"].as_str()) else { return };
    let status = match yaml::parse(text) {
        Ok(status) => status,
        Err(_) => {
            derived
                .assumed
                .push(format!("the ConfigMap {map} does not count: it is not written as since 1.30"));
            return;
        }
    };
    let told: Vec<Told<'_>> =
        status["nodeGroups"].as_array().into_iter().flatten().filter_map(Told::of).collect();
    let mut owners: Vec<Vec<&Value>> = told.iter().map(|_| Vec::new()).collect();
    for node in &found.nodes {
        if let Some(index) = owner(node, &told) {
            owners[index].push(node);
        }
    }
    let mut unknown = Vec::new();
    for (index, (told, nodes)) in told.iter().zip(&owners).enumerate() {
        let others =
            owners.iter().enumerate().filter(|(other, _)| *other != index).flat_map(|(_, nodes)| nodes);
        match nodes::node_group(told.name, nodes, told.min, told.max) {
            Some(group) => {
                let members = label_of_all(nodes, others).unwrap_or_else(|| group.members.clone());
                derived.groups.push(NodeGroup { target: told.target, members, ..group });
            }
            None => unknown.push(told.name),
        }
    }
    if !derived.groups.is_empty() {
        derived.assumed.push(format!("node groups and their sizes are those of the ConfigMap {map}; a node belongs to the group whose name its providerID, its own name or the label of its pool has, and new nodes are like the youngest ready one of their group"));
    }
    if !unknown.is_empty() {
        let why = "no node shows what theirs are like";
        derived.assumed.push(format!("{why}, so these groups never grow: {}", listed(&unknown)));
    }
}

// === impl Told ===

impl<'a> Told<'a> {
    fn of(group: &'a Value) -> Option<Told<'a>> {
        let health = &group["health"];
        let (min, max) = (health["minSize"].as_i64().unwrap_or(0), health["maxSize"].as_i64()?);
        let name = group["name"].as_str().filter(|name| !name.is_empty())?;
        let target = health["cloudProviderTarget"].as_i64().filter(|target| *target >= 0);
        (0 <= min && min <= max).then_some(Told { name, min, max, target })
    }

    /// How well a node fits this group: the more of its name tells of it the better; zero if nothing does.
    fn fit(&self, node: &Value) -> usize {
        // `https://…/instanceGroups/gke-c-pool-1-grp` makes nodes called `gke-c-pool-1-…`.
        let local = self.name.rsplit('/').next().unwrap_or(self.name);
        let stem = local.strip_suffix("-grp").unwrap_or(local);
        let id = node["spec"]["providerID"].as_str().unwrap_or_default();
        if has_word(id, stem) || is_continued(name(node), stem) {
            return SURE + stem.len();
        }
        let pools = POOL_LABELS.iter().filter_map(|key| label(node, key));
        pools.filter(|pool| has_word(local, pool)).map(str::len).max().unwrap_or(0)
    }
}

/// The group a node fits best; none if several fit it as well.
fn owner(node: &Value, told: &[Told<'_>]) -> Option<usize> {
    let fits: Vec<usize> = told.iter().map(|group| group.fit(node)).collect();
    let best = *fits.iter().max().filter(|best| **best > 0)?;
    let mut winners = fits.iter().enumerate().filter(|(_, fit)| **fit == best);
    let (index, _) = winners.next()?;
    winners.next().is_none().then_some(index)
}

/// The label of a pool that all nodes of a group have and no other has: nodes that come later have it too.
fn label_of_all<'a>(
    nodes: &[&Value],
    others: impl Iterator<Item = &'a &'a Value> + Clone,
) -> Option<Membership> {
    let (first, rest) = nodes.split_first()?;
    let own = |key: &&&str| {
        let value = label(first, key);
        value.is_some()
            && rest.iter().all(|node| label(node, key) == value)
            && others.clone().all(|node| label(node, key) != value)
    };
    let key = POOL_LABELS.iter().find(own)?;
    Some(Membership::Label { key: (*key).into(), value: label(first, key)?.into() })
}

/// Whether a word stands in a text, not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric();
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !word.is_empty() && !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// Whether a name is a stem and something behind it: `-abc`, or the digits of a scale set.
fn is_continued(name: &str, stem: &str) -> bool {
    let Some(rest) = name.strip_prefix(stem).filter(|_| !stem.is_empty()) else { return false };
    rest.starts_with('-')
        || rest.starts_with('.')
        || (rest.len() == 6 && rest.chars().all(|c| c.is_ascii_alphanumeric()))
}
