//! The plugins and their names.

/// A plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plugin {
    /// Checks of a pod on a node.
    Predicates,
    /// Shares of queues.
    Proportion,
    /// Orders jobs by priority.
    Priority,
    /// Orders jobs by how many of the pods they need they have.
    Elastic,
    /// Orders pods of Kubeflow jobs.
    Kubeflow,
    /// Orders pods of Ray clusters.
    Ray,
    /// Prefers nodes with idle resources.
    NodeAvailability,
    /// Prefers nodes with a shared GPU that has room.
    GpuSharingOrder,
    /// Prefers full shared GPUs.
    GpuPack,
    /// Prefers empty shared GPUs.
    GpuSpread,
    /// Keeps pods without GPUs on nodes without GPUs.
    ResourceType,
    /// Orders subgroups.
    SubGroupOrder,
    /// Orders pods by a label.
    TaskOrder,
    /// Prefers nominated nodes.
    NominatedNode,
    /// Dynamic resource allocation: pods that need it are refused.
    DynamicResources,
    /// Packs or spreads pods over nodes.
    NodePlacement,
    /// Prefers nodes by affinity between pods.
    PodAffinity,
    /// Protects jobs that started recently.
    MinRuntime,
    /// Places jobs within topology domains.
    Topology,
    /// NUMA topologies of nodes: refused where nodes have them.
    Numa,
    /// Serves snapshots; decides nothing.
    Snapshot,
    /// Serves the order of jobs; decides nothing.
    ReflectJobOrder,
    /// Searches for victims node by node.
    NodeLocalGreedy,
    /// Searches for victims on several nodes.
    MultiNodeGang,
}

impl Plugin {
    /// All plugins.
    pub const ALL: [Plugin; 24] = [
        Plugin::Predicates,
        Plugin::Proportion,
        Plugin::Priority,
        Plugin::Elastic,
        Plugin::Kubeflow,
        Plugin::Ray,
        Plugin::NodeAvailability,
        Plugin::GpuSharingOrder,
        Plugin::GpuPack,
        Plugin::GpuSpread,
        Plugin::ResourceType,
        Plugin::SubGroupOrder,
        Plugin::TaskOrder,
        Plugin::NominatedNode,
        Plugin::DynamicResources,
        Plugin::NodePlacement,
        Plugin::PodAffinity,
        Plugin::MinRuntime,
        Plugin::Topology,
        Plugin::Numa,
        Plugin::Snapshot,
        Plugin::ReflectJobOrder,
        Plugin::NodeLocalGreedy,
        Plugin::MultiNodeGang,
    ];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Predicates => "predicates",
            Plugin::Proportion => "proportion",
            Plugin::Priority => "priority",
            Plugin::Elastic => "elastic",
            Plugin::Kubeflow => "kubeflow",
            Plugin::Ray => "ray",
            Plugin::NodeAvailability => "nodeavailability",
            Plugin::GpuSharingOrder => "gpusharingorder",
            Plugin::GpuPack => "gpupack",
            Plugin::GpuSpread => "gpuspread",
            Plugin::ResourceType => "resourcetype",
            Plugin::SubGroupOrder => "subgrouporder",
            Plugin::TaskOrder => "taskorder",
            Plugin::NominatedNode => "nominatednode",
            Plugin::DynamicResources => "dynamicresources",
            Plugin::NodePlacement => "nodeplacement",
            Plugin::PodAffinity => "podaffinity",
            Plugin::MinRuntime => "minruntime",
            Plugin::Topology => "topology",
            Plugin::Numa => "numa",
            Plugin::Snapshot => "snapshot",
            Plugin::ReflectJobOrder => "reflectjoborder",
            Plugin::NodeLocalGreedy => "sg-nodelocalgreedy",
            Plugin::MultiNodeGang => "sg-multinodegang",
        }
    }

    /// Whether it orders jobs by itself.
    pub(crate) fn orders_jobs(self) -> bool {
        matches!(self, Plugin::Priority | Plugin::Elastic)
    }

    /// Whether it scores nodes.
    pub(crate) fn scores_nodes(self) -> bool {
        matches!(
            self,
            Plugin::NodeAvailability
                | Plugin::GpuSharingOrder
                | Plugin::ResourceType
                | Plugin::NominatedNode
                | Plugin::NodePlacement
                | Plugin::PodAffinity
                | Plugin::Topology
        )
    }

    /// The plugin of that name.
    pub(crate) fn of(name: &str) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|plugin| plugin.name() == name)
    }
}
