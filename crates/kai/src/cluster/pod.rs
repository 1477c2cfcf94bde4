//! A pod of the snapshot: what does not change in a cycle.

use std::sync::Arc;

use kubernetes::objects::PodView;
use scheduler::pod::SchedulingSpec;

use super::gpu::{GpuRequirement, RequestType};
use super::ids::JobId;
use super::resources::ResourceVector;

/// A pod of the snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub view: Arc<PodView>,
    pub spec: Arc<SchedulingSpec>,
    /// The job that it belongs to.
    pub job: Option<JobId>,
    /// The index of its pod set in the job; `None` if it names a subgroup that the job has not.
    pub pod_set: Option<u32>,
    pub request_type: RequestType,
    /// Its request, with the GPUs of shares.
    pub request: ResourceVector,
    pub gpu: GpuRequirement,
    /// It asks for MIG instances by an annotation.
    pub is_legacy_mig: bool,
    /// It holds a GPU for the pods that share it.
    pub is_reservation: bool,
    /// It is a pod of KAI itself: a reservation, or one that makes an autoscaler add nodes.
    pub is_utility: bool,
}

/// The label that names the subgroup of a pod.
pub(crate) const SUB_GROUP_LABEL: &str = "kai.scheduler/subgroup-name";

impl Pod {
    /// Its subgroup, as labelled.
    pub(crate) fn sub_group(&self) -> Option<&str> {
        self.view.label(SUB_GROUP_LABEL).filter(|name| !name.is_empty())
    }

    /// Whether it requests a share of GPUs or GPU memory.
    pub(crate) fn is_shared_gpu_request(&self) -> bool {
        matches!(self.request_type, RequestType::Fraction | RequestType::GpuMemory)
    }

    /// Whether it requests GPU memory.
    pub(crate) fn is_gpu_memory_request(&self) -> bool {
        self.request_type == RequestType::GpuMemory
    }

    /// Whether it requests MIG instances.
    pub(crate) fn is_mig_request(&self) -> bool {
        self.request_type == RequestType::MigInstance
    }

    /// Whether it requests GPUs in any form.
    pub(crate) fn requires_gpu(&self) -> bool {
        self.gpu.gpus() > 0.0 || self.is_gpu_memory_request() || self.is_mig_request()
    }

    /// Namespace and name.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.view.name.namespace, self.view.name.name)
    }
}
