//! What it means to pods that were refused that another pod came, changed or left, or that they changed themselves.

use kubernetes::amounts::Amounts;
use kubernetes::labels::Labels;
use kubernetes::taints::{NO_SCHEDULE, Taint, tolerated};

use super::super::super::plugin::Plugin;
use super::super::super::plugins::pod_topology_spread::constraints;
use super::super::super::pod::{Pod, SpreadConstraint, Term};
use super::super::super::rules::Rules;
use super::super::super::world::World;

/// How a pod was, and how it is.
#[derive(Clone, Copy)]
pub(super) struct Change<'a> {
    pub old: Option<&'a Pod>,
    pub new: Option<&'a Pod>,
}

/// The constraints by which a pod must be spread.
pub(super) fn hard_constraints(world: &World, rules: &Rules, pod: &Pod) -> Vec<SpreadConstraint> {
    constraints(world, &rules.profile.spread, pod, true)
}

/// Whether a pod's coming, going or changing may help against a plugin.
pub(super) fn helps(plugin: Plugin, pod: &Pod, change: Change<'_>) -> bool {
    let itself = change.is_of(pod);
    match (plugin, change.old, change.new) {
        (Plugin::NodeUnschedulable, _, Some(new)) => itself && tolerates_cordon(new),
        (Plugin::SchedulingGates | Plugin::TaintToleration | Plugin::DynamicResources, ..) => itself,
        (Plugin::NodePorts, Some(gone), None) => {
            let conflicts = |port| pod.shape.ports.iter().any(|own| own.conflicts(port));
            is_held(gone) && gone.shape.ports.iter().any(conflicts)
        }
        (Plugin::NodeResourcesFit, Some(gone), None) => is_held(gone),
        (Plugin::NodeResourcesFit, Some(old), Some(new)) => {
            itself || (new.node_name.is_some() && freed(pod, old, new))
        }
        (Plugin::NodeDeclaredFeatures, Some(old), Some(new)) => {
            itself && old.shape.features != new.shape.features
        }
        (Plugin::InterPodAffinity, ..) => affinity(pod, change),
        // One that makes no sense may do so after a change, and one may have been the trouble of a node.
        (Plugin::Unreadable, ..) => itself || change.new.is_none(),
        _ => true,
    }
}

/// Whether it may help one that must be spread by these constraints.
pub(super) fn spread(constraints: &[SpreadConstraint], pod: &Pod, change: Change<'_>) -> bool {
    let itself = change.is_of(pod);
    let involved = |other: &Pod| itself || (is_held(other) && other.name.namespace == pod.name.namespace);
    if ![change.old, change.new].into_iter().flatten().all(involved) {
        return false;
    }
    let means =
        |constraint: &SpreadConstraint, pod: &Pod| constraint.selector.matches(|key| pod.labels.get(key));
    match (change.old, change.new) {
        (Some(old), Some(new)) => {
            let tolerates_more = itself
                && old.shape.tolerations != new.shape.tolerations
                && constraints.iter().any(|constraint| constraint.honor_taints);
            tolerates_more
                || (old.labels != new.labels
                    && constraints.iter().any(|constraint| means(constraint, old) != means(constraint, new)))
        }
        (Some(one), None) | (None, Some(one)) => constraints.iter().any(|constraint| means(constraint, one)),
        (None, None) => true,
    }
}

/// Whether it may help one that must be near some pods, or far from them or they from it.
fn affinity(pod: &Pod, change: Change<'_>) -> bool {
    let (near, far) = (&pod.shape.required_affinity, &pod.shape.required_anti_affinity);
    if change.old.is_some() && change.new.is_some() && change.is_of(pod) {
        return true;
    }
    if ![change.old, change.new].into_iter().flatten().all(is_held) {
        return false;
    }
    match (change.old, change.new) {
        (Some(old), Some(new)) => {
            (!all_mean(near, old) && all_mean(near, new)) || (all_mean(far, old) && !all_mean(far, new))
        }
        (None, Some(new)) => all_mean(near, new),
        (Some(gone), None) => all_mean(far, gone) || all_mean(&gone.shape.required_anti_affinity, pod),
        (None, None) => true,
    }
}

/// Whether there are terms and all of them mean a pod. Labels of namespaces are not looked up here.
fn all_mean(terms: &[Term], pod: &Pod) -> bool {
    let means = |term: &Term| term.matches(&pod.name.namespace, &pod.labels, &Labels::NONE);
    !terms.is_empty() && terms.iter().all(means)
}

/// Whether a pod takes something of a node: it is there, or was promised it.
fn is_held(pod: &Pod) -> bool {
    pod.node_name.is_some() || pod.nominated_node.is_some()
}

fn tolerates_cordon(pod: &Pod) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: NO_SCHEDULE.into(),
    };
    tolerated(&pod.shape.tolerations, &taint)
}

/// Whether another pod takes less of something that the pod asks for.
fn freed(pod: &Pod, old: &Pod, new: &Pod) -> bool {
    let (asked, old, new): (&Amounts, &Amounts, &Amounts) =
        (&pod.usage.requested, &old.usage.requested, &new.usage.requested);
    (asked.cpu != 0 && old.cpu > new.cpu)
        || (asked.memory != 0 && old.memory > new.memory)
        || (asked.ephemeral_storage != 0 && old.ephemeral_storage > new.ephemeral_storage)
        || asked.scalars.iter().any(|&(id, wanted)| wanted != 0 && old.scalar(id) > new.scalar(id))
}

// === impl Change ===

impl Change<'_> {
    /// Whether the pod itself changed.
    fn is_of(&self, pod: &Pod) -> bool {
        self.new.or(self.old).is_some_and(|other| other.name == pod.name)
    }
}
