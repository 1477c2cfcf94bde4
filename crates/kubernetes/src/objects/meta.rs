//! Metadata of objects: names, labels, owners and timestamps.

use std::sync::Arc;

use model::{Kind, Moment, NamespacedName, ObjectRef};
use serde::Deserialize;

use crate::labels::Labels;
use crate::read::{moment, non_empty, nullable};

/// The metadata of an object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectMeta {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// Empty for cluster-scoped objects.
    #[serde(deserialize_with = "nullable")]
    pub namespace: Arc<str>,
    /// Empty if it has none.
    #[serde(deserialize_with = "nullable")]
    pub uid: Arc<str>,
    /// The prefix of a generated name.
    #[serde(deserialize_with = "non_empty")]
    pub generate_name: Option<Arc<str>>,
    /// When it was created.
    #[serde(deserialize_with = "moment")]
    pub creation_timestamp: Option<Moment>,
    /// Set while it is terminating: the end of its grace period.
    #[serde(deserialize_with = "moment")]
    pub deletion_timestamp: Option<Moment>,
    /// The grace period of its deletion.
    pub deletion_grace_period_seconds: Option<i64>,
    /// The generation of its spec.
    #[serde(deserialize_with = "nullable")]
    pub generation: i64,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// Its owners.
    #[serde(deserialize_with = "nullable")]
    pub owner_references: Arc<[OwnerReference]>,
    /// Its finalizers.
    #[serde(deserialize_with = "nullable")]
    pub finalizers: Arc<[Arc<str>]>,
}

/// An object's reference to an owner, which is in the same namespace or cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// `apps/v1`.
    pub api_version: Arc<str>,
    /// `ReplicaSet`.
    pub kind: Arc<str>,
    /// The owner's name.
    pub name: Arc<str>,
    /// The owner's uid: another incarnation of the name is not the owner.
    pub uid: Arc<str>,
    /// Whether this owner is the managing controller. At most one is.
    pub controller: Option<bool>,
    /// Whether an owner that is deleted in the foreground waits for the object.
    pub block_owner_deletion: Option<bool>,
}

/// The managing controller among the owners of an object: the first with `controller: true`.
pub fn controller_of(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners.iter().find(|owner| owner.controller == Some(true))
}

impl OwnerReference {
    /// The owner, which is in the namespace of the object, or cluster-scoped.
    pub fn object_ref(&self, namespace: &Arc<str>) -> ObjectRef {
        ObjectRef::new(Kind::of(&self.api_version, &self.kind), namespace.clone(), self.name.clone())
    }
}

impl ObjectMeta {
    /// Its namespace and name.
    pub fn namespaced_name(&self) -> NamespacedName {
        NamespacedName { namespace: self.namespace.clone(), name: self.name.clone() }
    }
}
