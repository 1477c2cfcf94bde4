//! The status object of a run in the target: it holds the progress, and receives requests to pause.
//!
//! It is a ClusterRole without rules: of the kinds that every API server has, that are cluster-scoped and may own any
//! object, it is the one that no component acts upon.

use std::time::Duration;

use model::{Moment, ObjectRef};
use serde_json::{Value, json};

use super::target::TargetCluster;
use super::{Applier, lock};
use crate::list_watch::RequestFailure;
use crate::run_label::RUN_LABEL;
use crate::{Connection, Error, Result};

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStatus {
    /// The label value of its objects.
    pub name: String,
    /// A description of the replay and its options: only a run with the same description can be resumed.
    pub description: String,
    /// The state.
    pub state: RunState,
    /// The moment before which all operations are done.
    pub position: Option<Moment>,
    /// The time of its last report.
    pub last_report: Option<Moment>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RunState {
    Playing,
    Paused,
    Stopped,
    Ended,
}

/// A run that has been started or resumed.
#[derive(Debug)]
pub struct StartedRun {
    /// Where it resumes; `None` if it is new.
    pub position: Option<Moment>,
    root: Value,
}

const DESCRIPTION_ANNOTATION: &str = "replay.kinescope.io/what";
const STATE_ANNOTATION: &str = "replay.kinescope.io/state";
const WANTED_STATE_ANNOTATION: &str = "replay.kinescope.io/wanted";
const POSITION_ANNOTATION: &str = "replay.kinescope.io/position";
const LAST_REPORT_ANNOTATION: &str = "replay.kinescope.io/heard";
/// A run whose last report is more recent than this is active.
const ALIVE_NANOS: i64 = 15 * 1_000_000_000;
/// The interval between reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// All runs in a target.
pub async fn list_runs(connection: &Connection) -> Result<Vec<RunStatus>> {
    let target = TargetCluster::connect(connection.clone(), "").await?;
    let objects = target.list_labeled(&object_ref("").kind, None).await;
    let objects = objects.map_err(|failure| Error::Server { doing: "list the runs", failure })?;
    Ok(objects.iter().filter_map(|(_, object)| RunStatus::parse(object)).collect())
}

/// Requests that a run be paused or resumed.
pub async fn set_paused(connection: &Connection, run: &str, paused: bool) -> Result<()> {
    let target = TargetCluster::connect(connection.clone(), run).await?;
    let wanted_state = if paused { RunState::Paused } else { RunState::Playing };
    let patch = json!({"metadata": {"annotations": {WANTED_STATE_ANNOTATION: wanted_state.as_str()}}});
    let result = target.patch(&object_ref(run), "", &patch).await;
    result.map(drop).map_err(|failure| Error::Server { doing: "pause or resume the run", failure })
}

impl Applier {
    /// Creates the status object of a run, or resumes a run. `now` is the time of day.
    pub async fn begin(&self, description: &str, resume: bool, now: Moment) -> Result<StartedRun> {
        let doing = "create the run in the target";
        let name = &self.target.run;
        let existing = self.target.get(&object_ref(name)).await;
        let existing = existing.map_err(|failure| Error::Server { doing, failure })?;
        let position = match &existing {
            Some(object) => {
                let Some(run) = RunStatus::parse(object) else {
                    let root = object_ref(name).name;
                    return Err(Error::Run(format!(
                        "the target has a ClusterRole {root} that is not of a run: specify another name with --run"
                    )));
                };
                run.check_startable(description, resume, now)?;
                run.position
            }
            None if resume => return Err(Error::Run(format!("run {name} not found: nothing to resume"))),
            None => None,
        };
        let mut root = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
            "metadata": {"name": object_ref(name).name, "annotations": annotations(self.state(), position, now)},
        });
        root["metadata"]["annotations"][DESCRIPTION_ANNOTATION] = description.into();
        root["metadata"]["annotations"][WANTED_STATE_ANNOTATION] = self.state().as_str().into();
        self.target.add_run_metadata(&mut root, None);
        if let Some(version) =
            existing.as_ref().and_then(|existing| existing.pointer("/metadata/resourceVersion"))
        {
            // The resourceVersion makes a concurrent resume fail.
            root["metadata"]["resourceVersion"] = version.clone();
        }
        let response = match &existing {
            None => self.target.create(&object_ref(name), &root).await,
            Some(_) => self.target.patch(&object_ref(name), "", &root).await,
        };
        let root = response.map_err(|failure| Error::Server { doing, failure })?;
        Ok(StartedRun { position, root })
    }

    /// Makes the status object the owner of all objects created from now on: deleting it deletes them.
    pub fn own_created_objects(&self, started_run: &StartedRun) {
        let StartedRun { root, .. } = started_run;
        lock(&self.uids).set_root_owner(json!({
            "apiVersion": root["apiVersion"], "kind": root["kind"],
            "name": root["metadata"]["name"], "uid": root["metadata"]["uid"],
        }));
    }

    /// Reports progress and reads requests to pause, until it is dropped. Failures are ignored until the next report.
    pub async fn keep_reporting(&self, now: impl Fn() -> Moment) {
        loop {
            if let Ok(root) = self.report(self.state(), now()).await {
                let wanted_state =
                    root["metadata"]["annotations"].get(WANTED_STATE_ANNOTATION).and_then(Value::as_str);
                self.pause(wanted_state == Some(RunState::Paused.as_str()));
            }
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
    }

    fn state(&self) -> RunState {
        if self.is_paused() { RunState::Paused } else { RunState::Playing }
    }

    /// Reports the end of the run.
    pub async fn end(&self, now: Moment) -> Result<()> {
        let state = if self.is_stopped() { RunState::Stopped } else { RunState::Ended };
        let result = self.report(state, now).await;
        result.map(drop).map_err(|failure| Error::Server { doing: "report the end of the run", failure })
    }

    async fn report(&self, state: RunState, now: Moment) -> std::result::Result<Value, RequestFailure> {
        let patch = json!({"metadata": {"annotations": annotations(state, self.done_until(), now)}});
        self.target.patch(&object_ref(&self.target.run), "", &patch).await
    }
}

