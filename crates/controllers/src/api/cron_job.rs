//! The spec and status of CronJobs.

use kubernetes::read::nullable;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::k8s_time::K8sTime;
use crate::object_table::ObjectSpec;

/// CronJobSpec of batch/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CronJobSpec {
    #[serde(deserialize_with = "nullable")]
    pub(crate) schedule: String,
    #[serde(deserialize_with = "nullable")]
    pub(crate) time_zone: String,
    pub(crate) starting_deadline_seconds: Option<i64>,
    pub(crate) concurrency_policy: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) suspend: bool,
    #[serde(deserialize_with = "nullable")]
    pub(crate) job_template: Value,
    pub(crate) successful_jobs_history_limit: Option<i64>,
    pub(crate) failed_jobs_history_limit: Option<i64>,
}

/// CronJobStatus of batch/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CronJobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) active: Vec<ObjectReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_schedule_time: Option<K8sTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_successful_time: Option<K8sTime>,
}

/// An ObjectReference of v1 to an active Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ObjectReference {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) api_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource_version: Option<String>,
}

impl ObjectSpec for CronJobSpec {
    const API_VERSION: &'static str = "batch/v1";
    const KIND: &'static str = "CronJob";
    const EVENT_SOURCE: &'static str = "cronjob-controller";
    type Status = CronJobStatus;
}

impl CronJobSpec {
    /// Whether another spec has the same schedule.
    pub(crate) fn has_same_schedule(&self, other: &CronJobSpec) -> bool {
        (&self.schedule, &self.time_zone) == (&other.schedule, &other.time_zone)
    }
}
