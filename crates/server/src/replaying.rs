//! `/api/v1/histories/{name}/replays`: histories played again in virtual time, on behalf of clients that ask how far it is.

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
use query::{Chosen, Edit};
use recorder::lock;
use replay::plan::{self, Outputs, Plan, Watcher};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::App;
use super::asked::Named;
use super::histories::percent_encoded;
use super::problem::{Problem, Result};

/// Replays that are played at once.
const MOST_PLAYED: usize = 2;
/// Replays that are known; the oldest that are over are forgotten.
const MOST_KNOWN: usize = 32;

/// What is asked of a replay; what is left out is as the history says.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
struct ReplayAsked {
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

/// The replays that this server knows of.
pub(super) struct Replays {
    known: Mutex<BTreeMap<u64, Arc<Replay>>>,
    /// The number of the last one.
    last: AtomicU64,
    turns: Arc<Semaphore>,
}

/// One of them.
struct Replay {
    id: u64,
    history: String,
    from: Moment,
    to: Moment,
    /// How far it is read, and how far it is played.
    read: AtomicI64,
    played: AtomicI64,
    is_cancelled: AtomicBool,
    outcome: OnceLock<std::result::Result<Value, Problem>>,
}

/// A replay under way, as who carries it out sees it.
struct Progress<'a> {
    replay: &'a Replay,
    at: &'a AtomicI64,
}

/// `POST /api/v1/histories/{name}/replays`
pub(super) async fn begin(State(app): State<Arc<App>>, Named(name): Named, body: Bytes) -> Result<Response> {
    let asked = ReplayAsked::read(&body)?;
    let Ok(turn) = app.replays.turns.clone().try_acquire_owned() else {
        let words =
            format!("{MOST_PLAYED} replays are being played, no more at once: ask again when one is over");
        return Err(Problem::busy(words));
    };
    let here = app.clone();
    let history = name.clone();
    let (chosen, plan) = app
        .hands
        .light(move || {
            let chosen = Chosen::open(&here.shelf.find(&history)?.path)?;
            let plan = Plan::make(&asked, &chosen).map_err(Problem::asked)?;
            Ok((chosen, plan))
        })
        .await?;
    let replay = app.replays.add(&name, &plan);
    let shown = replay.to_json();
    let place = format!("/api/v1/histories/{}/replays/{}", percent_encoded(&name), replay.id);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        replay.carry_out(&chosen, plan);
    });
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, place)], Json(shown)).into_response())
}

/// `GET /api/v1/histories/{name}/replays`
pub(super) async fn list(State(app): State<Arc<App>>, Named(name): Named) -> Result<Json<Value>> {
    let (here, history) = (app.clone(), name.clone());
    app.hands.light(move || here.shelf.find(&history).map(drop)).await?;
    let known = lock(&app.replays.known);
    let all: Vec<Value> =
        known.values().filter(|replay| replay.history == name).map(|replay| replay.in_brief()).collect();
    Ok(Json(json!({ "replays": all })))
}

/// `GET /api/v1/histories/{name}/replays/{id}`
pub(super) async fn show(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    Ok(Json(app.replays.find(&name, &id)?.to_json()))
}

/// `DELETE /api/v1/histories/{name}/replays/{id}`
pub(super) async fn cancel(
    State(app): State<Arc<App>>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let replay = app.replays.find(&name, &id)?;
    replay.is_cancelled.store(true, Ordering::Relaxed);
    lock(&app.replays.known).remove(&replay.id);
    Ok(Json(replay.in_brief()))
}

// === impl ReplayAsked ===

impl ReplayAsked {
    fn read(body: &[u8]) -> Result<plan::ReplayOptions> {
        let wrong = |error: anyhow::Error| Problem::new(StatusCode::BAD_REQUEST, format!("{error:#}"));
        let asked: ReplayAsked = match body.trim_ascii().is_empty() {
            true => ReplayAsked::default(),
            false => serde_json::from_slice(body)
                .map_err(|error| wrong(anyhow::Error::from(error).context("the settings of the replay")))?,
        };
        asked.settings().map_err(wrong)
    }

