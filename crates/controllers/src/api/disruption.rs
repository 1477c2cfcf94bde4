//! The spec and status of PodDisruptionBudgets.

use std::collections::BTreeMap;

use kubernetes::read::nullable;
use kubernetes::selector::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::int_or_percent::IntOrPercent;
use crate::k8s_time::{Condition, K8sTime};
use crate::object_table::{ObjectSpec, is_zero};

/// PodDisruptionBudgetSpec of policy/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodDisruptionBudgetSpec {
    pub(crate) min_available: Option<IntOrPercent>,
    pub(crate) max_unavailable: Option<IntOrPercent>,
    pub(crate) selector: Option<LabelSelector>,
}

/// PodDisruptionBudgetStatus of policy/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodDisruptionBudgetStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    /// Pods whose eviction was allowed and that are not terminating yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub(crate) disrupted_pods: BTreeMap<String, K8sTime>,
    pub(crate) disruptions_allowed: i64,
    pub(crate) current_healthy: i64,
    pub(crate) desired_healthy: i64,
    pub(crate) expected_pods: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

impl ObjectSpec for PodDisruptionBudgetSpec {
    const API_VERSION: &'static str = "policy/v1";
    const KIND: &'static str = "PodDisruptionBudget";
    const EVENT_SOURCE: &'static str = "controllermanager";
    type Status = PodDisruptionBudgetStatus;
}
