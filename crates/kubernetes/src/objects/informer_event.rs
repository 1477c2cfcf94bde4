//! Informer events: parsed objects that were added, modified or deleted.

use std::sync::Arc;

use model::What;

use super::{NodeView, PodView};

/// An object was added, modified or deleted.
#[derive(Clone, Debug, PartialEq)]
pub enum InformerEvent<T> {
    /// It is new, or seen for the first time.
    Added(Arc<T>),
    /// It was updated to this version.
    Modified(Arc<T>),
    /// It was deleted; its last known state.
    Deleted(Arc<T>),
}

/// An informer event of a pod.
pub type PodEvent = InformerEvent<PodView>;
/// An informer event of a node.
pub type NodeEvent = InformerEvent<NodeView>;

impl<T> InformerEvent<T> {
    /// The object.
    pub fn object(&self) -> &Arc<T> {
        match self {
            InformerEvent::Added(object)
            | InformerEvent::Modified(object)
            | InformerEvent::Deleted(object) => object,
        }
    }

    /// The object after the event; `None` if it was deleted.
    pub fn state(&self) -> Option<&Arc<T>> {
        match self {
            InformerEvent::Added(object) | InformerEvent::Modified(object) => Some(object),
            InformerEvent::Deleted(_) => None,
        }
    }

    pub(super) fn parsed(what: &What, parse: impl FnOnce(&model::Object) -> T) -> InformerEvent<T> {
        let object = Arc::new(parse(what.object()));
        match what {
            What::Added(_) => InformerEvent::Added(object),
            What::Modified(_) => InformerEvent::Modified(object),
            What::Deleted(_) => InformerEvent::Deleted(object),
        }
    }
}

impl PodEvent {
    /// Parses the change of a Pod object.
    pub fn of_pod(what: &What) -> PodEvent {
        InformerEvent::parsed(what, PodView::parse)
    }
}

impl NodeEvent {
    /// Parses the change of a Node object.
    pub fn of_node(what: &What) -> NodeEvent {
        InformerEvent::parsed(what, NodeView::parse)
    }
}
