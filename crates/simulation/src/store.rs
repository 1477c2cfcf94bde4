//! The objects of a run: pods, nodes, the demands that pods are made for, and what controllers write.

mod demands;
mod nodes;
mod objects;
mod pod;
mod pods;

pub(crate) use demands::Demands;
pub(crate) use nodes::NodeTable;
pub(crate) use objects::{ObjectTable, kind_of, name_of};
pub(crate) use pod::{Pod, Stage};
pub(crate) use pods::PodTable;
