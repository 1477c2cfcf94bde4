//! `/api/v1/histories/{name}/replays`: replays in virtual time that clients start, poll and cancel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::Moment;
use query::{ConfigEdit, OpenHistory, OptionNames};
use recorder::lock;
use replay::plan::{self, OutputFiles, ReplayListener, ReplayPlan};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::AppState;
use super::api_error::{ApiError, Result};
use super::extractors::HistoryName;
use super::histories::percent_encoded;

/// The most replays that run at once.
const MAX_RUNNING: usize = 2;
/// The most replays kept; the oldest finished ones are removed first.
const MAX_KEPT: usize = 32;

/// The names of options in messages: fields of the request body.
pub(super) const FIELDS: OptionNames = OptionNames {
    from: "from",
    to: "to",
    source: "source",
    level: "level",
    set: "set",
    scheduler_config: "the flag --scheduler-config of `kinescope replay`",
    node_groups: "the flag --node-groups of `kinescope replay`",
    autoscaler: "autoscaler",
    autoscaler_version: "autoscalerVersion",
};

/// The request body that starts a replay. Settings that it omits are those of the history.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ReplayRequest {
    from: Option<String>,
    to: Option<String>,
    duration: Option<String>,
    source: Option<String>,
    level: Option<String>,
    seed: Option<u64>,
    scheduler_version: Option<String>,
    autoscaler: Option<String>,
    autoscaler_version: Option<String>,
    set: Vec<String>,
}

/// The replays of this server, running and finished.
pub(super) struct ReplayRegistry {
    by_id: Mutex<BTreeMap<u64, Arc<ReplayJob>>>,
    /// The last id assigned.
    last_id: AtomicU64,
    permits: Arc<Semaphore>,
}

/// A replay, running or finished.
struct ReplayJob {
    id: u64,
    history: String,
    from: Moment,
    to: Moment,
    /// How far the history has been read, and how far it has been replayed, in nanoseconds since 1970.
    read_to: AtomicI64,
    played_to: AtomicI64,
    is_cancelled: AtomicBool,
    outcome: OnceLock<std::result::Result<Value, ApiError>>,
}

/// Reports a replay's progress, and stops it when it is cancelled.
struct ReplayProgress<'a> {
    replay: &'a ReplayJob,
    at: &'a AtomicI64,
}

/// `POST /api/v1/histories/{name}/replays`
pub(super) async fn create(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
    body: Bytes,
) -> Result<Response> {
    let options = ReplayRequest::parse(&body)?;
    let Ok(permit) = app.replays.permits.clone().try_acquire_owned() else {
        let message = format!("{MAX_RUNNING} replays are running, the maximum: retry when one has ended");
        return Err(ApiError::unavailable(message));
    };
    let state = app.clone();
    let history = name.clone();
    let (open_history, plan) = app
        .workers
        .run_light(move || {
            let open_history = OpenHistory::open(&state.catalog.find(&history)?.path)?;
            let plan = ReplayPlan::make(&options, &open_history).map_err(ApiError::bad_request)?;
            Ok((open_history, plan))
        })
        .await?;
    let replay = app.replays.add(&name, &plan);
    let json = replay.to_json();
    let location = format!("/api/v1/histories/{}/replays/{}", percent_encoded(&name), replay.id);
    tokio::task::spawn_blocking(move || {
        let _turn = permit;
        replay.run(&open_history, plan);
    });
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(json)).into_response())
}

/// `GET /api/v1/histories/{name}/replays`
pub(super) async fn list(
    State(app): State<Arc<AppState>>,
    HistoryName(name): HistoryName,
) -> Result<Json<Value>> {
    let (state, history) = (app.clone(), name.clone());
    app.workers.run_light(move || state.catalog.find(&history).map(drop)).await?;
    let by_id = lock(&app.replays.by_id);
    let all: Vec<Value> =
        by_id.values().filter(|replay| replay.history == name).map(|replay| replay.status_json()).collect();
    Ok(Json(json!({ "replays": all })))
}

/// `GET /api/v1/histories/{name}/replays/{id}`
pub(super) async fn show(
    State(app): State<Arc<AppState>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    Ok(Json(app.replays.find(&name, &id)?.to_json()))
}

/// `DELETE /api/v1/histories/{name}/replays/{id}`
pub(super) async fn cancel(
    State(app): State<Arc<AppState>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let replay = app.replays.find(&name, &id)?;
    replay.is_cancelled.store(true, Ordering::Relaxed);
    lock(&app.replays.by_id).remove(&replay.id);
    Ok(Json(replay.status_json()))
}

// === impl ReplayRequest ===

impl ReplayRequest {
    fn parse(body: &[u8]) -> Result<plan::ReplayOptions> {
        let bad_request = |error: anyhow::Error| ApiError::new(StatusCode::BAD_REQUEST, format!("{error:#}"));
        let request: ReplayRequest = match body.trim_ascii().is_empty() {
            true => ReplayRequest::default(),
            false => serde_json::from_slice(body)
                .map_err(|error| bad_request(anyhow::Error::from(error).context("invalid replay request")))?,
        };
        request.into_options().map_err(bad_request)
    }

    fn into_options(self) -> anyhow::Result<plan::ReplayOptions> {
        Ok(plan::ReplayOptions {
            from: self.from,
            to: self.to,
            duration: self.duration.map(|text| parse_duration(&text)).transpose()?,
            source: self.source,
            level: self
                .level
                .map(|level| level.parse().with_context(|| format!("level {level:?}")))
                .transpose()?,
            seed: self.seed,
            scheduler_config: None,
            scheduler_version: self.scheduler_version.map(|text| text.parse()).transpose()?,
            node_groups: None,
            autoscaler: self.autoscaler.unwrap_or_else(|| "recorded".to_owned()),
            autoscaler_version: self
                .autoscaler_version
                .map(|text| autoscaler::Version::parse(&text))
                .transpose()?,
            set: self.set.iter().map(|text| parse_edit(text)).collect::<anyhow::Result<_>>()?,
            names: FIELDS,
        })
    }
}

