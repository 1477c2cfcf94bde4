//! The names of objects and owners in a trace, and its times.

use kubernetes::owners::{OwnerIndex, OwnerRef};
use model::{Moment, Object};

use super::config::Gvk;

/// A kind, and `namespace/name` of an object.
pub(super) type ObjectName = (Gvk, String);

/// A moment in whole seconds since 1970.
pub(super) fn unix_seconds(moment: Moment) -> i64 {
    moment.nanos().div_euclid(1_000_000_000)
}

/// The owner chain of an object, the nearest first.
pub(super) fn owner_chain(owners: &OwnerIndex, object: &Object) -> Vec<ObjectName> {
    let namespace = object.meta().namespace;
    let name = |owner: OwnerRef| {
        (Gvk { api_version: owner.api_version, kind: owner.kind }, format!("{namespace}/{}", owner.name))
    };
    owners.transitive_owners(object).into_iter().map(name).collect()
}
