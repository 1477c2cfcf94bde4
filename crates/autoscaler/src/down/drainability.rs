//! Whether a pod lets its node be drained: rules in cluster-autoscaler's order, of which the first that decides counts.

use kubernetes::time::{after, seconds};
use model::{Moment, NamespacedName};
use scheduler::ids::PodId;

use super::super::clock::Clock;
use super::super::cluster::{Cluster, ControllerKind};
use super::super::decision::BlockingReason;
use super::super::pod::Pod;
use super::super::settings::{Settings, Version};
use super::super::snapshot::Snapshot;
use super::disruptions::Disruptions;

const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const SAFE_LOCAL_VOLUMES: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes";
/// How long a pod gets if it does not say, in seconds.
pub(super) const DEFAULT_GRACE: i64 = 30;
/// A pod that is still there so long after its grace period does not count any more.
const LONG_TERMINATING: i64 = 30;

/// The rules, and what they look at besides the pod.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub settings: &'a Settings,
    pub clock: &'a Clock,
    /// Where controllers are looked up; `None` to take them for granted.
    pub controllers: Option<&'a Cluster>,
    /// `None` for no budgets at all.
    pub disruptions: Option<&'a Disruptions>,
}

/// What becomes of a pod when its node is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is evicted.
    Moves,
    /// It does not count.
    Skipped,
    /// The node has to wait until it is done.
    Waits,
    /// The node stays because of it.
    Blocks(BlockingReason),
}

/// What has to leave a node.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Drain {
    /// Pods that need another place.
    pub pods: Vec<PodId>,
    /// Whether there are pods that the node has to wait for.
    pub waits: bool,
}

// === impl Rules ===

impl Rules<'_> {
    /// What has to leave a node with these pods, or which of them stands in the way and why.
    pub(super) fn drain(
        &self,
        snapshot: &Snapshot,
        pods: &[PodId],
    ) -> Result<Drain, (PodId, BlockingReason)> {
        let mut drain = Drain::default();
        for id in pods {
            let pod = snapshot.pod(*id);
            match self.verdict(pod) {
                Verdict::Moves if pod.is_of_daemon_set() => {}
                Verdict::Moves => drain.pods.push(*id),
                Verdict::Skipped => {}
                Verdict::Waits => drain.waits = true,
                Verdict::Blocks(reason) => return Err((*id, reason)),
            }
        }
        Ok(drain)
    }

    /// What becomes of a pod.
    pub(super) fn verdict(&self, pod: &Pod) -> Verdict {
        if pod.is_mirror() || is_long_terminating(pod, self.clock) {
            return Verdict::Skipped;
        }
        let settings = self.settings;
        let safe_to_evict = pod.annotation(SAFE_TO_EVICT);
        if settings.skip_nodes_with_custom_controller_pods
            && let Some(reason) = self.controller_trouble(pod)
        {
            return Verdict::Blocks(reason);
        }
        if pod.is_of_daemon_set() || safe_to_evict == Some("true") || is_terminal(pod) {
            return Verdict::Moves;
        }
        if settings.version >= Version::V1_36 && safe_to_evict == Some("on-completion") {
            return Verdict::Waits;
        }
        if !self.is_replicated(pod) {
            return Verdict::Blocks(BlockingReason::NotReplicated);
        }
        if settings.skip_nodes_with_system_pods && self.is_unguarded_system_pod(pod) {
            if self.is_old_for_system_pod(pod) {
                return Verdict::Moves;
            }
            return Verdict::Blocks(BlockingReason::UnmovableKubeSystemPod);
        }
        if safe_to_evict == Some("false") {
            return Verdict::Blocks(BlockingReason::NotSafeToEvictAnnotation);
        }
        if settings.skip_nodes_with_local_storage && has_local_storage(pod) {
            return Verdict::Blocks(BlockingReason::LocalStorageRequested);
        }
        if self.disruptions.is_some_and(|disruptions| disruptions.forbid(pod)) {
            return Verdict::Blocks(BlockingReason::NotEnoughPdb);
        }
        Verdict::Moves
    }

    /// What is wrong with the pod's controller, if it is of a kind that is looked up.
    fn controller_trouble(&self, pod: &Pod) -> Option<BlockingReason> {
        let cluster = self.controllers?;
        let owner = pod.controller.as_ref()?;
        let group = match owner.api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => return None,
            Some((group, _)) => group,
            None => "",
        };
        let kind = match owner.kind.as_str() {
            "ReplicationController" => ControllerKind::ReplicationController,
            kind if pod.is_of_daemon_set() => {
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
        let name = NamespacedName { namespace: pod.name.namespace.clone(), name: owner.name.as_str().into() };
        let Some(controller) = cluster.controller(kind, &name) else {
            return Some(BlockingReason::ControllerNotFound);
        };
        let counts = matches!(kind, ControllerKind::ReplicationController | ControllerKind::ReplicaSet);
        let too_few = controller.replicas.is_some_and(|count| count < self.settings.min_replica_count);
        (counts && too_few).then_some(BlockingReason::MinReplicasReached)
    }

    fn is_replicated(&self, pod: &Pod) -> bool {
        let Some(owner) = &pod.controller else { return false };
        !self.settings.skip_nodes_with_custom_controller_pods
            || matches!(&*owner.kind, "ReplicationController" | "Job" | "ReplicaSet" | "StatefulSet")
    }

    fn is_unguarded_system_pod(&self, pod: &Pod) -> bool {
        &*pod.name.namespace == "kube-system"
            && !self.disruptions.is_some_and(|disruptions| disruptions.mean(pod))
    }

    /// Up to 1.32 no age is enough. A pod that does not say when it was created has none.
    fn is_old_for_system_pod(&self, pod: &Pod) -> bool {
        self.settings.version >= Version::V1_33
            && pod.created != Moment::default()
            && self.clock.is_past(after(pod.created, self.settings.blocking_system_pod_disruption_timeout))
    }
}

