//! Handling of failures: gaps, relists, backoff and the version check.

use std::time::Duration;

use model::{Gap, Moment};

use super::failure::{FailureKind, RequestFailure};
use super::{
    GAP_REPORT_INTERVAL_NANOS, ListWatchPhase, MAX_FAILED_RESUMES, MIN_WATCH_NANOS, OngoingGap, Reflector,
    WatchRequest, is_older,
};

// === impl Reflector ===

impl Reflector {
    /// Handles the end of a watch, regular or not.
    pub(super) fn handle_watch_end(&mut self, now: Moment, jitter: f64) -> WatchRequest {
        let ListWatchPhase::Watching { stream, needs_resource_version_check: needs_version_check, .. } =
            &mut self.phase
        else {
            return self.next_request(jitter);
        };
        let (has_lines, has_lasted) = stream.take().map_or((false, false), |stream| {
            (stream.has_lines, now.nanos_since(stream.opened) >= MIN_WATCH_NANOS)
        });
        if has_lasted {
            *needs_version_check = !has_lines;
            self.was_cut_short = false;
            self.reset_backoff();
            return self.next_request(jitter);
        }
        if has_lines && !std::mem::replace(&mut self.was_cut_short, true) {
            return self.next_request(jitter);
        }
        self.back_off(
            RequestFailure::from_message("the server closed the watch immediately".to_owned()),
            now,
            jitter,
        )
    }

    /// Handles a request that failed or was rejected.
    pub(super) fn handle_failure(
        &mut self,
        failure: RequestFailure,
        now: Moment,
        jitter: f64,
    ) -> WatchRequest {
        if matches!(self.phase, ListWatchPhase::Listing { .. }) && failure.status.is_none() {
            // A page without a response may have been too big for the timeout or the body limit.
            self.page_size = (self.page_size / 2).max(1);
        }
        match (&mut self.phase, failure.kind()) {
            (ListWatchPhase::Watching { resource_version, .. }, FailureKind::Expired) => {
                let why = format!("the server no longer had the changes after version {resource_version}");
                self.start_gap(why, now);
                return self.relist(failure, now, jitter);
            }
            // The server may be unable to continue from this version.
            (
                ListWatchPhase::Watching { needs_resource_version_check: false, .. },
                FailureKind::Transient,
            ) if failure.status == Some(500) => {
                return self.handle_failed_resume(failure, now, jitter);
            }
            // The `continue` token is no longer valid.
            (
                ListWatchPhase::Listing { continue_token: Some(_), .. },
                FailureKind::Expired | FailureKind::Rejected | FailureKind::NotFound,
            ) => {
                self.start_gap("the list had to be restarted".to_owned(), now);
                return self.relist(failure, now, jitter);
            }
            (
                ListWatchPhase::Listing { continue_token: None, .. },
                FailureKind::Expired | FailureKind::Transient,
            ) => {
                self.start_gap(format!("the list failed: {failure}"), now);
            }
            // The request is retried at the same position, and nothing is missed.
            (
                ListWatchPhase::Listing { continue_token: Some(_), .. } | ListWatchPhase::Watching { .. },
                FailureKind::Transient,
            ) => {}
            (_, meaning @ (FailureKind::Rejected | FailureKind::NotFound)) => {
                if meaning == FailureKind::NotFound {
                    self.restart_list();
                }
                let gap = self.start_gap(failure.to_string(), now);
                if !std::mem::replace(&mut gap.is_reported, true) {
                    self.output.warnings.push(format!("cannot be watched, retrying: {failure}"));
                    self.report_ongoing_gap(now);
                }
            }
        }
        self.back_off(failure, now, jitter)
    }

    /// The server sent an invalid line, or failed to continue from the position.
    pub(super) fn handle_failed_resume(
        &mut self,
        failure: RequestFailure,
        now: Moment,
        jitter: f64,
    ) -> WatchRequest {
        self.failed_resumes += 1;
        match &self.phase {
            ListWatchPhase::Watching { resource_version, .. }
                if self.failed_resumes >= MAX_FAILED_RESUMES =>
            {
                let why = format!(
                    "the server could not resume the watch after version {resource_version}: {failure}"
                );
                self.start_gap(why, now);
                self.relist(failure, now, jitter)
            }
            ListWatchPhase::Watching { .. } | ListWatchPhase::Listing { .. } => {
                self.back_off(failure, now, jitter)
            }
        }
    }

