//! The error that the object to explain does not exist.

/// The object to explain does not exist, at all or at that moment.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotFound(pub(crate) String);
