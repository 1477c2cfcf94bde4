//! The list-watch state machine of one kind, as in client-go's Reflector: decides the next request, and turns responses
//! into changes, gaps and positions.
//!
//! It uses no socket, clock or random numbers: responses come in with the time at which they were received, requests go
//! out.

mod decode;
mod failure;
mod recovery;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use kubernetes::change_filter::ObjectReader;
use model::{IncomingChange, Kind, Moment, NamespacedName, Object, What};

use crate::recording_event::{VersionId, WatchBatch, WatchState};
use decode::{EventType, ListPage, WatchLine};
pub use failure::RequestFailure;

/// The kind that is watched, and the filter for its objects.
#[derive(Clone, Debug)]
pub struct WatchSubject {
    /// The name of the recording.
    pub source: Arc<str>,
    /// `v1`, `apps/v1`: used in requests, and added to the items of lists, which have none.
    pub api_version: String,
    /// Group and kind.
    pub kind: Kind,
    /// Filter for objects to record. It sees every version of every object, before anything of it is stored.
    pub keep: fn(&Object) -> bool,
}

/// The next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchRequest {
    /// List objects, continuing after a page if there was one.
    List {
        /// The `continue` token of that page.
        continue_token: Option<String>,
        /// The maximum number of objects.
        limit: u32,
    },
    /// Watch, with bookmarks.
    Watch {
        /// The `resourceVersion` to watch from.
        resource_version: String,
        /// The `timeoutSeconds` after which the server ends the watch.
        timeout_seconds: u32,
    },
    /// Wait this long, then send [`Reflector::next_request`].
    Wait(Duration),
}

/// A response, or a part of one.
#[derive(Clone, Debug)]
pub enum WatchResponse<'a> {
    /// A complete page of a list.
    Page(&'a [u8]),
    /// The server has accepted a watch.
    Opened,
    /// A line of a watch.
    Line(&'a [u8]),
    /// The body of the watch ended, or was idle for too long. An ERROR event arrives as a `Line`.
    Ended,
    /// The request failed, or was rejected.
    Failed(RequestFailure),
}

/// The results since they were last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchOutput {
    /// Changes, gaps and positions.
    pub batch: WatchBatch,
    /// Messages for the user.
    pub warnings: Vec<String>,
}

/// The list and watch of one kind, or of one namespace of it: client-go's Reflector as a state machine without I/O.
///
/// It stores the name, uid and resourceVersion of each object: its memory follows the size of the cluster, not the
/// number of changes.
#[derive(Debug)]
pub struct Reflector {
    subject: WatchSubject,
    /// Reads objects in the form in which they are kept; `None`: as they are received.
    reader: Option<ObjectReader>,
    objects: HashMap<NamespacedName, CachedVersion>,
    /// The number of lists started.
    list_round: u32,
    phase: ListWatchPhase,
    /// When a response was last received.
    last_heard: Option<Moment>,
    /// All changes up to this moment have been reported.
    complete_until: Option<Moment>,
    ongoing_gap: Option<OngoingGap>,
    /// Consecutive failures, reset by a successful watch, not by a successful list: the watch may be what fails.
    failures: u32,
    /// A relist was started since a watch last succeeded.
    has_relisted: bool,
    /// The failure that is being retried, and since when requests have failed.
    waiting: Option<(RequestFailure, Moment)>,
    /// How often the server failed to continue from the position.
    failed_resumes: u32,
    /// The last watch ended early although it had sent events.
    was_cut_short: bool,
    /// The page size.
    page_size: u32,
    /// Uids of objects deleted at exactly the version of the position: only their DELETED events could be received
    /// twice without being recognized.
    just_deleted: HashSet<Box<str>>,
    output: WatchOutput,
}

#[derive(Debug)]
struct CachedVersion {
    version: VersionId,
    /// The last list that contained it.
    list_round: u32,
}

#[derive(Debug)]
enum ListWatchPhase {
    /// `first_page` is when the first page was received, and its version. All pages show the cluster as it was before
    /// that moment; where they do not, the watch reports the later changes again.
    Listing { continue_token: Option<String>, first_page: Option<(Moment, String)> },
    Watching {
        resource_version: String,
        stream: Option<OpenWatch>,
        /// The server may be behind that version: it must be checked with a list before the next watch.
        needs_resource_version_check: bool,
    },
}

