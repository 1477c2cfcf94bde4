//! The spec and status of DaemonSets.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};

use crate::int_or_percent::{IntOrPercent, Rounding};
use crate::object_table::{ObjectSpec, is_zero};
use crate::pod_template::PodTemplate;

/// DaemonSetSpec of apps/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DaemonSetSpec {
    pub(crate) template: PodTemplate,
    #[serde(deserialize_with = "nullable")]
    pub(crate) update_strategy: DaemonSetUpdateStrategy,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i64,
    pub(crate) revision_history_limit: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DaemonSetUpdateStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) rolling_update: Option<RollingUpdateDaemonSet>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RollingUpdateDaemonSet {
    pub(crate) max_unavailable: Option<IntOrPercent>,
    pub(crate) max_surge: Option<IntOrPercent>,
}

/// DaemonSetStatus of apps/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DaemonSetStatus {
    pub(crate) current_number_scheduled: i64,
    pub(crate) number_misscheduled: i64,
    pub(crate) desired_number_scheduled: i64,
    pub(crate) number_ready: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) updated_number_scheduled: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) number_available: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) number_unavailable: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<i64>,
}

impl ObjectSpec for DaemonSetSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "DaemonSet";
    const EVENT_SOURCE: &'static str = "daemonset-controller";
    type Status = DaemonSetStatus;
}

impl DaemonSetSpec {
    pub(crate) fn is_rolling_update(&self) -> bool {
        self.update_strategy.kind.as_deref().unwrap_or("RollingUpdate") == "RollingUpdate"
    }

    pub(crate) fn max_surge(&self, total: i64) -> i64 {
        let rolling = self.update_strategy.rolling_update.as_ref().filter(|_| self.is_rolling_update());
        rolling
            .and_then(|rolling| rolling.max_surge)
            .map_or(0, |surge| surge.scaled_value(total, Rounding::Up))
    }

    pub(crate) fn max_unavailable(&self, total: i64) -> i64 {
        let rolling = self.update_strategy.rolling_update.as_ref().filter(|_| self.is_rolling_update());
        rolling
            .and_then(|rolling| rolling.max_unavailable)
            .map_or(0, |max_unavailable| max_unavailable.scaled_value(total, Rounding::Up))
    }
}
