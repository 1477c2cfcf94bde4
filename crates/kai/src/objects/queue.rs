//! The parsed view of a Queue.

use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use kubernetes::read::nullable;
use serde::Deserialize;

/// A queue.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QueueView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: QueueSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct QueueSpec {
    #[serde(deserialize_with = "nullable")]
    pub display_name: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub parent_queue: Arc<str>,
    pub priority: Option<i64>,
    #[serde(deserialize_with = "super::duration")]
    pub preempt_min_runtime: Option<i64>,
    #[serde(deserialize_with = "super::duration")]
    pub reclaim_min_runtime: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub resources: QueueResourcesView,
}

/// Quotas by resource; all are zero if they are absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct QueueResourcesView {
    /// In millicores.
    #[serde(deserialize_with = "nullable")]
    pub cpu: ResourceQuotaView,
    /// In megabytes.
    #[serde(deserialize_with = "nullable")]
    pub memory: ResourceQuotaView,
    /// In devices.
    #[serde(deserialize_with = "nullable")]
    pub gpu: ResourceQuotaView,
}

/// The quota of one resource.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ResourceQuotaView {
    #[serde(deserialize_with = "nullable")]
    pub quota: f64,
    #[serde(deserialize_with = "nullable")]
    pub over_quota_weight: f64,
    #[serde(deserialize_with = "nullable")]
    pub limit: f64,
}