/// A watch that the server has accepted.
#[derive(Debug)]
struct OpenWatch {
    opened: Moment,
    /// When its last line was received, or it was opened.
    last_line: Moment,
    has_lines: bool,
    has_bookmarks: bool,
    /// The server has sent all past events; further events are current.
    is_caught_up: bool,
    /// The watch was not read for a while: events, including bookmarks, may be old.
    is_stale: bool,
}

/// A period in which changes may be missed, not ended yet.
#[derive(Debug)]
struct OngoingGap {
    /// The end of the part that has been reported as gaps.
    since: Moment,
    why: String,
    /// The user has been informed.
    is_reported: bool,
}

/// The maximum page size.
const MAX_PAGE_SIZE: u32 = 500;
/// A version from which the server failed to continue this often is abandoned.
const MAX_FAILED_RESUMES: u32 = 5;
/// A connection that is silent for this long after the watch's timeout is dead.
const IDLE_GRACE: Duration = Duration::from_secs(15);
/// The idle timeout of servers that send bookmarks: they send one a minute.
const BOOKMARK_TIMEOUT_NANOS: i64 = 150_000_000_000;
/// A watch that lasted this long counts as successful, even without events.
const MIN_WATCH_NANOS: i64 = 5_000_000_000;
/// Past events are sent without such a pause.
const CAUGHT_UP_PAUSE_NANOS: i64 = 1_000_000_000;
/// How often an ongoing gap is reported, so that a recorder that is killed has reported most of it.
pub(crate) const GAP_REPORT_INTERVAL_NANOS: i64 = 3_600_000_000_000;

// === impl Reflector ===

impl Reflector {
    /// Resumes from a position and the objects known there; without a position it starts with a list.
    ///
    /// A position is `7@2026-11-01T14:03:00Z`: the resourceVersion, empty in the middle of a list, and the moment up to
    /// which everything was reported. `until` replaces a missing moment.
    pub fn new(
        subject: WatchSubject,
        position: Option<&str>,
        objects: impl IntoIterator<Item = (NamespacedName, VersionId)>,
        until: Option<Moment>,
    ) -> Reflector {
        let (version, moment) = position.map_or(("", None), |text| match text.split_once('@') {
            Some((version, moment)) => (version, moment.parse().ok()),
            None => (text, None),
        });
        let last_heard = moment.or(until);
        let objects = objects
            .into_iter()
            .map(|(name, version_id)| (name, CachedVersion { version: version_id, list_round: 0 }))
            .collect();
        let (phase, ongoing_gap) = match version {
            "" => {
                let why = "the position to resume from was unknown".to_owned();
                let ongoing_gap = last_heard.map(|since| OngoingGap { since, why, is_reported: false });
                (ListWatchPhase::listing(), ongoing_gap)
            }
            resource_version => (ListWatchPhase::watching(resource_version.to_owned()), None),
        };
        Reflector {
            subject,
            reader: None,
            objects,
            list_round: 1,
            phase,
            last_heard,
            complete_until: last_heard,
            ongoing_gap,
            failures: 0,
            has_relisted: false,
            waiting: None,
            failed_resumes: 0,
            was_cut_short: false,
            page_size: MAX_PAGE_SIZE,
            just_deleted: HashSet::new(),
            output: WatchOutput::default(),
        }
    }

    /// Sets the reader of received objects.
    pub fn with_reader(self, reader: Option<ObjectReader>) -> Reflector {
        Reflector { reader, ..self }
    }

    /// Sets the reason for the gap before the first list, if it is not a missing position.
    pub fn with_gap_reason(mut self, why: String) -> Reflector {
        if let Some(gap) = &mut self.ongoing_gap {
            gap.why = why;
        }
        self
    }

    /// Changes the API version of further requests.
    pub fn set_api_version(&mut self, api_version: String) {
        self.subject.api_version = api_version;
    }

    /// The next request. `jitter` is between 0 and 1: it spreads the timeouts of watches.
    pub fn next_request(&self, jitter: f64) -> WatchRequest {
        match &self.phase {
            ListWatchPhase::Listing { continue_token, .. } => {
                WatchRequest::List { continue_token: continue_token.clone(), limit: self.page_size }
            }
            ListWatchPhase::Watching { needs_resource_version_check: true, .. } => {
                WatchRequest::List { continue_token: None, limit: 1 }
            }
            ListWatchPhase::Watching { resource_version, .. } => WatchRequest::Watch {
                resource_version: resource_version.clone(),
                timeout_seconds: 240 + (jitter.clamp(0.0, 1.0) * 60.0) as u32,
            },
        }
    }

