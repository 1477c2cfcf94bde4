//! Conditions of Jobs.

use model::Moment;

use crate::api::JobStatus;
use crate::k8s_time::{Condition, K8sTime};

// === impl JobStatus ===

impl JobStatus {
    /// Sets a condition. A false one is not added if there is none yet. Returns whether anything changed.
    pub(super) fn ensure_condition(
        &mut self,
        now: Moment,
        kind: &str,
        status: bool,
        reason: &str,
        message: &str,
    ) -> bool {
        let now_time = Some(K8sTime::at(now));
        let new = Condition {
            last_probe_time: now_time,
            last_transition_time: now_time,
            ..Condition::new(kind, status, reason, message)
        };
        match self.conditions.iter_mut().find(|condition| condition.kind == kind) {
            Some(existing) => {
                let is_changed = (&existing.status, &existing.reason, &existing.message)
                    != (&new.status, &new.reason, &new.message);
                if is_changed {
                    *existing = new;
                }
                is_changed
            }
            None if status => {
                self.conditions.push(new);
                true
            }
            None => false,
        }
    }
}
