//! The selection of objects that a query is about.

use std::sync::Arc;

use model::Kind;

/// Filter on objects; a field that is `None` matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Of these kinds.
    pub kinds: Option<Vec<Kind>>,
    /// Of this source.
    pub source: Option<Arc<str>>,
    /// In this namespace; the empty one is that of cluster-scoped objects.
    pub namespace: Option<String>,
    /// Of this name.
    pub name: Option<String>,
}
