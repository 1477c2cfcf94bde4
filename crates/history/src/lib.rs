//! The `.kine` file: a cluster's whole history in one SQLite file.
//!
//! [`Writer`] appends changes as they arrive, [`BulkWriter`] writes an import, [`History`] reads: the state of the
//! cluster at a moment ([`History::at`]), the changes of a window ([`History::between`]), the changes of one object
//! ([`History::of`]). The layout is described in `schema.sql` and `frame.rs`.

mod batch;
mod batch_packer;
mod bulk_writer;
mod change_indexer;
mod changes;
mod copy;
mod counts;
mod doctor;
mod error;
mod frame;
mod gaps;
mod history;
mod index_schedule;
mod index_segment;
mod lock;
mod members;
mod object_blocks;
mod pack;
mod packer;
mod packer_queue;
mod pages;
mod prune;
mod prune_steps;
mod rows;
mod salvage;
mod schema;
mod selection;
mod set_aside;
mod stream_state;
mod varint;
mod wal;
mod writer;
mod writer_command;

#[cfg(test)]
mod tests;

pub use batch::{Batch, WatchPosition};
pub use bulk_writer::BulkWriter;
pub use changes::Changes;
pub use copy::copy;
pub use doctor::{DoctorReport, doctor};
pub use error::{Error, Result};
pub use frame::Compression;
pub use history::{History, KindSummary, SourceSummary, Summary};
pub use lock::require_folder;
pub use prune::{PruneReport, Retention, prune, prune_incrementally};
pub use prune_steps::PruneHandle;
pub use salvage::{SalvageReport, has_salvageable_data, salvage};
pub use schema::exists;
pub use selection::Selection;
pub use set_aside::set_aside;
pub use writer::Writer;
