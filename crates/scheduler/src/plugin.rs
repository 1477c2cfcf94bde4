//! The names of kube-scheduler's plugins and extension points. The implementations are in `plugins`.

/// One of kube-scheduler's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    /// Keeps pods out of the queue until their scheduling gates are removed.
    SchedulingGates,
    /// Orders the queue by priority.
    PrioritySort,
    /// `spec.unschedulable` of nodes.
    NodeUnschedulable,
    /// `spec.nodeName`.
    NodeName,
    /// Taints and tolerations.
    TaintToleration,
    /// `nodeSelector` and node affinity.
    NodeAffinity,
    /// Host ports.
    NodePorts,
    /// Requests against a node's free resources.
    NodeResourcesFit,
    /// Disks and ReadWriteOncePod claims that only one pod may use.
    VolumeRestrictions,
    /// How many volumes a node can attach.
    NodeVolumeLimits,
    /// Claims, and the volumes they are or can be bound to.
    VolumeBinding,
    /// The zones of volumes.
    VolumeZone,
    /// Topology spread constraints.
    PodTopologySpread,
    /// Affinity and anti-affinity between pods.
    InterPodAffinity,
    /// Resource claims.
    DynamicResources,
    /// Preemption of lower-priority pods.
    DefaultPreemption,
    /// Prefers nodes whose resources are used evenly.
    NodeResourcesBalancedAllocation,
    /// Prefers nodes that have the pod's images.
    ImageLocality,
    /// Binds.
    DefaultBinder,
    /// Node features that a pod requires.
    NodeDeclaredFeatures,
    /// Not one of kube-scheduler's: rejects pods and nodes because of unreadable objects in a recording.
    Unreadable,
}

/// An extension point of the scheduling framework.
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
