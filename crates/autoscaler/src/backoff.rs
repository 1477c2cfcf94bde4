//! Groups that failed to grow are left alone for a while, longer each time.

use std::collections::BTreeMap;

use kubernetes::time::{after, nanos};
use model::Moment;

use super::clock::Clock;
use super::cloud::GroupId;
use super::settings::Settings;

/// Groups that failed lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Backoffs(BTreeMap<GroupId, BackedOff>);

/// What is remembered of a group that failed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BackedOff {
    duration: i64,
    until: Moment,
    failed: Moment,
    pub code: String,
    pub message: String,
}

impl Backoffs {
    /// A group failed. A failure that comes after the last one is forgiven makes the next wait twice as long.
    pub(crate) fn add(
        &mut self,
        group: GroupId,
        code: &str,
        message: &str,
        now: Moment,
        settings: &Settings,
    ) {
        let most = nanos(settings.max_node_group_backoff_duration);
        let duration = match self.0.get(&group) {
            None => nanos(settings.initial_node_group_backoff_duration),
            Some(last) if last.until < now => last.duration.saturating_mul(2).min(most),
            Some(last) => last.duration,
        };
        let (code, message) = (code.to_owned(), message.to_owned());
        let until = now.plus_nanos(duration);
        self.0.insert(group, BackedOff { duration, until, failed: now, code, message });
    }

    /// What a group is left alone for, if it is.
    pub(crate) fn get(&self, group: GroupId, clock: &Clock) -> Option<&BackedOff> {
        self.0.get(&group).filter(|last| !clock.is_past(last.until))
    }

    /// Forgets groups that have not failed for long.
    pub(crate) fn forget_old(&mut self, clock: &Clock, settings: &Settings) {
        self.0
            .retain(|_, last| !clock.is_past(after(last.failed, settings.node_group_backoff_reset_timeout)));
    }
}
