//! What a Job says of itself.

use model::Moment;

use crate::api::JobStatus;
use crate::stamp::{Condition, Stamp};

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
