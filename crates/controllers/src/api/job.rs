//! Jobs.

use kubernetes::read::nullable;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::pod::{Phase, Pod};
use crate::stamp::{Condition, Stamp};
use crate::table::{Spec, is_zero};
use crate::template::Template;

/// What a Job is to be.
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
    pub(crate) template: Template,
    pub(crate) pod_failure_policy: Option<IgnoredAny>,
    pub(crate) success_policy: Option<IgnoredAny>,
    pub(crate) backoff_limit_per_index: Option<i64>,
    pub(crate) pod_replacement_policy: Option<String>,
    pub(crate) managed_by: Option<String>,
}

/// What a Job is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct JobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) conditions: Vec<Condition>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) completion_time: Option<Stamp>,
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
    /// Pods that have ended and may still have their finalizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncounted_terminated_pods: Option<Uncounted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<i64>,
}

/// Uids of pods that are to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Uncounted {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) succeeded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(crate) failed: Vec<String>,
}

impl Spec for JobSpec {
    const API_VERSION: &'static str = "batch/v1";
    const KIND: &'static str = "Job";
    type Status = JobStatus;
}

impl JobSpec {
    pub(crate) fn is_indexed(&self) -> bool {
        self.completion_mode.as_deref() == Some("Indexed")
    }

    pub(crate) fn parallelism(&self) -> i64 {
        self.parallelism.unwrap_or(1).max(0)
    }

    /// How many pods have to succeed; `None` if one is enough, and the others are then waited for.
    pub(crate) fn completions(&self) -> Option<i64> {
        self.completions.or(self.parallelism.is_none().then_some(1))
    }

    pub(crate) fn backoff_limit(&self) -> i64 {
        let default = if self.backoff_limit_per_index.is_some() { i64::from(i32::MAX) } else { 6 };
        self.backoff_limit.unwrap_or(default)
    }

    /// A pod is replaced when it has ended, not when it is being deleted.
    pub(crate) fn replaces_late(&self) -> bool {
        self.pod_replacement_policy.as_deref() == Some("Failed") || self.pod_failure_policy.is_some()
    }

    /// Whether a pod counts as one that failed.
    pub(crate) fn has_failed(&self, pod: &Pod) -> bool {
        pod.phase == Phase::Failed
            || !self.replaces_late() && pod.is_deleted() && pod.phase != Phase::Succeeded
    }
}
