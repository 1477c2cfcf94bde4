//! The scheduler's plugins by name, and what each says of itself.

use std::fmt;

use crate::plugins;
use crate::queue::{Hint, Sort};
use crate::settings::Version;

/// One of kube-scheduler's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    /// Keeps pods back until their gates are gone.
    SchedulingGates,
    /// Orders the queue by priority.
    PrioritySort,
    /// Cordons.
    NodeUnschedulable,
    /// `spec.nodeName`.
    NodeName,
    /// Taints and tolerations.
    TaintToleration,
    /// `nodeSelector` and node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Requests against what a node has left.
    NodeResourcesFit,
    /// Disks and claims that one pod alone may use.
    VolumeRestrictions,
    /// How many volumes a node can attach.
    NodeVolumeLimits,
    /// Claims and the volumes they could have.
    VolumeBinding,
    /// The zones of volumes.
    VolumeZone,
    /// Topology spread constraints.
    PodTopologySpread,
    /// Affinity and anti-affinity between pods.
    InterPodAffinity,
    /// Resource claims.
    DynamicResources,
    /// Makes room by deleting weaker pods.
    DefaultPreemption,
    /// Likes nodes on which no resource runs out before the others.
    NodeResourcesBalancedAllocation,
    /// Likes nodes that have the images.
    ImageLocality,
    /// Binds.
    DefaultBinder,
    /// Features of the kubelet that a pod needs.
    NodeDeclaredFeatures,
    /// Not one of kube-scheduler's: it refuses what a recording holds but cannot be understood.
    Unreadable,
}

/// Where in the life of a pod plugins take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtensionPoint {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
}

/// What a plugin says of itself, each in its own file.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Its name in configurations and verdicts.
    pub name: &'static str,
    /// Where it takes part.
    pub points: fn(Version) -> &'static [ExtensionPoint],
    /// Its filter, if it has one.
    pub filter: Option<Filter>,
    /// Its weight in the default profile; zero if it does not score there.
    pub weight: i32,
    /// The first version that has it.
    pub since: Version,
    /// The first version whose default profile has it.
    pub default_since: Version,
    /// The events that may help a pod that it refused.
    pub events: &'static [Sort],
    /// Whether one of these events does. Taints of nodes are told to whoever asks for new nodes, and help those who do
    /// not ask for them.
    pub queueing_hint: fn(&Hint<'_>) -> bool,
}

/// What is to be known of a filter besides its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Whether it asks only the node and what is on it: its answers for one shape of pods can be kept until either
    /// changes.
    pub is_local: bool,
    /// Whether its answer can change with the pods on a node.
    pub is_about_pods: bool,
    /// What it says where a profile lets it decide but not prepare, if it cannot do without.
    pub unprepared: Option<&'static str>,
}

// === impl Plugin ===

impl Plugin {
    /// Those of the default profile of 1.36, in its order.
    pub(crate) const DEFAULT: [Plugin; 20] = [
        Plugin::SchedulingGates,
        Plugin::PrioritySort,
        Plugin::NodeUnschedulable,
        Plugin::NodeName,
        Plugin::TaintToleration,
        Plugin::NodeAffinity,
        Plugin::NodePorts,
        Plugin::NodeResourcesFit,
        Plugin::VolumeRestrictions,
        Plugin::NodeVolumeLimits,
        Plugin::VolumeBinding,
        Plugin::VolumeZone,
        Plugin::PodTopologySpread,
        Plugin::InterPodAffinity,
        Plugin::DynamicResources,
        Plugin::DefaultPreemption,
        Plugin::NodeResourcesBalancedAllocation,
        Plugin::ImageLocality,
        Plugin::DefaultBinder,
        Plugin::NodeDeclaredFeatures,
    ];

