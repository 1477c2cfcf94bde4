//! The `.kine` file: a cluster's whole history in one SQLite file.
//!
//! [`Writer`] takes changes as they happen, [`Bulk`] takes an import, [`History`] looks back: at the cluster as it
//! was ([`History::at`]), at what happened ([`History::between`]), at one object ([`History::of`]).
//! The layout is explained in `schema.sql` and `frame.rs`.

mod aside;
mod batch;
mod bulk;
mod changes;
mod copy;
mod counts;
mod doctor;
mod error;
mod forget;
mod frame;
mod gaps;
mod history;
mod intake;
mod lock;
mod members;
mod pack;
mod packer;
mod pages;
mod prune;
mod rows;
mod salvage;
mod schema;
mod selection;
mod state;
mod varint;
mod wal;
mod writer;
mod writer_command;

#[cfg(test)]
mod tests;

pub use aside::set_aside;
pub use batch::{Batch, Position};
pub use bulk::Bulk;
pub use changes::Changes;
pub use copy::copy;
pub use doctor::{Report, doctor};
pub use error::{Error, Result};
pub use forget::Forgetting;
pub use history::{History, KindSummary, SourceSummary, Summary};
pub use prune::{Pruned, Retention, forget, prune};
pub use salvage::{Salvaged, has_remains, salvage};
pub use schema::exists;
pub use selection::Selection;
pub use writer::Writer;
