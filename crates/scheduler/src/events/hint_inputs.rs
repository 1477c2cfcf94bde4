//! The parts of a pending pod that only events and queueing hints depend on: volumes and generated resource claims.

use std::sync::Arc;

use kubernetes::objects::PodView;
use serde_json::Value;

use super::hint_volumes::HintVolumes;

/// What the queue keeps of a pod for queueing hints.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HintInputs {
    /// `None` if they are unreadable.
    pub volumes: Option<Arc<HintVolumes>>,
    /// The resource claims generated for the pod, as listed in its status.
    pub resource_claims: [Option<Value>; 2],
}

impl HintInputs {
    pub(crate) fn new(pod: &PodView) -> HintInputs {
        if pod.read_error.is_some() {
            return HintInputs::default();
        }
        HintInputs {
            volumes: Some(Arc::new(HintVolumes::new(pod))),
            resource_claims: [
                pod.status.resource_claim_statuses.clone(),
                pod.status.extended_resource_claim_status.clone(),
            ],
        }
    }
}
