//! cluster-autoscaler's reasons in plain words.

use autoscaler::{BlockingReason, Cooldown, CooldownAfter, UnremovableReason};
use query::autoscaler_setup::{GroupsBy, Setup};

use super::{Held, Verdict};

/// What a verdict means.
pub fn verdict(verdict: &Verdict, setup: &Setup) -> String {
    let words = match verdict {
        Verdict::NotAutoscaled => match &setup.groups_by {
            GroupsBy::File(name) => return format!("no group of {name} has it: see `members`"),
            GroupsBy::Nobody | GroupsBy::History(_) | GroupsBy::Replay => {
                stays(UnremovableReason::NotAutoscaled)
            }
        },
        Verdict::Disabled => "no node is removed: --scale-down-enabled=false",
        Verdict::NotTried(why) => why,
        Verdict::Goes(_, true) => "it was unneeded for long enough; its pods are moved first",
        Verdict::Goes(_, false) => "it was unneeded for long enough, and nothing has to move",
        Verdict::MayGo { held: Some(held), .. } => self::held(*held),
        Verdict::MayGo { held: None, .. } => "nothing holds it back but that the loop does not remove it",
        Verdict::Stays(reason) => stays(*reason),
        Verdict::Rests => "its group rests after a change",
        Verdict::NotLookedAt => "there are nodes enough that could go",
    };
    words.to_owned()
}

/// What holds back a node that could go.
pub fn held(held: Held) -> &'static str {
    match held {
        Held::By(reason) => stays(reason),
        Held::Cooldown => "no node goes so soon after a change",
        Held::Growth => "nodes are asked for in the same loop: no node goes for a while",
        Held::YoungPods => "pods wait that are only just there: no node goes before that is seen to",
        Held::Others => "as many nodes as may at once are on their way out",
    }
}

/// Why a node stays.
pub fn stays(reason: UnremovableReason) -> &'static str {
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

/// Why a pod stands in the way.
pub fn blocks(reason: BlockingReason) -> &'static str {
    match reason {
        BlockingReason::ControllerNotFound => "what it belongs to is not there, or not in the history",
        BlockingReason::MinReplicasReached => "what it belongs to has too few pods",
        BlockingReason::NotReplicated => "nothing would make it anew",
        BlockingReason::LocalStorageRequested => "it keeps data on the node",
        BlockingReason::NotSafeToEvictAnnotation => {
            "its annotation cluster-autoscaler.kubernetes.io/safe-to-evict is false"
        }
        BlockingReason::UnmovableKubeSystemPod => "it is one of kube-system without a PodDisruptionBudget",
        BlockingReason::NotEnoughPdb => "a PodDisruptionBudget does not allow it to go",
        BlockingReason::UnexpectedError => "something is wrong with it",
    }
}

/// After what no node goes for a while.
pub fn cooldown(after: CooldownAfter) -> &'static str {
    match after {
        CooldownAfter::ScaleUp => "a scale-up",
        CooldownAfter::ScaleDown => "a removal",
        CooldownAfter::FailedScaleDown => "a removal that failed",
    }
}

/// Until when no node goes, and why.
pub fn resting(cooldown: &Cooldown) -> String {
    let Cooldown { after, since, until } = cooldown;
    let after = self::cooldown(*after);
    match since {
        Some(since) => format!("no node goes until {until}, after {after} at {since}"),
        None => format!(
            "no node goes until {until}: what was before the play began is not known, and {after} an hour before is taken for granted"
        ),
    }
}
