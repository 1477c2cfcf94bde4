//! Which group of pods gains most from being packed by arithmetic (`--fastpath-binpacking-enabled`).

use kubernetes::read::{nullable, view};
use kubernetes::requests::ResourceList;
use scheduler::pod::Shape;
use serde::Deserialize;

use super::super::super::node::Node;
use super::super::super::pod::Pod;
use super::super::super::snapshot::Snapshot;
use super::super::pods::PodGroup;

#[derive(Deserialize)]
struct PodJson<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    spec: SpecJson<'a>,
}

#[derive(Default, Deserialize)]
struct SpecJson<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    containers: Vec<ContainerJson<'a>>,
}

#[derive(Deserialize)]
struct ContainerJson<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    resources: ResourcesJson<'a>,
}

#[derive(Default, Deserialize)]
struct ResourcesJson<'a> {
    #[serde(borrow, default)]
    requests: ResourceList<'a>,
}

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The place in the order of the group that saves most steps, the last of equals; `None` if none may.
pub(super) fn best(snapshot: &Snapshot, node: &Node, groups: &[PodGroup], order: &[usize]) -> Option<usize> {
    let (mut most_saved, mut best) = (0, None);
    for (place, &group) in order.iter().enumerate() {
        let (count, first) = (groups[group].pods.len() as i64, groups[group].pods[0]);
        let shape = &snapshot.trial.pod(first).shape;
        let nodes = nodes_needed(snapshot.pod(first), shape, node, count);
        let saved = if nodes > 0 { count - count / nodes } else { 0 };
        if saved >= most_saved && may_be_fast(shape) {
            (most_saved, best) = (saved, Some(place));
        }
    }
    best
}

/// A node that has refused one pod of the group refuses all others, and each new node takes as many as the first.
fn may_be_fast(shape: &Shape) -> bool {
    shape.spread.is_empty() && shape.required_anti_affinity.iter().all(|term| &*term.key == HOSTNAME)
}

/// A guess, from the first container alone.
fn nodes_needed(pod: &Pod, shape: &Shape, node: &Node, count: i64) -> i64 {
    let repels_its_like = shape
        .required_anti_affinity
        .iter()
        .any(|term| &*term.key == HOSTNAME && term.selector.matches(|key| pod.labels.get(key)));
    let by_affinity = if repels_its_like { count } else { 0 };
    let json = view::<PodJson<'_>>(&pod.object);
    let Some(first) = json.as_ref().ok().and_then(|json| json.spec.containers.first()) else {
        return by_affinity;
    };
    let by = |name: &str| {
        let asked = first.resources.requests.get(name).map_or(0, |asked| asked.milli_value());
        to_int((count as f64 * in_units(asked) / in_units(node.capacity.milli(name))).ceil())
    };
    by_affinity.max(by("cpu")).max(by("memory"))
}

fn in_units(milli: i64) -> f64 {
    if milli % 1000 == 0 { (milli / 1000) as f64 } else { milli as f64 * 1e-3 }
}

/// As Go converts on amd64: what is no number of 64 bits becomes the least one.
fn to_int(number: f64) -> i64 {
    if number.abs() < 9.2e18 { number as i64 } else { i64::MIN }
}
