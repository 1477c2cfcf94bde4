//! The pods of a job that are placed next, and those that are evicted next.

use std::sync::Arc;

use super::Session;
use super::heap;
use crate::cluster::ids::{JobId, PodInfoId};
use crate::cluster::resources::{GPU, MigProfile, ResourceVector};
use crate::cluster::sub_group::Member;

impl Session {
    /// The pods of a job that are placed next: those that it still needs, or else a single one. Pods that the statement
    /// evicted count only if the placement is not real.
    pub(crate) fn tasks_to_allocate(&mut self, job: JobId, is_real: bool) -> Arc<[PodInfoId]> {
        if let Some(tasks) = &self.cluster.job(job).tasks_to_allocate {
            return tasks.clone();
        }
        let tasks: Arc<[PodInfoId]> = self.collect_from_set(job, 0, is_real).into();
        // The original does not keep an empty list.
        if !tasks.is_empty() {
            self.cluster.job_mut(job).tasks_to_allocate = Some(tasks.clone());
        }
        tasks
    }

    /// Computes what the pods request that are placed next, unless that is known.
    pub(crate) fn compute_tasks_to_allocate_resources(&mut self, job: JobId, is_real: bool) {
        if self.cluster.job(job).tasks_to_allocate_resources.is_some() {
            return;
        }
        let tasks = self.tasks_to_allocate(job, is_real);
        let mut resources = ResourceVector::zero(&self.cluster.names);
        for &info in &*tasks {
            if !self.cluster.info(info).should_allocate(is_real) {
                continue;
            }
            let pod = self.cluster.pod_of(info);
            resources.add(&pod.request);
            if pod.is_gpu_memory_request()
                && let Some(memory) = self.cluster.min_gpu_memory
            {
                resources.set(GPU, resources.get(GPU) + pod.gpu.memory_as_gpus(memory));
            }
        }
        self.cluster.job_mut(job).tasks_to_allocate_resources = Some(resources);
    }

    /// What the pods request that are placed next.
    pub(crate) fn tasks_to_allocate_resources(&mut self, job: JobId, is_real: bool) -> ResourceVector {
        self.compute_tasks_to_allocate_resources(job, is_real);
        let resources = self.cluster.job(job).tasks_to_allocate_resources.clone();
        resources.expect("it was just computed")
    }

    /// The GPUs and the GPU memory that the pods request that are placed next.
    pub(crate) fn tasks_to_allocate_gpus(&mut self, job: JobId, is_real: bool) -> (f64, i64) {
        let (mut gpus, mut memory) = (0.0, 0_i64);
        for &info in &*self.tasks_to_allocate(job, is_real) {
            let requirement = &self.cluster.pod_of(info).gpu;
            gpus += requirement.gpus();
            memory = memory.saturating_add(requirement.memory);
            for (name, count) in &requirement.mig {
                if let Some(profile) = MigProfile::parse(name) {
                    gpus += profile.gpus.wrapping_mul(*count) as f64;
                    memory = memory.saturating_add(profile.memory.saturating_mul(*count));
                }
            }
        }
        (gpus, memory)
    }

    /// Whether a job has any pod left to place.
    pub(crate) fn has_tasks_to_allocate(&self, job: JobId, is_real: bool) -> bool {
        let cluster = &self.cluster;
        cluster.job(job).infos().any(|info| cluster.info(info).should_allocate(is_real))
    }

    /// The pods of a job that are evicted next: one that it does not need, or a member that it does not need, or else
    /// all. Also returns whether others are left.
    pub(crate) fn tasks_to_evict(&self, job: JobId) -> (Vec<PodInfoId>, bool) {
        let mut tasks = self.collect_elastic_eviction(job, 0);
        if tasks.is_empty() {
            tasks = self.collect_all_allocated(job, Member::Set(0));
        }
        let are_others_left = (tasks.len() as i64) < self.cluster.job(job).active_allocated_count();
        (tasks, are_others_left)
    }

    fn collect_from_set(&self, job: JobId, set: usize, is_real: bool) -> Vec<PodInfoId> {
        let tree = &self.cluster.job(job).tree;
        let members = self.ordered_members(job, set);
        if !tree.is_satisfied(set) {
            // All that are needed, not only those that are missing: satisfied ones come last.
            let needed = usize::try_from(tree.needed_members(set)).unwrap_or(0);
            let needed = members.into_iter().take(needed);
            return needed.flat_map(|member| self.collect_needed(job, member, is_real)).collect();
        }
        let mut lists = members.into_iter().map(|member| match member {
            Member::Set(set) => self.collect_from_set(job, set, is_real),
            Member::PodSet(pod_set) => self.collect_from_pod_set(job, pod_set, is_real),
        });
        lists.find(|tasks| !tasks.is_empty()).unwrap_or_default()
    }

