//! SimKube's traces: the changes of the objects it tracks, and the lifecycles of their pods.
//!
//! A trace is msgpack, or JSON if it has no pod lifecycles. Versions 0, 1 and 2 are read and version 2 is written, as
//! SimKube 2.7 does. Times are whole seconds.

mod byte_reader;
mod config;
mod cursor;
mod event;
mod hash;
mod json_cursor;
mod lifecycle_collector;
mod lifecycle_timeline;
mod msgpack_cursor;
mod msgpack_writer;
mod names;
mod outline;
mod pod_owners;
mod pods;
mod pointer;
mod read;
mod sanitize;
mod stable_spec;
mod write;

use crate::{ImportItems, Input, ReadOptions, Result};

pub use config::TracerConfig;
pub use write::{SktraceWriter, TraceFilters};

/// Reads a trace. Pods that it contains only as lifecycles are synthesized, and so is the status of its other pods.
pub fn read(input: Input, options: ReadOptions) -> Result<ImportItems> {
    Ok(Box::new(read::SktraceReader::new(input, options)?))
}
