//! The parts of a pod that only events are about: its volumes, and claims that were made for it.

use std::sync::Arc;

use model::Object;
use serde::Deserialize;
use serde_json::Value;

use super::volumes::{VolumeJson, Volumes};

/// What the queue keeps of a pod besides the pod itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extras {
    /// `None` if they cannot be told.
    pub volumes: Option<Arc<Volumes>>,
    /// The resource claims that were made for the pod, as its status names them.
    pub claims: [Option<Value>; 2],
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodJson {
    spec: Option<SpecJson>,
    status: Option<StatusJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    volumes: Option<Vec<VolumeJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    resource_claim_statuses: Option<Value>,
    extended_resource_claim_status: Option<Value>,
}

// === impl Extras ===

impl Extras {
    pub(crate) fn read(object: &Object) -> Extras {
        let Ok(json) = object.view::<PodJson>() else { return Extras::default() };
        let status = json.status.unwrap_or_default();
        Extras {
            volumes: json.spec.map(|spec| Arc::new(Volumes::of(object, spec.volumes.unwrap_or_default()))),
            claims: [status.resource_claim_statuses, status.extended_resource_claim_status],
        }
    }
}

impl Volumes {
    /// The volumes of a pod; `None` if the object does not tell.
    pub(crate) fn read(object: &Object) -> Option<Volumes> {
        let spec = object.view::<PodJson>().ok()?.spec?;
        Some(Volumes::of(object, spec.volumes.unwrap_or_default()))
    }
}
