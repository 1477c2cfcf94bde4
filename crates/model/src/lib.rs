//! Kinescope's data model: moments, objects, keys, changes, gaps and the state of a cluster.
//!
//! Everything here is plain data. Nothing in this crate reads a clock, a file, a socket or the environment, and
//! nothing depends on scheduling.

mod change;
mod cluster;
mod diff;
mod gap;
mod json_cursor;
mod json_str;
mod key;
mod moment;
mod name;
mod object;
mod outline;
mod string_scan;
mod time_parser;

pub use change::{Change, IncomingChange, What};
pub use cluster::{Cluster, ObjectVersion};
pub use diff::{Difference, FieldChange, changed_fields, difference};
pub use gap::Gap;
pub use json_cursor::{JsonCursor, MAX_DEPTH, json_members};
pub use json_str::JsonStr;
pub use key::{Key, Kind, audit_source, is_audit_source, recorded_source};
pub use moment::{BadMoment, Moment, Window};
pub use name::{NamespacedName, ObjectRef};
pub use object::{BadObject, ContentHash, Meta, Object};
pub use outline::{FilterMark, ObjectOutline, ObjectOutlineBuilder};
pub use time_parser::{BadTime, TimeParser};
