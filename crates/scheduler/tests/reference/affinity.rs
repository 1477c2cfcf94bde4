//! Affinity and anti-affinity between pods, evaluated over all pairs of pods each time.

use std::collections::BTreeMap;

use scheduler::{Plugin, Status};

use super::cluster::Cluster;
use super::objects::{Labels, Node, Pod, Term, look_up, selector};

/// Whether the plugin is not skipped: the pod has required terms, or a required anti-affinity term of an existing pod
/// matches it.
pub(crate) fn is_not_skipped(cluster: &Cluster, pod: &Pod) -> bool {
    let own = &pod.spec.affinity;
    let labels = cluster.namespace_labels(&pod.metadata.namespace);
    let objects = |(other, other_node): (&Pod, &Node)| {
        let mut terms = other.spec.affinity.pod_anti_affinity.required.iter();
        terms.any(|term| {
            other_node.label(&term.topology_key).is_some() && existing_term_matches(other, term, pod, &labels)
        })
    };
    !own.pod_affinity.required.is_empty()
        || !own.pod_anti_affinity.required.is_empty()
        || cluster.placed().any(objects)
}

/// The status with which a node is rejected, if it is.
pub(crate) fn filter(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Status> {
    let required_terms = &pod.spec.affinity.pod_affinity.required;
    let near = required_terms.iter().all(|term| has_matching_pod_in_domain(cluster, pod, term, node));
    let has_labels = required_terms.iter().all(|term| node.label(&term.topology_key).is_some());
    let is_first_in_series =
        has_labels && no_matching_pod_anywhere(cluster, pod) && matches_all_terms(cluster, pod, pod);
    if !(near || is_first_in_series) {
        let reason = "node(s) didn't match pod affinity rules";
        return Some(Status::unresolvable(Plugin::InterPodAffinity, reason));
    }
    let anti_terms = &pod.spec.affinity.pod_anti_affinity.required;
    let has = |term: &Term| {
        pods_in_domain(cluster, term, node).any(|other| incoming_term_matches(cluster, pod, term, other))
    };
    if anti_terms.iter().any(has) {
        let reason = "node(s) didn't match pod anti-affinity rules";
        return Some(Status::unschedulable(Plugin::InterPodAffinity, reason));
    }
    let labels = cluster.namespace_labels(&pod.metadata.namespace);
    let objects = cluster.placed().any(|(other, other_node)| {
        let mut terms = other.spec.affinity.pod_anti_affinity.required.iter();
        terms.any(|term| {
            same_domain(term, other_node, node) && existing_term_matches(other, term, pod, &labels)
        })
    });
    let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
    objects.then(|| Status::unschedulable(Plugin::InterPodAffinity, reason))
}

/// Raw and normalized scores; `None` if no term matches.
pub(crate) fn score(cluster: &Cluster, pod: &Pod, nodes: &[&Node]) -> Option<(Vec<i64>, Vec<i64>)> {
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    let own_labels = cluster.namespace_labels(&pod.metadata.namespace);
    for (other, other_node) in cluster.placed() {
        let mut add = |term: &Term, weight: i64| {
            if let Some(value) = other_node.label(&term.topology_key) {
                *sums.entry((term.topology_key.clone(), value.to_owned())).or_default() += weight;
            }
        };
        let (own_affinity, other_affinity) = (&pod.spec.affinity, &other.spec.affinity);
        for (list, sign) in [(&own_affinity.pod_affinity, 1), (&own_affinity.pod_anti_affinity, -1)] {
            for preferred in &list.preferred {
                if incoming_term_matches(cluster, pod, &preferred.pod_affinity_term, other) {
                    add(&preferred.pod_affinity_term, sign * preferred.weight);
                }
            }
        }
        for term in &other_affinity.pod_affinity.required {
            if existing_term_matches(other, term, pod, &own_labels) {
                add(term, 1);
            }
        }
        for (list, sign) in [(&other_affinity.pod_affinity, 1), (&other_affinity.pod_anti_affinity, -1)] {
            for preferred in &list.preferred {
                if existing_term_matches(other, &preferred.pod_affinity_term, pod, &own_labels) {
                    add(&preferred.pod_affinity_term, sign * preferred.weight);
                }
            }
        }
    }
    if sums.is_empty() {
        return None;
    }
    let total = |node: &&Node| {
        let matching_sums = sums.iter().filter(|((key, value), _)| node.label(key) == Some(value));
        matching_sums.map(|(_, sum)| sum).sum()
    };
    let raw: Vec<i64> = nodes.iter().map(total).collect();
    let (min, max) = (raw.iter().min().copied()?, raw.iter().max().copied()?);
    let normalize = |score: &i64| {
        if max == min {
            return 0;
        }
        (100.0 * ((score - min) as f64 / (max - min) as f64)) as i64
    };
    let normalized = raw.iter().map(normalize).collect();
    Some((raw, normalized))
}

/// Whether a pod that matches all required terms is in the node's domain of this term.
fn has_matching_pod_in_domain(cluster: &Cluster, pod: &Pod, term: &Term, node: &Node) -> bool {
    pods_in_domain(cluster, term, node).any(|other| matches_all_terms(cluster, pod, other))
}

/// Whether no pod that matches all required terms is on a node with one of their topology keys.
fn no_matching_pod_anywhere(cluster: &Cluster, pod: &Pod) -> bool {
    !cluster.placed().any(|(other, other_node)| {
        let mut terms = pod.spec.affinity.pod_affinity.required.iter();
        terms.any(|term| other_node.label(&term.topology_key).is_some())
            && matches_all_terms(cluster, pod, other)
    })
}

fn matches_all_terms(cluster: &Cluster, pod: &Pod, other: &Pod) -> bool {
    let terms = &pod.spec.affinity.pod_affinity.required;
    !terms.is_empty() && terms.iter().all(|term| incoming_term_matches(cluster, pod, term, other))
}

fn pods_in_domain<'a>(cluster: &'a Cluster, term: &'a Term, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
    cluster.placed().filter(|(_, other_node)| same_domain(term, other_node, node)).map(|(other, _)| other)
}

fn same_domain(term: &Term, a: &Node, b: &Node) -> bool {
    let value = a.label(&term.topology_key);
    value.is_some() && value == b.label(&term.topology_key)
}

/// Whether a term of the incoming pod matches another pod.
///
/// The namespace selector is matched against existing namespaces, and then, by a bug of kube-scheduler, once more
/// against no labels at all.
fn incoming_term_matches(cluster: &Cluster, pod: &Pod, term: &Term, other: &Pod) -> bool {
    let by_labels = selector(term.namespace_selector.as_ref());
    let is_selected = cluster.namespaces.iter().any(|namespace| {
        namespace.metadata.name == other.metadata.namespace
            && by_labels.matches(look_up(&namespace.metadata.labels))
    });
    term_matches(pod, term, other, is_selected || by_labels.matches(|_| None))
}

/// Whether a term of an existing pod matches the incoming one, whose namespace has these labels.
fn existing_term_matches(placed: &Pod, term: &Term, pod: &Pod, namespace_labels: &Labels) -> bool {
    term_matches(
        placed,
        term,
        pod,
        selector(term.namespace_selector.as_ref()).matches(look_up(namespace_labels)),
    )
}

fn term_matches(owner: &Pod, term: &Term, other: &Pod, namespace_is_selected: bool) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let listed = if own_only {
        other.metadata.namespace == owner.metadata.namespace
    } else {
        term.namespaces.contains(&other.metadata.namespace)
    };
    (listed || namespace_is_selected)
        && selector(term.label_selector.as_ref()).matches(look_up(&other.metadata.labels))
}
