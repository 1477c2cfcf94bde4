//! Real Kubernetes API servers, watched without losing anything unsaid.
//!
//! What is asked and what the answers mean is decided in [`watching`], which knows no socket and no clock, and so is in
//! [`transplant`] what is to be done to a server; the rest carries both there.

pub mod applying;
mod connection;
mod error;
mod event_filter;
mod kinds;
mod news;
mod recording;
mod run_label;
mod supervision;
pub mod transplant;
mod url;
pub mod watching;

pub use connection::Connection;
pub use error::{Error, Result};
pub use event_filter::EventChoice;
pub use kinds::{KindChoice, default_resources};
pub use news::{Event, KindStatus, Known, Name, News, Seen, State};
pub use recording::{Target, Wanted, end, namespaces_of, record};
pub use supervision::{Panic, caught};
