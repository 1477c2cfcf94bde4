//! The fields of objects from which latencies are measured.

use kubernetes::read::{moment, nullable};
use model::Moment;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct NodeJson {
    pub metadata: MetadataJson,
}

/// An Event of either API group: `core` and `events.k8s.io` have different field names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventJson {
    #[serde(default, deserialize_with = "nullable")]
    pub reason: String,
    #[serde(default, deserialize_with = "nullable", alias = "message")]
    pub note: String,
    #[serde(default, deserialize_with = "nullable", alias = "involvedObject")]
    pub regarding: ReferenceJson,
    #[serde(default, deserialize_with = "moment")]
    pub event_time: Option<Moment>,
    #[serde(default)]
    pub series: Option<SeriesJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetadataJson {
    pub name: String,
    #[serde(default, deserialize_with = "moment")]
    pub creation_timestamp: Option<Moment>,
}

#[derive(Default, Deserialize)]
pub(super) struct ReferenceJson {
    #[serde(default, deserialize_with = "nullable")]
    pub uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeriesJson {
    #[serde(default, deserialize_with = "moment")]
    pub last_observed_time: Option<Moment>,
}
