//! The GPUs of a node: what is free of them, and the memory of shared ones.

use super::gpu::GpuRequirement;
use super::ids::GpuGroupId;
use super::node::{FreeGpus, Node};
use super::pod::Pod;
use super::resources::{CPU, GPU, MEMORY, ResourceNames};
use super::status::PodStatus;

impl Node {
    /// The memory that a request takes of each of its GPUs here.
    pub(crate) fn requested_gpu_memory(&self, gpu: &GpuRequirement) -> i64 {
        if gpu.memory > 0 { gpu.memory } else { (gpu.portion * self.gpu_memory as f64) as i64 }
    }

    /// The share that a request takes of each of its GPUs here.
    pub(crate) fn requested_gpu_portion(&self, gpu: &GpuRequirement) -> f64 {
        if gpu.memory > 0 { self.portion_of_memory(gpu.memory) } else { gpu.portion }
    }

    /// Memory as a share of a GPU, rounded up to hundredths.
    pub(crate) fn portion_of_memory(&self, memory: i64) -> f64 {
        (memory as f64 / self.gpu_memory as f64 * 100.0).ceil() / 100.0
    }

    /// The request of a pod as queues are charged if it is placed here.
    pub(crate) fn required_quota(&self, pod: &Pod) -> [f64; 3] {
        let gpus = if pod.gpu.mig.is_empty() {
            pod.gpu.count as f64 * self.portion_of_memory(self.requested_gpu_memory(&pod.gpu))
        } else {
            pod.gpu.quota()
        };
        [pod.request.get(CPU), pod.request.get(MEMORY), gpus]
    }

    /// GPUs that are idle, and their memory.
    pub(crate) fn idle_gpus(&self) -> (f64, i64) {
        self.free_gpus.idle
    }

    /// GPUs that are being released, and their memory.
    pub(crate) fn releasing_gpus(&self) -> (f64, i64) {
        self.free_gpus.releasing
    }

    /// GPUs that are idle or being released.
    pub(crate) fn idle_or_releasing_gpus(&self) -> f64 {
        self.free_gpus.idle.0 + self.free_gpus.releasing.0
    }

    /// What is free of shared GPUs, as GPUs.
    pub(crate) fn available_shared_fractions(&self) -> f64 {
        if self.gpu_memory <= 0 {
            return 0.0;
        }
        let in_use = self.shared_gpus.iter().filter(|(_, memory)| memory.used > 0);
        let available = in_use.map(|(_, memory)| self.gpu_memory - memory.allocated + memory.releasing);
        available.filter(|memory| *memory > 0).map(|memory| memory as f64 / self.gpu_memory as f64).sum()
    }

    /// Sums up the free GPUs, after every change of the node.
    pub(super) fn update_free_gpus(&mut self, names: &ResourceNames) {
        self.free_gpus =
            FreeGpus { idle: self.sum_idle_gpus(names), releasing: self.sum_releasing_gpus(names) };
    }

    /// Charges a group's GPU for a pod.
    pub(super) fn add_to_group(&mut self, group: GpuGroupId, status: PodStatus, requested: i64) {
        let is_new = group.index() >= self.known_groups;
        let mut memory = self.shared_gpus.get(group);
        memory.used += requested;
        // The number of GPUs in use counts this group from here on.
        self.shared_gpus.set(group, memory, is_new);
        match status {
            PodStatus::Releasing => {
                memory.releasing += requested;
                memory.allocated += requested;
                memory.was_allocated = true;
                if memory.used == memory.releasing {
                    if !memory.is_marked_releasing {
                        self.change_releasing_gpus(1.0);
                        memory.is_marked_releasing = true;
                    }
                    if self.has_too_many_gpus() {
                        self.change_idle_gpus(-1.0);
                    }
                }
            }
            PodStatus::Pipelined => {
                memory.releasing -= requested;
                if memory.used - requested == memory.releasing + requested {
                    self.change_releasing_gpus(-1.0);
                }
            }
            _ => {
                memory.allocated += requested;
                memory.was_allocated = true;
                if memory.used <= requested && self.has_too_many_gpus() {
                    self.change_idle_gpus(-1.0);
                }
                if memory.is_marked_releasing {
                    self.change_releasing_gpus(-1.0);
                    memory.is_marked_releasing = false;
                }
            }
        }
        self.shared_gpus.set(group, memory, is_new);
    }

