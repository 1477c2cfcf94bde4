//! API operations on single objects.

use model::{Kind, Moment, ObjectRef};
use serde_json::Value;

/// An operation on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiOperation {
    /// When it is due, in recorded time.
    pub at: Moment,
    /// The object in the target.
    pub object_ref: ObjectRef,
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

// === impl ApiOperation ===

impl ApiOperation {
    /// The kind that the operation defines, if it creates a CustomResourceDefinition.
    pub(crate) fn defined_kind(&self) -> Option<Kind> {
        let Verb::Create { object } = &self.verb else { return None };
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let is_definition = &*self.object_ref.kind.kind == "CustomResourceDefinition";
        is_definition.then(|| Some(Kind::new(text("/spec/group")?, text("/spec/names/kind")?))).flatten()
    }
}

// === impl Verb ===

impl Verb {
    /// The word in reports.
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
