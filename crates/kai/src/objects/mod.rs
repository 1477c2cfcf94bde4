//! Parsed views of KAI's own objects, and of the other kinds that a cycle reads.

mod bind_request;
mod other_kinds;
mod pod_group;
mod queue;
mod topology;

pub(crate) use bind_request::BindRequestView;
pub(crate) use other_kinds::{DeviceClassView, NamedView, PriorityClassView, ResourceSliceView};
pub(crate) use pod_group::{PodGroupView, SubGroupView, TopologyConstraintView};
pub(crate) use queue::{QueueView, ResourceQuotaView};
pub(crate) use topology::TopologyView;

use serde::{Deserialize, Deserializer};

/// Deserializes a duration such as `5m0s` to nanoseconds.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    kubernetes::go::duration::parse(&text).map(Some).ok_or_else(|| {
        serde::de::Error::custom(format!("invalid duration {text:?}: expected one such as 5m0s"))
    })
}
