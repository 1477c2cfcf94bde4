//! A node: its resource vectors, the pods on it, and what the filters read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::NodeView;
use scheduler::pod::HostPort;

use super::fit_errors::FitReason;
use super::gpu::{GpuRequirement, ReceivedType, RequestType};
use super::ids::PodId;
use super::pod::Pod;
use super::pod_info::{GpuGroups, PodInfo};
use super::resources::{GPU, ResourceNames, ResourceVector, is_mig_resource, node_amounts};
use super::shared_gpus::SharedGpus;
use super::status::PodStatus;

/// A node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub view: Arc<NodeView>,
    pub allocatable: ResourceVector,
    pub idle: ResourceVector,
    pub used: ResourceVector,
    pub releasing: ResourceVector,
    /// The pods on it, as they were when they were added.
    pods: BTreeMap<PodId, PodOnNode>,
    /// Of each GPU, in MiB.
    pub gpu_memory: i64,
    /// Whether a label says so.
    pub is_gpu_memory_known: bool,
    /// The number of GPUs by a label, else the allocatable ones.
    pub gpu_count: i64,
    pub mig: MigMode,
    /// The reasons why it is not ready.
    pub condition_failures: Vec<FitReason>,
    pub is_gpu_worker: bool,
    pub is_cpu_worker: bool,
    pub shared_gpus: SharedGpus,
    /// Summed up after every change.
    pub(super) free_gpus: FreeGpus,
    /// The pods that ask for MIG instances by an annotation.
    legacy_mig_pods: Vec<PodId>,
    /// The pods that other pods' affinity sees, in which a pod that moved between GPUs is twice.
    affinity_pods: Vec<PodId>,
    /// Those of them that have affinity themselves.
    pods_with_affinity: Vec<PodId>,
    /// A set, as in kube-scheduler: a port that two pods use is freed when the first of them is removed.
    pub used_ports: Vec<HostPort>,
    /// The number of GPU groups that the snapshot names; later ones are new.
    pub(super) known_groups: usize,
}

/// A pod on a node, as it was when it was added.
#[derive(Clone, Debug)]
pub(crate) struct PodOnNode {
    pub status: PodStatus,
    pub gpu_groups: GpuGroups,
    accepted: ResourceVector,
    received: ReceivedType,
}

/// The free GPUs of a node: their number, shared ones by their free part, and their memory in MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct FreeGpus {
    pub idle: (f64, i64),
    pub releasing: (f64, i64),
}

/// The MIG strategy of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MigMode {
    /// It has no MIG instances.
    Off,
    /// MIG without a strategy.
    None,
    /// Instances look like whole GPUs.
    Single,
    /// Instances are requested by profile.
    Mixed,
}

/// The pod is on the node already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AlreadyOnNode;

/// The pod is not on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOnNode;

/// The memory of GPUs that no label tells, in MiB.
pub(crate) const DEFAULT_GPU_MEMORY: i64 = 100;
/// The label of nodes for pods with GPUs.
pub(crate) const GPU_WORKER_LABEL: &str = "node-role.kubernetes.io/gpu-worker";
/// The label of nodes for pods without GPUs.
pub(crate) const CPU_WORKER_LABEL: &str = "node-role.kubernetes.io/cpu-worker";

const GPU_MEMORY_LABEL: &str = "nvidia.com/gpu.memory";
const GPU_COUNT_LABEL: &str = "nvidia.com/gpu.count";
const MIG_LABEL: &str = "node-role.kubernetes.io/mig-enabled";
const MIG_STRATEGY_LABEL: &str = "nvidia.com/mig.strategy";
/// From this value on a label with GPU memory is in bytes.
const MIB_OF_A_TIB: i64 = 1 << 20;

impl Node {
    /// A node without pods.
    pub(crate) fn new(view: Arc<NodeView>, names: &ResourceNames, known_groups: usize) -> Node {
        let allocatable = node_amounts(view.allocatable.iter(), names);
        let memory_label = view.label(GPU_MEMORY_LABEL).and_then(|text| text.parse::<i64>().ok());
        let count_label = view.label(GPU_COUNT_LABEL).and_then(|text| text.parse::<i64>().ok());
        let mut node = Node {
            idle: allocatable.clone(),
            used: ResourceVector::zero(names),
            releasing: ResourceVector::zero(names),
            pods: BTreeMap::new(),
            gpu_memory: memory_label.map_or(DEFAULT_GPU_MEMORY, gpu_memory),
            is_gpu_memory_known: memory_label.is_some(),
            gpu_count: count_label.unwrap_or(allocatable.get(GPU) as i64),
            mig: mig_mode(&view, &allocatable, names),
            condition_failures: condition_failures(&view),
            is_gpu_worker: view.label(GPU_WORKER_LABEL).is_some(),
            is_cpu_worker: view.label(CPU_WORKER_LABEL).is_some(),
            shared_gpus: SharedGpus::default(),
            free_gpus: FreeGpus::default(),
            legacy_mig_pods: Vec::new(),
            affinity_pods: Vec::new(),
            pods_with_affinity: Vec::new(),
            used_ports: Vec::new(),
            known_groups,
            allocatable,
            view,
        };
        node.update_free_gpus(names);
        node
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.view.name
    }

