//! Deployments.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::amount::{Amount, Round};
use crate::stamp::Condition;
use crate::table::{Spec, is_zero};
use crate::template::Template;

/// What a Deployment is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: Value,
    pub(crate) template: Template,
    #[serde(deserialize_with = "nullable")]
    pub(crate) strategy: StrategyJson,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i64,
    pub(crate) revision_history_limit: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StrategyJson {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rolling_update: RollingJson,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RollingJson {
    pub(crate) max_unavailable: Option<Amount>,
    pub(crate) max_surge: Option<Amount>,
}

/// What a Deployment is.
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

impl Spec for DeploymentSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "Deployment";
    type Status = DeploymentStatus;
}

impl DeploymentSpec {
    pub(crate) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1).max(0)
    }

    pub(crate) fn recreates(&self) -> bool {
        self.strategy.kind.as_deref() == Some("Recreate")
    }

    /// How many pods more there may be, as long as it is not worked out with how many may be missing.
    pub(crate) fn surge(&self) -> i64 {
        let surge = self.strategy.rolling_update.max_surge.unwrap_or(Amount::Percent(25));
        if self.recreates() { 0 } else { surge.of(self.replicas(), Round::Up) }
    }

    /// How many pods may be missing.
    pub(crate) fn unavailable(&self) -> i64 {
        if self.recreates() || self.replicas() == 0 {
            return 0;
        }
        let missing = self.strategy.rolling_update.max_unavailable.unwrap_or(Amount::Percent(25));
        let missing = missing.of(self.replicas(), Round::Down);
        // Something must be able to move.
        let missing = if missing == 0 && self.surge() == 0 { 1 } else { missing };
        missing.min(self.replicas())
    }

    /// How many pods there may be at most.
    pub(crate) fn most(&self) -> i64 {
        self.replicas().saturating_add(self.surge())
    }

    /// After how many seconds without progress it counts as stuck. The highest number is never.
    pub(crate) fn deadline(&self) -> Option<i64> {
        let seconds = self.progress_deadline_seconds.unwrap_or(600);
        (seconds != i64::from(i32::MAX)).then_some(seconds)
    }

    pub(crate) fn history_limit(&self) -> Option<i64> {
        let limit = self.revision_history_limit.unwrap_or(10);
        (limit != i64::from(i32::MAX)).then_some(limit)
    }
}
