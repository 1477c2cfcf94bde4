//! Node groups guessed from existing nodes: those of equal pool, instance type and zone.

use std::collections::{BTreeMap, BTreeSet};

use autoscaler::node_template::{POOL_LABELS, parse_object, template_from_node};
use autoscaler::{Membership, NodeGroup, Provisioning};
use kubernetes::well_known::{BETA_INSTANCE_TYPE, BETA_ZONE, INSTANCE_TYPE, ZONE};
use serde_json::Value;

use super::{DerivedGroups, SourceObjects, label, name};

/// Adds groups of similar nodes.
pub(super) fn add_groups(source_objects: &SourceObjects, derived: &mut DerivedGroups) {
    let mut nodes_by_group: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let mut ungrouped = Vec::new();
    for node in source_objects.nodes.iter().filter(|node| !is_of_control_plane(node)) {
        match group_name(node) {
            Some(group) => nodes_by_group.entry(group).or_default().push(node),
            None => ungrouped.push(name(node)),
        }
    }
    for (group, nodes) in &nodes_by_group {
        let count = nodes.len() as i64;
        derived.groups.extend(node_group(group, nodes, 0, count.saturating_mul(10)));
    }
    if !derived.groups.is_empty() {
        derived.assumptions.push("no node groups were recorded: nodes of the same pool, instance type and zone are assumed to be a group, with min size 0 and ten times its nodes as max size".to_owned());
        derived.assumptions.push(
            "new nodes are like the newest ready node of their group, without its own labels and taints"
                .to_owned(),
        );
    }
    if !ungrouped.is_empty() {
        derived.assumptions.push(format!(
            "nodes without labels of a node group, assumed to be in none: {}",
            super::join_words(&ungrouped)
        ));
    }
}

/// Returns a group with these nodes, and the best of them as its template; `None` without nodes.
pub(super) fn node_group(group: &str, nodes: &[&Value], min: i64, max: i64) -> Option<NodeGroup> {
    let template = parse_object(&template_from_node(template_node(nodes)?, group))?;
    Some(NodeGroup {
        name: group.into(),
        min,
        max,
        target: None,
        members: named_members(nodes),
        template,
        pods: Vec::new(),
        template_pods: Vec::new(),
        price: None,
        options: None,
        provisioning: Provisioning::default(),
        failures: Vec::new(),
    })
}

/// Membership of these nodes, by name.
pub(super) fn named_members(nodes: &[&Value]) -> Membership {
    Membership::Named(nodes.iter().map(|node| name(node).into()).collect::<BTreeSet<_>>())
}

/// Returns the youngest ready node, or else the youngest; of several, the last by name.
pub(super) fn template_node<'a>(nodes: &[&'a Value]) -> Option<&'a Value> {
    let created = |node: &Value| node["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    nodes.iter().copied().max_by_key(|node| (is_ready(node), created(node), name(node)))
}

pub(super) fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let mut ready = conditions.into_iter().flatten().filter(|condition| condition["type"] == "Ready");
    ready.any(|condition| condition["status"] == "True")
}

fn is_of_control_plane(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"]
        .iter()
        .any(|role| labels.get(*role).is_some())
}

fn group_name(node: &Value) -> Option<String> {
    let pool = POOL_LABELS.iter().find_map(|key| label(node, key));
    let kind = label(node, INSTANCE_TYPE).or_else(|| label(node, BETA_INSTANCE_TYPE));
    let zone = label(node, ZONE).or_else(|| label(node, BETA_ZONE));
    // A zone alone does not characterize a node.
    pool.or(kind)?;
    let parts: Vec<&str> = [pool, kind, zone].into_iter().flatten().collect();
    Some(parts.join("/"))
}
