//! The spec and status of StatefulSets.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::k8s_time::Condition;
use crate::object_table::{ObjectSpec, is_zero};
use crate::pod_template::PodTemplate;

/// StatefulSetSpec of apps/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatefulSetSpec {
    pub(crate) replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) selector: SelectorJson,
    pub(crate) template: PodTemplate,
    #[serde(deserialize_with = "nullable")]
    pub(crate) volume_claim_templates: Vec<Value>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) service_name: String,
    pub(crate) pod_management_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) update_strategy: StatefulSetUpdateStrategy,
    pub(crate) revision_history_limit: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) min_ready_seconds: i64,
    #[serde(deserialize_with = "nullable")]
    pub(crate) ordinals: StatefulSetOrdinals,
    #[serde(deserialize_with = "nullable")]
    pub(crate) persistent_volume_claim_retention_policy: ClaimRetentionPolicy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SelectorJson {
    #[serde(deserialize_with = "nullable")]
    pub(crate) match_labels: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatefulSetUpdateStrategy {
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) rolling_update: RollingUpdateStatefulSetStrategy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RollingUpdateStatefulSetStrategy {
    #[serde(deserialize_with = "nullable")]
    pub(crate) partition: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatefulSetOrdinals {
    #[serde(deserialize_with = "nullable")]
    pub(crate) start: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ClaimRetentionPolicy {
    pub(crate) when_deleted: Option<String>,
    pub(crate) when_scaled: Option<String>,
}

/// StatefulSetStatus of apps/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatefulSetStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    pub(crate) replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) ready_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) current_replicas: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) updated_replicas: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) current_revision: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) update_revision: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collision_count: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    pub(crate) available_replicas: i64,
}

impl ObjectSpec for StatefulSetSpec {
    const API_VERSION: &'static str = "apps/v1";
    const KIND: &'static str = "StatefulSet";
    const EVENT_SOURCE: &'static str = "statefulset-controller";
    type Status = StatefulSetStatus;
}

impl StatefulSetSpec {
    pub(crate) fn replicas(&self) -> i64 {
        self.replicas.unwrap_or(1).max(0)
    }

    /// Whether pods are created and deleted one after the other.
    pub(crate) fn is_ordered(&self) -> bool {
        self.pod_management_policy.as_deref() != Some("Parallel")
    }

    pub(crate) fn is_rolling_update(&self) -> bool {
        self.update_strategy.kind.as_deref() != Some("OnDelete")
    }
}
