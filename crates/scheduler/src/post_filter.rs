//! When no node takes a pod: asks the plugins that make room, in their order.

use model::NamespacedName;

use super::answer::Rejection;
use super::cards::Cards;
use super::cycle::Diagnosis;
use super::ids::{NodeId, PodId};
use super::look::Look;
use super::plugin::Plugin;
use super::plugins::dynamic_resources;
use super::preemption::{Room, make_room};

/// What follows for promises of nodes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// The pod keeps what it was promised, if anything.
    Kept,
    /// It is promised this node, and these pods no longer are.
    Made(NodeId, Vec<PodId>),
    /// What it was promised is void.
    Void,
}

/// How the chance of the original is replaced, and what the caller wants.
pub(super) struct Ways<'a> {
    /// When pods that have not started yet count as started, in nanoseconds.
    pub now: i64,
    /// Where to begin among so many nodes.
    pub offset: &'a mut dyn FnMut(usize) -> usize,
    /// Whether weaker pods lose their promise of the same node.
    pub clears: bool,
}

/// Makes room, if possible, and completes what is said of the pod.
pub(super) fn post_filter(
    look: &Look<'_>,
    diagnosis: &Diagnosis,
    cards: &Cards,
    ways: Ways<'_>,
    rejection: &mut Rejection,
) -> Promise {
    let profile = &look.rules.profile;
    let is_unreadable = diagnosis.pre_filter.as_ref().is_some_and(|one| one.plugin == Plugin::Unreadable);
    if profile.post_filter.is_empty() || is_unreadable {
        return Promise::Void;
    }
    let mut promise = Promise::Kept;
    let mut said: Vec<String> = Vec::new();
    for plugin in &profile.post_filter {
        match plugin {
            Plugin::DynamicResources if has_no_state(look, diagnosis) => {
                // An error: what others said before is lost, and nobody else is asked.
                rejection.post_filter = dynamic_resources::NO_STATE.to_owned();
                return Promise::Kept;
            }
            Plugin::DynamicResources => said.push(dynamic_resources::NOTHING_TO_DEALLOCATE.to_owned()),
            Plugin::DefaultPreemption => match make_room(look, diagnosis, cards, ways.now, ways.offset) {
                Room::NotEligible(reason) => said.push(reason),
                Room::Failed(error) => {
                    rejection.post_filter = error;
                    return Promise::Kept;
                }
                Room::Nowhere(reason) => {
                    said.push(reason);
                    promise = Promise::Void;
                }
                Room::On(node, victims) => return on(look, node, &victims, ways.clears, rejection),
            },
            // These make no room.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::VolumeBinding
            | Plugin::VolumeZone
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => {}
        }
    }
    rejection.post_filter = said.join(", ");
    promise
}

/// Whether the pod was refused before the plugin had a look at it.
fn has_no_state(look: &Look<'_>, diagnosis: &Diagnosis) -> bool {
    let order = &look.rules.profile.pre_filter;
    let Some(own) = order.iter().position(|plugin| *plugin == Plugin::DynamicResources) else { return true };
    let refused_by = diagnosis.pre_filter.as_ref().map(|refusal| refusal.plugin);
    refused_by
        .is_some_and(|plugin| order.iter().position(|other| *other == plugin).is_none_or(|place| place < own))
}

/// Room is made on a node.
fn on(look: &Look<'_>, node: NodeId, victims: &[PodId], clears: bool, rejection: &mut Rejection) -> Promise {
    let world = look.world;
    let name = |pod: &PodId| world.pod(*pod).name.clone();
    let going: Vec<NamespacedName> =
        victims.iter().filter(|pod| !world.pod(**pod).terminating).map(name).collect();
    rejection.victims = going;
    rejection.victims.sort_unstable();
    let weaker = look.nominations.on(world.nodes.name(node)).iter().copied();
    let weaker = weaker
        .filter(|pod| clears && *pod != look.pod_id && world.pod(*pod).priority() < look.pod.priority());
    let weaker: Vec<PodId> = weaker.collect();
    rejection.cleared = weaker.iter().map(name).collect();
    rejection.cleared.sort_unstable();
    rejection.nominated_node = Some(world.nodes.name(node).clone());
    Promise::Made(node, weaker)
}
