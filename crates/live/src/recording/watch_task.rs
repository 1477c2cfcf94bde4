//! The task of one watch: sends its requests, passes on the responses, and emits the resulting events.

use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use rand::RngExt;
use rand_pcg::Pcg64;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::kind_watches::KindWatches;
use super::{Shared, wait_for_stop};
use crate::events::{KindStatus, RecordingEvent, WatchState};
use crate::list_watch::{KindWatch, RequestFailure, WatchOutput, WatchRequest, WatchResponse};
use crate::panics::catch_panic;
use crate::url::percent_encode;

pub(super) struct WatchTask {
    shared: Arc<Shared>,
    watches: Arc<KindWatches>,
    /// Empty for all namespaces.
    namespace: String,
    kind_watch: KindWatch,
    rng: Pcg64,
    /// A request failed since a watch was last opened.
    has_failed: bool,
    /// The server does not have the kind.
    is_absent: bool,
    last_status: Option<(KindStatus, Moment)>,
    /// The first list has been reported or has failed.
    has_finished_first_list: bool,
}

/// The receiver of events is closed.
struct ReceiverClosed;

/// The maximum size of a batch of watch events, in bytes.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// The minimum interval between status events with the same state.
const STATUS_INTERVAL_NANOS: i64 = 5_000_000_000;
/// The last batch must be received within this time.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

// === impl WatchTask ===

impl WatchTask {
    /// The task of a namespace; an empty name stands for all.
    pub(super) fn new(
        shared: Arc<Shared>,
        watches: Arc<KindWatches>,
        namespace: &str,
        kind_watch: KindWatch,
        rng: Pcg64,
    ) -> WatchTask {
        WatchTask {
            namespace: namespace.to_owned(),
            kind_watch,
            shared,
            watches,
            rng,
            has_failed: false,
            is_absent: false,
            last_status: None,
            has_finished_first_list: false,
        }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = wait_for_stop(&mut stop) => {
                self.kind_watch.stop(self.now());
                // If it is not received in time, this is like a kill: the position was not reported either.
                let _ = timeout(FLUSH_TIMEOUT, self.flush()).await;
            }
            ReceiverClosed = self.supervise() => {}
        }
    }

    /// Runs until the receiver is closed. After a panic everything is relisted, since the state is unknown.
    async fn supervise(&mut self) -> ReceiverClosed {
        loop {
            let panic = match catch_panic(self.send_requests()).await {
                Ok(closed) => return closed,
                Err(panic) => panic,
            };
            let (now, jitter) = (self.now(), self.rng.random());
            let wait = self.kind_watch.handle_panic(panic.to_string(), now, jitter);
            if let Err(closed) = self.flush().await {
                return closed;
            }
            sleep(wait).await;
        }
    }

    async fn send_requests(&mut self) -> ReceiverClosed {
        let jitter = self.rng.random();
        let mut request = self.kind_watch.next_request(jitter);
        loop {
            if let Err(closed) = self.flush().await {
                return closed;
            }
            if !self.has_finished_first_list && self.kind_watch.state() != WatchState::Listing {
                self.has_finished_first_list = true;
                self.shared.finished_first_lists.add_permits(1);
            }
            let next = match request {
                WatchRequest::Wait(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = self.watches.discovered.notified(), if self.is_absent => {}
                    }
                    let jitter = self.rng.random();
                    Ok(self.kind_watch.next_request(jitter))
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
        .unwrap_or_else(|| self.kind_watch.next_request(0.5))
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
                self.has_failed = true;
                return Ok(self
                    .handle(WatchResponse::Failed(failure))
                    .unwrap_or_else(|| self.kind_watch.next_request(0.5)));
            }
        };
        if std::mem::take(&mut self.has_failed) {
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
                next = self.kind_watch.handle(WatchResponse::Line(line), now, self.rng.random());
                if batch_bytes >= MAX_BATCH_BYTES {
                    self.flush().await?;
                    batch_bytes = 0;
                }
            }
            if next.is_some() {
                break;
            }
            let has_output = !self.kind_watch.pending_output().is_empty();
            let idle_timeout = self.kind_watch.idle_timeout(timeout_seconds);
            // API servers send every event separately. While the receiver is busy, more events are added to the batch.
            tokio::select! {
                biased;
                told = self.flush(), if has_output => {
                    told?;
                    batch_bytes = 0;
                }
                is_more = lines.fill_buffer(idle_timeout) => if !is_more {
                    self.has_failed = true;
                    next = self.handle(WatchResponse::Ended);
                },
            }
        }
        Ok(next.unwrap_or_else(|| self.kind_watch.next_request(0.5)))
    }

    /// The path and query prefix of requests.
    fn request_prefix(&mut self) -> String {
        let (path, api_version) = self.watches.request_prefix(&self.namespace);
        self.kind_watch.set_api_version(api_version);
        path
    }

    fn handle(&mut self, response: WatchResponse<'_>) -> Option<WatchRequest> {
        self.is_absent = matches!(&response, WatchResponse::Failed(RequestFailure { status: Some(404), .. }));
        if self.is_absent {
            // It may be served in another version now.
            self.shared.kinds_changed.notify_one();
        }
        let now = self.now();
        let jitter = self.rng.random();
        self.kind_watch.handle(response, now, jitter)
    }

    fn now(&self) -> Moment {
        (self.shared.clock)()
    }

    /// Emits the status and the pending batch. Cancel-safe: nothing is lost while it waits.
    async fn flush(&mut self) -> Result<(), ReceiverClosed> {
        let now = self.now();
        let mut members = self.watches.watches.lock().await;
        let member = members.entry(self.namespace.clone()).or_default();
        member.state = Some(self.kind_watch.state());
        member.objects = self.kind_watch.object_count();
        member.last_heard = self.kind_watch.last_heard();
        let status = self.watches.status(&members);
        if self.is_status_due(&status, now) {
            self.shared
                .events
                .send(RecordingEvent::Status(status.clone()))
                .await
                .map_err(|_| ReceiverClosed)?;
            self.last_status = Some((status, now));
        }
        if self.kind_watch.pending_output().is_empty() {
            return Ok(());
        }
        let permit = self.shared.events.reserve().await.map_err(|_| ReceiverClosed)?;
        let WatchOutput { mut batch, warnings } = self.kind_watch.take_output();
        if let Some((_, position)) = batch.positions.first_mut() {
            members.entry(self.namespace.clone()).or_default().position = Some(position.clone());
            *position = self.watches.joint_position(&members);
        }
        if *self.watches.kind.kind == *"CustomResourceDefinition" && !batch.changes.is_empty() {
            self.shared.kinds_changed.notify_one();
        }
        permit.send(RecordingEvent::Batch(batch));
        for message in warnings {
            let warning = RecordingEvent::Warning { kind: self.watches.kind.clone(), message };
            self.shared.events.send(warning).await.map_err(|_| ReceiverClosed)?;
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
