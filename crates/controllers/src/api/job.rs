//! The spec and status of Jobs.

use kubernetes::objects::Phase;
use kubernetes::read::nullable;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::k8s_time::{Condition, K8sTime};
use crate::object_table::{ObjectSpec, is_zero};
use crate::pod::Pod;
use crate::pod_template::PodTemplate;

/// JobSpec of batch/v1.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct JobSpec {
    pub(crate) parallelism: Option<i64>,
    pub(crate) completions: Option<i64>,
    pub(crate) backoff_limit: Option<i64>,
    pub(crate) completion_mode: Option<String>,
    #[serde(deserialize_with = "nullable")]
    pub(crate) suspend: bool,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) ttl_seconds_after_finished: Option<i64>,
    pub(crate) template: PodTemplate,
    pub(crate) pod_failure_policy: Option<IgnoredAny>,
    pub(crate) success_policy: Option<IgnoredAny>,
    pub(crate) backoff_limit_per_index: Option<i64>,
    pub(crate) pod_replacement_policy: Option<String>,
    pub(crate) managed_by: Option<String>,
}

/// JobStatus of batch/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct JobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<K8sTime>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<K8sTime>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) active: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) succeeded: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminating: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub(crate) completed_indexes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed_indexes: Option<String>,
    /// Finished pods that may still have their tracking finalizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncounted_terminated_pods: Option<UncountedTerminatedPods>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<i64>,
}

/// The uids of terminated pods that are not counted yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UncountedTerminatedPods {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) succeeded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) failed: Vec<String>,
}

impl ObjectSpec for JobSpec {
    const API_VERSION: &'static str = "batch/v1";
    const KIND: &'static str = "Job";
    const EVENT_SOURCE: &'static str = "job-controller";
    type Status = JobStatus;
}

impl JobSpec {
    pub(crate) fn is_indexed(&self) -> bool {
        self.completion_mode.as_deref() == Some("Indexed")
    }

    pub(crate) fn parallelism(&self) -> i64 {
        self.parallelism.unwrap_or(1).max(0)
    }

    /// The required number of succeeded pods; `None` if one success is enough and the remaining pods are waited for.
    pub(crate) fn completions(&self) -> Option<i64> {
        self.completions.or(self.parallelism.is_none().then_some(1))
    }

    pub(crate) fn backoff_limit(&self) -> i64 {
        let default = if self.backoff_limit_per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        self.backoff_limit.unwrap_or(default)
    }

    /// Whether a pod is replaced only when it has finished, not as soon as it is terminating.
    pub(crate) fn only_replaces_failed_pods(&self) -> bool {
        self.pod_replacement_policy.as_deref() == Some("Failed") || self.pod_failure_policy.is_some()
    }

    /// Whether a pod counts as failed.
    pub(crate) fn is_pod_failed(&self, pod: &Pod) -> bool {
        pod.status.phase == Phase::Failed
            || !self.only_replaces_failed_pods() && pod.is_deleting() && pod.status.phase != Phase::Succeeded
    }
}
