//! Descriptions of cluster-autoscaler's reasons.

use autoscaler::{BlockingPodReason, Cooldown, CooldownCause, UnremovableReason};
use query::autoscaler_choice::{AutoscalerChoice, NodeGroupsSource};

use super::{NodeChange, RemovalDelay, ScaleDownVerdict};

/// Describes a verdict.
pub fn verdict(verdict: &ScaleDownVerdict, choice: &AutoscalerChoice) -> String {
    let text = match verdict {
        ScaleDownVerdict::NotAutoscaled => match &choice.groups_source {
            NodeGroupsSource::File(name) => {
                return format!("not matched by `members` of any group in {name}");
            }
            NodeGroupsSource::NoGroups | NodeGroupsSource::History(_) | NodeGroupsSource::Replay => {
                unremovable(UnremovableReason::NotAutoscaled)
            }
        },
        ScaleDownVerdict::Disabled => "scale-down is disabled (--scale-down-enabled=false)",
        ScaleDownVerdict::NotTried(message) => message,
        ScaleDownVerdict::RemovalStarted(_, true) => "unneeded for long enough; its pods are drained first",
        ScaleDownVerdict::RemovalStarted(_, false) => "unneeded for long enough; no pods to evict",
        ScaleDownVerdict::Unneeded { delay: Some(removal_delay), .. } => self::delay(*removal_delay),
        ScaleDownVerdict::Unneeded { delay: None, .. } => "removable, but not removed in this loop",
        ScaleDownVerdict::Unremovable(reason) => unremovable(*reason),
        ScaleDownVerdict::GroupInCooldown => "its node group is in cooldown",
        ScaleDownVerdict::NotChecked => "enough other scale-down candidates",
    };
    text.to_owned()
}

/// Describes why an unneeded node is not removed yet.
pub fn delay(removal_delay: RemovalDelay) -> &'static str {
    match removal_delay {
        RemovalDelay::Unremovable(reason) => unremovable(reason),
        RemovalDelay::Cooldown => "scale-down is in cooldown",
        RemovalDelay::ScaleUp => "scale-up in the same loop: scale-down is in cooldown",
        RemovalDelay::YoungPods => "pending pods are too new for a scale-up: scale-down waits for them",
        RemovalDelay::DeletionLimit => "maximum number of parallel node deletions reached",
    }
}

/// Describes why a node is unremovable.
pub fn unremovable(reason: UnremovableReason) -> &'static str {
    match reason {
        UnremovableReason::ScaleDownDisabledAnnotation => {
            "annotation cluster-autoscaler.kubernetes.io/scale-down-disabled is set"
        }
        UnremovableReason::ScaleDownUnreadyDisabled => "unready, and --scale-down-unready-enabled=false",
        UnremovableReason::NotAutoscaled => "not in any node group",
        UnremovableReason::NotUnneededLongEnough => "not unneeded for long enough",
        UnremovableReason::NotUnreadyLongEnough => "not unready for long enough",
        UnremovableReason::NodeGroupMinSizeReached => "node group at min size",
        UnremovableReason::NodeGroupMaxDeletionCountReached => {
            "maximum number of deletions in its node group reached"
        }
        UnremovableReason::AtomicScaleDownFailed => {
            "its node group is only removed as a whole, and not all of its nodes are removable"
        }
        UnremovableReason::MinimalResourceLimitExceeded => {
            "the cluster would fall below its minimum resources"
        }
        UnremovableReason::CurrentlyBeingDeleted => "already being deleted",
        UnremovableReason::NotUnderutilized => "utilization above the threshold",
        UnremovableReason::NotUnneededOtherReason => "needed for another reason",
        UnremovableReason::RecentlyUnremovable => "found unremovable recently, not rechecked yet",
        UnremovableReason::NoPlaceToMovePods => "its pods do not fit on other nodes",
        UnremovableReason::BlockedByPod => "one of its pods cannot be evicted",
        UnremovableReason::UnexpectedError => "utilization unknown: no allocatable resources",
        UnremovableReason::NoNodeInfo => "node not in the snapshot",
        UnremovableReason::BlockedByOnCompletionPod => "waits for a pod to complete",
    }
}

/// Describes why a pod blocks the removal of its node.
pub fn blocking_pod(reason: BlockingPodReason) -> &'static str {
    match reason {
        BlockingPodReason::ControllerNotFound => "its controller does not exist or was not recorded",
        BlockingPodReason::MinReplicasReached => "its controller has too few replicas",
        BlockingPodReason::NotReplicated => "not backed by a controller",
        BlockingPodReason::LocalStorageRequested => "uses local storage",
        BlockingPodReason::NotSafeToEvictAnnotation => {
            "annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false"
        }
        BlockingPodReason::UnmovableKubeSystemPod => "kube-system pod without a PodDisruptionBudget",
        BlockingPodReason::NotEnoughPdb => "its PodDisruptionBudget does not allow an eviction",
        BlockingPodReason::UnexpectedError => "unexpected error",
    }
}

/// Describes a recorded change of a node.
pub fn node_change(change: NodeChange) -> &'static str {
    match change {
        NodeChange::DeletionCandidate(true) => "tainted DeletionCandidateOfClusterAutoscaler",
        NodeChange::DeletionCandidate(false) => "taint DeletionCandidateOfClusterAutoscaler removed",
        NodeChange::ToBeDeleted(true) => "tainted ToBeDeletedByClusterAutoscaler",
        NodeChange::ToBeDeleted(false) => "taint ToBeDeletedByClusterAutoscaler removed",
        NodeChange::Cordoned(true) => "cordoned",
        NodeChange::Cordoned(false) => "uncordoned",
        NodeChange::Deletion(true) => "deletion started",
        NodeChange::Deletion(false) => "deletion canceled",
    }
}

/// Describes the cause of a scale-down cooldown.
pub fn cooldown_cause(cause: CooldownCause) -> &'static str {
    match cause {
        CooldownCause::ScaleUp => "a scale-up",
        CooldownCause::ScaleDown => "a scale-down",
        CooldownCause::FailedScaleDown => "a failed scale-down",
    }
}

/// Describes the end and cause of a scale-down cooldown.
pub fn cooldown_end(cooldown: &Cooldown) -> String {
    let Cooldown { cause, since, until } = cooldown;
    let cause = self::cooldown_cause(*cause);
    match since {
        Some(since) => format!("scale-down in cooldown until {until}, after {cause} at {since}"),
        None => {
            format!("scale-down in cooldown until {until}: {cause} one hour before the simulation is assumed")
        }
    }
}
