//! Exponential backoff of node groups after failed scale-ups.

use std::collections::BTreeMap;

use kubernetes::time::{after, nanos};
use model::Moment;

use super::clock::LoopClock;
use super::cloud::GroupId;
use super::settings::Settings;

/// The groups in backoff, or lately so.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExponentialBackoff(BTreeMap<GroupId, BackoffInfo>);

/// The last failure of a group and the resulting backoff.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackoffInfo {
    duration: i64,
    until: Moment,
    last_failure: Moment,
    pub code: String,
    pub message: String,
}

impl ExponentialBackoff {
    /// Puts a group in backoff. The duration doubles with each failure after the previous backoff has ended.
    pub(crate) fn back_off(
        &mut self,
        group: GroupId,
        code: &str,
        message: &str,
        now: Moment,
        settings: &Settings,
    ) {
        let max_duration = nanos(settings.max_node_group_backoff_duration);
        let duration = match self.0.get(&group) {
            None => nanos(settings.initial_node_group_backoff_duration),
            Some(last) if last.until < now => last.duration.saturating_mul(2).min(max_duration),
            Some(last) => last.duration,
        };
        let (code, message) = (code.to_owned(), message.to_owned());
        let until = now.plus_nanos(duration);
        self.0.insert(group, BackoffInfo { duration, until, last_failure: now, code, message });
    }

    /// The backoff of a group; `None` if it is not in backoff.
    pub(crate) fn get(&self, group: GroupId, clock: &LoopClock) -> Option<&BackoffInfo> {
        self.0.get(&group).filter(|last| !clock.is_past(last.until))
    }

    /// Removes groups whose last failure is older than `--node-group-backoff-reset-timeout`.
    pub(crate) fn remove_stale(&mut self, clock: &LoopClock, settings: &Settings) {
        self.0.retain(|_, last| {
            !clock.is_past(after(last.last_failure, settings.node_group_backoff_reset_timeout))
        });
    }
}
