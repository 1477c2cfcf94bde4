//! The status object of a run in the target: it holds the progress, and receives requests to pause.
//!
//! It is a ClusterRole without rules: of the kinds that every API server has, that are cluster-scoped and may own any
//! object, it is the one that no component acts upon.

use std::time::Duration;

use model::Moment;
use serde_json::{Value, json};

use super::target::TargetCluster;
use super::{Applier, lock};
use crate::list_watch::RequestFailure;
use crate::run_label::RUN_LABEL;
use crate::translate::ObjectAddress;
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
    let found = target.list_labelled(&address("").kind, None).await;
    let found = found.map_err(|failure| Error::Server { doing: "ask which runs there are", failure })?;
    Ok(found.iter().filter_map(|(_, object)| RunStatus::parse(object)).collect())
}

/// Requests that a run be paused or resumed.
pub async fn set_paused(connection: &Connection, run: &str, paused: bool) -> Result<()> {
    let target = TargetCluster::connect(connection.clone(), run).await?;
    let wanted = if paused { RunState::Paused } else { RunState::Playing };
    let patch = json!({"metadata": {"annotations": {WANTED_STATE_ANNOTATION: wanted.as_str()}}});
    let told = target.patch(&address(run), "", &patch).await;
    told.map(drop).map_err(|failure| Error::Server { doing: "tell the run", failure })
}

impl Applier {
    /// Creates the status object of a run, or resumes a run. `now` is the time of day.
    pub async fn begin(&self, what: &str, resume: bool, now: Moment) -> Result<StartedRun> {
        let doing = "make the run known to the target";
        let name = &self.target.run;
        let found = self.target.get(&address(name)).await;
        let found = found.map_err(|failure| Error::Server { doing, failure })?;
        let position = match &found {
            Some(object) => {
                let Some(run) = RunStatus::parse(object) else {
                    let root = address(name).name;
                    return Err(Error::Run(format!(
                        "the target has a ClusterRole {root} that does not tell of a run: give this one another name \
                         with --run"
                    )));
                };
                run.check_startable(what, resume, now)?;
                run.position
            }
            None if resume => return Err(Error::Run(format!("there is no run {name} to go on with"))),
            None => None,
        };
        let mut root = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
            "metadata": {"name": address(name).name, "annotations": annotations(self.state(), position, now)},
        });
        root["metadata"]["annotations"][DESCRIPTION_ANNOTATION] = what.into();
        root["metadata"]["annotations"][WANTED_STATE_ANNOTATION] = self.state().as_str().into();
        self.target.add_run_metadata(&mut root, None);
        if let Some(version) = found.as_ref().and_then(|found| found.pointer("/metadata/resourceVersion")) {
            // The resourceVersion makes a concurrent resume fail.
            root["metadata"]["resourceVersion"] = version.clone();
        }
        let made = match &found {
            None => self.target.create(&address(name), &root).await,
            Some(_) => self.target.patch(&address(name), "", &root).await,
        };
        let root = made.map_err(|failure| Error::Server { doing, failure })?;
        Ok(StartedRun { position, root })
    }

    /// Makes the status object the owner of all objects created from now on: deleting it deletes them.
    pub fn own_created_objects(&self, begun: &StartedRun) {
        let StartedRun { root, .. } = begun;
        lock(&self.uids).set_root_owner(json!({
            "apiVersion": root["apiVersion"], "kind": root["kind"],
            "name": root["metadata"]["name"], "uid": root["metadata"]["uid"],
        }));
    }

    /// Reports progress and reads requests to pause, until it is dropped. Failures are ignored until the next report.
    pub async fn keep_reporting(&self, now: impl Fn() -> Moment) {
        loop {
            if let Ok(root) = self.report(self.state(), now()).await {
                let wanted =
                    root["metadata"]["annotations"].get(WANTED_STATE_ANNOTATION).and_then(Value::as_str);
                self.pause(wanted == Some(RunState::Paused.as_str()));
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
        let said = self.report(state, now).await;
        said.map(drop)
            .map_err(|failure| Error::Server { doing: "tell the target that the run is over", failure })
    }

    async fn report(&self, state: RunState, now: Moment) -> std::result::Result<Value, RequestFailure> {
        let patch = json!({"metadata": {"annotations": annotations(state, self.position(), now)}});
        self.target.patch(&address(&self.target.run), "", &patch).await
    }
}

fn address(run: &str) -> ObjectAddress {
    ObjectAddress::cluster_scoped(
        "rbac.authorization.k8s.io",
        "ClusterRole",
        &format!("kinescope-replay-{run}"),
    )
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
        let is_recent = self.last_report.is_some_and(|heard| now.nanos_since(heard).abs() < ALIVE_NANOS);
        matches!(self.state, RunState::Playing | RunState::Paused) && is_recent
    }

    /// Whether a new process may start or resume it.
    fn check_startable(&self, what: &str, resume: bool, now: Moment) -> Result<()> {
        let name = &self.name;
        let why = if self.is_alive(now) {
            format!("run {name} is being played by another process, which was heard of {}", ago(self, now))
        } else if !resume {
            format!(
                "there is a run {name} already, {}: go on with it by --resume, remove it by `kinescope replay clean`, or \
                 give this one another name with --run",
                self.state.as_str()
            )
        } else if self.state == RunState::Ended {
            format!("run {name} has come to its end: there is nothing to go on with")
        } else if self.description != what {
            format!(
                "run {name} was begun as \"{}\", and this is \"{what}\": go on with the same",
                self.description
            )
        } else {
            return Ok(());
        };
        Err(Error::Run(why))
    }
}

fn ago(run: &RunStatus, now: Moment) -> String {
    let seconds = run.last_report.map_or(0, |heard| now.nanos_since(heard) / 1_000_000_000);
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

    fn parse(word: &str) -> Option<RunState> {
        [RunState::Playing, RunState::Paused, RunState::Stopped, RunState::Ended]
            .into_iter()
            .find(|it| it.as_str() == word)
    }
}
