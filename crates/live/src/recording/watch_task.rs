//! The task of one watch: sends the requests of its [`Reflector`], passes on the responses, and emits the resulting
//! events.

use std::collections::VecDeque;
use std::sync::Arc;

use model::Moment;
use rand::RngExt;
use rand_pcg::Pcg64;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::kind_watch_state::KindWatchState;
use super::{FLUSH_TIMEOUT, Shared, wait_for_stop};
use crate::list_watch::{Reflector, RequestFailure, WatchOutput, WatchRequest, WatchResponse};
use crate::panics::catch_panic;
use crate::recording_event::{KindStatus, RecordingEvent, WatchState};
use crate::url::percent_encode;

/// One watch of a kind: in one namespace, or in all.
pub(super) struct WatchTask {
    shared: Arc<Shared>,
    kind_state: Arc<KindWatchState>,
    /// Empty for all namespaces.
    namespace: String,
    reflector: Reflector,
    rng: Pcg64,
    /// A watch has ended or could not be opened since one was last opened.
    has_lost_watch: bool,
    /// The server does not have the kind.
    is_absent: bool,
    last_status: Option<(KindStatus, Moment)>,
    /// Warnings that are still to be sent.
    warnings: VecDeque<String>,
    /// The first list has been reported or has failed.
    has_finished_first_list: bool,
}

/// The receiver of events is closed.
struct ReceiverClosed;

/// The maximum size of a batch of watch events, in bytes as received: some hundred pods, which fill a block of a history.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The minimum interval between status events with the same state.
const STATUS_INTERVAL_NANOS: i64 = 5_000_000_000;

// === impl WatchTask ===

