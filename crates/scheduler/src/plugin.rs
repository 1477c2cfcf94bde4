//! The scheduler's plugins and extension points. What a plugin is called and does, its file in `plugins` says.

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
