//! A node as the scheduler sees it, and the usage of a node by its pods.

use std::ops::Deref;
use std::sync::Arc;

use kubernetes::amounts::{ResourceAmounts, ScalarResourceNames};
use kubernetes::objects::NodeView;
use kubernetes::requests::PODS;
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};

use super::ids::PodId;
use super::pod::{HostPort, Pod};

/// A node: its view, with amounts that can be compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    /// The view that it was made from.
    pub view: Arc<NodeView>,
    /// `status.allocatable`.
    pub allocatable: ResourceAmounts,
    /// The maximum number of pods.
    pub allowed_pods: i64,
}

/// The usage of a node by its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUsage {
    /// In kube-scheduler's order: appended when added, and replaced by the last one when removed.
    pub pods: Vec<PodId>,
    /// The sum of their requests.
    pub requested: ResourceAmounts,
    /// CPU requests with a default for containers without one, as used for scoring.
    pub non_zero_cpu: i64,
    /// The same for memory.
    pub non_zero_memory: i64,
    /// A set, as in kube-scheduler: a port that two pods use is freed when the first of them is removed.
    pub used_ports: Vec<HostPort>,
    /// The unreadable pods among them.
    pub unreadable_pods: Vec<PodId>,
}

// === impl Node ===

impl Node {
    /// The node that a view shows. An unreadable one is not feasible for any pod.
    pub fn new(view: Arc<NodeView>, scalars: &mut ScalarResourceNames) -> Node {
        Node {
            allocatable: scalars.amounts(&view.allocatable),
            allowed_pods: view.allocatable.value(PODS),
            view,
        }
    }

    /// The zone under which the node tree lists the node.
    pub(crate) fn zone(&self) -> Zone {
        let label = |old: &str, new: &str| {
            let value = self.labels.get_shared(old).or_else(|| self.labels.get_shared(new));
            value.cloned().unwrap_or_default()
        };
        Zone { region: label(BETA_REGION, REGION), zone: label(BETA_ZONE, ZONE) }
    }
}

impl Deref for Node {
    type Target = NodeView;

    fn deref(&self) -> &NodeView {
        &self.view
    }
}

/// A zone of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Zone {
    region: Arc<str>,
    zone: Arc<str>,
}

// === impl NodeUsage ===

impl NodeUsage {
    pub(crate) fn add_pod(&mut self, id: PodId, pod: &Pod) {
        self.pods.push(id);
        self.requested.add(&pod.usage.requested);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_add(pod.usage.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_add(pod.usage.non_zero_memory);
        for port in &pod.spec.host_ports {
            if !self.used_ports.contains(port) {
                self.used_ports.push(port.clone());
            }
        }
        if pod.read_error.is_some() {
            self.unreadable_pods.push(id);
        }
    }

    /// Returns whether the pod was on the node.
    pub(crate) fn remove_pod(&mut self, id: PodId, pod: &Pod) -> bool {
        let Some(position) = position(&self.pods, id) else { return false };
        self.pods.swap_remove(position);
        self.requested.subtract(&pod.usage.requested);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_sub(pod.usage.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_sub(pod.usage.non_zero_memory);
        self.used_ports.retain(|port| !pod.spec.host_ports.contains(port));
        self.unreadable_pods.retain(|other| *other != id);
        true
    }
}

/// The position of a pod. Whole chunks are compared without branches, which is vectorized: a node may have thousands of
/// pods.
fn position(pods: &[PodId], id: PodId) -> Option<usize> {
    let (chunks, rest) = pods.as_chunks::<16>();
    let has_id = |chunk: &[PodId; 16]| chunk.iter().fold(false, |found, other| found | (*other == id));
    let chunk = chunks.iter().position(has_id);
    let start = chunk.map_or(pods.len() - rest.len(), |chunk| chunk * 16);
    pods[start..].iter().position(|other| *other == id).map(|offset| start + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_found_in_and_after_whole_chunks() {
        for len in 0..50 {
            let pods: Vec<PodId> = (0..len).map(PodId).collect();
            for id in 0..=len {
                let expected = (id < len).then_some(id as usize);
                assert_eq!(position(&pods, PodId(id)), expected, "{id} of {len}");
            }
        }
    }
}
