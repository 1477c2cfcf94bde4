//! The scores of the default profile.

use scheduler::{Plugin, PluginScore};

use super::cluster::Cluster;
use super::filters::used;
use super::objects::{Node, Pod, amount, look_up};
use super::{affinity, spread};

/// The scores of all plugins for all nodes, in the default profile's order.
pub(crate) fn score(cluster: &Cluster, pod: &Pod, nodes: &[&Node]) -> Vec<Vec<PluginScore>> {
    let scores_of =
        |node_score: &dyn Fn(&Node) -> i64| nodes.iter().map(|node| node_score(node)).collect::<Vec<i64>>();
    let as_is = |raw: Vec<i64>| (raw.clone(), raw);
    let taints = scores_of(&|node| untolerated_prefer_no_schedule(pod, node));
    let preferred = pod.spec.affinity.node_affinity.preferred.is_some();
    let node_affinity = preferred.then(|| scores_of(&|node| node_affinity(pod, node)));
    let has_requests = ["cpu", "memory"].iter().any(|name| amount(&pod.usage, name) != 0);
    let plugin_scores = [
        (Plugin::TaintToleration, 3, Some((taints.clone(), scale(&taints, true)))),
        (Plugin::NodeAffinity, 2, node_affinity.map(|raw| (raw.clone(), scale(&raw, false)))),
        (Plugin::NodeResourcesFit, 1, Some(as_is(scores_of(&|node| least_allocated(cluster, pod, node))))),
        (Plugin::PodTopologySpread, 2, spread::score(cluster, pod, nodes)),
        (Plugin::InterPodAffinity, 2, affinity::score(cluster, pod, nodes)),
        (Plugin::DynamicResources, 2, Some(as_is(scores_of(&|_| 0)))),
        (
            Plugin::NodeResourcesBalancedAllocation,
            1,
            has_requests.then(|| as_is(scores_of(&|node| balance(cluster, pod, node)))),
        ),
        (Plugin::ImageLocality, 1, Some(as_is(scores_of(&|node| images(cluster, pod, node))))),
    ];
    let of_node = |index: usize| {
        let scores = plugin_scores.iter().filter_map(move |(plugin, weight, scores)| {
            let (raw, normalized) = scores.as_ref()?;
            let (raw, normalized) = (raw[index], normalized[index]);
            Some(PluginScore { plugin: *plugin, raw, normalized, weighted: normalized * weight })
        });
        scores.collect()
    };
    (0..nodes.len()).map(of_node).collect()
}

fn scale(raw: &[i64], reverse: bool) -> Vec<i64> {
    let max = raw.iter().max().copied().unwrap_or(0);
    let scaled = raw.iter().map(|score| if max == 0 { 0 } else { 100 * score / max });
    scaled.map(|score| if reverse { 100 - score } else { score }).collect()
}

fn untolerated_prefer_no_schedule(pod: &Pod, node: &Node) -> i64 {
    let soft = node.spec.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
    soft.filter(|taint| !pod.tolerates(taint)).count() as i64
}

fn node_affinity(pod: &Pod, node: &Node) -> i64 {
    let preferred = pod.spec.affinity.node_affinity.preferred.iter().flatten();
    let matching_terms = preferred.filter(|term| {
        let label = look_up(&node.metadata.labels);
        term.preference.matches(&node.metadata.name, label).expect("the terms of the test are valid")
    });
    matching_terms.map(|term| term.weight).sum()
}

fn least_allocated(cluster: &Cluster, pod: &Pod, node: &Node) -> i64 {
    let has = node.allocatable();
    let mut scores = Vec::new();
    for name in ["cpu", "memory"] {
        let pods = cluster.pods_on(&node.metadata.name);
        let used: i64 = pods.map(|pod| amount(&pod.non_zero_usage, name)).sum();
        let (used, has) = (used + amount(&pod.non_zero_requests, name), amount(&has, name));
        if has != 0 {
            scores.push(if used > has { 0 } else { (has - used) * 100 / has });
        }
    }
    if scores.is_empty() { 0 } else { scores.iter().sum::<i64>() / scores.len() as i64 }
}

fn balance(cluster: &Cluster, pod: &Pod, node: &Node) -> i64 {
    let has = node.allocatable();
    let evenness = |requested: &dyn Fn(&str) -> i64| {
        let named = ["cpu", "memory"].into_iter().filter(|name| amount(&has, name) != 0);
        let fractions: Vec<f64> = named
            .map(|name| ((used(cluster, node, name) + requested(name)) as f64 / has[name] as f64).min(1.0))
            .collect();
        let deviation = if let [a, b] = fractions[..] { ((a - b) / 2.0).abs() } else { 0.0 };
        ((1.0 - deviation) * 100.0) as i64
    };
    50 + (50 + evenness(&|name| amount(&pod.usage, name)) - evenness(&|_| 0)) / 2
}

fn images(cluster: &Cluster, pod: &Pod, node: &Node) -> i64 {
    const MIB: i64 = 1 << 20;
    let all = cluster.nodes.len() as f64;
    let containers: Vec<_> = pod.spec.init_containers.iter().chain(&pod.spec.containers).collect();
    let found = containers.iter().filter_map(|container| {
        let has_tag = container.image.rfind(':') > container.image.rfind('/');
        let name = if has_tag { container.image.clone() } else { format!("{}:latest", container.image) };
        cluster.image(&node.metadata.name, &name)
    });
    let sum: i64 = found.map(|(size, nodes)| (size as f64 * (nodes as f64 / all)) as i64).sum();
    let (least, max) = (23 * MIB, 1000 * MIB * containers.len() as i64);
    100 * (sum.max(least).min(max) - least) / (max - least)
}
