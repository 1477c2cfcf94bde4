//! Not one of kube-scheduler's: it refuses what a recording holds but cannot be understood, before anybody else is asked.

use super::registration::Registration;
use crate::events::{About, Hint, Sort};

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "Unreadable",
    points: |_| &[],
    events: &[
        Sort::NodeAdded,
        Sort::NodeDeleted,
        Sort::NodeAllocatable,
        Sort::NodeLabels,
        Sort::NodeConditions,
        Sort::NodeAnnotations,
        Sort::NodeFeatures,
        Sort::PodDeleted,
        Sort::PodLabels,
        Sort::PodScaledDown,
        Sort::PodGatesGone,
        Sort::PodTolerations,
        Sort::PodClaims,
        Sort::PodOther,
    ],
    queueing_hint,
    ..Registration::EMPTY
};

/// One that makes no sense may do so after a change, and one that left may have been the trouble of a node.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Pod { new, .. } => hint.is_about_itself() || new.is_none(),
        About::Node { .. } | About::Thing { .. } => true,
    }
}
