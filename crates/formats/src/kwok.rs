//! KWOK's snapshot and recording: objects as manifests, followed by their changes as patches.
//!
//! A recording's initial documents are whole objects, up to the first `ResourcePatch`. Each patch creates, changes (by
//! a strategic merge patch) or deletes one object, `durationNanosecond` after the beginning. Times inside objects may
//! be tokens with the offset from that beginning, which the recording itself does not contain.

mod patch;
mod reader;
mod time_tokens;
mod writer;

pub use reader::KwokReader;
pub use writer::KwokWriter;
