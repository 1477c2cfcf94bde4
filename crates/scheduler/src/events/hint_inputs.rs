//! The parts of a pending pod that only events and queueing hints depend on: volumes and generated resource claims.

use std::sync::Arc;

use model::Object;
use serde::Deserialize;
use serde_json::Value;

use super::hint_volumes::{HintVolumeJson, HintVolumes};

/// What the queue keeps of a pod for queueing hints.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HintInputs {
    /// `None` if they are unreadable.
    pub volumes: Option<Arc<HintVolumes>>,
    /// The resource claims generated for the pod, as listed in its status.
    pub resource_claims: [Option<Value>; 2],
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
    volumes: Option<Vec<HintVolumeJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    resource_claim_statuses: Option<Value>,
    extended_resource_claim_status: Option<Value>,
}

// === impl HintInputs ===

impl HintInputs {
    pub(crate) fn read(object: &Object) -> HintInputs {
        let Ok(json) = object.view::<PodJson>() else { return HintInputs::default() };
        let status = json.status.unwrap_or_default();
        HintInputs {
            volumes: json
                .spec
                .map(|spec| Arc::new(HintVolumes::of(object, spec.volumes.unwrap_or_default()))),
            resource_claims: [status.resource_claim_statuses, status.extended_resource_claim_status],
        }
    }
}

impl HintVolumes {
    /// The volumes of a pod; `None` if the object is unreadable.
    pub(crate) fn read(object: &Object) -> Option<HintVolumes> {
        let spec = object.view::<PodJson>().ok()?.spec?;
        Some(HintVolumes::of(object, spec.volumes.unwrap_or_default()))
    }
}