impl WatchTask {
    /// The task of a namespace; an empty name stands for all.
    pub(super) fn new(
        shared: Arc<Shared>,
        kind_state: Arc<KindWatchState>,
        namespace: &str,
        reflector: Reflector,
        rng: Pcg64,
    ) -> WatchTask {
        WatchTask {
            namespace: namespace.to_owned(),
            reflector,
            shared,
            kind_state,
            rng,
            has_lost_watch: false,
            is_absent: false,
            last_status: None,
            warnings: VecDeque::new(),
            has_finished_first_list: false,
        }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = wait_for_stop(&mut stop) => {
                self.reflector.stop(self.now());
                // If it is not received in time, this is like a kill: the position was not reported either.
                let _ = timeout(FLUSH_TIMEOUT, self.flush()).await;
            }
            ReceiverClosed = self.list_and_watch() => {}
        }
    }

    /// Lists and watches until the receiver is closed. After a panic everything is relisted, since the state
    /// is unknown.
    async fn list_and_watch(&mut self) -> ReceiverClosed {
        loop {
            let panic = match catch_panic(self.send_requests()).await {
                Ok(closed) => return closed,
                Err(panic) => panic,
            };
            let (now, jitter) = (self.now(), self.rng.random());
            let wait = self.reflector.handle_panic(panic.to_string(), now, jitter);
            if let Err(closed) = self.flush().await {
                return closed;
            }
            sleep(wait).await;
        }
    }

    async fn send_requests(&mut self) -> ReceiverClosed {
        let jitter = self.rng.random();
        let mut request = self.reflector.next_request(jitter);
        loop {
            if let Err(closed) = self.flush().await {
                return closed;
            }
            if !self.has_finished_first_list && self.reflector.state() != WatchState::Listing {
                self.has_finished_first_list = true;
                self.shared.finished_first_lists.add_permits(1);
            }
            let next = match request {
                WatchRequest::Wait(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = self.kind_state.discovered.notified(), if self.is_absent => {}
                    }
                    let jitter = self.rng.random();
                    Ok(self.reflector.next_request(jitter))
                }
                WatchRequest::List { continue_token, limit } => Ok(self.list(continue_token, limit).await),
                WatchRequest::Watch { resource_version, timeout_seconds } => {
                    self.watch(&resource_version, timeout_seconds).await
                }
            };
            request = match next {
                Ok(request) => request,
                Err(closed) => return closed,
            };
        }
    }

    async fn list(&mut self, continue_token: Option<String>, limit: u32) -> WatchRequest {
        let continue_token =
            continue_token.map_or(String::new(), |token| format!("&continue={}", percent_encode(&token)));
        let shared = self.shared.clone();
        let _permit = shared.list_permits.acquire().await;
        let path = format!("{}limit={limit}{continue_token}", self.request_prefix());
        match shared.connection.get(&path, "application/json").await {
            Ok(page) => self.handle(WatchResponse::Page(&page)),
            Err(failure) => self.handle(WatchResponse::Failed(failure)),
        }
        .unwrap_or_else(|| self.reflector.next_request(0.5))
    }

    async fn watch(
        &mut self,
        resource_version: &str,
        timeout_seconds: u32,
    ) -> Result<WatchRequest, ReceiverClosed> {
        let path = format!(
            "{}watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={timeout_seconds}",
            self.request_prefix(),
            percent_encode(resource_version)
        );
        let mut lines = match self.shared.connection.watch(&path).await {
            Ok(lines) => lines,
            Err(failure) => {
                self.has_lost_watch = true;
                return Ok(self
                    .handle(WatchResponse::Failed(failure))
                    .unwrap_or_else(|| self.reflector.next_request(0.5)));
            }
        };
        if std::mem::take(&mut self.has_lost_watch) {
            self.shared.reconnected.notify_one();
        }
        let mut next = self.handle(WatchResponse::Opened);
        self.flush().await?;
        let mut batch_bytes = 0;
        while next.is_none() {
            while next.is_none()
                && let Some(line) = lines.next_buffered()
            {
                batch_bytes += line.len();
                // Not by `handle`, because `line` is borrowed.
                let now = (self.shared.clock)();
                next = self.reflector.handle(WatchResponse::Line(line), now, self.rng.random());
                if batch_bytes >= MAX_BATCH_BYTES {
                    self.flush().await?;
                    batch_bytes = 0;
                }
            }
            if next.is_some() {
                break;
            }
            // API servers send every event separately. While the receiver is busy, more events are added to the batch.
            if self.shared.output.capacity() == 0 && lines.fill_buffer_now().await {
                continue;
            }
            let has_output = !self.reflector.pending_output().is_empty() || !self.warnings.is_empty();
            let idle_timeout = self.reflector.idle_timeout(timeout_seconds);
            tokio::select! {
                biased;
                flushed = self.flush(), if has_output => {
                    flushed?;
                    batch_bytes = 0;
                }
                is_more = lines.fill_buffer(idle_timeout) => if !is_more {
                    self.has_lost_watch = true;
                    next = self.handle(WatchResponse::Ended);
                },
            }
        }
        Ok(next.unwrap_or_else(|| self.reflector.next_request(0.5)))
    }

    /// The path and query prefix of requests.
    fn request_prefix(&mut self) -> String {
        let (path, api_version) = self.kind_state.request_prefix(&self.namespace);
        self.reflector.set_api_version(api_version);
        path
    }

    fn handle(&mut self, response: WatchResponse<'_>) -> Option<WatchRequest> {
        self.is_absent = matches!(&response, WatchResponse::Failed(RequestFailure { status: Some(404), .. }));
        if self.is_absent {
            // It may be served in another version now.
            self.shared.discovery_wanted.notify_one();
        }
        let now = self.now();
        let jitter = self.rng.random();
        self.reflector.handle(response, now, jitter)
    }

    fn now(&self) -> Moment {
        (self.shared.clock)()
    }

    /// Emits the status, the warnings and the pending batch. Cancel-safe: nothing is lost while it waits.
    async fn flush(&mut self) -> Result<(), ReceiverClosed> {
        let now = self.now();
        let mut by_namespace = self.kind_state.by_namespace.lock().await;
        let watch = by_namespace.entry(self.namespace.clone()).or_default();
        watch.state = Some(self.reflector.state());
        watch.objects = self.reflector.object_count();
        watch.last_heard = self.reflector.last_heard();
        let status = self.kind_state.status(&by_namespace);
        if self.is_status_due(&status, now) {
            self.shared
                .output
                .send(RecordingEvent::Status(status.clone()))
                .await
                .map_err(|_| ReceiverClosed)?;
            self.last_status = Some((status, now));
        }
        if self.reflector.pending_output().is_empty() {
            drop(by_namespace);
            return self.send_warnings().await;
        }
        let permit = self.shared.output.reserve().await.map_err(|_| ReceiverClosed)?;
        let WatchOutput { mut batch, warnings } = self.reflector.take_output();
        if let Some((_, position)) = batch.positions.first_mut() {
            by_namespace.entry(self.namespace.clone()).or_default().position = Some(position.clone());
            *position = self.kind_state.joint_position(&by_namespace);
        }
        if *self.kind_state.kind.kind == *"CustomResourceDefinition" && !batch.changes.is_empty() {
            self.shared.discovery_wanted.notify_one();
        }
        permit.send(RecordingEvent::Batch(batch));
        drop(by_namespace);
        self.warnings.extend(warnings);
        self.send_warnings().await
    }

    /// Sends the warnings, each of which stays in the queue until it is sent.
    async fn send_warnings(&mut self) -> Result<(), ReceiverClosed> {
        while !self.warnings.is_empty() {
            let permit = self.shared.output.reserve().await.map_err(|_| ReceiverClosed)?;
            if let Some(message) = self.warnings.pop_front() {
                permit.send(RecordingEvent::Warning { kind: self.kind_state.kind.clone(), message });
            }
        }
        Ok(())
    }

    fn is_status_due(&self, status: &KindStatus, now: Moment) -> bool {
        self.last_status.as_ref().is_none_or(|(previous, at)| {
            previous.state != status.state
                // The clock may have been set back.
                || previous != status && now.nanos_since(*at).abs() >= STATUS_INTERVAL_NANOS
        })
    }
}