    fn collect_needed(&self, job: JobId, member: Member, is_real: bool) -> Vec<PodInfoId> {
        let tree = &self.cluster.job(job).tree;
        match member {
            Member::Set(set) if tree.is_satisfied(set) => Vec::new(),
            Member::Set(set) => self.collect_from_set(job, set, is_real),
            Member::PodSet(pod_set) if tree.pod_sets[pod_set].is_satisfied() => Vec::new(),
            Member::PodSet(pod_set) => self.collect_from_pod_set(job, pod_set, is_real),
        }
    }

    /// The pods that a pod set still needs, or else a single one.
    fn collect_from_pod_set(&self, job: JobId, pod_set: usize, is_real: bool) -> Vec<PodInfoId> {
        let pod_set = &self.cluster.job(job).tree.pod_sets[pod_set];
        let missing = i64::from(pod_set.min_available) - pod_set.active_allocated() as i64;
        let count = usize::try_from(missing.max(1)).expect("it is positive");
        let candidates = pod_set.infos().filter(|info| self.cluster.info(*info).should_allocate(is_real));
        self.first_pods(candidates, count, |left, right| self.is_pod_before(*left, *right))
    }

    fn collect_elastic_eviction(&self, job: JobId, set: usize) -> Vec<PodInfoId> {
        let tree = &self.cluster.job(job).tree;
        let satisfied = tree.satisfied_members(set);
        if satisfied == 0 {
            return Vec::new();
        }
        let members = self.reverse_ordered_members(job, set);
        if self.has_elastic_surplus(job, set) {
            let mut lists = members.iter().map(|member| match *member {
                Member::Set(set) => self.collect_elastic_eviction(job, set),
                Member::PodSet(pod_set) => self.collect_elastic_pod(job, pod_set),
            });
            if let Some(tasks) = lists.find(|tasks| !tasks.is_empty()) {
                return tasks;
            }
        }
        if tree.needed_members(set) < satisfied as i64 {
            let mut lists = members.iter().map(|member| self.collect_all_allocated(job, *member));
            return lists.find(|tasks| !tasks.is_empty()).unwrap_or_default();
        }
        Vec::new()
    }

    /// A pod that a pod set does not need.
    fn collect_elastic_pod(&self, job: JobId, index: usize) -> Vec<PodInfoId> {
        let pod_set = &self.cluster.job(job).tree.pod_sets[index];
        if pod_set.active_allocated() as i64 <= i64::from(pod_set.min_available) {
            return Vec::new();
        }
        self.evictable_pods(job, index, 1)
    }

    fn collect_all_allocated(&self, job: JobId, member: Member) -> Vec<PodInfoId> {
        let pod_sets = self.cluster.job(job).tree.pod_sets_of(member);
        pod_sets.into_iter().flat_map(|pod_set| self.evictable_pods(job, pod_set, usize::MAX)).collect()
    }

    fn evictable_pods(&self, job: JobId, pod_set: usize, count: usize) -> Vec<PodInfoId> {
        let infos = self.cluster.job(job).tree.pod_sets[pod_set].infos();
        let evictable = infos.filter(|info| self.cluster.info(*info).status.is_active_allocated());
        self.first_pods(evictable, count, |left, right| self.is_pod_before(*right, *left))
    }

    fn has_elastic_surplus(&self, job: JobId, set: usize) -> bool {
        let tree = &self.cluster.job(job).tree;
        tree.satisfied_members(set) as i64 > tree.needed_members(set)
            || tree.members(set).into_iter().any(|member| match member {
                Member::Set(set) => self.has_elastic_surplus(job, set),
                Member::PodSet(pod_set) => {
                    let pod_set = &tree.pod_sets[pod_set];
                    pod_set.active_allocated() as i64 > i64::from(pod_set.min_available)
                }
            })
    }

    /// The first of these pods, in order.
    fn first_pods(
        &self,
        pods: impl Iterator<Item = PodInfoId>,
        count: usize,
        mut is_before: impl FnMut(&PodInfoId, &PodInfoId) -> bool,
    ) -> Vec<PodInfoId> {
        let mut queue = Vec::new();
        for pod in pods {
            heap::push(&mut queue, pod, &mut is_before);
        }
        let mut first = Vec::new();
        while first.len() < count
            && let Some(pod) = heap::pop(&mut queue, &mut is_before)
        {
            first.push(pod);
        }
        first
    }
}
