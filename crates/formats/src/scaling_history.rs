//! The database of Gardener's scaling history: what its recorder kept of one cluster, in a table a kind.
//!
//! A row holds parts of an object. Read, it becomes an object that the recorder would have seen so; written, an object
//! becomes the row that the recorder would have made of it, if it would have made one. Rows have no place for when they
//! were seen: pods and nodes carry the last change of a condition. Files of the layouts since 2024-06-24 are read,
//! those of the layout since 2024-10-10 written.

use crate::{Given, Input, Items, Result};

pub(crate) mod info;
mod plan;
mod reader;
mod rows;
mod tables;
pub(crate) mod times;
mod writer;

pub use info::{
    Labels, MachineDeploymentInfo, Meta, NodeInfo, PodInfo, PriorityClassInfo, Resources, ScheduleStatus,
    SettingsInfo, WorkerPoolInfo,
};
pub use writer::Writer;

/// What a database says, in order of time. Memory follows the largest row, not the file: rows are put in order on
/// disk.
pub fn read(input: Input, given: Given) -> Result<Items> {
    Ok(Box::new(reader::Reader::open(input, given)?))
}
