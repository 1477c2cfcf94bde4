//! PodDisruptionBudgets.

use std::collections::BTreeMap;

use kubernetes::read::nullable;
use kubernetes::selector::LabelSelector;
use serde::{Deserialize, Serialize};

use crate::amount::Amount;
use crate::stamp::{Condition, Stamp};
use crate::table::{Spec, is_zero};

/// What a budget is to be.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BudgetSpec {
    pub(crate) min_available: Option<Amount>,
    pub(crate) max_unavailable: Option<Amount>,
    pub(crate) selector: Option<LabelSelector>,
}

/// What a budget is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct BudgetStatus {
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) observed_generation: i64,
    /// Pods whose eviction was allowed and that are not being deleted yet.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "nullable")]
    pub(crate) disrupted_pods: BTreeMap<String, Stamp>,
    pub(crate) disruptions_allowed: i64,
    pub(crate) current_healthy: i64,
    pub(crate) desired_healthy: i64,
    pub(crate) expected_pods: i64,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
}

impl Spec for BudgetSpec {
    const API_VERSION: &'static str = "policy/v1";
    const KIND: &'static str = "PodDisruptionBudget";
    type Status = BudgetStatus;
}
