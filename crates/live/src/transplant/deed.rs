//! Something to be done to one object.

use std::fmt;
use std::sync::Arc;

use model::{Key, Kind, Moment};
use serde_json::Value;

/// Something to be done to one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Deed {
    /// When it is due, in the time of the recording.
    pub at: Moment,
    /// To which object.
    pub address: Address,
    /// The uid that it has in the recording, or what stands for it.
    pub uid: Box<str>,
    /// What.
    pub doing: Doing,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Doing {
    /// It comes to be, with this status.
    Create {
        /// The object.
        object: Value,
    },
    /// It changes.
    Change {
        /// The version of its kind in which the recording has it.
        api_version: Box<str>,
        /// By this merge patch; what is in its `status` is written where the status is written.
        patch: Value,
    },
    /// A pod goes to a node.
    Bind {
        /// This one.
        node: Box<str>,
    },
    /// Its deletion begins.
    Delete {
        /// It gets so many seconds, or as many as it says itself.
        grace: Option<i64>,
    },
    /// It is gone, whoever would still hold it back.
    Remove {
        /// Its deletion had begun.
        begun: bool,
    },
}

/// Where an object is to be found in an API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// Group and kind.
    pub kind: Kind,
    /// Empty for objects of the whole cluster.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

// === impl Deed ===

impl Deed {
    /// The kind that is there once it is done, if it defines one.
    pub(crate) fn defines(&self) -> Option<Kind> {
        let Doing::Create { object } = &self.doing else { return None };
        let text = |place: &str| object.pointer(place).and_then(Value::as_str);
        let is_definition = &*self.address.kind.kind == "CustomResourceDefinition";
        is_definition.then(|| Some(Kind::new(text("/spec/group")?, text("/spec/names/kind")?))).flatten()
    }
}

// === impl Doing ===

impl Doing {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Doing::Create { .. } => "create",
            Doing::Change { .. } => "change",
            Doing::Bind { .. } => "bind",
            Doing::Delete { .. } => "delete",
            Doing::Remove { .. } => "remove",
        }
    }
}

// === impl Address ===

impl Address {
    /// That of a recorded object.
    pub fn of(key: &Key) -> Address {
        Address { kind: key.kind.clone(), namespace: key.namespace.clone(), name: key.name.clone() }
    }

    /// That of a pod.
    pub(crate) fn of_pod(namespace: &str, name: &str) -> Address {
        Address { kind: Kind::new("", "Pod"), namespace: namespace.into(), name: name.into() }
    }

    /// That of an object of the whole cluster.
    pub(crate) fn of_cluster(group: &str, kind: &str, name: &str) -> Address {
        Address { kind: Kind::new(group, kind), namespace: "".into(), name: name.into() }
    }
}

impl fmt::Display for Address {
    /// `Pod shop/web-1`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => write!(f, "{} {}", self.kind, self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind, self.name),
        }
    }
}