    /// Handles a response. `None`: continue to read the same response. `jitter` is between 0 and 1, the jitter of the
    /// backoff.
    pub fn handle(&mut self, response: WatchResponse<'_>, now: Moment, jitter: f64) -> Option<WatchRequest> {
        // A response to the version check does not show that watches work.
        let is_version_check =
            matches!((&response, &self.phase), (WatchResponse::Page(_), ListWatchPhase::Watching { .. }));
        if !is_version_check && !matches!(response, WatchResponse::Failed(_) | WatchResponse::Ended) {
            self.waiting = None;
        }
        match response {
            WatchResponse::Page(bytes) => match ListPage::decode(bytes) {
                Ok(page) if is_version_check => self.check_resource_version(&page.resource_version, now),
                Ok(page) => self.handle_page(page, now),
                Err(error) => {
                    return Some(self.handle_failure(
                        RequestFailure::from_message(error.to_string()),
                        now,
                        jitter,
                    ));
                }
            },
            WatchResponse::Opened => {
                if let ListWatchPhase::Watching { stream, .. } = &mut self.phase {
                    *stream = Some(OpenWatch {
                        opened: now,
                        last_line: now,
                        has_lines: false,
                        has_bookmarks: false,
                        is_caught_up: false,
                        is_stale: false,
                    });
                }
                // The watch delivers all changes since the position.
                self.end_gap(now);
                return None;
            }
            WatchResponse::Line(bytes) => match WatchLine::decode(bytes, self.reader.as_ref()) {
                Ok(WatchLine::Object(event_type, object)) => {
                    self.reset_backoff();
                    self.handle_event(event_type, object, now);
                    return None;
                }
                Ok(WatchLine::Bookmark(version)) => {
                    self.reset_backoff();
                    self.note_line(now, true);
                    self.advance_to(version);
                    return None;
                }
                Ok(WatchLine::Unreadable(version, why)) => {
                    self.report_unreadable(&why, now);
                    self.note_line(now, false);
                    self.advance_to(version);
                    return None;
                }
                Ok(WatchLine::Error(failure)) => return Some(self.handle_failure(failure, now, jitter)),
                // The retry may return a valid line.
                Err(error) => {
                    return Some(self.handle_failed_resume(
                        RequestFailure::from_message(error.to_string()),
                        now,
                        jitter,
                    ));
                }
            },
            WatchResponse::Ended => return Some(self.handle_watch_end(now, jitter)),
            WatchResponse::Failed(failure) => return Some(self.handle_failure(failure, now, jitter)),
        }
        Some(self.next_request(jitter))
    }

    /// Stops: an ongoing gap is reported up to now.
    pub fn stop(&mut self, now: Moment) {
        self.report_ongoing_gap(now);
    }

    /// Takes the results since the last call.
    pub fn take_output(&mut self) -> WatchOutput {
        let mut output = std::mem::take(&mut self.output);
        // The part of an ongoing gap that has been reported need not be reported again.
        let complete_until =
            self.ongoing_gap.as_ref().map(|gap| gap.since).or(self.complete_until).or(self.list_started());
        if let Some(complete_until) = complete_until {
            for (_, position) in &mut output.batch.positions {
                *position = format!("{position}@{complete_until}");
            }
        }
        output
    }

    /// The results that have not been taken.
    pub fn pending_output(&self) -> &WatchOutput {
        &self.output
    }

    /// The idle timeout of a watch of so many seconds.
    pub fn idle_timeout(&self, seconds: u32) -> Duration {
        match self.phase {
            ListWatchPhase::Watching { stream: Some(OpenWatch { has_bookmarks: true, .. }), .. } => {
                Duration::from_nanos(BOOKMARK_TIMEOUT_NANOS.unsigned_abs())
            }
            // Some kinds have no events for hours.
            ListWatchPhase::Watching { .. } | ListWatchPhase::Listing { .. } => {
                Duration::from_secs(seconds.into()) + IDLE_GRACE
            }
        }
    }