/// Since when a pod is taken for gone although it is still there: after this moment.
pub(super) fn gone_after(pod: &Pod) -> Option<Moment> {
    let grace = pod.grace.unwrap_or(DEFAULT_GRACE);
    pod.deleted.map(|deleted| deleted.plus_nanos(seconds(grace)).plus_nanos(seconds(LONG_TERMINATING)))
}

/// Whether a pod should be gone for long.
pub(super) fn is_long_terminating(pod: &Pod, clock: &Clock) -> bool {
    gone_after(pod).is_some_and(|moment| clock.is_past(moment))
}

fn is_terminal(pod: &Pod) -> bool {
    match &*pod.phase {
        "Failed" => true,
        "Succeeded" => matches!(&*pod.restart_policy, "Never" | "OnFailure"),
        _ => false,
    }
}

fn has_local_storage(pod: &Pod) -> bool {
    let allowed = pod.annotation(SAFE_LOCAL_VOLUMES).unwrap_or_default();
    let blocks = |volume: &str| allowed.is_empty() || allowed.split(',').all(|name| name != volume);
    pod.local_volumes.iter().any(|volume| blocks(volume))
}

/// Why a pod stands in the way, in cluster-autoscaler's words.
pub(super) fn in_words(pod: &Pod, reason: BlockingReason) -> String {
    let NamespacedName { namespace, name } = &pod.name;
    let (kind, owner) = pod.controller.as_ref().map_or(("", ""), |owner| (&*owner.kind, &*owner.name));
    match reason {
        BlockingReason::ControllerNotFound => match kind {
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
        BlockingReason::MinReplicasReached => {
            format!("replication controller for {namespace}/{name} has too few replicas")
        }
        BlockingReason::NotReplicated => format!("{namespace}/{name} is not replicated"),
        BlockingReason::LocalStorageRequested => format!("pod with local storage present: {name}"),
        BlockingReason::NotSafeToEvictAnnotation => {
            format!("pod annotated as not safe to evict present: {name}")
        }
        BlockingReason::UnmovableKubeSystemPod => {
            format!("non-daemonset, non-mirrored, non-pdb-assigned kube-system pod present: {name}")
        }
        BlockingReason::NotEnoughPdb => {
            format!("not enough pod disruption budget to move {namespace}/{name}")
        }
        BlockingReason::UnexpectedError => String::from("unexpected error"),
    }
}

#[cfg(test)]
mod tests;
