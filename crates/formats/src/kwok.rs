//! KWOK's snapshot and recording: objects as manifests, then what became of them as patches.
//!
//! A recording's initial documents are whole objects; the first `ResourcePatch` ends them. Each patch creates, changes
//! (by a strategic merge patch) or deletes one object, so many nanoseconds after the beginning. Times inside objects
//! may be tokens that say how far they lie from that beginning, which itself is nowhere said.

mod patch;
mod reader;
mod times;
mod writer;

pub use reader::Reader;
pub use writer::Writer;
