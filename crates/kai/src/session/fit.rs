//! The checks of a pod on a node.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::Session;
use crate::cluster::fit_errors::{FitReason, PodFitErrors, Predicate, Rejection};
use crate::cluster::ids::{JobId, NodeId, PodId, PodInfoId};
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::cluster::resources::{CPU, GPU, MEMORY, PODS, ResourceVector, is_mig_resource};
use crate::plugins::node_fit::{has_valid_portion, is_allocatable, is_allocatable_on_releasing_or_idle};
use crate::plugins::predicates::{
    PrePredicateError, check_conditions, check_gpu_memory, check_resource_type, check_worker_labels,
};

impl Session {
    /// The checks of a pod before nodes are looked at; the error is a message.
    pub(crate) fn pre_predicates(&mut self, info: PodInfoId) -> Result<(), String> {
        let pod = self.cluster.info(info).pod;
        let Some(predicates) = &mut self.predicates else { return Ok(()) };
        let errors = predicates.pre_filter(&self.cluster, pod);
        if errors.is_empty() {
            return Ok(());
        }
        let name = self.cluster.pod(pod).full_name();
        let mut message = format!("Scheduling conditions were not met for pod {name}:\n");
        for PrePredicateError { predicate, message: error, .. } in errors {
            message += &format!("{predicate}: {error}.\n");
        }
        Err(message)
    }

    /// The first of these pods that cannot be placed whatever is evicted, with the reason.
    pub(crate) fn invariant_failure(&mut self, infos: &[PodInfoId]) -> Option<(PodId, String)> {
        let predicates = self.predicates.as_mut()?;
        infos.iter().find_map(|info| {
            let pod = self.cluster.info(*info).pod;
            predicates.invariant_failure(&self.cluster, pod).map(|error| (pod, error.message.clone()))
        })
    }

    /// Whether a pod passes the checks on a node. The reasons why not are counted if that is wanted.
    pub(crate) fn is_fitting_node(
        &mut self,
        job: JobId,
        pod: PodId,
        node: NodeId,
        counts_reasons: bool,
    ) -> bool {
        let checked = self.check_node(pod, job, node, counts_reasons);
        if counts_reasons && let Err(Some(rejection)) = &checked {
            self.count_rejection(job, pod, rejection);
        }
        checked.is_ok()
    }

    /// Counts a rejection among the fit errors of a pod.
    pub(super) fn count_rejection(&mut self, job: JobId, pod: PodId, rejection: &Rejection) {
        let job = self.cluster.job_mut(job);
        match job.pod_fit_errors.get_mut(&pod) {
            Some(errors) => errors.add(rejection),
            None => {
                let mut errors = PodFitErrors::default();
                errors.add(rejection);
                job.add_pod_fit_errors(pod, errors);
            }
        }
    }

    /// The checks of a pod on a node. The reason may be missing where resources do not suffice.
    pub(crate) fn check_node(
        &self,
        id: PodId,
        job: JobId,
        node_id: NodeId,
        wants_reasons: bool,
    ) -> Result<(), Option<Rejection>> {
        let (pod, node) = (self.cluster.pod(id), self.cluster.node(node_id));
        if !is_allocatable_on_releasing_or_idle(pod, node) {
            let is_worth_reporting = wants_reasons && !is_allocatable(pod, node);
            return Err(if is_worth_reporting { self.insufficient_resources(pod, node) } else { None });
        }
        let Some(predicates) = &self.predicates else { return Ok(()) };
        let check = || -> Result<(), Rejection> {
            if let Some(proportion) = &self.proportion {
                let checked = proportion.check_pod_capacity(&self.cluster, self.cluster.job(job), pod, node);
                checked.map_err(|over| {
                    let reason = format!(
                        "node does not have enough capacity. Reason: {}, Details: {}",
                        over.reason, over.message
                    );
                    Rejection::new(Predicate::QueueCapacity, reason)
                })?;
            }
            check_resource_type(pod, node)?;
            check_gpu_memory(pod, node)?;
            self.check_max_pods(pod, node)?;
            check_conditions(node)?;
            predicates.filter(&self.cluster, id, node_id)?;
            if self.settings.params.restrict_scheduling_nodes {
                check_worker_labels(pod, node)?;
            }
            Ok(())
        };
        check().map_err(Some)
    }

