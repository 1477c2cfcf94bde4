//! What a Job says of itself.

use kubernetes::read::nullable;
use model::Moment;
use serde::{Deserialize, Serialize};

use crate::stamp::{Condition, Stamp};
use crate::table::is_zero;

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
    pub(super) active: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) succeeded: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) failed: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) terminating: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty", deserialize_with = "nullable")]
    pub(super) completed_indexes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_indexes: Option<String>,
    /// Pods that have ended and may still have their finalizer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uncounted_terminated_pods: Option<Uncounted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ready: Option<i64>,
}

/// Uids of pods that are to be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Uncounted {
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(super) succeeded: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "nullable")]
    pub(super) failed: Vec<String>,
}

// === impl JobStatus ===

impl JobStatus {
    /// Adds a condition, or changes the one of that kind. One that never held is not said not to. True if that is news.
    pub(super) fn set(&mut self, now: Moment, kind: &str, status: bool, reason: &str, message: &str) -> bool {
        let stamp = Some(Stamp::at(now));
        let new = Condition {
            last_probe_time: stamp,
            last_transition_time: stamp,
            ..Condition::new(kind, status, reason, message)
        };
        match self.conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(known) => {
                let is_news = (&known.status, &known.reason, &known.message)
                    != (&new.status, &new.reason, &new.message);
                if is_news {
                    *known = new;
                }
                is_news
            }
            None if status => {
                self.conditions.push(new);
                true
            }
            None => false,
        }
    }
}
