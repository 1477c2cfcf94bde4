//! Parsed views of pods, nodes and Events: the fields that components read, parsed once for each version of an object
//! and shared.
//!
//! Components make their own structures from a view. An unreadable object still has a view, which carries the error.

mod event;
mod informer_event;
mod meta;
mod node;
mod pod;
mod pod_spec;
mod pod_spec_cache;
mod pod_status;
mod volume;

pub use event::{EventSeries, EventView, ObjectReference};
pub use informer_event::{InformerEvent, NodeEvent, PodEvent};
pub use meta::{ObjectMeta, OwnerReference, controller_of};
pub use node::{NodeCondition, NodeImage, NodeView};
pub use pod::PodView;
pub use pod_spec::{
    Affinity, Container, ContainerPort, DEFAULT_SCHEDULER, NodeAffinity, PodAffinity, PodAffinityTerm,
    PodSpec, PreferredNodes, PreferredPods, ResourceRequirements, TopologySpreadConstraint,
};
pub use pod_spec_cache::PodSpecCache;
pub use pod_status::{ConditionStatus, ContainerStatus, Phase, PodCondition, PodConditionType, PodStatus};
pub use volume::{
    AwsElasticBlockStore, AzureDisk, GcePersistentDisk, IscsiDisk, RbdImage, Volume, VolumeSource,
};
