//! Watch streams: the objects that exist, if they are requested, and every event after them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use model::{Moment, Object};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_stream::wrappers::ReceiverStream;

use crate::list::{ObjectRenderer, is_selected};
use crate::list_options::ListOptions;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{ObjectList, Store, StoreError, StoreEvent};

/// A watch of a resource.
pub(crate) struct Watch {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) renderer: ObjectRenderer,
    pub(crate) namespace: Option<String>,
    pub(crate) options: ListOptions,
    /// The objects that exist, if they are sent first.
    pub(crate) initial: Option<ObjectList>,
    /// The resourceVersion after which events are sent.
    pub(crate) version: u64,
}

/// The timeout of watches that request none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Chunks that wait for a slow reader. Events beyond them stay in the store's window; a reader that falls behind it is
/// told that its resourceVersion has expired.
const QUEUE_CHUNKS: usize = 4;
/// A chunk is sent when it is longer than this.
const CHUNK_BYTES: usize = 64 << 10;

type ChunkSender = mpsc::Sender<Result<Bytes, Infallible>>;

/// The watch is over: the client has gone, or was told why.
struct Ended;

// === impl Watch ===

impl Watch {
    /// The body of the response. It ends at the timeout, or when the client has gone.
    pub(crate) fn into_body(self) -> Body {
        let (sender, receiver) = mpsc::channel(QUEUE_CHUNKS);
        let timeout =
            self.options.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT);
        tokio::spawn(async move {
            let closed = sender.clone();
            tokio::select! {
                () = sleep(timeout) => {}
                () = closed.closed() => {}
                Ended = self.run(sender) => {}
            }
        });
        Body::from_stream(ReceiverStream::new(receiver))
    }

    async fn run(mut self, sender: ChunkSender) -> Ended {
        let mut events = self.store.watch(&self.renderer.resource, self.version);
        if self.send_initial(&sender).await.is_err() {
            return Ended;
        }
        let mut ticks = interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let sent = tokio::select! {
                next = events.next() => self.send_events(&sender, next, events.moment()).await,
                _ = ticks.tick() => match self.options.allow_watch_bookmarks {
                    true => self.send_bookmark(&sender, false).await,
                    false => Ok(()),
                },
            };
            if sent.is_err() {
                return Ended;
            }
        }
    }

    async fn send_initial(&mut self, sender: &ChunkSender) -> Result<(), Ended> {
        let Some(list) = self.initial.take() else { return Ok(()) };
        let mut chunk = String::new();
        for object in list.objects.range(self.namespace.as_deref(), None) {
            if is_selected(&self.renderer.resource, object, &self.options) {
                push_line(&mut chunk, "ADDED", &self.renderer.object(object));
                if chunk.len() > CHUNK_BYTES {
                    send(sender, std::mem::take(&mut chunk)).await?;
                }
            }
        }
        send(sender, chunk).await?;
        if self.options.send_initial_events == Some(true) && self.options.allow_watch_bookmarks {
            self.send_bookmark(sender, true).await?;
        }
        Ok(())
    }

    /// Sends events, or the reason why there are no more. `moment` is theirs, if it is not the store's.
    async fn send_events(
        &mut self,
        sender: &ChunkSender,
        events: Result<Vec<StoreEvent>, StoreError>,
        moment: Option<Moment>,
    ) -> Result<(), Ended> {
        let events = match events {
            Ok(events) => events,
            Err(error) => {
                let error = match error {
                    StoreError::Expired { oldest } => ApiError::expired(self.version, oldest),
                    error => error.into(),
                };
                let mut chunk = String::new();
                push_line(&mut chunk, "ERROR", &error.status().to_string());
                send(sender, chunk).await?;
                return Err(Ended);
            }
        };
        let now = moment.unwrap_or_else(|| self.store.now());
        let mut chunk = String::new();
        for event in &events {
            self.version = event.version;
            self.push_event(&mut chunk, event, now);
            if chunk.len() > CHUNK_BYTES {
                send(sender, std::mem::take(&mut chunk)).await?;
            }
        }
        send(sender, chunk).await
    }

    /// An object that begins to match the selectors is added for this watch, one that ceases to is deleted.
    fn push_event(&self, chunk: &mut String, event: &StoreEvent, now: Moment) {
        if self.namespace.as_ref().is_some_and(|namespace| *event.new.meta().namespace != **namespace) {
            return;
        }
        let was_selected =
            event.old.as_ref().is_some_and(|old| is_selected(&self.renderer.resource, old, &self.options));
        let is_selected =
            !event.is_deletion && is_selected(&self.renderer.resource, &event.new, &self.options);
        let (event_type, object) = match (was_selected, is_selected) {
            (false, false) => return,
            (false, true) => ("ADDED", None),
            (true, true) => ("MODIFIED", None),
            (true, false) => ("DELETED", event.old.as_ref().filter(|_| !event.is_deletion)),
        };
        // What ceases to match is sent as it was, with the new version.
        let last_match = object.map(|object| with_version(object, event.version));
        push_line(
            chunk,
            event_type,
            &self.renderer.object_at(last_match.as_ref().unwrap_or(&event.new), now),
        );
    }

    async fn send_bookmark(&self, sender: &ChunkSender, ends_initial: bool) -> Result<(), Ended> {
        let mut chunk = String::new();
        push_line(&mut chunk, "BOOKMARK", &bookmark(&self.renderer.resource, self.version, ends_initial));
        send(sender, chunk).await
    }
}

fn with_version(object: &Object, version: u64) -> Object {
    let with_version = object.value().ok().and_then(|mut value| {
        value["metadata"]["resourceVersion"] = version.to_string().into();
        Object::parse(&value.to_string()).ok()
    });
    with_version.unwrap_or_else(|| object.clone())
}

async fn send(sender: &ChunkSender, chunk: String) -> Result<(), Ended> {
    if chunk.is_empty() {
        return Ok(());
    }
    sender.send(Ok(chunk.into())).await.map_err(|_| Ended)
}

fn push_line(chunk: &mut String, event_type: &str, object: &str) {
    chunk.push_str("{\"type\":\"");
    chunk.push_str(event_type);
    chunk.push_str("\",\"object\":");
    chunk.push_str(object);
    chunk.push_str("}\n");
}

fn bookmark(resource: &Resource, resource_version: u64, ends_initial: bool) -> String {
    let mut metadata = json!({"resourceVersion": resource_version.to_string(), "creationTimestamp": null});
    if ends_initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let bookmark =
        json!({"kind": *resource.kind.kind, "apiVersion": resource.api_version(), "metadata": metadata});
    bookmark.to_string()
}

/// Whether a watch begins with the objects that exist.
pub(crate) fn sends_initial(options: &ListOptions) -> bool {
    match options.send_initial_events {
        Some(sends) => sends,
        None => matches!(options.resource_version, None | Some(0)),
    }
}
