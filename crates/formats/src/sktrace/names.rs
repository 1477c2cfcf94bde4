//! How a trace names objects and their owners, and tells time.

use kubernetes::owners::{OwnerRef, Owners};
use model::{Moment, Object};

use super::config::Gvk;

/// A kind, and `namespace/name` of an object of it.
pub(super) type Name = (Gvk, String);

/// The seconds of a moment, whole ones.
pub(super) fn seconds(moment: Moment) -> i64 {
    moment.nanos().div_euclid(1_000_000_000)
}

/// All that own an object, the nearest first.
pub(super) fn above(owners: &Owners, object: &Object) -> Vec<Name> {
    let namespace = object.meta().namespace;
    let name = |owner: OwnerRef| {
        (Gvk { api_version: owner.api_version, kind: owner.kind }, format!("{namespace}/{}", owner.name))
    };
    owners.above(object).into_iter().map(name).collect()
}