    /// Handles a panic of the watch task: the last output may be lost. Returns the backoff before the relist.
    pub(crate) fn handle_panic(&mut self, why: String, now: Moment, jitter: f64) -> Duration {
        let gap = self.start_gap(why.clone(), now);
        if !std::mem::replace(&mut gap.is_reported, true) {
            self.output.warnings.push(why.clone());
        }
        self.restart_list();
        match self.back_off(RequestFailure::from_message(why), now, jitter) {
            WatchRequest::Wait(wait) => wait,
            WatchRequest::List { .. } | WatchRequest::Watch { .. } => Duration::ZERO,
        }
    }

    /// Relists: immediately the first time since a watch succeeded, then with backoff. Earlier failures without a
    /// response no longer count, because the server has answered.
    fn relist(&mut self, failure: RequestFailure, now: Moment, jitter: f64) -> WatchRequest {
        self.restart_list();
        if std::mem::replace(&mut self.has_relisted, true) {
            return self.back_off(failure, now, jitter);
        }
        self.failures = 1;
        self.next_request(jitter)
    }

    /// Resets the backoff after a successful watch.
    pub(super) fn reset_backoff(&mut self) {
        (self.failures, self.has_relisted) = (0, false);
    }

    fn restart_list(&mut self) {
        self.phase = ListWatchPhase::listing();
        self.list_round += 1;
        self.just_deleted.clear();
        self.failed_resumes = 0;
    }

    fn back_off(&mut self, failure: RequestFailure, now: Moment, jitter: f64) -> WatchRequest {
        let wait = failure.backoff(self.failures, jitter);
        self.failures = self.failures.saturating_add(1);
        if let ListWatchPhase::Watching {
            stream, needs_resource_version_check: needs_version_check, ..
        } = &mut self.phase
        {
            // After an error response, watch and version check alternate; without a response the version is checked
            // first.
            (*stream, *needs_version_check) = (None, !*needs_version_check || failure.status.is_none());
        }
        let since = self.waiting.take().map_or(now, |(_, since)| since);
        if now.nanos_since(since) >= GAP_REPORT_INTERVAL_NANOS {
            self.start_gap(failure.to_string(), now);
        }
        self.waiting = Some((failure, since));
        if self
            .ongoing_gap
            .as_ref()
            .is_some_and(|gap| now.nanos_since(gap.since) >= GAP_REPORT_INTERVAL_NANOS)
        {
            self.report_ongoing_gap(now);
        }
        WatchRequest::Wait(wait)
    }

    /// Compares the position with the server's version. kube-apiserver accepts watches from future versions, as they
    /// occur when etcd was restored from a backup, and sends nothing until it has reached them.
    pub(super) fn check_resource_version(&mut self, version: &str, now: Moment) {
        let ListWatchPhase::Watching {
            resource_version,
            needs_resource_version_check: needs_version_check,
            ..
        } = &mut self.phase
        else {
            return;
        };
        *needs_version_check = false;
        if is_older(version, resource_version) {
            let why = format!("the server went back from version {resource_version} to {version}");
            self.start_gap(why, now);
            self.restart_list();
        }
    }

    /// Begins a gap at the last moment up to which everything was reported.
    fn start_gap(&mut self, why: String, now: Moment) -> &mut OngoingGap {
        let since = self.complete_until.or(self.list_started()).unwrap_or(now);
        self.ongoing_gap.get_or_insert(OngoingGap { since, why, is_reported: false })
    }

    /// Ends the ongoing gap.
    pub(super) fn end_gap(&mut self, now: Moment) {
        self.report_ongoing_gap(now);
        if self.ongoing_gap.take().is_some_and(|gap| gap.is_reported) {
            self.output.warnings.push("recording again".to_owned());
        }
    }

    /// Reports the ongoing gap up to now.
    pub(super) fn report_ongoing_gap(&mut self, now: Moment) {
        let Some(gap) = &mut self.ongoing_gap else { return };
        let (since, why) = (std::mem::replace(&mut gap.since, now), gap.why.clone());
        self.push_gap(since, now, why);
    }

    /// Reports an object that cannot be parsed as a gap.
    pub(super) fn report_unreadable(&mut self, why: &str, now: Moment) {
        let why = format!("the server sent an invalid object: {why}");
        self.output.warnings.push(why.clone());
        self.push_gap_until(why, now);
    }

    /// Reports a gap from the last moment up to which everything was reported until now.
    pub(super) fn push_gap_until(&mut self, why: String, now: Moment) {
        self.push_gap(self.complete_until.unwrap_or(now), now, why);
    }

    fn push_gap(&mut self, since: Moment, now: Moment, why: String) {
        let (source, kinds) = (self.subject.source.clone(), vec![self.subject.kind.clone()]);
        // The clock may have been set back; a change takes effect at the later time.
        self.output.batch.gaps.push(Gap { source, kinds, from: since.min(now), to: since.max(now), why });
    }
}