    /// Whether its conditions allow pods.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition_failures.is_empty()
    }

    /// Whether it has no GPUs.
    pub(crate) fn is_cpu_only(&self) -> bool {
        self.mig == MigMode::Off && self.allocatable.get(GPU) <= 0.0
    }

    /// The pods on it.
    pub(crate) fn pods(&self) -> impl Iterator<Item = (PodId, &PodOnNode)> {
        self.pods.iter().map(|(pod, on_node)| (*pod, on_node))
    }

    /// A pod on it.
    pub(crate) fn pod(&self, pod: PodId) -> Option<&PodOnNode> {
        self.pods.get(&pod)
    }

    pub(crate) fn has_legacy_mig_pods(&self) -> bool {
        !self.legacy_mig_pods.is_empty()
    }

    /// The pods that other pods' affinity sees.
    pub(crate) fn affinity_pods(&self) -> &[PodId] {
        &self.affinity_pods
    }

    /// Those of them that have affinity themselves.
    pub(crate) fn pods_with_affinity(&self) -> &[PodId] {
        &self.pods_with_affinity
    }

    /// Adds a pod and sets what it received.
    pub(crate) fn add_pod(
        &mut self,
        info: &mut PodInfo,
        pod: &Pod,
        names: &ResourceNames,
    ) -> Result<(), AlreadyOnNode> {
        self.set_accepted(info, pod, names);
        if self.pods.contains_key(&info.pod) {
            return Err(AlreadyOnNode);
        }
        self.put_pod(info, pod, names);
        Ok(())
    }

    /// Adds a pod on other GPUs than those it is being released from, which stay charged.
    pub(crate) fn add_pod_on_other_gpus(&mut self, info: &mut PodInfo, pod: &Pod, names: &ResourceNames) {
        self.set_accepted(info, pod, names);
        self.pods.remove(&info.pod);
        self.put_pod(info, pod, names);
    }

    /// Removes a pod.
    pub(crate) fn remove_pod(
        &mut self,
        id: PodId,
        pod: &Pod,
        names: &ResourceNames,
    ) -> Result<(), NotOnNode> {
        let on_node = self.pods.remove(&id).ok_or(NotOnNode)?;
        let amounts = self.tracked_amounts(&on_node, pod);
        self.used.subtract(&amounts);
        match on_node.status {
            PodStatus::Releasing => {
                self.releasing.subtract(&amounts);
                self.idle.add(&amounts);
            }
            PodStatus::Pipelined => self.releasing.add(&amounts),
            _ => self.idle.add(&amounts),
        }
        if on_node.received == ReceivedType::Fraction {
            let memory = self.requested_gpu_memory(&pod.gpu);
            for &group in &on_node.gpu_groups {
                self.remove_from_group(group, on_node.status, memory);
            }
        }
        self.update_free_gpus(names);
        remove_one(&mut self.affinity_pods, id);
        if pod.spec.has_affinity() {
            remove_one(&mut self.pods_with_affinity, id);
        }
        self.used_ports.retain(|port| !pod.spec.host_ports.contains(port));
        Ok(())
    }

    /// Removes a pod and adds it again in its present state.
    pub(crate) fn update_pod(
        &mut self,
        info: &mut PodInfo,
        pod: &Pod,
        names: &ResourceNames,
    ) -> Result<(), NotOnNode> {
        self.remove_pod(info.pod, pod, names)?;
        self.set_accepted(info, pod, names);
        self.put_pod(info, pod, names);
        Ok(())
    }

    fn put_pod(&mut self, info: &PodInfo, pod: &Pod, names: &ResourceNames) {
        let on_node = PodOnNode {
            status: info.status,
            gpu_groups: info.gpu_groups.clone(),
            accepted: info.accepted.clone(),
            received: info.received,
        };
        if pod.is_legacy_mig {
            self.legacy_mig_pods.push(info.pod);
        }
        let amounts = self.tracked_amounts(&on_node, pod);
        self.used.add(&amounts);
        match info.status {
            PodStatus::Releasing => {
                self.releasing.add(&amounts);
                self.idle.subtract(&amounts);
            }
            PodStatus::Pipelined => self.releasing.subtract(&amounts),
            _ => self.idle.subtract(&amounts),
        }
        if info.is_shared_gpu_allocation() {
            let memory = self.requested_gpu_memory(&pod.gpu);
            for &group in &info.gpu_groups {
                self.add_to_group(group, info.status, memory);
            }
        }
        self.update_free_gpus(names);
        self.pods.insert(info.pod, on_node);
        self.affinity_pods.push(info.pod);
        if pod.spec.has_affinity() {
            self.pods_with_affinity.push(info.pod);
        }
        for port in &pod.spec.host_ports {
            if !self.used_ports.contains(port) {
                self.used_ports.push(port.clone());
            }
        }
    }

    /// What a pod takes of the node's vectors: shared GPUs are counted by group, and resources that the node has not
    /// are not counted at all.
    fn tracked_amounts(&self, on_node: &PodOnNode, pod: &Pod) -> ResourceVector {
        let mut amounts = on_node.accepted.clone();
        if on_node.received == ReceivedType::Fraction || pod.is_reservation {
            amounts.set(GPU, 0.0);
        }
        for (index, allocatable) in self.allocatable.amounts().iter().enumerate() {
            if *allocatable == 0.0 {
                amounts.set(index, 0.0);
            }
        }
        amounts
    }

    fn set_accepted(&self, info: &mut PodInfo, pod: &Pod, names: &ResourceNames) {
        if !info.status.is_active_used() {
            return;
        }
        (info.received, info.accepted_gpu) = match pod.request_type {
            RequestType::MigInstance => {
                (ReceivedType::MigInstance, GpuRequirement::of_mig(pod.gpu.mig.clone()))
            }
            RequestType::Fraction | RequestType::GpuMemory => {
                let portion = self.requested_gpu_portion(&pod.gpu);
                let memory = self.requested_gpu_memory(&pod.gpu);
                (ReceivedType::Fraction, GpuRequirement::of_devices(pod.gpu.count, portion, memory))
            }
            RequestType::Regular => (ReceivedType::Regular, GpuRequirement::of_gpus(pod.gpu.gpus(), 0)),
        };
        info.accepted = pod.request.clone();
        info.accepted.set(GPU, info.accepted_gpu.gpus());
        for (name, count) in &info.accepted_gpu.mig {
            if let Some(index) = names.index(name) {
                info.accepted.set(index, *count as f64);
            }
        }
    }
}

