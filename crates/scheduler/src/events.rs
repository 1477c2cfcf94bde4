//! What happens in a cluster, as far as it may help a pod that was refused.

mod extras;
mod hint;
mod things;
mod volumes;

use std::collections::BTreeMap;

use crate::node::NodeSpec;
use crate::pod::Pod;

pub(crate) use extras::Extras;
pub(crate) use hint::Hint;
pub(crate) use things::{Details, Thing, ThingKind, Things};
pub(crate) use volumes::Volumes;

/// Something that happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<'a> {
    pub sort: Sort,
    pub about: About<'a>,
}

/// What sort of thing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    NodeAdded,
    NodeDeleted,
    NodeAllocatable,
    NodeLabels,
    NodeTaints,
    NodeConditions,
    NodeAnnotations,
    NodeFeatures,
    /// A pod came to a node.
    PodAdded,
    /// A pod left its node, or is no longer promised one.
    PodDeleted,
    PodLabels,
    PodScaledDown,
    PodGatesGone,
    PodTolerations,
    PodClaims,
    /// Nothing of the above changed of a pod, but something did.
    PodOther,
    Added(ThingKind),
    Changed(ThingKind),
    Deleted(ThingKind),
}

/// What it happened to: how that was, and how it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About<'a> {
    Node {
        old: Option<&'a NodeSpec>,
        new: Option<&'a NodeSpec>,
    },
    /// The volumes are those of a pod that left, if known.
    Pod {
        old: Option<&'a Pod>,
        new: Option<&'a Pod>,
        volumes: Option<&'a Volumes>,
    },
    Thing {
        old: Option<&'a Thing>,
        new: Option<&'a Thing>,
    },
}

/// How a node changed, in the original's order.
pub(crate) fn node_changes(old: &NodeSpec, new: &NodeSpec) -> Vec<Sort> {
    let conditions = |node: &NodeSpec| node.conditions.iter().cloned().collect::<BTreeMap<_, _>>();
    let changes = [
        (old.unschedulable && !new.unschedulable, Sort::NodeTaints),
        (old.allocatable != new.allocatable || old.pods != new.pods, Sort::NodeAllocatable),
        (old.labels != new.labels, Sort::NodeLabels),
        (old.taints != new.taints, Sort::NodeTaints),
        (conditions(old) != conditions(new), Sort::NodeConditions),
        (old.annotations != new.annotations, Sort::NodeAnnotations),
        (old.declared_features != new.declared_features, Sort::NodeFeatures),
        // What could not be understood says nothing of what changed.
        (old.trouble != new.trouble, Sort::NodeAllocatable),
    ];
    changes.into_iter().filter(|(changed, _)| *changed).map(|(_, sort)| sort).collect()
}

/// How a pod changed, in the original's order. Of a pod on a node nobody asks for what is beside the pod itself.
pub(crate) fn pod_changes(old: &Pod, new: &Pod, extras: Option<(&Extras, &Extras)>) -> Vec<Sort> {
    let changes = [
        (old.labels != new.labels, Sort::PodLabels),
        (is_scaled_down(old, new), Sort::PodScaledDown),
        (!old.gates.is_empty() && new.gates.is_empty(), Sort::PodGatesGone),
        (old.shape.tolerations.len() != new.shape.tolerations.len(), Sort::PodTolerations),
        (extras.is_some_and(|(old, new)| old.claims != new.claims), Sort::PodClaims),
    ];
    let mut found: Vec<Sort> =
        changes.into_iter().filter(|(changed, _)| *changed).map(|(_, sort)| sort).collect();
    if found.is_empty() {
        found.push(Sort::PodOther);
    }
    found
}

/// Whether a pod asks for less of anything.
fn is_scaled_down(old: &Pod, new: &Pod) -> bool {
    let (old, new) = (&old.usage.requested, &new.usage.requested);
    old.cpu > new.cpu
        || old.memory > new.memory
        || old.ephemeral_storage > new.ephemeral_storage
        || old.scalars.iter().any(|(id, amount)| {
            // One that is not named any more counts even if there was nothing of it.
            !new.scalars.iter().any(|(other, _)| other == id) || *amount > new.scalar(*id)
        })
}
