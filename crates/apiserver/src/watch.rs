//! Watch streams.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use model::Object;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_stream::wrappers::ReceiverStream;

use crate::list::{ObjectRenderer, is_selected};
use crate::list_options::ListOptions;
use crate::resource::Resource;
use crate::store::ObjectList;

/// The events that a watch of a store without changes sends.
pub(crate) struct WatchPlan {
    /// One JSON document per line.
    initial: Vec<Bytes>,
    bookmark: Option<Bytes>,
    timeout: Duration,
}

/// The timeout of watches that request none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1800);
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Lines that wait for a slow reader.
const QUEUE_LINES: usize = 16;

// === impl WatchPlan ===

impl WatchPlan {
    /// Plans a watch. Without a resourceVersion, or with `sendInitialEvents`, it begins with the objects that exist.
    pub(crate) fn new(
        renderer: &ObjectRenderer<'_>,
        list: &ObjectList,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> WatchPlan {
        let sends_initial = options.send_initial_events || matches!(options.resource_version, None | Some(0));
        let objects = list.in_namespace(namespace).iter().filter(|_| sends_initial);
        let added = |object: &Object| line("ADDED", &renderer.object(object));
        let mut initial: Vec<Bytes> =
            objects.filter(|object| is_selected(object, options)).map(added).collect();
        if options.send_initial_events && options.allow_watch_bookmarks {
            initial.push(bookmark(renderer.resource, list.resource_version, true));
        }
        WatchPlan {
            initial,
            bookmark: options
                .allow_watch_bookmarks
                .then(|| bookmark(renderer.resource, list.resource_version, false)),
            timeout: options.timeout_seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT),
        }
    }

    /// The body of the response. It ends at the timeout, or when the client has gone.
    pub(crate) fn into_body(self) -> Body {
        let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(QUEUE_LINES);
        tokio::spawn(async move {
            let timeout = sleep(self.timeout);
            tokio::select! {
                () = timeout => {}
                () = sender.closed() => {}
                () = send_lines(&sender, self.initial, self.bookmark) => {}
            }
        });
        Body::from_stream(ReceiverStream::new(receiver))
    }
}

async fn send_lines(
    sender: &mpsc::Sender<Result<Bytes, Infallible>>,
    initial: Vec<Bytes>,
    bookmark: Option<Bytes>,
) {
    for line in initial {
        if sender.send(Ok(line)).await.is_err() {
            return;
        }
    }
    let mut ticks = interval_at(Instant::now() + BOOKMARK_INTERVAL, BOOKMARK_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Some(bookmark) = &bookmark
            && sender.send(Ok(bookmark.clone())).await.is_err()
        {
            return;
        }
    }
}

fn line(event_type: &str, object: &str) -> Bytes {
    format!("{{\"type\":\"{event_type}\",\"object\":{object}}}\n").into()
}

fn bookmark(resource: &Resource, resource_version: u64, ends_initial: bool) -> Bytes {
    let mut metadata = json!({"resourceVersion": resource_version.to_string(), "creationTimestamp": null});
    if ends_initial {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
    }
    let object =
        json!({"kind": *resource.kind.kind, "apiVersion": resource.api_version(), "metadata": metadata});
    line("BOOKMARK", &object.to_string())
}