    /// Its name in configurations and verdicts.
    pub const fn name(self) -> &'static str {
        self.registration().name
    }

    /// What it says of itself.
    pub(crate) const fn registration(self) -> &'static Registration {
        match self {
            Plugin::SchedulingGates => &plugins::scheduling_gates::REGISTRATION,
            Plugin::PrioritySort => &plugins::priority_sort::REGISTRATION,
            Plugin::NodeUnschedulable => &plugins::node_unschedulable::REGISTRATION,
            Plugin::NodeName => &plugins::node_name::REGISTRATION,
            Plugin::TaintToleration => &plugins::taint_toleration::REGISTRATION,
            Plugin::NodeAffinity => &plugins::node_affinity::REGISTRATION,
            Plugin::NodePorts => &plugins::node_ports::REGISTRATION,
            Plugin::NodeResourcesFit => &plugins::node_resources_fit::REGISTRATION,
            Plugin::VolumeRestrictions => &plugins::volume_restrictions::REGISTRATION,
            Plugin::NodeVolumeLimits => &plugins::node_volume_limits::REGISTRATION,
            Plugin::VolumeBinding => &plugins::volume_binding::REGISTRATION,
            Plugin::VolumeZone => &plugins::volume_zone::REGISTRATION,
            Plugin::PodTopologySpread => &plugins::pod_topology_spread::REGISTRATION,
            Plugin::InterPodAffinity => &plugins::inter_pod_affinity::REGISTRATION,
            Plugin::DynamicResources => &plugins::dynamic_resources::REGISTRATION,
            Plugin::DefaultPreemption => &plugins::default_preemption::REGISTRATION,
            Plugin::NodeResourcesBalancedAllocation => {
                &plugins::node_resources_balanced_allocation::REGISTRATION
            }
            Plugin::ImageLocality => &plugins::image_locality::REGISTRATION,
            Plugin::DefaultBinder => &plugins::default_binder::REGISTRATION,
            Plugin::NodeDeclaredFeatures => &plugins::node_declared_features::REGISTRATION,
            Plugin::Unreadable => &plugins::unreadable::REGISTRATION,
        }
    }

    /// Where it takes part.
    pub(crate) fn points(self, version: Version) -> &'static [ExtensionPoint] {
        (self.registration().points)(version)
    }

    /// Whether it is to be told of such events.
    pub(crate) fn asks(self, sort: Sort) -> bool {
        let sort = if sort == Sort::NodeTaints { Sort::NodeAdded } else { sort };
        self.registration().events.contains(&sort)
    }

    /// Whether an event that it asks for may help a pod that it refused.
    pub(crate) fn is_helped(self, hint: &Hint<'_>) -> bool {
        let own = self.registration();
        let is_asked_for = own.events.contains(&hint.event.sort);
        !is_asked_for || (own.queueing_hint)(hint)
    }
}

// === impl Registration ===

impl Registration {
    /// What a plugin has that says nothing else of itself.
    pub(crate) const EMPTY: Registration = Registration {
        name: "",
        points: |_| &[],
        filter: None,
        weight: 0,
        since: Version::V1_32,
        default_since: Version::V1_32,
        events: &[],
        queueing_hint: |_| true,
    };
}

// === impl Filter ===

impl Filter {
    /// One that asks the node alone.
    pub(crate) const OF_NODE: Filter = Filter { is_local: true, is_about_pods: false, unprepared: None };
    /// One that asks the node and the pods on it.
    pub(crate) const OF_NODE_AND_PODS: Filter = Filter { is_about_pods: true, ..Filter::OF_NODE };
    /// One that asks more than the node, but no pods.
    pub(crate) const BEYOND: Filter = Filter { is_local: false, is_about_pods: false, unprepared: None };
    /// One that asks more than the node, pods among it.
    pub(crate) const BEYOND_AND_PODS: Filter = Filter { is_about_pods: true, ..Filter::BEYOND };

    /// The same, which says this where it could not prepare.
    pub(crate) const fn unprepared(self, error: &'static str) -> Filter {
        Filter { unprepared: Some(error), ..self }
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_filters_says_how() {
        for plugin in Plugin::DEFAULT {
            let filters = plugin.points(Version::V1_36).contains(&ExtensionPoint::Filter);
            assert_eq!(plugin.registration().filter.is_some(), filters, "{plugin}");
        }
    }

    #[test]
    fn a_plugin_is_called_what_its_variant_is_called() {
        for plugin in Plugin::DEFAULT.into_iter().chain([Plugin::Unreadable]) {
            assert_eq!(plugin.name(), format!("{plugin:?}"));
        }
    }
}
