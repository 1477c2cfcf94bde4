//! Errors that prevent a recording or a replay from starting.

use crate::list_watch::RequestFailure;

/// An error that prevents a recording or a replay from starting. Later failures are reported as events, or counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig cannot be read.
    #[error("cannot read the kubeconfig {from}")]
    Kubeconfig {
        /// The file, or where it was searched for.
        from: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The kubeconfig has no such context.
    #[error("context {context} not found in the kubeconfig {from}; available: {has}")]
    Context {
        /// The file, or where it was searched for.
        from: String,
        /// The context.
        context: String,
        /// The existing contexts.
        has: String,
    },
    /// No client can be created from the kubeconfig.
    #[error("cannot create a client for context {context}")]
    Client {
        /// The context.
        context: String,
        /// The reason.
        #[source]
        source: Box<kube::Error>,
    },
    /// A request failed, or its response is not as expected.
    #[error("cannot {doing}: {failure}")]
    Server {
        /// The action that failed.
        doing: &'static str,
        /// The failure.
        failure: RequestFailure,
    },
    /// A run cannot be started or resumed.
    #[error("{0}")]
    Run(String),
    /// A name that does not stand for a kind that can be recorded.
    #[error("{word}: {why}")]
    InvalidKind {
        /// The name.
        word: String,
        /// Why not, and what would be valid.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// Whether the account is authenticated but not authorized (403).
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Error::Server { failure: RequestFailure { status: Some(403), .. }, .. })
    }
}
