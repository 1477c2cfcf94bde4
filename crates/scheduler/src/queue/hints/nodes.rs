//! What a new or changed node means to pods that were refused.

use kubernetes::labels::Labels;
use kubernetes::taints::first_untolerated;

use super::super::super::node::NodeSpec;
use super::super::super::pod::{Pod, SpreadConstraint};
use super::super::super::settings::AddedAffinity;
use super::super::super::world::World;

/// Whether the node is not cordoned, and was or is new.
pub(super) fn uncordoned(old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    !new.unschedulable && old.is_none_or(|old| old.unschedulable)
}

/// Whether the pod tolerates all taints, and did not before.
pub(super) fn tolerated_now(pod: &Pod, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let tolerates = |node: &NodeSpec| first_untolerated(&node.taints, &pod.shape.tolerations).is_none();
    tolerates(new) && old.is_none_or(|old| !tolerates(old))
}

/// Whether the pod selects the node, and did not before. One whose terms make no sense is always tried again.
pub(super) fn selected_now(pod: &Pod, added: &AddedAffinity, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let enforced = added
        .required
        .as_ref()
        .is_none_or(|nodes| nodes.matches(&new.name, |key| new.labels.get(key)).unwrap_or(false));
    if !enforced {
        return false;
    }
    let selects = |node: &NodeSpec| pod.shape.required_nodes.matches(&node.name, &node.labels);
    match (selects(new), old.map(selects)) {
        (Ok(false), _) | (Ok(true), Some(Ok(true))) => false,
        (Ok(true), _) | (Err(_), _) => true,
    }
}

/// Whether the pod would fit on the node if nobody else were there, and something that it needs grew.
pub(super) fn fits_now(world: &World, pod: &Pod, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let asked = &pod.shape.requests;
    let by_device = |id, has: i64| has == 0 && world.relations.is_device(world.scalars.name(id));
    let has = &new.allocatable;
    let fits = new.pods >= 1
        && (asked.is_nothing()
            || (asked.cpu <= has.cpu.max(0)
                && asked.memory <= has.memory.max(0)
                && asked.ephemeral_storage <= has.ephemeral_storage.max(0)
                && asked.scalars.iter().all(|&(id, wanted)| {
                    let has = has.scalar(id);
                    wanted == 0 || wanted <= has || by_device(id, has)
                })));
    let Some(old) = old.filter(|_| fits) else { return fits };
    let had = &old.allocatable;
    new.pods > old.pods
        || (asked.cpu > 0 && has.cpu > had.cpu)
        || (asked.memory > 0 && has.memory > had.memory)
        || (asked.ephemeral_storage > 0 && has.ephemeral_storage > had.ephemeral_storage)
        || asked.scalars.iter().any(|&(id, wanted)| {
            let now = has.scalar(id);
            wanted != 0 && (now > had.scalar(id) || by_device(id, now))
        })
}

/// Whether the node came into a domain that the pod wants to be in, or out of one that it must not be in.
pub(super) fn domain_changed(pod: &Pod, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let value = |node: &NodeSpec, key: &str| node.labels.get_shared(key).cloned();
    let near = pod.shape.required_affinity.iter().any(|term| match old {
        None => value(new, &term.key).is_some(),
        Some(old) => value(new, &term.key).is_some() && value(old, &term.key) != value(new, &term.key),
    });
    near || pod.shape.required_anti_affinity.iter().any(|term| match old {
        None => true,
        Some(old) => value(old, &term.key).is_some() && value(old, &term.key) != value(new, &term.key),
    })
}

/// Whether the domains over which the pod is spread changed.
pub(super) fn spread(
    constraints: &[SpreadConstraint],
    old: Option<&NodeSpec>,
    new: Option<&NodeSpec>,
) -> bool {
    let counts = |node: &NodeSpec| constraints.iter().all(|one| node.labels.get(&one.key).is_some());
    // A label that is missing is as one that is empty here.
    let value = |labels: &Labels, key: &str| labels.get(key).unwrap_or_default().to_owned();
    match (old, new) {
        (Some(old), Some(new)) => {
            let moved =
                || constraints.iter().any(|one| value(&old.labels, &one.key) != value(&new.labels, &one.key));
            counts(old) != counts(new) || (counts(new) && (moved() || old.taints != new.taints))
        }
        (None, Some(node)) | (Some(node), None) => counts(node),
        (None, None) => true,
    }
}
