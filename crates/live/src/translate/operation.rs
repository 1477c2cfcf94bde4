//! API operations on single objects, and the addresses of objects.

use std::fmt;
use std::sync::Arc;

use model::{Key, Kind, Moment};
use serde_json::Value;

/// An operation on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiOperation {
    /// When it is due, in recorded time.
    pub at: Moment,
    /// The object in the target.
    pub address: ObjectAddress,
    /// The recorded uid of the object, or a substitute.
    pub uid: Box<str>,
    /// The verb and its arguments.
    pub verb: Verb,
}

/// The verb of an operation, with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Create an object, with its status.
    Create {
        /// The object.
        object: Value,
    },
    /// Patch an object.
    Patch {
        /// The recorded API version.
        api_version: Box<str>,
        /// A merge patch; its `status` is written to the status subresource.
        patch: Value,
    },
    /// Bind a pod to a node.
    Bind {
        /// The node.
        node: Box<str>,
    },
    /// Request the deletion.
    Delete {
        /// The grace period in seconds; `None`: the object's own.
        grace_period_seconds: Option<i64>,
    },
    /// Complete the deletion, and remove finalizers.
    CompleteDeletion {
        /// The deletion was requested before.
        is_deleting: bool,
    },
}

/// The kind, namespace and name of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectAddress {
    /// Group and kind.
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

// === impl ApiOperation ===

impl ApiOperation {
    /// The kind that the operation defines, if it creates a CustomResourceDefinition.
    pub(crate) fn defined_kind(&self) -> Option<Kind> {
        let Verb::Create { object } = &self.verb else { return None };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let is_definition = &*self.address.kind.kind == "CustomResourceDefinition";
        is_definition.then(|| Some(Kind::new(text("/spec/group")?, text("/spec/names/kind")?))).flatten()
    }
}

// === impl Verb ===

impl Verb {
    /// The lower-case name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Verb::Create { .. } => "create",
            Verb::Patch { .. } => "change",
            Verb::Bind { .. } => "bind",
            Verb::Delete { .. } => "delete",
            Verb::CompleteDeletion { .. } => "remove",
        }
    }
}

// === impl ObjectAddress ===

impl ObjectAddress {
    /// The address of a recorded object.
    pub fn from_key(key: &Key) -> ObjectAddress {
        ObjectAddress { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
    }

    /// The address of a pod.
    pub(crate) fn pod(namespace: &str, name: &str) -> ObjectAddress {
        ObjectAddress { kind: Kind::new("", "Pod"), namespace: namespace.into(), name: name.into() }
    }

    /// The address of a cluster-scoped object.
    pub(crate) fn cluster_scoped(group: &str, kind: &str, name: &str) -> ObjectAddress {
        ObjectAddress { kind: Kind::new(group, kind), namespace: "".into(), name: name.into() }
    }
}

impl fmt::Display for ObjectAddress {
    /// `Pod shop/web-1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}
