//! A topology: the node labels whose values are its domains.

use std::sync::Arc;

/// A topology.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    pub name: Arc<str>,
    /// Node labels, from the widest level to the narrowest.
    pub levels: Vec<Arc<str>>,
}
