//! The plugins, a file or folder each.

pub(crate) mod arguments;
pub(crate) mod elastic;
pub(crate) mod gpu_pack;
pub(crate) mod gpu_sharing_order;
pub(crate) mod gpu_spread;
pub(crate) mod kubeflow;
mod matchable_pods;
pub(crate) mod min_runtime;
pub(crate) mod node_availability;
pub(crate) mod node_fit;
pub(crate) mod node_placement;
pub(crate) mod nominated_node;
pub(crate) mod pod_affinity;
pub(crate) mod predicates;
pub(crate) mod priority;
pub(crate) mod proportion;
pub(crate) mod ray;
pub(crate) mod registry;
pub(crate) mod resource_type;
mod scores;
pub(crate) mod sub_group_order;
pub(crate) mod task_order;
pub(crate) mod topology;
