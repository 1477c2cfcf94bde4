//! The database of Gardener's scaling history: the objects that its recorder stored of one cluster, one table per kind.
//!
//! A row holds some fields of an object. The reader makes of each row an object from which the recorder would have made
//! that row; the writer makes the row that the recorder would have written, if any. Rows do not contain the time of
//! observation: pods and nodes have the last transition of a condition. The layouts since 2024-06-24 are read, and the
//! layout since 2024-10-10 is written.

use crate::{ImportItems, Input, ReadOptions, Result};

pub(crate) mod info;
mod reader;
mod row_order;
mod row_store;
mod tables;
pub(crate) mod timestamps;
mod writer;

pub use info::{
    Labels, MachineDeploymentInfo, NodeInfo, PodInfo, PriorityClassInfo, Resources, ScheduleStatus,
    SettingsInfo, SnapshotMeta, WorkerPoolInfo,
};
pub use writer::ScalingHistoryWriter;

/// Reads a database in order of time. Memory follows the largest row, not the file: rows are sorted on disk.
pub fn read(input: Input, options: ReadOptions) -> Result<ImportItems> {
    Ok(Box::new(reader::ScalingHistoryReader::open(input, options)?))
}
