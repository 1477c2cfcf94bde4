//! Descriptions of cluster-autoscaler's reasons.

use autoscaler::{BlockingPodReason, Cooldown, CooldownCause, UnremovableReason};
use query::autoscaler_choice::{AutoscalerChoice, NodeGroupsSource};

use super::{RemovalDelay, ScaleDownVerdict};

/// Describes a verdict.
pub fn verdict(verdict: &ScaleDownVerdict, setup: &AutoscalerChoice) -> String {
    let words = match verdict {
        ScaleDownVerdict::NotAutoscaled => match &setup.groups_source {
            NodeGroupsSource::File(name) => return format!("no group of {name} has it: see `members`"),
            NodeGroupsSource::NoGroups | NodeGroupsSource::History(_) | NodeGroupsSource::Replay => {
                unremovable(UnremovableReason::NotAutoscaled)
            }
        },
        ScaleDownVerdict::Disabled => "no node is removed: --scale-down-enabled=false",
        ScaleDownVerdict::NotTried(why) => why,
        ScaleDownVerdict::RemovalStarted(_, true) => {
            "it was unneeded for long enough; its pods are moved first"
        }
        ScaleDownVerdict::RemovalStarted(_, false) => {
            "it was unneeded for long enough, and nothing has to move"
        }
        ScaleDownVerdict::Unneeded { delay: Some(held), .. } => self::delay(*held),
        ScaleDownVerdict::Unneeded { delay: None, .. } => {
            "nothing holds it back but that the loop does not remove it"
        }
        ScaleDownVerdict::Unremovable(reason) => unremovable(*reason),
        ScaleDownVerdict::GroupInCooldown => "its group rests after a change",
        ScaleDownVerdict::NotChecked => "there are nodes enough that could go",
    };
    words.to_owned()
}

/// Describes why an unneeded node is not removed yet.
pub fn delay(held: RemovalDelay) -> &'static str {
    match held {
        RemovalDelay::Unremovable(reason) => unremovable(reason),
        RemovalDelay::Cooldown => "no node goes so soon after a change",
        RemovalDelay::ScaleUp => "nodes are asked for in the same loop: no node goes for a while",
        RemovalDelay::YoungPods => "pods wait that are only just there: no node goes before that is seen to",
        RemovalDelay::DeletionLimit => "as many nodes as may at once are on their way out",
    }
}

/// Describes why a node is unremovable.
pub fn unremovable(reason: UnremovableReason) -> &'static str {
    match reason {
        UnremovableReason::ScaleDownDisabledAnnotation => {
            "its annotation cluster-autoscaler.kubernetes.io/scale-down-disabled asks for it"
        }
        UnremovableReason::ScaleDownUnreadyDisabled => "it is not ready, and such nodes are left alone",
        UnremovableReason::NotAutoscaled => "it belongs to no node group",
        UnremovableReason::NotUnneededLongEnough => "it has not been unneeded for long enough",
        UnremovableReason::NotUnreadyLongEnough => "it has not been unready for long enough",
        UnremovableReason::NodeGroupMinSizeReached => "its group is as small as it may be",
        UnremovableReason::NodeGroupMaxDeletionCountReached => "as many of its group go as may at once",
        UnremovableReason::AtomicScaleDownFailed => "all nodes of its group go or none, and not all can",
        UnremovableReason::MinimalResourceLimitExceeded => "the cluster would be left with too little",
        UnremovableReason::CurrentlyBeingDeleted => "it is being deleted already",
        UnremovableReason::NotUnderutilized => "too much of it is used",
        UnremovableReason::NotUnneededOtherReason => "it is needed",
        UnremovableReason::RecentlyUnremovable => {
            "it could not go a short while ago, and is not looked at again yet"
        }
        UnremovableReason::NoPlaceToMovePods => "its pods find no room on other nodes",
        UnremovableReason::BlockedByPod => "one of its pods stands in the way",
        UnremovableReason::UnexpectedError => "it does not say how much it has",
        UnremovableReason::NoNodeInfo => "nothing is known of it",
        UnremovableReason::BlockedByOnCompletionPod => "it waits until a pod is done",
    }
}

/// Describes why a pod blocks the removal of its node.
pub fn blocking_pod(reason: BlockingPodReason) -> &'static str {
    match reason {
        BlockingPodReason::ControllerNotFound => "what it belongs to is not there, or not in the history",
        BlockingPodReason::MinReplicasReached => "what it belongs to has too few pods",
        BlockingPodReason::NotReplicated => "nothing would make it anew",
        BlockingPodReason::LocalStorageRequested => "it keeps data on the node",
        BlockingPodReason::NotSafeToEvictAnnotation => {
            "its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false"
        }
        BlockingPodReason::UnmovableKubeSystemPod => "it is one of kube-system without a PodDisruptionBudget",
        BlockingPodReason::NotEnoughPdb => "a PodDisruptionBudget does not allow it to go",
        BlockingPodReason::UnexpectedError => "something is wrong with it",
    }
}

/// Describes the cause of a scale-down cooldown.
pub fn cooldown_cause(after: CooldownCause) -> &'static str {
    match after {
        CooldownCause::ScaleUp => "a scale-up",
        CooldownCause::ScaleDown => "a removal",
        CooldownCause::FailedScaleDown => "a removal that failed",
    }
}

/// Describes the end and cause of a scale-down cooldown.
pub fn cooldown_end(cooldown: &Cooldown) -> String {
    let Cooldown { cause: after, since, until } = cooldown;
    let after = self::cooldown_cause(*after);
    match since {
        Some(since) => format!("no node goes until {until}, after {after} at {since}"),
        None => format!(
            "no node goes until {until}: what was before the play began is not known, and {after} an hour before is taken for granted"
        ),
    }
}
