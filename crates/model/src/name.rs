//! Names of objects: with and without their kind.

use std::fmt;
use std::sync::Arc;

use crate::{Key, Kind};

/// Namespace and name of an object whose kind is known from the context.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Kind, namespace and name of an object in a cluster that is known from the context.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// Group and kind.
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

// === impl NamespacedName ===

impl NamespacedName {
    /// A namespace and a name.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> NamespacedName {
        NamespacedName { namespace: namespace.into(), name: name.into() }
    }
}

// === impl ObjectRef ===

impl ObjectRef {
    /// A reference to an object in a namespace.
    pub fn new(kind: Kind, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> ObjectRef {
        ObjectRef { kind, namespace: namespace.into(), name: name.into() }
    }

    /// A reference to a cluster-scoped object.
    pub fn cluster_scoped(group: &str, kind: &str, name: &str) -> ObjectRef {
        ObjectRef::new(Kind::new(group, kind), "", name)
    }
}

impl From<&Key> for ObjectRef {
    fn from(key: &Key) -> ObjectRef {
        ObjectRef { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
    }
}

impl fmt::Display for ObjectRef {
    /// `Pod shop/web-1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}
