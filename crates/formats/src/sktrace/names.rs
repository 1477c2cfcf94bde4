//! The names of objects and owners in a trace, and its times.

use kubernetes::objects::OwnerReference;
use kubernetes::owners::OwnerIndex;
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
    let name = |owner: OwnerReference| {
        (
            Gvk { api_version: owner.api_version.to_string(), kind: owner.kind.to_string() },
            format!("{namespace}/{}", owner.name),
        )
    };
    owners.transitive_owners(object).into_iter().map(name).collect()
}
