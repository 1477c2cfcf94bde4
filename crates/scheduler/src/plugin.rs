//! The scheduler's plugins by name.

use std::fmt;

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

impl Plugin {
    /// Its name in configurations and verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            Plugin::SchedulingGates => "SchedulingGates",
            Plugin::PrioritySort => "PrioritySort",
            Plugin::NodeUnschedulable => "NodeUnschedulable",
            Plugin::NodeName => "NodeName",
            Plugin::TaintToleration => "TaintToleration",
            Plugin::NodeAffinity => "NodeAffinity",
            Plugin::NodePorts => "NodePorts",
            Plugin::NodeResourcesFit => "NodeResourcesFit",
            Plugin::VolumeRestrictions => "VolumeRestrictions",
            Plugin::NodeVolumeLimits => "NodeVolumeLimits",
            Plugin::VolumeBinding => "VolumeBinding",
            Plugin::VolumeZone => "VolumeZone",
            Plugin::PodTopologySpread => "PodTopologySpread",
            Plugin::InterPodAffinity => "InterPodAffinity",
            Plugin::DynamicResources => "DynamicResources",
            Plugin::DefaultPreemption => "DefaultPreemption",
            Plugin::NodeResourcesBalancedAllocation => "NodeResourcesBalancedAllocation",
            Plugin::ImageLocality => "ImageLocality",
            Plugin::DefaultBinder => "DefaultBinder",
            Plugin::NodeDeclaredFeatures => "NodeDeclaredFeatures",
            Plugin::Unreadable => "Unreadable",
        }
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
