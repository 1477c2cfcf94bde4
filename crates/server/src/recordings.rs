//! The state of this process's recordings, as JSON and as Prometheus metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use model::Moment;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use recorder::{RecorderMetrics, RecordingMetrics};
use serde_json::{Value, json};

use super::AppState;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterLabels {
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    cluster: String,
    kind: String,
}

type SecondsGauge = Gauge<f64, AtomicU64>;

/// `GET /api/v1/recordings`
pub(super) async fn list(State(app): State<Arc<AppState>>) -> Json<Value> {
    let now = Timestamp::now().into();
    let all: Vec<Value> = app
        .recorder_metrics
        .snapshot()
        .iter()
        .map(|(name, figures)| recording_json(name, figures, now))
        .collect();
    Json(json!({ "recordings": all }))
}

fn recording_json(name: &str, figures: &RecordingMetrics, wall: Moment) -> Value {
    let now = figures.to_recording_time(wall);
    json!({
        "name": name,
        "history": figures.history,
        "state": figures.state.as_str(),
        "why": figures.state.failure(),
        "changes": figures.sum(|kind| kind.recorded),
        "leftOut": figures.sum(|kind| kind.dropped),
        "objects": figures.object_count(),
        "gaps": figures.gaps(),
        "restarts": figures.restarts,
        "damagedHistories": figures.damaged_histories,
        "clockSteps": figures.clock_steps,
        "retentionFailures": figures.retention_failures,
        "lagSeconds": figures.lag_seconds,
        "waiting": figures.queued_events,
        "kinds": figures.kinds.iter().map(|(kind, of_kind)| json!({
            "kind": kind.to_string(),
            "state": of_kind.state_name(),
            "why": of_kind.failure(),
            "objects": of_kind.status.as_ref().map(|status| status.objects),
            "changes": of_kind.recorded,
            "leftOut": of_kind.dropped,
            "gaps": of_kind.gaps,
            "heardSecondsAgo": of_kind.seconds_since_response(now),
        })).collect::<Vec<_>>(),
    })
}

/// A Prometheus registry with the metrics of all recordings.
pub(super) fn registry(board: &RecorderMetrics) -> Registry {
    let mut registry = Registry::with_prefix("kinescope_recorder");
    let mut of_cluster = |name: &str, help: &str| {
        let family = Family::<ClusterLabels, Gauge>::default();
        registry.register(name, help, family.clone());
        family
    };
    let recording = of_cluster("recording", "Whether the cluster is being recorded");
    let paused = of_cluster("paused", "Whether the disk takes no more");
    let queue = of_cluster("queue", "Messages that wait to be written");
    let lag = Family::<ClusterLabels, SecondsGauge>::default();
    registry.register("lag_seconds", "From when a change was seen to when it was safe", lag.clone());
    let mut counted = |name: &str, help: &str| {
        let family = Family::<ClusterLabels, Counter>::default();
        registry.register(name, help, family.clone());
        family
    };
    let pauses = counted("pauses", "How often the disk was full");
    let restarts = counted("restarts", "How often it was begun again after an error or a panic");
    let damaged = counted("damaged_histories", "Damaged histories that were set aside");
    let clock_steps = counted("clock_steps", "How often the clock was set or the machine suspended");
    let retention_failures =
        counted("retention_failures", "How often what is too old, or too much, could not be forgotten");
    let clock_offset = Family::<ClusterLabels, SecondsGauge>::default();
    registry.register(
        "clock_offset_seconds",
        "How far the machine's clock is ahead of the time that changes are stamped with",
        clock_offset.clone(),
    );
    let hung = Family::<ClusterLabels, Gauge>::default();
    registry.register("hung", "Whether the recorder's loop does not turn any more", hung.clone());
    let mut of_kind = |name: &str, help: &str| {
        let family = Family::<KindLabels, Counter>::default();
        registry.register(name, help, family.clone());
        family
    };
    let changes = of_kind("changes", "Changes recorded");
    let left_out = of_kind("left_out_changes", "Changes left out because they mean nothing");
    let bytes = of_kind("object_bytes", "Bytes of the objects recorded, as they arrived");
    let gaps = of_kind("gaps", "Times in which something may have been missed");
    let objects = Family::<KindLabels, Gauge>::default();
    registry.register("objects", "Objects there are", objects.clone());
    let watching = Family::<KindLabels, Gauge>::default();
    registry.register("watching", "Whether the kind is being watched", watching.clone());
    let heard = Family::<KindLabels, SecondsGauge>::default();
    registry.register("last_heard_age_seconds", "Since the server said something of it", heard.clone());
    let wall = Timestamp::now().into();
    for (name, figures) in board.snapshot() {
        let now = figures.to_recording_time(wall);
        let of = ClusterLabels { cluster: name.to_string() };
        recording.get_or_create(&of).set(i64::from(figures.state.as_str() == "recording"));
        paused.get_or_create(&of).set(i64::from(figures.state.as_str() == "paused"));
        queue.get_or_create(&of).set(figures.queued_events as i64);
        lag.get_or_create(&of).set(figures.lag_seconds);
        pauses.get_or_create(&of).inc_by(figures.pauses);
        restarts.get_or_create(&of).inc_by(figures.restarts);
        damaged.get_or_create(&of).inc_by(figures.damaged_histories);
        clock_steps.get_or_create(&of).inc_by(figures.clock_steps);
        retention_failures.get_or_create(&of).inc_by(figures.retention_failures);
        clock_offset.get_or_create(&of).set(figures.wall_offset_nanos as f64 / 1e9);
        hung.get_or_create(&of).set(i64::from(figures.is_hung()));
        for (kind, figures) in &figures.kinds {
            let of = KindLabels { cluster: name.to_string(), kind: kind.to_string() };
            changes.get_or_create(&of).inc_by(figures.recorded);
            left_out.get_or_create(&of).inc_by(figures.dropped);
            bytes.get_or_create(&of).inc_by(figures.bytes);
            gaps.get_or_create(&of).inc_by(figures.gaps);
            if let Some(status) = &figures.status {
                objects.get_or_create(&of).set(status.objects as i64);
                watching.get_or_create(&of).set(i64::from(status.state == live::WatchState::Watching));
            }
            if let Some(seconds) = figures.seconds_since_response(now) {
                heard.get_or_create(&of).set(seconds);
            }
        }
    }
    registry
}
