//! Topology spread constraints, evaluated over all pods each time.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::selector::Selector;
use scheduler::{Plugin, Status};

use super::cluster::Cluster;
use super::go;
use super::objects::{Constraint, Node, Pod, look_up, selector};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// A constraint of the pod or a default one, with its effective selector.
struct ResolvedConstraint {
    constraint: Constraint,
    selector: Selector,
}

/// The status with which the hard constraints reject a node, if they do.
pub(crate) fn filter(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Status> {
    let constraints = resolve(cluster, pod, "DoNotSchedule");
    for resolved in &constraints {
        let ResolvedConstraint { constraint, selector } = resolved;
        let Some(value) = node.label(&constraint.topology_key) else {
            let reason = "node(s) didn't match pod topology spread constraints (missing required label)";
            return Some(Status::unresolvable(Plugin::PodTopologySpread, reason));
        };
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for other in cluster.nodes.iter().filter(|other| has_all(other, &constraints)) {
            if resolved.includes(pod, other) {
                let value = other.label(&constraint.topology_key).expect("the node has all topology labels");
                *counts.entry(value).or_default() += resolved.count(cluster, pod, other);
            }
        }
        let too_few = (counts.len() as i64) < i64::from(constraint.min_domains.unwrap_or(1));
        let fewest = counts.values().min().copied().unwrap_or(i64::from(i32::MAX));
        let fewest = if too_few { 0 } else { fewest };
        let own = i64::from(selector.matches(look_up(&pod.metadata.labels)));
        if counts.get(value).copied().unwrap_or(0) + own - fewest > i64::from(constraint.max_skew) {
            let reason = "node(s) didn't match pod topology spread constraints";
            return Some(Status::unschedulable(Plugin::PodTopologySpread, reason));
        }
    }
    None
}

/// Raw and normalized scores by the soft constraints; `None` if there are none.
pub(crate) fn score(cluster: &Cluster, pod: &Pod, nodes: &[&Node]) -> Option<(Vec<i64>, Vec<i64>)> {
    let constraints = resolve(cluster, pod, "ScheduleAnyway");
    if constraints.is_empty() {
        return None;
    }
    let need_all = !pod.spec.topology_spread_constraints.is_empty();
    let is_scored = |node: &Node| !need_all || has_all(node, &constraints);
    let candidates: Vec<&&Node> = nodes.iter().filter(|node| is_scored(node)).collect();
    let raw: Vec<Option<i64>> = nodes
        .iter()
        .map(|node| {
            is_scored(node).then(|| {
                let raw_scores = constraints
                    .iter()
                    .map(|constraint| constraint.raw_score(cluster, pod, node, &candidates, &is_scored));
                raw_scores.fold(0.0, |sum, raw_score| sum + raw_score).round() as i64
            })
        })
        .collect();
    let least = raw.iter().flatten().min().copied().unwrap_or(0);
    let most = raw.iter().flatten().max().copied().unwrap_or(0);
    let normalize = |score: &Option<i64>| match score {
        None => 0,
        Some(_) if most == 0 => 100,
        Some(score) => 100 * (most + least - score) / most,
    };
    Some((raw.iter().map(|score| score.unwrap_or(0)).collect(), raw.iter().map(normalize).collect()))
}

// === impl ResolvedConstraint ===

impl ResolvedConstraint {
    /// Whether the pods of a node are counted, by the two inclusion policies.
    fn includes(&self, pod: &Pod, node: &Node) -> bool {
        let policy = |policy: &Option<String>, default| policy.as_deref().unwrap_or(default) == "Honor";
        (!policy(&self.constraint.node_affinity_policy, "Honor") || pod.selects(node))
            && (!policy(&self.constraint.node_taints_policy, "Ignore") || !node.has_untolerated_taint(pod))
    }

    /// The number of pods of a node that match. An empty selector matches none, and terminating pods do not count;
    /// neither applies to nominated pods.
    fn count(&self, cluster: &Cluster, pod: &Pod, node: &Node) -> i64 {
        let is_everything = self.selector.is_everything();
        let is_counted = |other: &&Pod| {
            other.metadata.namespace == pod.metadata.namespace
                && (other.only_nominated || (!is_everything && other.metadata.deletion_timestamp.is_none()))
                && self.selector.matches(look_up(&other.metadata.labels))
        };
        cluster.pods_on(&node.metadata.name).filter(is_counted).count() as i64
    }

    /// The constraint's contribution to a node's raw score.
    fn raw_score(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        node: &Node,
        candidates: &[&&Node],
        is_scored: &dyn Fn(&Node) -> bool,
    ) -> f64 {
        let key = &self.constraint.topology_key;
        let Some(value) = node.label(key) else { return 0.0 };
        let (size, count) = if key == HOSTNAME {
            (candidates.len(), self.count(cluster, pod, node))
        } else {
            let values: BTreeSet<&str> =
                candidates.iter().map(|node| node.label(key).unwrap_or_default()).collect();
            let domain_nodes = cluster.nodes.iter().filter(|other| {
                is_scored(other) && other.label(key).unwrap_or_default() == value && self.includes(pod, other)
            });
            (values.len(), domain_nodes.map(|other| self.count(cluster, pod, other)).sum())
        };
        count as f64 * go::ln((size + 2) as f64) + f64::from(self.constraint.max_skew - 1)
    }
}

fn has_all(node: &Node, constraints: &[ResolvedConstraint]) -> bool {
    constraints.iter().all(|resolved| node.label(&resolved.constraint.topology_key).is_some())
}

/// The pod's constraints with this `whenUnsatisfiable`, or the default ones if it has no constraints at all.
fn resolve(cluster: &Cluster, pod: &Pod, action: &str) -> Vec<ResolvedConstraint> {
    let own = &pod.spec.topology_spread_constraints;
    if !own.is_empty() {
        let matching = own.iter().filter(|constraint| constraint.when_unsatisfiable == action);
        return matching
            .map(|constraint| {
                let selector = selector(constraint.label_selector.as_ref());
                let own = constraint
                    .match_label_keys
                    .iter()
                    .filter_map(|key| Some((key.as_str(), pod.metadata.labels.get(key)?.as_str())));
                ResolvedConstraint {
                    constraint: constraint.clone(),
                    selector: Selector::of_labels(own).and(&selector),
                }
            })
            .collect();
    }
    let selector = default_selector(cluster, pod);
    if action != "ScheduleAnyway" || selector.is_everything() {
        return Vec::new();
    }
    let default = |(key, max_skew): (&str, i32)| ResolvedConstraint {
        constraint: Constraint { max_skew, topology_key: key.to_owned(), ..Constraint::default() },
        selector: selector.clone(),
    };
    [(HOSTNAME, 3), ("topology.kubernetes.io/zone", 5)].map(default).into()
}

/// The combined selector of the services that match the pod and of its ReplicaSet.
fn default_selector(cluster: &Cluster, pod: &Pod) -> Selector {
    let mut merged_labels = BTreeMap::new();
    for service in &cluster.services {
        let Some(labels) = &service.spec.selector else { continue };
        let selects = labels.iter().all(|(key, value)| pod.metadata.labels.get(key) == Some(value));
        if service.metadata.namespace == pod.metadata.namespace && selects {
            merged_labels.extend(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        }
    }
    let mut all = Selector::of_labels(merged_labels);
    let Some(owner) = pod.metadata.owner_references.iter().find(|owner| owner.controller) else { return all };
    if (owner.api_version.as_str(), owner.kind.as_str()) == ("apps/v1", "ReplicaSet") {
        let own = cluster.replica_sets.iter().filter(|set| {
            set.metadata.namespace == pod.metadata.namespace && set.metadata.name == owner.name
        });
        for set in own {
            all = all.and(&selector(Some(&set.spec.selector)));
        }
    }
    all
}
