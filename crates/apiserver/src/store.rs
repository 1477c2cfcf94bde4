//! The store behind a server: the objects of a cluster by kind, with one resourceVersion for all of them.

use std::pin::Pin;
use std::sync::Arc;

use model::{Kind, Moment, NamespacedName, Object};
use serde_json::Value;

use crate::object_map::ObjectMap;
use crate::resource::{Resource, ResourceTable};

/// The objects that a server serves. Its methods may block: the server calls them outside its asynchronous tasks, unless
/// the store [is in memory](Store::is_in_memory).
pub trait Store: Send + Sync + 'static {
    /// The resources that it has.
    fn resources(&self) -> Arc<ResourceTable>;

    /// All objects of a resource.
    fn list(&self, resource: &Resource) -> Result<ObjectList, StoreError>;

    /// One object of a resource.
    fn get(&self, resource: &Resource, name: &NamespacedName) -> Result<Option<Object>, StoreError> {
        Ok(self.list(resource)?.objects.get(name).cloned())
    }

    /// The events of a resource after a resourceVersion.
    fn watch(&self, resource: &Resource, version: u64) -> Box<dyn EventSource>;

    /// Writes one object.
    fn commit(&self, write: Write) -> Result<Object, StoreError>;

    /// Why it refuses writes, as a clause for the user: `this is the cluster as it was at …`; `None` if it accepts them.
    fn read_only_reason(&self) -> Option<String>;

    /// Whether its methods return at once.
    fn is_in_memory(&self) -> bool;

    /// The version of the cluster that it stands for: `v1.36.4`.
    fn git_version(&self) -> &str;

    /// The present moment, from which ages are counted.
    fn now(&self) -> Moment;
}

/// Events of a resource, in order, as they happen.
pub trait EventSource: Send {
    /// The next events; waits until there is one. Nothing is lost if the future is dropped.
    fn next(&mut self) -> EventFuture<'_>;

    /// The moment of the last events, from which ages are counted, where it is not that of the store.
    fn moment(&self) -> Option<Moment> {
        None
    }
}

/// The next events of an [`EventSource`].
pub type EventFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<StoreEvent>, StoreError>> + Send + 'a>>;

/// The objects of a resource at one resourceVersion.
#[derive(Clone, Debug)]
pub struct ObjectList {
    /// The objects.
    pub objects: ObjectMap,
    /// At least that of every object.
    pub resource_version: u64,
}

/// A change of an object in a store.
#[derive(Clone, Debug)]
pub struct StoreEvent {
    /// The resourceVersion that the change has; 0 for an object that a reader finds when it begins.
    pub version: u64,
    /// The kind of the object.
    pub kind: Kind,
    /// The object before; `None` if it was added.
    pub old: Option<Object>,
    /// The object after. If it was deleted, its last state with the resourceVersion of the deletion.
    pub new: Object,
    /// Whether it was deleted.
    pub is_deletion: bool,
}

/// A write of one object.
#[derive(Clone, Debug)]
pub struct Write {
    /// The kind of the object.
    pub kind: Kind,
    /// Its name.
    pub name: NamespacedName,
    /// The resourceVersion of the object that it replaces or deletes; `None` if it must not exist.
    pub expected: Option<u64>,
    /// The new state, or the last one of a deletion. Its resourceVersion is set by the store.
    pub object: Value,
    /// Whether the object is deleted.
    pub is_deletion: bool,
    /// Whether it is refused while the cluster's own components are far behind.
    pub may_wait: bool,
}

/// The reason why a store cannot do something.
#[derive(Debug)]
pub enum StoreError {
    /// The object does not have the expected resourceVersion.
    Conflict,
    /// The events after this resourceVersion are no longer kept. The field is the oldest one that can be requested.
    Expired {
        /// The oldest resourceVersion after which all events are known.
        oldest: u64,
    },
    /// The resourceVersion is newer than the store's.
    TooNew {
        /// The store's.
        current: u64,
    },
    /// The cluster's own components are too far behind.
    Overloaded,
    /// It accepts no writes; the field is its [reason](Store::read_only_reason).
    ReadOnly(String),
    /// Anything else.
    Failed(String),
}

/// The resourceVersion of an object; 0 if it has none.
pub fn resource_version_of(object: &Object) -> u64 {
    object.meta().resource_version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
