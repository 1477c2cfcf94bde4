//! Real Kubernetes API servers, watched without losing anything unsaid.
//!
//! What is asked and what the answers mean is decided in [`watching`], which knows no socket and no clock; the rest
//! carries its questions to a server.

mod connection;
mod error;
mod keeping;
mod kinds;
mod news;
mod recording;
pub mod watching;

pub use connection::Connection;
pub use error::{Error, Result};
pub use kinds::{KindChoice, default_resources};
pub use news::{Event, KindStatus, Known, Name, News, Seen, State};
pub use recording::{Target, Wanted, record};