    /// Whether there is room for the pod, and for the reservation pod of a GPU that it is the first to share.
    fn check_max_pods(&self, pod: &Pod, node: &Node) -> Result<(), Rejection> {
        let available = node.idle.get(PODS) + node.releasing.get(PODS);
        let has_room = if pod.is_shared_gpu_request() {
            available >= 2.0 || !self.needs_new_gpu_group(pod, node)
        } else {
            available > 0.0
        };
        if has_room { Ok(()) } else { Err(Rejection::new(Predicate::MaxPods, "node(s) pod number exceeded")) }
    }

    /// The resources that a node lacks; `None` if all are idle.
    fn insufficient_resources(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        if has_valid_portion(pod, node) && pod.request.is_at_most(&node.idle) {
            return None;
        }
        let mut available = node.allocatable.clone();
        available.subtract(&node.used);
        available.set(GPU, available.get(GPU) - node.shared_gpus.used_count() as f64);
        let mut reasons: SmallVec<[FitReason; 1]> = SmallVec::new();
        if pod.gpu.mig.is_empty() {
            let portion = node.requested_gpu_portion(&pod.gpu);
            let hundredths = (portion * 100.0).round() as i64;
            let requested = if pod.gpu.memory > 0 {
                hundredths.wrapping_mul(pod.gpu.count) as f64 / 100.0
            } else {
                pod.gpu.gpus()
            };
            if requested > available.get(GPU) {
                reasons.push("node(s) didn't have enough resources: GPUs".into());
            }
            if pod.gpu.memory > node.gpu_memory {
                reasons.push("node(s) didn't have enough resources: GPU memory".into());
            }
        } else {
            for (name, count) in &pod.gpu.mig {
                let left = self.cluster.names.index(name).map_or(0.0, |index| available.get(index));
                if (left as i64) < *count {
                    reasons.push(format!("node(s) didn't have enough of mig profile: {name}").into());
                }
            }
        }
        if pod.request.get(CPU) as i64 > available.get(CPU) as i64 {
            reasons.push("node(s) didn't have enough resources: CPU cores".into());
        }
        if pod.request.get(MEMORY) > available.get(MEMORY) {
            reasons.push("node(s) didn't have enough resources: memory".into());
        }
        for (index, name) in self.cluster.names.names().iter().enumerate() {
            let requested = pod.request.get(index) as i64;
            let is_other = !matches!(index, CPU | MEMORY | GPU) && !is_mig_resource(name);
            if is_other && requested > 0 && (available.get(index) as i64) < requested {
                reasons.push(format!("node(s) didn't have enough resources: {name}").into());
            }
        }
        if let Some(suffix) = self.overhead_suffix(pod, node) {
            for reason in &mut reasons {
                *reason = Cow::Owned(format!("{reason}. {suffix}"));
            }
        }
        Some(Rejection { predicate: Predicate::NodeResources, reasons })
    }

    /// A hint if only the overhead of the pod's runtime is too much.
    fn overhead_suffix(&self, pod: &Pod, node: &Node) -> Option<String> {
        let overhead = &pod.view.spec.overhead;
        if overhead.is_empty() {
            return None;
        }
        let mut with_overhead: ResourceVector = node.idle.clone();
        let mut text = String::new();
        for (name, quantity) in overhead.iter() {
            let amount = if name == "cpu" { quantity.milli_value() } else { quantity.value() };
            if let Some(index) = self.cluster.names.index(name) {
                with_overhead.set(index, with_overhead.get(index) + amount as f64);
            }
            text += &format!(" {name}: {quantity}");
        }
        let is_enough = has_valid_portion(pod, node) && pod.request.is_at_most(&with_overhead);
        is_enough.then(|| {
            format!("Not enough resources due to pod overhead resources. The overhead resources are {text}")
        })
    }
}
