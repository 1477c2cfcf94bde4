//! The drainability rules in cluster-autoscaler's order, of which the first decisive one counts.

use kubernetes::objects::Phase;
use kubernetes::time::{after, seconds};
use model::{Moment, NamespacedName};
use scheduler::ids::PodId;

use super::super::clock::LoopClock;
use super::super::decision::BlockingPodReason;
use super::super::informer_cache::{ControllerKind, InformerCache};
use super::super::pod::Pod;
use super::super::settings::{Settings, Version};
use super::super::snapshot::ClusterSnapshot;
use super::pdb_tracker::RemainingPdbTracker;

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_TO_EVICT_LOCAL_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
/// The default grace period of a pod, in seconds.
pub(super) const DEFAULT_GRACE_SECONDS: i64 = 30;
/// In seconds: a pod that still exists this long after its grace period counts as long-terminating and is ignored.
const LONG_TERMINATING_EXTRA_SECONDS: i64 = 30;

/// The rules, with their inputs besides the pod.
#[derive(Clone, Copy)]
pub(super) struct DrainabilityRules<'a> {
    pub settings: &'a Settings,
    pub clock: &'a LoopClock,
    /// Where controllers are looked up; `None` to skip that rule.
    pub controllers: Option<&'a InformerCache>,
    /// `None` to ignore PodDisruptionBudgets.
    pub disruptions: Option<&'a RemainingPdbTracker>,
}

/// The outcome of the rules for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainabilityOutcome {
    /// It can be evicted.
    DrainOk,
    /// It is ignored.
    SkipDrain,
    /// The node can be removed only after the pod has completed.
    WaitForCompletion,
    /// It blocks the removal of its node.
    BlockDrain(BlockingPodReason),
}

/// The pods to move when a node is removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PodsToMove {
    /// The pods that have to be rescheduled.
    pub pods: Vec<PodId>,
    /// Whether there are on-completion pods.
    pub has_on_completion_pods: bool,
}

// === impl DrainabilityRules ===

impl DrainabilityRules<'_> {
    /// The pods to move from a node with these pods, or the pod that blocks its removal and why.
    pub(super) fn pods_to_move(
        &self,
        snapshot: &ClusterSnapshot,
        pods: &[PodId],
    ) -> Result<PodsToMove, (PodId, BlockingPodReason)> {
        self.pods_to_move_with_pdb_rule(snapshot, pods, |_, pod| self.is_pdb_exhausted(pod))
    }

    /// The same with another rule in place of the last one, about PodDisruptionBudgets: whether a pod is blocked that no
    /// other rule decides about.
    pub(super) fn pods_to_move_with_pdb_rule(
        &self,
        snapshot: &ClusterSnapshot,
        pods: &[PodId],
        mut is_blocked: impl FnMut(PodId, &Pod) -> bool,
    ) -> Result<PodsToMove, (PodId, BlockingPodReason)> {
        let mut drain = PodsToMove::default();
        for id in pods {
            let pod = snapshot.pod(*id);
            match self.outcome_with_pdb_rule(pod, |pod| is_blocked(*id, pod)) {
                DrainabilityOutcome::DrainOk if pod.is_daemon_set_pod() => {}
                DrainabilityOutcome::DrainOk => drain.pods.push(*id),
                DrainabilityOutcome::SkipDrain => {}
                DrainabilityOutcome::WaitForCompletion => drain.has_on_completion_pods = true,
                DrainabilityOutcome::BlockDrain(reason) => return Err((*id, reason)),
            }
        }
        Ok(drain)
    }

    /// The outcome for a pod.
    #[cfg(test)]
    pub(super) fn outcome(&self, pod: &Pod) -> DrainabilityOutcome {
        self.outcome_with_pdb_rule(pod, |pod| self.is_pdb_exhausted(pod))
    }

    fn outcome_with_pdb_rule(&self, pod: &Pod, is_blocked: impl FnOnce(&Pod) -> bool) -> DrainabilityOutcome {
        if pod.is_mirror() || is_long_terminating(pod, self.clock) {
            return DrainabilityOutcome::SkipDrain;
        }
        let settings = self.settings;
        let safe_to_evict = pod.annotation(SAFE_TO_EVICT);
        if settings.skip_nodes_with_custom_controller_pods
            && let Some(reason) = self.replica_count_violation(pod)
        {
            return DrainabilityOutcome::BlockDrain(reason);
        }
        if pod.is_daemon_set_pod() || safe_to_evict == Some("true") || is_terminal(pod) {
            return DrainabilityOutcome::DrainOk;
        }
        if settings.version >= Version::V1_36 && safe_to_evict == Some("on-completion") {
            return DrainabilityOutcome::WaitForCompletion;
        }
        if !self.is_replicated(pod) {
            return DrainabilityOutcome::BlockDrain(BlockingPodReason::NotReplicated);
        }
        if settings.skip_nodes_with_system_pods && self.is_system_pod_without_pdb(pod) {
            if self.is_past_system_pod_timeout(pod) {
                return DrainabilityOutcome::DrainOk;
            }
            return DrainabilityOutcome::BlockDrain(BlockingPodReason::UnmovableKubeSystemPod);
        }
        if safe_to_evict == Some("false") {
            return DrainabilityOutcome::BlockDrain(BlockingPodReason::NotSafeToEvictAnnotation);
        }
        if settings.skip_nodes_with_local_storage && has_local_storage(pod) {
            return DrainabilityOutcome::BlockDrain(BlockingPodReason::LocalStorageRequested);
        }
        if is_blocked(pod) {
            return DrainabilityOutcome::BlockDrain(BlockingPodReason::NotEnoughPdb);
        }
        DrainabilityOutcome::DrainOk
    }

    fn is_pdb_exhausted(&self, pod: &Pod) -> bool {
        self.disruptions.is_some_and(|disruptions| disruptions.are_exhausted_for(pod))
    }

    /// The ReplicaCount rule: whether the pod's controller is missing or has too few replicas.
    fn replica_count_violation(&self, pod: &Pod) -> Option<BlockingPodReason> {
        let cluster = self.controllers?;
        let owner = pod.controller()?;
        let group = match owner.api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => return None,
            Some((group, _)) => group,
            None => "",
        };
        let kind = match &*owner.kind {
            "ReplicationController" => ControllerKind::ReplicationController,
            kind if pod.is_daemon_set_pod() => {
                if (group, kind) != ("apps", "DaemonSet") {
                    return None;
                }
                ControllerKind::DaemonSet
            }
            "Job" => ControllerKind::Job,
            "ReplicaSet" => ControllerKind::ReplicaSet,
            "StatefulSet" if group == "apps" => ControllerKind::StatefulSet,
            _ => return None,
        };
        let name = NamespacedName { namespace: pod.name.namespace.clone(), name: owner.name.clone() };
        let Some(controller) = cluster.controller(kind, &name) else {
            return Some(BlockingPodReason::ControllerNotFound);
        };
        let counts = matches!(kind, ControllerKind::ReplicationController | ControllerKind::ReplicaSet);
        (counts && controller.is_below_min_replica_count).then_some(BlockingPodReason::MinReplicasReached)
    }

    fn is_replicated(&self, pod: &Pod) -> bool {
        let Some(owner) = pod.controller() else { return false };
        !self.settings.skip_nodes_with_custom_controller_pods
            || matches!(&*owner.kind, "ReplicationController" | "Job" | "ReplicaSet" | "StatefulSet")
    }

    fn is_system_pod_without_pdb(&self, pod: &Pod) -> bool {
        &*pod.name.namespace == "kube-system"
            && !self.disruptions.is_some_and(|disruptions| disruptions.match_any(pod))
    }

    /// Whether a system pod is older than the timeout. Up to 1.32 there is none; a pod without creation time has no
    /// age.
    fn is_past_system_pod_timeout(&self, pod: &Pod) -> bool {
        self.settings.version >= Version::V1_33
            && pod.created() != Moment::default()
            && self.clock.is_past(after(pod.created(), self.settings.blocking_system_pod_disruption_timeout))
    }
}

