//! What can keep a recording or a replay from beginning.

use crate::watching::Failure;

/// What can keep a recording or a replay from beginning. What goes wrong later is told as an event, or counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Who and where the server is cannot be read.
    #[error("cannot read the kubeconfig {from}")]
    Kubeconfig {
        /// The file, or where it was looked for.
        from: String,
        /// The reason.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is no such context.
    #[error("the kubeconfig {from} has no context {context}; it has {has}")]
    Context {
        /// The file, or where it was looked for.
        from: String,
        /// The context.
        context: String,
        /// Those that there are.
        has: String,
    },
    /// No client can be made of what the kubeconfig says.
    #[error("cannot connect as context {context} says")]
    Client {
        /// The context.
        context: String,
        /// The reason.
        #[source]
        source: Box<kube::Error>,
    },
    /// The server does not answer, or not what it should.
    #[error("cannot {doing}: {failure}")]
    Server {
        /// What was being done.
        doing: &'static str,
        /// What went wrong.
        failure: Failure,
    },
    /// A run that cannot be begun or gone on with.
    #[error("{0}")]
    Run(String),
    /// A word for a kind that cannot be recorded.
    #[error("{word}: {why}")]
    Word {
        /// The word.
        word: String,
        /// Why not, and what would be right.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// Whether the server knows the account and refuses.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Error::Server { failure: Failure { status: Some(403), .. }, .. })
    }
}
