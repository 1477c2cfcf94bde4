//! The parsed view of a PodGroup.

use std::sync::Arc;

use kubernetes::objects::ObjectMeta;
use kubernetes::read::nullable;
use serde::Deserialize;

/// Pods that are scheduled together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodGroupView {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: PodGroupSpec,
    #[serde(deserialize_with = "nullable")]
    pub status: PodGroupStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodGroupSpec {
    pub min_member: Option<i32>,
    pub min_sub_group: Option<i32>,
    #[serde(deserialize_with = "nullable")]
    pub queue: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub priority_class_name: Arc<str>,
    /// `preemptible`, `non-preemptible` or empty.
    #[serde(deserialize_with = "nullable")]
    pub preemptibility: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub topology_constraint: TopologyConstraintView,
    #[serde(deserialize_with = "nullable")]
    pub sub_groups: Vec<SubGroupView>,
    pub scheduling_backoff: Option<i32>,
    #[serde(deserialize_with = "super::duration")]
    pub preemption_delay: Option<i64>,
    #[serde(deserialize_with = "super::duration")]
    pub staleness_grace_period: Option<i64>,
}

/// A subgroup of a pod group.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SubGroupView {
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    pub min_member: Option<i32>,
    pub min_sub_group: Option<i32>,
    pub parent: Option<String>,
    pub topology_constraint: Option<TopologyConstraintView>,
}

/// A topology constraint; its levels are node labels or their aliases.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct TopologyConstraintView {
    #[serde(deserialize_with = "nullable")]
    pub topology: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub required_topology_level: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    pub preferred_topology_level: Arc<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodGroupStatus {
    #[serde(deserialize_with = "nullable")]
    pub scheduling_conditions: Vec<SchedulingCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct SchedulingCondition {
    #[serde(deserialize_with = "nullable")]
    pub node_pool: Arc<str>,
    #[serde(rename = "transitionID", deserialize_with = "nullable")]
    pub transition_id: Arc<str>,
}

impl PodGroupView {
    /// The condition that was set last.
    pub(crate) fn last_scheduling_condition(&self) -> Option<&SchedulingCondition> {
        let id = |condition: &SchedulingCondition| condition.transition_id.parse::<i64>().unwrap_or(-1);
        self.status
            .scheduling_conditions
            .iter()
            .reduce(|last, condition| if id(condition) > id(last) { condition } else { last })
    }
}
