//! The parsed view of an Event of either API group.

use std::sync::Arc;

use model::{Moment, Object};
use serde::Deserialize;

use super::meta::ObjectMeta;
use crate::read::nullable;

/// The fields of an Event that components read. The core group and `events.k8s.io` have different names for most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventView {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// `FailedScheduling`, for example.
    pub reason: Arc<str>,
    /// The message: `note` in `events.k8s.io`.
    pub message: Arc<str>,
    /// The object that it is about: `involvedObject` in the core group.
    pub regarding: ObjectReference,
    /// A second object, such as the one that caused it.
    pub related: Option<ObjectReference>,
    /// When it was first observed, with microseconds; absent in the core group.
    pub event_time: Option<Moment>,
    /// When it was first observed, in seconds.
    pub first_timestamp: Option<Moment>,
    /// When it was last observed, in seconds.
    pub last_timestamp: Option<Moment>,
    /// Its repetitions, once there are any.
    pub series: Option<EventSeries>,
    /// How often it was observed, in the core group.
    pub count: Option<u64>,
}

/// The repetitions of an Event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventSeries {
    /// How often it was observed.
    pub count: u64,
    /// When it was last observed.
    pub last_observed: Option<Moment>,
}

/// A reference to an object; empty fields are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ObjectReference {
    /// Its kind.
    #[serde(deserialize_with = "nullable")]
    pub kind: Arc<str>,
    /// Its namespace.
    #[serde(deserialize_with = "nullable")]
    pub namespace: Arc<str>,
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// Its uid.
    #[serde(deserialize_with = "nullable")]
    pub uid: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct EventJson {
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    reason: Arc<str>,
    note: Option<Arc<str>>,
    message: Option<Arc<str>>,
    regarding: Option<ObjectReference>,
    involved_object: Option<ObjectReference>,
    related: Option<ObjectReference>,
    event_time: Option<Arc<str>>,
    first_timestamp: Option<Arc<str>>,
    deprecated_first_timestamp: Option<Arc<str>>,
    last_timestamp: Option<Arc<str>>,
    deprecated_last_timestamp: Option<Arc<str>>,
    series: Option<SeriesJson>,
    count: Option<u64>,
    deprecated_count: Option<u64>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SeriesJson {
    count: Option<u64>,
    last_observed_time: Option<Arc<str>>,
}

impl EventView {
    /// Parses an Event. A malformed timestamp counts as absent.
    pub fn parse(object: &Object) -> Result<EventView, serde_json::Error> {
        let json: EventJson = object.view()?;
        let moment = |text: Option<Arc<str>>| text.and_then(|text| text.parse().ok());
        let series = |json: SeriesJson| EventSeries {
            count: json.count.unwrap_or_default(),
            last_observed: moment(json.last_observed_time),
        };
        Ok(EventView {
            metadata: json.metadata,
            reason: json.reason,
            message: json.note.or(json.message).unwrap_or_default(),
            regarding: json.regarding.or(json.involved_object).unwrap_or_default(),
            related: json.related,
            event_time: moment(json.event_time),
            first_timestamp: moment(json.first_timestamp.or(json.deprecated_first_timestamp)),
            last_timestamp: moment(json.last_timestamp.or(json.deprecated_last_timestamp)),
            series: json.series.map(series),
            count: json.count.or(json.deprecated_count),
        })
    }
}
