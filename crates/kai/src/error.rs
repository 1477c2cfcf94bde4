//! Errors: what is wrong with a snapshot, where, and what would be right.

/// The reason why a snapshot cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A setting is malformed or unknown.
    #[error("invalid scheduler settings: {setting}: {why}")]
    Setting {
        /// The setting's path.
        setting: String,
        /// What is wrong with it.
        why: String,
    },
    /// An object is malformed.
    #[error("invalid {kind} {name}: {why}")]
    Object {
        /// Its kind.
        kind: &'static str,
        /// Its name, with its namespace if it has one.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A workload needs something that is not implemented.
    #[error("{kind} {name} needs {what}, which is not supported")]
    Unsupported {
        /// The object's kind.
        kind: &'static str,
        /// Its name, with its namespace if it has one.
        name: String,
        /// What it needs.
        what: &'static str,
    },
}

/// A result.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn setting(setting: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Setting { setting: setting.into(), why: why.into() }
    }

    pub(crate) fn object(kind: &'static str, name: impl Into<String>, why: impl Into<String>) -> Error {
        Error::Object { kind, name: name.into(), why: why.into() }
    }
}
