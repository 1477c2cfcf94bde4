//! Affinity and anti-affinity between pods, each pair of pods compared each time.

use std::collections::BTreeMap;

use scheduler::{Plugin, Refusal};

use super::cluster::Cluster;
use super::objects::{Labels, Node, Pod, Term, look_up, selector};

/// Whether the pod requires anything of others, or others anywhere require it to stay away.
pub(crate) fn matters(cluster: &Cluster, pod: &Pod) -> bool {
    let own = &pod.spec.affinity;
    let labels = cluster.namespace_labels(&pod.metadata.namespace);
    let objects = |(other, home): (&Pod, &Node)| {
        let mut terms = other.spec.affinity.pod_anti_affinity.required.iter();
        terms.any(|term| home.label(&term.topology_key).is_some() && placed_means(other, term, pod, &labels))
    };
    !own.pod_affinity.required.is_empty()
        || !own.pod_anti_affinity.required.is_empty()
        || cluster.placed().any(objects)
}

/// Why a node is refused for the pods near it, if it is.
pub(crate) fn filter(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Refusal> {
    let wanted = &pod.spec.affinity.pod_affinity.required;
    let near = wanted.iter().all(|term| has_company(cluster, pod, term, node));
    let has_labels = wanted.iter().all(|term| node.label(&term.topology_key).is_some());
    let alone = has_labels && nobody_anywhere(cluster, pod) && means_all(cluster, pod, pod);
    if !(near || alone) {
        let reason = "node(s) didn't match pod affinity rules";
        return Some(Refusal::unresolvable(Plugin::InterPodAffinity, reason));
    }
    let unwanted = &pod.spec.affinity.pod_anti_affinity.required;
    let has =
        |term: &Term| neighbours(cluster, term, node).any(|other| incoming_means(cluster, pod, term, other));
    if unwanted.iter().any(has) {
        let reason = "node(s) didn't match pod anti-affinity rules";
        return Some(Refusal::unschedulable(Plugin::InterPodAffinity, reason));
    }
    let labels = cluster.namespace_labels(&pod.metadata.namespace);
    let objects = cluster.placed().any(|(other, home)| {
        let mut terms = other.spec.affinity.pod_anti_affinity.required.iter();
        terms.any(|term| same_place(term, home, node) && placed_means(other, term, pod, &labels))
    });
    let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
    objects.then(|| Refusal::unschedulable(Plugin::InterPodAffinity, reason))
}

/// Raw and normalised scores; `None` if nobody has anything to say.
pub(crate) fn score(cluster: &Cluster, pod: &Pod, nodes: &[&Node]) -> Option<(Vec<i64>, Vec<i64>)> {
    let mut sums: BTreeMap<(String, String), i64> = BTreeMap::new();
    let own_labels = cluster.namespace_labels(&pod.metadata.namespace);
    for (other, home) in cluster.placed() {
        let mut add = |term: &Term, weight: i64| {
            if let Some(value) = home.label(&term.topology_key) {
                *sums.entry((term.topology_key.clone(), value.to_owned())).or_default() += weight;
            }
        };
        let (mine, theirs) = (&pod.spec.affinity, &other.spec.affinity);
        for (list, sign) in [(&mine.pod_affinity, 1), (&mine.pod_anti_affinity, -1)] {
            for preferred in &list.preferred {
                if incoming_means(cluster, pod, &preferred.pod_affinity_term, other) {
                    add(&preferred.pod_affinity_term, sign * preferred.weight);
                }
            }
        }
        for term in &theirs.pod_affinity.required {
            if placed_means(other, term, pod, &own_labels) {
                add(term, 1);
            }
        }
        for (list, sign) in [(&theirs.pod_affinity, 1), (&theirs.pod_anti_affinity, -1)] {
            for preferred in &list.preferred {
                if placed_means(other, &preferred.pod_affinity_term, pod, &own_labels) {
                    add(&preferred.pod_affinity_term, sign * preferred.weight);
                }
            }
        }
    }
    if sums.is_empty() {
        return None;
    }
    let total = |node: &&Node| {
        let mine = sums.iter().filter(|((key, value), _)| node.label(key) == Some(value));
        mine.map(|(_, sum)| sum).sum()
    };
    let raw: Vec<i64> = nodes.iter().map(total).collect();
    let (least, most) = (raw.iter().min().copied()?, raw.iter().max().copied()?);
    let normalise = |score: &i64| {
        if most == least {
            return 0;
        }
        (100.0 * ((score - least) as f64 / (most - least) as f64)) as i64
    };
    let normalised = raw.iter().map(normalise).collect();
    Some((raw, normalised))
}

/// Whether somebody who is meant by all required terms is near the node by this one.
fn has_company(cluster: &Cluster, pod: &Pod, term: &Term, node: &Node) -> bool {
    neighbours(cluster, term, node).any(|other| means_all(cluster, pod, other))
}

/// Whether nobody who is meant by all required terms is on a node that has any of their labels.
fn nobody_anywhere(cluster: &Cluster, pod: &Pod) -> bool {
    !cluster.placed().any(|(other, home)| {
        let mut terms = pod.spec.affinity.pod_affinity.required.iter();
        terms.any(|term| home.label(&term.topology_key).is_some()) && means_all(cluster, pod, other)
    })
}

fn means_all(cluster: &Cluster, pod: &Pod, other: &Pod) -> bool {
    let terms = &pod.spec.affinity.pod_affinity.required;
    !terms.is_empty() && terms.iter().all(|term| incoming_means(cluster, pod, term, other))
}

fn neighbours<'a>(cluster: &'a Cluster, term: &'a Term, node: &'a Node) -> impl Iterator<Item = &'a Pod> {
    cluster.placed().filter(|(_, home)| same_place(term, home, node)).map(|(other, _)| other)
}

fn same_place(term: &Term, a: &Node, b: &Node) -> bool {
    let value = a.label(&term.topology_key);
    value.is_some() && value == b.label(&term.topology_key)
}

/// Whether a term of the pod that is to be placed means another pod.
///
/// The namespace selector is applied to the namespaces there are, and then, which is an error of the original, once more
/// to no labels at all.
fn incoming_means(cluster: &Cluster, pod: &Pod, term: &Term, other: &Pod) -> bool {
    let by_labels = selector(term.namespace_selector.as_ref());
    let known = cluster.namespaces.iter().any(|namespace| {
        namespace.metadata.name == other.metadata.namespace
            && by_labels.matches(look_up(&namespace.metadata.labels))
    });
    means(pod, term, other, known || by_labels.matches(|_| None))
}

/// Whether a term of a pod that is placed means the one that is to be placed, whose namespace has these labels.
fn placed_means(placed: &Pod, term: &Term, pod: &Pod, namespace_labels: &Labels) -> bool {
    means(placed, term, pod, selector(term.namespace_selector.as_ref()).matches(look_up(namespace_labels)))
}

fn means(owner: &Pod, term: &Term, other: &Pod, namespace_is_selected: bool) -> bool {
    let own_only = term.namespaces.is_empty() && term.namespace_selector.is_none();
    let listed = if own_only {
        other.metadata.namespace == owner.metadata.namespace
    } else {
        term.namespaces.contains(&other.metadata.namespace)
    };
    (listed || namespace_is_selected)
        && selector(term.label_selector.as_ref()).matches(look_up(&other.metadata.labels))
}
