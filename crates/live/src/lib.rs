//! Real Kubernetes API servers, watched without losing anything unsaid.
//!
//! What is asked and what the answers mean is decided in [`watching`], which knows no socket and no clock, and so is in
//! [`transplant`] what is to be done to a server; the rest carries both there.

pub mod applying;
mod connection;
mod error;
mod keeping;
mod kinds;
mod news;
mod recording;
pub mod transplant;
pub mod watching;

pub use connection::Connection;
pub use error::{Error, Result};
pub use kinds::{KindChoice, default_resources};
pub use news::{Event, KindStatus, Known, Name, News, Seen, State};
pub use recording::{Target, Wanted, record};
