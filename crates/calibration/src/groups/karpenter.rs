//! Node groups derived from Karpenter's node pools: each instance type that a pool was observed to use, in each zone.

use std::collections::BTreeMap;

use autoscaler::NodeGroup;
use kubernetes::quantity::Quantity;
use kubernetes::well_known::{INSTANCE_TYPE, KARPENTER_NODE_POOL, ZONE};
use serde_json::Value;

use super::{DerivedGroups, SourceObjects, join_words, label, name, nodes};

const POOL: &str = KARPENTER_NODE_POOL;
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";

/// The maximum size of a group whose pool has no limits.
const UNLIMITED: i64 = 1000;

/// Adds the groups of node pools.
pub(super) fn add_groups(source_objects: &SourceObjects, derived: &mut DerivedGroups) {
    let mut unseen = Vec::new();
    for pool in &source_objects.node_pools {
        let of_pool = source_objects.nodes.iter().filter(|node| label(node, POOL) == Some(name(pool)));
        let mut nodes_by_type: BTreeMap<Vec<&str>, Vec<&Value>> = BTreeMap::new();
        for node in of_pool {
            let Some(kind) = label(node, INSTANCE_TYPE) else { continue };
            let capacity_and_zone = [CAPACITY_TYPE, ZONE].map(|key| label(node, key).unwrap_or_default());
            nodes_by_type
                .entry(vec![name(pool), kind, capacity_and_zone[0], capacity_and_zone[1]])
                .or_default()
                .push(node);
        }
        let types = required_instance_types(pool);
        let is_seen = |kind: &&str| nodes_by_type.keys().any(|parts| parts[1] == *kind);
        unseen.extend(
            types.into_iter().filter(|kind| !is_seen(kind)).map(|kind| format!("{kind} of {}", name(pool))),
        );
        for (parts, nodes) in &nodes_by_type {
            let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
            let group = nodes::node_group(&parts.join("/"), nodes, 0, max_nodes(pool, nodes));
            derived.groups.extend(group.map(|group| NodeGroup { target: Some(nodes.len() as i64), ..group }));
        }
    }
    if !derived.groups.is_empty() {
        derived.assumptions.push("node groups are the instance types of each Karpenter NodePool, by zone and capacity type, as cluster-autoscaler would need them; min size is 0, and the limits of the NodePool are the max size".to_owned());
    }
    if !unseen.is_empty() {
        derived.assumptions.push(format!(
            "no nodes of these instance types were recorded, so they have no node group: {}",
            join_words(&unseen)
        ));
    }
}

/// Returns the instance types that a pool requires by name.
fn required_instance_types(pool: &Value) -> Vec<&str> {
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array();
    let by_type =
        |requirement: &&Value| requirement["key"] == INSTANCE_TYPE && requirement["operator"] == "In";
    let requirements = requirements.into_iter().flatten().filter(by_type);
    requirements
        .filter_map(|requirement| requirement["values"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Returns the number of such nodes that the limits of a pool allow.
fn max_nodes(pool: &Value, nodes: &[&Value]) -> i64 {
    let Some(node) = nodes::template_node(nodes) else { return UNLIMITED };
    let amount = |value: &Value| {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Quantity::parse(&text).ok()
    };
    let limits = pool["spec"]["limits"].as_object().into_iter().flatten();
    let counts = limits.filter_map(|(resource, limit)| {
        let limit = amount(limit)?.milli_value().max(0);
        let per_node = match resource.as_str() {
            "nodes" => 1000,
            resource => amount(&node["status"]["capacity"][resource])?.milli_value(),
        };
        (per_node > 0).then(|| limit / per_node)
    });
    counts.min().unwrap_or(UNLIMITED).max(nodes.len() as i64)
}