/// The moment after which a terminating pod counts as long-terminating.
pub(super) fn long_terminating_after(pod: &Pod) -> Option<Moment> {
    let grace = pod.spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
    pod.deletion_timestamp
        .map(|deleted| deleted.plus_nanos(seconds(grace)).plus_nanos(seconds(LONG_TERMINATING_EXTRA_SECONDS)))
}

/// Whether a pod is long-terminating.
pub(super) fn is_long_terminating(pod: &Pod, clock: &LoopClock) -> bool {
    long_terminating_after(pod).is_some_and(|moment| clock.is_past(moment))
}

fn is_terminal(pod: &Pod) -> bool {
    match pod.status.phase {
        Phase::Failed => true,
        Phase::Succeeded => matches!(&*pod.spec.restart_policy, "Never" | "OnFailure"),
        Phase::Pending | Phase::Running | Phase::Unknown => false,
    }
}

fn has_local_storage(pod: &Pod) -> bool {
    let allowed = pod.annotation(SAFE_TO_EVICT_LOCAL_VOLUMES).unwrap_or_default();
    let blocks = |volume: &str| allowed.is_empty() || allowed.split(',').all(|name| name != volume);
    pod.spec.volumes.iter().any(|volume| volume.is_local() && blocks(&volume.name))
}

/// cluster-autoscaler's message for a blocking pod.
pub(super) fn blocking_message(pod: &Pod, reason: BlockingPodReason) -> String {
    let NamespacedName { namespace, name } = &pod.name;
    let (kind, owner) = pod.controller().map_or(("", ""), |owner| (&*owner.kind, &*owner.name));
    match reason {
        BlockingPodReason::ControllerNotFound => match kind {
            "DaemonSet" => format!(
                "daemonset for {namespace}/{name} is not present, err: daemonset.apps \"{owner}\" not found"
            ),
            "Job" => {
                format!("job for {namespace}/{name} is not available: err: job.batch \"{owner}\" not found")
            }
            "StatefulSet" => format!(
                "statefulset for {namespace}/{name} is not available: err: statefulset.apps \"{owner}\" not found"
            ),
            "ReplicaSet" => format!(
                "replication controller for {namespace}/{name} is not available, err: replicaset.apps \"{owner}\" not found"
            ),
            _ => format!(
                "replication controller for {namespace}/{name} is not available, err: replicationcontroller \"{owner}\" not found"
            ),
        },
        BlockingPodReason::MinReplicasReached => {
            format!("replication controller for {namespace}/{name} has too few replicas")
        }
        BlockingPodReason::NotReplicated => format!("{namespace}/{name} is not replicated"),
        BlockingPodReason::LocalStorageRequested => format!("pod with local storage present: {name}"),
        BlockingPodReason::NotSafeToEvictAnnotation => {
            format!("pod annotated as not safe to evict present: {name}")
        }
        BlockingPodReason::UnmovableKubeSystemPod => {
            format!("non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}")
        }
        BlockingPodReason::NotEnoughPdb => {
            format!("not enough pod disruption budget to move {namespace}/{name}")
        }
        BlockingPodReason::UnexpectedError => String::from("unexpected error"),
    }
}

#[cfg(test)]
mod tests;
