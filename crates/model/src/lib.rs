//! Kinescope's nouns: what a recorded cluster is.
//!
//! Everything here is plain data. Nothing in this crate reads a clock, a file, a socket or the environment, and
//! nothing knows what scheduling is.

mod change;
mod cluster;
mod diff;
mod gap;
mod key;
mod moment;
mod name;
mod object;
mod text;
mod time_words;

pub use change::{Change, Observed, What};
pub use cluster::{Cluster, Version};
pub use diff::{Difference, FieldChange, changed_fields, difference};
pub use gap::Gap;
pub use key::{Key, Kind, audit_source, is_audit_source, recorded_source};
pub use moment::{BadMoment, Moment, Window};
pub use name::NamespacedName;
pub use object::{BadObject, ContentHash, MAX_DEPTH, Meta, Object};
pub use text::Text;
pub use time_words::{BadTime, TimeWords};