    fn settings(self) -> anyhow::Result<plan::ReplayOptions> {
        Ok(plan::ReplayOptions {
            from: self.from,
            to: self.to,
            duration: self.duration.map(|text| duration(&text)).transpose()?,
            source: self.source,
            level: self.level.map(|word| word.parse()).transpose()?,
            seed: self.seed,
            scheduler_config: None,
            scheduler_version: self.scheduler_version.map(|text| text.parse()).transpose()?,
            node_groups: None,
            autoscaler: self.autoscaler.unwrap_or_else(|| "recorded".to_owned()),
            autoscaler_version: self
                .autoscaler_version
                .map(|text| autoscaler::Version::parse(&text))
                .transpose()?,
            set: self.set.iter().map(|text| edit(text)).collect::<anyhow::Result<_>>()?,
        })
    }
}

fn edit(text: &str) -> anyhow::Result<Edit> {
    text.parse::<Edit>().with_context(|| format!("set {text:?}"))
}

fn duration(text: &str) -> anyhow::Result<Duration> {
    recorder::duration(text).map_err(|error| anyhow::anyhow!("duration: {error}"))
}

// === impl Replays ===

impl Replays {
    pub(super) fn new() -> Replays {
        Replays {
            known: Mutex::default(),
            last: AtomicU64::new(0),
            turns: Arc::new(Semaphore::new(MOST_PLAYED)),
        }
    }

    fn add(&self, history: &str, plan: &Plan) -> Arc<Replay> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let from = plan.run.part.window.from;
        let replay = Arc::new(Replay {
            id,
            history: history.to_owned(),
            from,
            to: plan.run.end,
            read: AtomicI64::new(from.nanos()),
            played: AtomicI64::new(from.nanos()),
            is_cancelled: AtomicBool::new(false),
            outcome: OnceLock::new(),
        });
        let mut known = lock(&self.known);
        known.insert(id, replay.clone());
        while known.len() > MOST_KNOWN {
            // No more are under way than may be: there is one that is over.
            let Some(over) = known.values().find(|replay| replay.outcome.get().is_some()) else { break };
            let over = over.id;
            known.remove(&over);
        }
        replay
    }

    fn find(&self, history: &str, id: &str) -> Result<Arc<Replay>> {
        let known = lock(&self.known);
        let found = id.parse().ok().and_then(|id: u64| known.get(&id));
        found.filter(|replay| replay.history == history).cloned().ok_or_else(|| {
            let words =
                format!("there is no replay {id:?} of {history}: ask for /replays to see which there are");
            Problem::new(StatusCode::NOT_FOUND, words)
        })
    }

    /// Ends those that are under way.
    pub(super) fn cancel_all(&self) {
        for replay in lock(&self.known).values() {
            replay.is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}

// === impl Replay ===

impl Replay {
    fn carry_out(&self, chosen: &Chosen, mut plan: Plan) {
        let nothing = Outputs::default();
        let known = plan.survey(chosen, &mut Progress { replay: self, at: &self.read });
        let report = known.and_then(|known| {
            plan.play(chosen, known, &nothing, &mut Progress { replay: self, at: &self.played })
        });
        let outcome = match report.and_then(|report| Ok(serde_json::from_str(&report.to_json()?)?)) {
            Ok(report) => Ok(report),
            Err(error) => Err(Problem::asked(error)),
        };
        let _ = self.outcome.set(outcome);
    }

    fn word(&self) -> &'static str {
        match self.outcome.get() {
            Some(Ok(_)) => "done",
            _ if self.is_cancelled.load(Ordering::Relaxed) => "cancelled",
            Some(Err(_)) => "failed",
            None => "playing",
        }
    }

    fn in_brief(&self) -> Value {
        let moment = |at: &AtomicI64| Moment::from_nanos(at.load(Ordering::Relaxed));
        let all = self.to.nanos_since(self.from).max(1) as f64;
        let share = |at: &AtomicI64| (moment(at).nanos_since(self.from) as f64 / all).clamp(0.0, 1.0);
        json!({
            "id": self.id,
            "history": self.history,
            "state": self.word(),
            "from": self.from.to_string(),
            "to": self.to.to_string(),
            "readShare": share(&self.read),
            "playedShare": share(&self.played),
            "playedTo": moment(&self.played).to_string(),
        })
    }

    fn to_json(&self) -> Value {
        let mut shown = self.in_brief();
        match self.outcome.get() {
            Some(Ok(report)) => shown["report"] = report.clone(),
            Some(Err(problem)) => shown["error"] = problem.to_string().into(),
            None => {}
        }
        shown
    }
}

// === impl Progress ===

impl Watcher for Progress<'_> {
    fn reached(&mut self, at: Moment) {
        self.at.store(at.nanos(), Ordering::Relaxed);
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.replay.is_cancelled.load(Ordering::Relaxed) {
            bail!("it was cancelled");
        }
        Ok(())
    }
}
