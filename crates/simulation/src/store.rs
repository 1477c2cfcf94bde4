//! The objects of a run: pods, nodes, the demands that pods belong to, and the objects that controllers write.

mod demands;
mod nodes;
mod objects;
mod pod;
mod pods;

pub(crate) use demands::DemandTable;
pub(crate) use nodes::{NodeTable, StoredNode};
pub(crate) use objects::{ObjectTable, kind_of};
pub(crate) use pod::{Pod, PodStage};
pub(crate) use pods::PodTable;
