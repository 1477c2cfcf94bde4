//! The choice of the equivalence group that takes the fastpath (`--fastpath-binpacking-enabled`).

use kubernetes::well_known::HOSTNAME;
use scheduler::node::Node;
use scheduler::pod::SchedulingSpec;

use super::super::super::pod::Pod;
use super::super::super::snapshot::ClusterSnapshot;
use super::super::equivalence_groups::PodEquivalenceGroup;

/// The index in the order of the group that saves most simulation, the last of equals; `None` if none is eligible.
pub(super) fn best_group(
    snapshot: &ClusterSnapshot,
    node: &Node,
    groups: &[PodEquivalenceGroup],
    order: &[usize],
) -> Option<usize> {
    let (mut most_saved, mut best) = (0, None);
    for (position, &group) in order.iter().enumerate() {
        let (count, first) = (groups[group].pods.len() as i64, groups[group].pods[0]);
        let scheduling_spec = &snapshot.filter_snapshot.pod(first).spec;
        let nodes = estimated_node_count(snapshot.pod(first), scheduling_spec, node, count);
        let saved = if nodes > 0 { count - count / nodes } else { 0 };
        if saved >= most_saved && is_fastpath_eligible(scheduling_spec) {
            (most_saved, best) = (saved, Some(position));
        }
    }
    best
}

/// Whether a node that fails for one pod of the group fails for all others, and each new node takes as many as the
/// first.
fn is_fastpath_eligible(scheduling_spec: &SchedulingSpec) -> bool {
    scheduling_spec.spread_constraints.is_empty()
        && scheduling_spec.required_anti_affinity.iter().all(|term| &*term.topology_key == HOSTNAME)
}

/// A rough estimate, from the requests of the first container only.
fn estimated_node_count(pod: &Pod, scheduling_spec: &SchedulingSpec, node: &Node, count: i64) -> i64 {
    let has_host_anti_affinity = scheduling_spec
        .required_anti_affinity
        .iter()
        .any(|term| &*term.topology_key == HOSTNAME && term.selector.matches(|key| pod.labels.get(key)));
    let by_affinity = if has_host_anti_affinity { count } else { 0 };
    let Some(first) = pod.spec.containers.first() else { return by_affinity };
    let node_count_for = |name: &str| {
        let request = first.resources.requests.get(name).map_or(0, |request| request.milli_value());
        to_go_int((count as f64 * to_units(request) / to_units(node.capacity.milli(name))).ceil())
    };
    by_affinity.max(node_count_for("cpu")).max(node_count_for("memory"))
}

fn to_units(milli: i64) -> f64 {
    if milli % 1000 == 0 { (milli / 1000) as f64 } else { milli as f64 * 1e-3 }
}

/// Converts as Go does on amd64: values out of range become the smallest integer.
fn to_go_int(number: f64) -> i64 {
    if number.abs() < 9.2e18 { number as i64 } else { i64::MIN }
}
