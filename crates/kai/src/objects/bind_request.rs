//! The parsed view of a BindRequest.

use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use kubernetes::read::nullable;
use serde::Deserialize;

/// A request to bind a pod to a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BindRequestView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: BindRequestSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: BindRequestStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BindRequestSpec {
    #[serde(deserialize_with = "nullable")]
    pub pod_name: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub selected_node: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub received_resource_type: Arc<str>,
    #[serde(rename = "selectedGPUGroups", deserialize_with = "nullable")]
    pub selected_gpu_groups: Vec<Arc<str>>,
    pub backoff_limit: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BindRequestStatus {
    #[serde(deserialize_with = "nullable")]
    pub phase: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub failed_attempts: i32,
}

impl BindRequestView {
    /// Whether it was given up.
    pub(crate) fn is_failed(&self) -> bool {
        *self.status.phase == *"Failed"
            && self.spec.backoff_limit.is_none_or(|limit| self.status.failed_attempts >= limit)
    }
}
