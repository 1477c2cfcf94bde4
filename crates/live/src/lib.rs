//! Recording from and replaying to real Kubernetes API servers. Every loss of events is reported as a gap.
//!
//! [`list_watch`] decides which requests to send and how to interpret the responses, [`translate`] which writes a
//! replay sends; neither uses a socket or a clock. The other modules do the I/O.

pub mod apply;
mod connection;
mod error;
mod event_filter;
mod kinds;
pub mod list_watch;
mod listing;
mod panics;
mod recording;
mod recording_event;
mod run_label;
pub mod translate;
mod url;

pub use connection::Connection;
pub use error::{Error, Result};
pub use event_filter::EventChoice;
pub use kinds::{KindChoice, default_resources};
pub use listing::Listing;
pub use panics::{Panic, catch_panic};
pub use recording::{RecordedCluster, WatchScope, end_recording, namespaces_in_position, record};
pub use recording_event::{KindStatus, RecordingEvent, ResumeState, VersionId, WatchBatch, WatchState};
