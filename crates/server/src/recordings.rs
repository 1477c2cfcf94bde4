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
        .map(|(name, metrics)| recording_json(name, metrics, now))
        .collect();
    Json(json!({ "recordings": all }))
}

fn recording_json(name: &str, metrics: &RecordingMetrics, wall: Moment) -> Value {
    let now = metrics.to_recording_time(wall);
    json!({
        "name": name,
        "history": metrics.history,
        "state": metrics.state.as_str(),
        "why": metrics.state.failure(),
        "changes": metrics.sum(|kind| kind.recorded),
        "leftOut": metrics.sum(|kind| kind.dropped),
        "objects": metrics.object_count(),
        "gaps": metrics.gaps(),
        "restarts": metrics.restarts,
        "damagedHistories": metrics.damaged_histories,
        "clockSteps": metrics.clock_steps,
        "retentionFailures": metrics.retention_failures,
        "lagSeconds": metrics.lag_seconds,
        "waiting": metrics.queued_events,
        "kinds": metrics.kinds.iter().map(|(kind, of_kind)| json!({
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
pub(super) fn registry(recorder_metrics: &RecorderMetrics) -> Registry {
    let mut registry = Registry::with_prefix("kinescope_recorder");
    let mut of_cluster = |name: &str, help: &str| {
        let family = Family::<ClusterLabels, Gauge>::default();
        registry.register(name, help, family.clone());
        family
    };
    let recording = of_cluster("recording", "Whether the cluster is being recorded");
    let paused = of_cluster("paused", "Whether recording is paused because the disk is full");
    let queue = of_cluster("queue", "Messages queued to be written");
    let lag = Family::<ClusterLabels, SecondsGauge>::default();
    registry.register("lag_seconds", "Time from receiving a change to its commit", lag.clone());
    let mut counted = |name: &str, help: &str| {
        let family = Family::<ClusterLabels, Counter>::default();
        registry.register(name, help, family.clone());
        family
    };
    let pauses = counted("pauses", "Pauses because the disk was full");
    let restarts = counted("restarts", "Restarts after an error or a panic");
    let damaged = counted("damaged_histories", "Damaged histories that were set aside");
    let clock_steps = counted("clock_steps", "Clock steps and suspensions of the machine");
    let retention_failures =
        counted("retention_failures", "Failures to delete history beyond the retention limits");
    let clock_offset = Family::<ClusterLabels, SecondsGauge>::default();
    registry.register(
        "clock_offset_seconds",
        "Offset of the machine's clock from the recorder's clock",
        clock_offset.clone(),
    );
    let hung = Family::<ClusterLabels, Gauge>::default();
    registry.register("hung", "Whether the recorder's loop hangs", hung.clone());
    let mut of_kind = |name: &str, help: &str| {
        let family = Family::<KindLabels, Counter>::default();
        registry.register(name, help, family.clone());
        family
    };
    let changes = of_kind("changes", "Changes recorded");
    let left_out = of_kind("left_out_changes", "Changes dropped because they are irrelevant to scheduling");
    let bytes = of_kind("object_bytes", "Bytes of the recorded objects as received");
    let gaps = of_kind("gaps", "Gaps, in which changes may be missing");
    let objects = Family::<KindLabels, Gauge>::default();
    registry.register("objects", "Existing objects", objects.clone());
    let watching = Family::<KindLabels, Gauge>::default();
    registry.register("watching", "Whether the kind is being watched", watching.clone());
    let last_heard = Family::<KindLabels, SecondsGauge>::default();
    registry.register(
        "last_heard_age_seconds",
        "Time since the last event or bookmark from the API server",
        last_heard.clone(),
    );
    let wall = Timestamp::now().into();
    for (name, metrics) in recorder_metrics.snapshot() {
        let now = metrics.to_recording_time(wall);
        let labels = ClusterLabels { cluster: name.to_string() };
        recording.get_or_create(&labels).set(i64::from(metrics.state.as_str() == "recording"));
        paused.get_or_create(&labels).set(i64::from(metrics.state.as_str() == "paused"));
        queue.get_or_create(&labels).set(metrics.queued_events as i64);
        lag.get_or_create(&labels).set(metrics.lag_seconds);
        pauses.get_or_create(&labels).inc_by(metrics.pauses);
        restarts.get_or_create(&labels).inc_by(metrics.restarts);
        damaged.get_or_create(&labels).inc_by(metrics.damaged_histories);
        clock_steps.get_or_create(&labels).inc_by(metrics.clock_steps);
        retention_failures.get_or_create(&labels).inc_by(metrics.retention_failures);
        clock_offset.get_or_create(&labels).set(metrics.wall_offset_nanos as f64 / 1e9);
        hung.get_or_create(&labels).set(i64::from(metrics.is_hung()));
        for (kind, metrics) in &metrics.kinds {
            let labels = KindLabels { cluster: name.to_string(), kind: kind.to_string() };
            changes.get_or_create(&labels).inc_by(metrics.recorded);
            left_out.get_or_create(&labels).inc_by(metrics.dropped);
            bytes.get_or_create(&labels).inc_by(metrics.bytes);
            gaps.get_or_create(&labels).inc_by(metrics.gaps);
            if let Some(status) = &metrics.status {
                objects.get_or_create(&labels).set(status.objects as i64);
                watching.get_or_create(&labels).set(i64::from(status.state == live::WatchState::Watching));
            }
            if let Some(seconds) = metrics.seconds_since_response(now) {
                last_heard.get_or_create(&labels).set(seconds);
            }
        }
    }
    registry
}