    /// Takes the charge for a pod back.
    pub(super) fn remove_from_group(&mut self, group: GpuGroupId, status: PodStatus, requested: i64) {
        let is_new = group.index() >= self.known_groups;
        let mut memory = self.shared_gpus.get(group);
        memory.used -= requested;
        // The number of GPUs in use does not count this pod any more.
        self.shared_gpus.set(group, memory, false);
        match status {
            PodStatus::Releasing => {
                memory.releasing -= requested;
                memory.allocated -= requested;
                if memory.used <= 0 {
                    if !self.has_too_many_gpus() {
                        self.change_idle_gpus(1.0);
                    }
                    if memory.is_marked_releasing {
                        self.change_releasing_gpus(-1.0);
                        memory.is_marked_releasing = false;
                    }
                }
            }
            PodStatus::Pipelined => {
                memory.releasing += requested;
                let was_first = memory.used + requested == memory.releasing - requested
                    || (memory.used == 0 && memory.releasing == 0);
                if was_first {
                    self.change_releasing_gpus(1.0);
                }
            }
            _ => {
                memory.allocated -= requested;
                if memory.used <= 0 && !self.has_too_many_gpus() {
                    self.change_idle_gpus(1.0);
                }
                if memory.is_all_releasing() && !memory.is_marked_releasing {
                    self.change_releasing_gpus(1.0);
                    memory.is_marked_releasing = true;
                }
            }
        }
        self.shared_gpus.set(group, memory, is_new);
    }

    fn sum_idle_gpus(&self, names: &ResourceNames) -> (f64, i64) {
        let (mut shared, mut shared_memory) = (0.0, 0_i64);
        for (_, memory) in self.shared_gpus.iter().filter(|(_, memory)| memory.allocated > 0) {
            shared += 1.0 - self.portion_of_memory(memory.allocated);
            shared_memory += self.gpu_memory - memory.allocated;
        }
        self.with_whole_gpus(shared, shared_memory, self.idle.total_gpus(names))
    }

    fn sum_releasing_gpus(&self, names: &ResourceNames) -> (f64, i64) {
        let (mut shared, mut shared_memory) = (0.0, 0_i64);
        for (_, memory) in self.shared_gpus.iter() {
            if memory.releasing > 0 && !memory.is_all_releasing() {
                shared += self.portion_of_memory(memory.releasing);
                shared_memory += memory.releasing;
            }
        }
        self.with_whole_gpus(shared, shared_memory, self.releasing.total_gpus(names))
    }

    fn with_whole_gpus(&self, shared: f64, shared_memory: i64, whole: f64) -> (f64, i64) {
        let memory = (whole as i64).saturating_mul(self.gpu_memory);
        (shared + whole, shared_memory.saturating_add(memory))
    }

    /// The number of GPUs in use, shared ones included.
    fn used_gpu_count(&self) -> i64 {
        (self.used.get(GPU) as i64).saturating_add(self.shared_gpus.used_count())
    }

    fn has_too_many_gpus(&self) -> bool {
        self.gpu_count < (self.idle.get(GPU) as i64).saturating_add(self.used_gpu_count())
    }

    fn change_idle_gpus(&mut self, by: f64) {
        self.idle.set(GPU, self.idle.get(GPU) + by);
    }

    fn change_releasing_gpus(&mut self, by: f64) {
        self.releasing.set(GPU, self.releasing.get(GPU) + by);
    }
}