fn parse_edit(text: &str) -> anyhow::Result<ConfigEdit> {
    text.parse::<ConfigEdit>().with_context(|| format!("set {text:?}"))
}

fn parse_duration(text: &str) -> anyhow::Result<Duration> {
    recorder::parse_duration(text).map_err(|error| anyhow::anyhow!("duration: {error}"))
}

// === impl ReplayRegistry ===

impl ReplayRegistry {
    pub(super) fn new() -> ReplayRegistry {
        ReplayRegistry {
            by_id: Mutex::default(),
            last_id: AtomicU64::new(0),
            permits: Arc::new(Semaphore::new(MAX_RUNNING)),
        }
    }

    fn add(&self, history: &str, plan: &ReplayPlan) -> Arc<ReplayJob> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let from = plan.resolved.part.window.from;
        let replay = Arc::new(ReplayJob {
            id,
            history: history.to_owned(),
            from,
            to: plan.resolved.end,
            read_to: AtomicI64::new(from.nanos()),
            played_to: AtomicI64::new(from.nanos()),
            is_cancelled: AtomicBool::new(false),
            outcome: OnceLock::new(),
        });
        let mut by_id = lock(&self.by_id);
        by_id.insert(id, replay.clone());
        while by_id.len() > MAX_KEPT {
            // Fewer can run than are kept, so that at least one is finished.
            let Some(finished) = by_id.values().find(|replay| replay.outcome.get().is_some()) else { break };
            let finished = finished.id;
            by_id.remove(&finished);
        }
        replay
    }

    fn find(&self, history: &str, id: &str) -> Result<Arc<ReplayJob>> {
        let by_id = lock(&self.by_id);
        let found = id.parse().ok().and_then(|id: u64| by_id.get(&id));
        found.filter(|replay| replay.history == history).cloned().ok_or_else(|| {
            let message =
                format!("replay {id:?} of {history} not found: see /api/v1/histories/{history}/replays");
            ApiError::new(StatusCode::NOT_FOUND, message)
        })
    }

    /// Cancels all running replays.
    pub(super) fn cancel_all(&self) {
        for replay in lock(&self.by_id).values() {
            replay.is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}

// === impl ReplayJob ===

impl ReplayJob {
    fn run(&self, open_history: &OpenHistory, mut plan: ReplayPlan) {
        let no_outputs = OutputFiles::default();
        let analysis =
            plan.analyze_recording(open_history, &mut ReplayProgress { replay: self, at: &self.read_to });
        let report = analysis.and_then(|analysis| {
            plan.play(
                open_history,
                analysis,
                &no_outputs,
                &mut ReplayProgress { replay: self, at: &self.played_to },
            )
        });
        let outcome = match report.and_then(|report| Ok(serde_json::from_str(&report.to_json()?)?)) {
            Ok(report) => Ok(report),
            Err(error) => Err(ApiError::bad_request(error)),
        };
        let _ = self.outcome.set(outcome);
    }

    fn state(&self) -> &'static str {
        match self.outcome.get() {
            Some(Ok(_)) => "done",
            _ if self.is_cancelled.load(Ordering::Relaxed) => "cancelled",
            Some(Err(_)) => "failed",
            None => "playing",
        }
    }

    fn status_json(&self) -> Value {
        let moment = |at: &AtomicI64| Moment::from_nanos(at.load(Ordering::Relaxed));
        let all = self.to.nanos_since(self.from).max(1) as f64;
        // The last change may be earlier than the end.
        let is_done = self.state() == "done";
        let share = |at: &AtomicI64| match is_done {
            true => 1.0,
            false => (moment(at).nanos_since(self.from) as f64 / all).clamp(0.0, 1.0),
        };
        json!({
            "id": self.id,
            "history": self.history,
            "state": self.state(),
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "readShare": share(&self.read_to),
            "playedShare": share(&self.played_to),
            "playedTo": moment(&self.played_to).to_string(),
        })
    }

    fn to_json(&self) -> Value {
        let mut json = self.status_json();
        match self.outcome.get() {
            Some(Ok(report)) => json["report"] = report.clone(),
            Some(Err(problem)) => json["error"] = problem.to_string().into(),
            None => {}
        }
        json
    }
}

// === impl ReplayProgress ===

impl ReplayListener for ReplayProgress<'_> {
    fn on_progress(&mut self, at: Moment) {
        self.at.store(at.nanos(), Ordering::Relaxed);
    }

    fn check_cancelled(&self) -> anyhow::Result<()> {
        if self.replay.is_cancelled.load(Ordering::Relaxed) {
            bail!("canceled");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::openapi;

    #[test]
    fn every_field_of_a_request_is_documented() {
        // Serde lists the known fields when it meets an unknown one: unknown field `?`, expected one of `from`, …
        let error = serde_json::from_str::<ReplayRequest>(r#"{"?": 0}"#).err().unwrap().to_string();
        let fields: BTreeSet<&str> = error.split('`').skip(3).step_by(2).collect();
        let document = openapi::document(&[]);
        let documented = &document["components"]["schemas"]["ReplayRequest"]["properties"];
        let documented: BTreeSet<&str> = documented.as_object().unwrap().keys().map(|name| &**name).collect();
        assert!(fields.contains("schedulerVersion"), "{error}");
        assert_eq!(documented, fields);
    }
}