    /// The current state.
    pub fn state(&self) -> WatchState {
        match (&self.waiting, &self.phase) {
            (Some((failure, _)), _) if failure.is_access_denied() => WatchState::AccessDenied,
            (Some((failure, _)), _) => WatchState::Waiting(failure.to_string()),
            (None, ListWatchPhase::Listing { .. }) => WatchState::Listing,
            (None, ListWatchPhase::Watching { .. }) => WatchState::Watching,
        }
    }

    /// The number of objects.
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// When a response was last received.
    pub fn last_heard(&self) -> Option<Moment> {
        self.last_heard
    }

    fn handle_page(&mut self, page: ListPage<'_>, now: Moment) {
        if page.continue_token.is_none() {
            // The next list may try larger pages again; the next page of this one may be too big.
            self.page_size = (self.page_size * 2).min(MAX_PAGE_SIZE);
        }
        // Later pages show the state at the time of the first page.
        let list_start = self.list_started().unwrap_or(now);
        let is_first = self.list_started().is_none();
        for item in page.items {
            let WatchSubject { api_version, kind, .. } = &self.subject;
            match decode::with_type_meta(item, api_version, &kind.kind, self.reader.as_ref()) {
                Ok(object) => self.handle_item(object, list_start),
                Err(error) => self.report_unreadable(&error.to_string(), now),
            }
        }
        if page.continue_token.is_some() && is_first {
            // A recorder that is killed before the end of the list must not resume from the earlier position: it would
            // report events that are older than the first pages.
            self.report_ongoing_gap(now);
            self.push_position(String::new());
        }
        let ListWatchPhase::Listing { continue_token, first_page } = &mut self.phase else {
            return;
        };
        let (list_start, version) = first_page.get_or_insert((now, page.resource_version)).clone();
        match page.continue_token {
            Some(next) => *continue_token = Some(next),
            None => self.finish_list(version, list_start, now),
        }
    }

    fn handle_item(&mut self, object: Object, now: Moment) {
        let Some(object) = self.subject.sanitized(object) else { return };
        let (name, version_id) = name_and_version(&object);
        let round = self.list_round;
        match self.objects.get_mut(&name) {
            Some(entry) if entry.version == version_id => entry.list_round = round,
            Some(entry) if entry.version.uid == version_id.uid => {
                *entry = CachedVersion { version: version_id, list_round: round };
                self.push_change(&name, What::Modified(object), now);
            }
            _ => {
                self.push_inferred_delete(&name, now);
                self.push_change(&name, What::Added(object), now);
                self.objects.insert(name, CachedVersion { version: version_id, list_round: round });
            }
        }
    }

    fn finish_list(&mut self, version: String, list_start: Moment, now: Moment) {
        let round = self.list_round;
        let mut deleted_names: Vec<NamespacedName> = self
            .objects
            .iter()
            .filter(|(_, entry)| entry.list_round != round)
            .map(|(name, _)| name.clone())
            .collect();
        deleted_names.sort_unstable();
        for name in deleted_names {
            self.push_inferred_delete(&name, now);
        }
        self.end_gap(now);
        self.phase = ListWatchPhase::watching(version.clone());
        (self.last_heard, self.complete_until) = (Some(now), Some(list_start));
        self.advance_to(version);
    }

    fn handle_event(&mut self, event_type: EventType, object: Object, now: Moment) {
        let (name, version_id) = name_and_version(&object);
        match &*version_id.resource_version {
            "" => self.report_unreadable("event without a resourceVersion", now),
            version => {
                // A repeated event does not show that the watch is current.
                if !self.is_already_received(version) {
                    self.note_line(now, false);
                }
                self.advance_to(version.to_owned());
            }
        }
        let Some(object) = self.subject.sanitized(object) else { return };
        let cached = self.objects.get(&name).map(|entry| &entry.version);
        let is_repeated = match event_type {
            EventType::Added | EventType::Modified => cached.is_some_and(|cached| {
                let is_older = is_older(&version_id.resource_version, &cached.resource_version);
                cached == &version_id || cached.uid == version_id.uid && is_older
            }),
            EventType::Deleted => self.just_deleted.contains(&version_id.uid),
        };
        if is_repeated {
            return;
        }
        if cached.is_some_and(|cached| cached.uid != version_id.uid) {
            self.push_inferred_delete(&name, now);
            self.push_gap_until("the time of a deletion is unknown".to_owned(), now);
        }
        let what = match event_type {
            EventType::Added => What::Added(object),
            EventType::Modified => What::Modified(object),
            EventType::Deleted => What::Deleted(object),
        };
        self.push_change(&name, what, now);
        if event_type == EventType::Deleted {
            self.objects.remove(&name);
            self.just_deleted.insert(version_id.uid);
        } else {
            self.objects.insert(name, CachedVersion { version: version_id, list_round: self.list_round });
        }
    }