fn object_ref(run: &str) -> ObjectRef {
    ObjectRef::cluster_scoped("rbac.authorization.k8s.io", "ClusterRole", &format!("kinescope-replay-{run}"))
}

fn annotations(state: RunState, position: Option<Moment>, now: Moment) -> Value {
    let mut annotations = json!({STATE_ANNOTATION: state.as_str(), LAST_REPORT_ANNOTATION: now.to_string()});
    if let Some(position) = position {
        annotations[POSITION_ANNOTATION] = position.to_string().into();
    }
    annotations
}

// === impl RunStatus ===

impl RunStatus {
    fn parse(root: &Value) -> Option<RunStatus> {
        let text = |name: &str| root["metadata"]["annotations"].get(name)?.as_str();
        let moment = |name: &str| text(name)?.parse().ok();
        Some(RunStatus {
            name: root["metadata"]["labels"].get(RUN_LABEL)?.as_str()?.to_owned(),
            description: text(DESCRIPTION_ANNOTATION)?.to_owned(),
            state: text(STATE_ANNOTATION).and_then(RunState::parse)?,
            position: moment(POSITION_ANNOTATION),
            last_report: moment(LAST_REPORT_ANNOTATION),
        })
    }

    /// Whether a process is running it, judging by its last report.
    pub fn is_alive(&self, now: Moment) -> bool {
        let is_recent =
            self.last_report.is_some_and(|reported_at| now.nanos_since(reported_at).abs() < ALIVE_NANOS);
        matches!(self.state, RunState::Playing | RunState::Paused) && is_recent
    }

    /// Whether a new process may start or resume it.
    fn check_startable(&self, description: &str, resume: bool, now: Moment) -> Result<()> {
        let name = &self.name;
        let message = if self.is_alive(now) {
            format!("run {name} is running in another process, last report {}", ago(self, now))
        } else if !resume {
            format!(
                "run {name} already exists, {}: use --resume to continue it, `kinescope replay clean` to delete it, or another name with --run",
                self.state.as_str()
            )
        } else if self.state == RunState::Ended {
            format!("run {name} has ended: nothing to resume")
        } else if self.description != description {
            format!(
                "run {name} was started as \"{}\", not \"{description}\": resume it with the same arguments",
                self.description
            )
        } else {
            return Ok(());
        };
        Err(Error::Run(message))
    }
}

fn ago(run: &RunStatus, now: Moment) -> String {
    let seconds = run.last_report.map_or(0, |reported_at| now.nanos_since(reported_at) / 1_000_000_000);
    format!("{seconds} s ago")
}

// === impl RunState ===

impl RunState {
    /// The lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            RunState::Playing => "playing",
            RunState::Paused => "paused",
            RunState::Stopped => "stopped",
            RunState::Ended => "ended",
        }
    }

    fn parse(state_name: &str) -> Option<RunState> {
        [RunState::Playing, RunState::Paused, RunState::Stopped, RunState::Ended]
            .into_iter()
            .find(|candidate| candidate.as_str() == state_name)
    }
}
