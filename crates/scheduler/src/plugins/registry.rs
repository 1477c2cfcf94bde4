//! The plugin registry: all plugins, and the registration of each.

use std::fmt;

use super::registration::Registration;
use crate::events::{ClusterEvent, HintContext};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::plugins;
use crate::settings::Version;

impl Plugin {
    /// All plugins, in the order of the default profile of 1.36, which has them all.
    pub(crate) const ALL: [Plugin; 20] = [
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

    /// Its name in configurations and statuses.
    pub const fn name(self) -> &'static str {
        self.registration().name
    }

    /// Its registration.
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

    /// Its extension points.
    pub(crate) fn extension_points(self, version: Version) -> &'static [ExtensionPoint] {
        (self.registration().extension_points)(version)
    }

    /// Whether it receives such an event. As in kube-scheduler, taint updates go to all plugins that are registered for
    /// `NodeAdd`.
    pub(crate) fn is_registered_for(self, cluster_event: ClusterEvent) -> bool {
        let event = if cluster_event == ClusterEvent::UpdateNodeTaint {
            ClusterEvent::NodeAdd
        } else {
            cluster_event
        };
        self.registration().events.contains(&event)
    }

    /// Whether an event that it is registered for may help a pod that it rejected.
    pub(crate) fn evaluate_hint(self, hint: &HintContext<'_>) -> bool {
        let registration = self.registration();
        let is_registered = registration.events.contains(&hint.event.cluster_event);
        !is_registered || (registration.queueing_hint)(hint)
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
    fn every_filter_plugin_registers_its_filter_traits() {
        for plugin in Plugin::ALL {
            let filters = plugin.extension_points(Version::V1_36).contains(&ExtensionPoint::Filter);
            assert_eq!(plugin.registration().filter.is_some(), filters, "{plugin}");
        }
    }

    #[test]
    fn all_has_every_plugin_but_unreadable() {
        let numbers: Vec<usize> = Plugin::ALL.iter().map(|plugin| *plugin as usize).collect();
        assert!((0..Plugin::Unreadable as usize).all(|number| numbers.contains(&number)), "{numbers:?}");
    }

    #[test]
    fn a_plugins_name_is_the_name_of_its_variant() {
        for plugin in Plugin::ALL.into_iter().chain([Plugin::Unreadable]) {
            assert_eq!(plugin.name(), format!("{plugin:?}"));
        }
    }
}
