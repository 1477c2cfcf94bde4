//! The spec and status of Deployments.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::int_or_percent::{IntOrPercent, Rounding};
use crate::k8s_time::Condition;
use crate::object_table::{ObjectSpec, is_zero};
use crate::pod_template::PodTemplate;

/// DeploymentSpec of apps/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: Value,
    pub(crate) template: PodTemplate,
    #[serde(deserialize_with = "nullable")]
    pub(crate) strategy: DeploymentStrategy,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i64,
    pub(crate) revision_history_limit: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeploymentStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rolling_update: RollingUpdateDeployment,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RollingUpdateDeployment {
    pub(crate) max_unavailable: Option<IntOrPercent>,
    pub(crate) max_surge: Option<IntOrPercent>,
}

/// DeploymentStatus of apps/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeploymentStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) updated_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) available_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) unavailable_replicas: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating_replicas: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<i64>,
}

impl ObjectSpec for DeploymentSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "Deployment";
    const EVENT_SOURCE: &'static str = "deployment-controller";
    type Status = DeploymentStatus;
}

impl DeploymentSpec {
    pub(crate) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1).max(0)
    }

    pub(crate) fn is_recreate(&self) -> bool {
        self.strategy.kind.as_deref() == Some("Recreate")
    }

    /// maxSurge in pods, before it is resolved together with maxUnavailable.
    pub(crate) fn max_surge(&self) -> i64 {
        let surge = self.strategy.rolling_update.max_surge.unwrap_or(IntOrPercent::Percent(25));
        if self.is_recreate() { 0 } else { surge.scaled_value(self.replicas(), Rounding::Up) }
    }

    /// maxUnavailable in pods.
    pub(crate) fn max_unavailable(&self) -> i64 {
        if self.is_recreate() || self.replicas() == 0 {
            return 0;
        }
        let missing = self.strategy.rolling_update.max_unavailable.unwrap_or(IntOrPercent::Percent(25));
        let missing = missing.scaled_value(self.replicas(), Rounding::Down);
        // Both must not be zero, or the rollout could not proceed.
        let missing = if missing == 0 && self.max_surge() == 0 { 1 } else { missing };
        missing.min(self.replicas())
    }

    /// The replicas plus surge.
    pub(crate) fn max_replicas(&self) -> i64 {
        self.replicas().saturating_add(self.max_surge())
    }

    /// The progress deadline in seconds. The highest 32-bit number means none.
    pub(crate) fn progress_deadline(&self) -> Option<i64> {
        let seconds = self.progress_deadline_seconds.unwrap_or(600);
        (seconds != i64::from(i32::MAX)).then_some(seconds)
    }

    pub(crate) fn history_limit(&self) -> Option<i64> {
        let limit = self.revision_history_limit.unwrap_or(10);
        (limit != i64::from(i32::MAX)).then_some(limit)
    }
}