/// The label's value in MiB, in whole hundreds.
fn gpu_memory(label: i64) -> i64 {
    let mib = if label < MIB_OF_A_TIB { label } else { label / (1 << 20) };
    mib - mib % 100
}

fn mig_mode(view: &NodeView, allocatable: &ResourceVector, names: &ResourceNames) -> MigMode {
    let is_enabled = match view.label(MIG_LABEL) {
        Some(label) => matches!(label, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => {
            let mut amounts = names.names().iter().zip(allocatable.amounts());
            amounts.any(|(name, amount)| is_mig_resource(name) && *amount > 0.0)
        }
    };
    match view.label(MIG_STRATEGY_LABEL) {
        _ if !is_enabled => MigMode::Off,
        Some("single") => MigMode::Single,
        Some("mixed") => MigMode::Mixed,
        _ => MigMode::None,
    }
}

fn condition_failures(view: &NodeView) -> Vec<FitReason> {
    let mut failures = Vec::new();
    if view.unschedulable {
        failures.push(Cow::Borrowed("node is unschedulable"));
    }
    for condition in &view.conditions {
        match &*condition.kind {
            "Ready" if *condition.status != *"True" => {
                failures.push(Cow::Borrowed("node has NotReady condition"));
            }
            "MemoryPressure" | "DiskPressure" | "PIDPressure" | "NetworkUnavailable"
                if *condition.status != *"False" =>
            {
                failures.push(Cow::Owned(format!("node has {} condition", condition.kind)));
            }
            _ => {}
        }
    }
    failures
}

/// Removes one occurrence; the last one takes its place.
fn remove_one(pods: &mut Vec<PodId>, pod: PodId) {
    if let Some(index) = pods.iter().position(|other| *other == pod) {
        pods.swap_remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_memory_is_in_hundreds_of_mebibytes() {
        assert_eq!(gpu_memory(81_251), 81_200);
        assert_eq!(gpu_memory(16_384 << 20), 16_300);
        assert_eq!(gpu_memory(99), 0);
    }
}
