//! Which objects a question is about.

use std::sync::Arc;

use model::Kind;

/// Which objects are asked for; what is left out means all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Of this source.
    pub source: Option<Arc<str>>,
    /// In this namespace; the empty one is that of cluster-wide objects.
    pub namespace: Option<String>,
    /// Of this name.
    pub name: Option<String>,
}