    /// Reports an object as deleted for which the server sent no DELETED event.
    fn push_inferred_delete(&mut self, name: &NamespacedName, now: Moment) {
        let Some(entry) = self.objects.remove(name) else { return };
        self.output.batch.changes.push(self.subject.inferred_delete(name, &entry.version, now));
    }

    fn push_change(&mut self, name: &NamespacedName, what: What, seen: Moment) {
        let key = self.subject.key(name);
        self.output.batch.changes.push(IncomingChange { seen, key, what, inferred: false });
    }

    /// Notes the arrival of a line. A bookmark is sent when there are no events left to send.
    fn note_line(&mut self, now: Moment, is_bookmark: bool) {
        self.last_heard = Some(now);
        let ListWatchPhase::Watching { stream: Some(stream), .. } = &mut self.phase else { return };
        let pause = now.nanos_since(stream.last_line);
        if stream.has_bookmarks && pause >= BOOKMARK_TIMEOUT_NANOS {
            (stream.is_caught_up, stream.is_stale) = (false, true);
        } else if pause >= CAUGHT_UP_PAUSE_NANOS {
            (stream.is_caught_up, stream.is_stale) = (true, false);
        } else {
            stream.is_caught_up |= is_bookmark && !stream.is_stale;
        }
        stream.has_lines = true;
        stream.has_bookmarks |= is_bookmark;
        stream.last_line = now;
        if stream.is_caught_up {
            self.complete_until = Some(now);
        }
    }

    /// Advances the position. Servers without versions of lists send an empty one.
    fn advance_to(&mut self, version: String) {
        let ListWatchPhase::Watching { resource_version, .. } = &mut self.phase else { return };
        if version.is_empty() || is_older(&version, resource_version) {
            return;
        }
        self.failed_resumes = 0;
        if *resource_version != version {
            self.just_deleted.clear();
            resource_version.clone_from(&version);
        }
        self.push_position(version);
    }

    fn is_already_received(&self, version: &str) -> bool {
        matches!(&self.phase, ListWatchPhase::Watching { resource_version, .. }
            if resource_version == version || is_older(version, resource_version))
    }

    fn push_position(&mut self, version: String) {
        match self.output.batch.positions.first_mut() {
            Some((_, position)) => *position = version,
            None => self.output.batch.positions.push((self.subject.kind.clone(), version)),
        }
    }

    /// When the first page of the current list was received.
    fn list_started(&self) -> Option<Moment> {
        match &self.phase {
            ListWatchPhase::Listing { first_page, .. } => first_page.as_ref().map(|(moment, _)| *moment),
            ListWatchPhase::Watching { .. } => None,
        }
    }
}

// === impl WatchOutput ===

impl WatchOutput {
    /// Whether there are no results.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.warnings.is_empty()
    }
}

// === impl ListWatchPhase ===

impl ListWatchPhase {
    fn listing() -> ListWatchPhase {
        ListWatchPhase::Listing { continue_token: None, first_page: None }
    }

    fn watching(resource_version: String) -> ListWatchPhase {
        ListWatchPhase::Watching { resource_version, stream: None, needs_resource_version_check: false }
    }
}

fn name_and_version(object: &Object) -> (NamespacedName, VersionId) {
    let meta = object.meta();
    let name = NamespacedName::new(&*meta.namespace, &*meta.name);
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    (name, VersionId { uid, resource_version: meta.resource_version.as_deref().unwrap_or_default().into() })
}

/// Whether a resourceVersion is older than another. Non-numeric ones cannot be compared.
fn is_older(one: &str, other: &str) -> bool {
    matches!((one.parse::<u64>(), other.parse::<u64>()), (Ok(one), Ok(other)) if one < other)
}
