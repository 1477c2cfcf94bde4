//! A run as its target knows it: an object that tells how far it has come, and by which others tell it to pause.
//!
//! It is a ClusterRole that allows nothing: of all kinds that every API server has, belong to no namespace and may own
//! whatever else there is, the one that nobody acts upon.

use std::time::Duration;

use model::Moment;
use serde_json::{Value, json};

use super::target::Target;
use super::{Applier, lock};
use crate::run_label::RUN;
use crate::transplant::Address;
use crate::watching::Failure;
use crate::{Connection, Error, Result};

/// What is known of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What its objects are labelled with.
    pub name: String,
    /// What is played, and how, in words: only the same is gone on with.
    pub what: String,
    /// What is being done.
    pub state: State,
    /// The moment before which everything is done.
    pub position: Option<Moment>,
    /// When it last said something.
    pub heard: Option<Moment>,
}

/// What is being done about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum State {
    Playing,
    Paused,
    Stopped,
    Ended,
}

/// A run that the target knows of.
#[derive(Debug)]
pub struct Begun {
    /// Where it goes on; `None` if it is new.
    pub position: Option<Moment>,
    root: Value,
}

const WHAT: &str = "replay.kinescope.io/what";
const STATE: &str = "replay.kinescope.io/state";
const WANTED: &str = "replay.kinescope.io/wanted";
const POSITION: &str = "replay.kinescope.io/position";
const HEARD: &str = "replay.kinescope.io/heard";
/// Who was heard of so lately is at work.
const ALIVE_NANOS: i64 = 15 * 1_000_000_000;
/// Between two words to the target.
const BETWEEN_WORDS: Duration = Duration::from_secs(1);

/// All runs that a server knows of.
pub async fn runs(connection: &Connection) -> Result<Vec<Run>> {
    let target = Target::find(connection.clone(), "").await?;
    let found = target.labelled(&address("").kind, None).await;
    let found = found.map_err(|failure| Error::Server { doing: "ask which runs there are", failure })?;
    Ok(found.iter().filter_map(|(_, object)| Run::read(object)).collect())
}

/// Tells a run to pause, or to go on.
pub async fn tell(connection: &Connection, run: &str, paused: bool) -> Result<()> {
    let target = Target::find(connection.clone(), run).await?;
    let wanted = if paused { State::Paused } else { State::Playing };
    let patch = json!({"metadata": {"annotations": {WANTED: wanted.word()}}});
    let told = target.patch(&address(run), "", &patch).await;
    told.map(drop).map_err(|failure| Error::Server { doing: "tell the run", failure })
}

impl Applier {
    /// Makes the run known to the target, or goes on with one. `now` is the time of day.
    pub async fn begin(&self, what: &str, resume: bool, now: Moment) -> Result<Begun> {
        let doing = "make the run known to the target";
        let name = &self.target.run;
        let found = self.target.get(&address(name)).await;
        let found = found.map_err(|failure| Error::Server { doing, failure })?;
        let position = match &found {
            Some(object) => {
                let Some(run) = Run::read(object) else {
                    let root = address(name).name;
                    return Err(Error::Run(format!(
                        "the target has a ClusterRole {root} that does not tell of a run: give this one another name \
                         with --run"
                    )));
                };
                run.check(what, resume, now)?;
                run.position
            }
            None if resume => return Err(Error::Run(format!("there is no run {name} to go on with"))),
            None => None,
        };
        let mut root = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": [],
            "metadata": {"name": address(name).name, "annotations": annotations(self.state(), position, now)},
        });
        root["metadata"]["annotations"][WHAT] = what.into();
        root["metadata"]["annotations"][WANTED] = self.state().word().into();
        self.target.mark(&mut root, None);
        if let Some(version) = found.as_ref().and_then(|found| found.pointer("/metadata/resourceVersion")) {
            // Who goes on with it at the same time is refused.
            root["metadata"]["resourceVersion"] = version.clone();
        }
        let made = match &found {
            None => self.target.create(&address(name), &root).await,
            Some(_) => self.target.patch(&address(name), "", &root).await,
        };
        let root = made.map_err(|failure| Error::Server { doing, failure })?;
        Ok(Begun { position, root })
    }

    /// Lets the run own all that is created from now on: who deletes its object deletes all that.
    pub fn own_all(&self, begun: &Begun) {
        let Begun { root, .. } = begun;
        lock(&self.identities).own_all(json!({
            "apiVersion": root["apiVersion"], "kind": root["kind"],
            "name": root["metadata"]["name"], "uid": root["metadata"]["uid"],
        }));
    }

    /// Tells the target again and again how far it has come, and hears whether it is to pause, until it is dropped. What
    /// fails is told the next time.
    pub async fn keep_reporting(&self, now: impl Fn() -> Moment) {
        loop {
            if let Ok(root) = self.say(self.state(), now()).await {
                let wanted = root["metadata"]["annotations"].get(WANTED).and_then(Value::as_str);
                self.pause(wanted == Some(State::Paused.word()));
            }
            tokio::time::sleep(BETWEEN_WORDS).await;
        }
    }

    fn state(&self) -> State {
        if self.is_paused() { State::Paused } else { State::Playing }
    }

    /// Tells the target that it is over.
    pub async fn end(&self, now: Moment) -> Result<()> {
        let state = if self.is_stopped() { State::Stopped } else { State::Ended };
        let said = self.say(state, now).await;
        said.map(drop)
            .map_err(|failure| Error::Server { doing: "tell the target that the run is over", failure })
    }

    async fn say(&self, state: State, now: Moment) -> std::result::Result<Value, Failure> {
        let patch = json!({"metadata": {"annotations": annotations(state, self.position(), now)}});
        self.target.patch(&address(&self.target.run), "", &patch).await
    }
}

fn address(run: &str) -> Address {
    Address::of_cluster("rbac.authorization.k8s.io", "ClusterRole", &format!("kinescope-replay-{run}"))
}

fn annotations(state: State, position: Option<Moment>, now: Moment) -> Value {
    let mut annotations = json!({STATE: state.word(), HEARD: now.to_string()});
    if let Some(position) = position {
        annotations[POSITION] = position.to_string().into();
    }
    annotations
}

// === impl Run ===

impl Run {
    fn read(root: &Value) -> Option<Run> {
        let text = |name: &str| root["metadata"]["annotations"].get(name)?.as_str();
        let moment = |name: &str| text(name)?.parse().ok();
        Some(Run {
            name: root["metadata"]["labels"].get(RUN)?.as_str()?.to_owned(),
            what: text(WHAT)?.to_owned(),
            state: text(STATE).and_then(State::read)?,
            position: moment(POSITION),
            heard: moment(HEARD),
        })
    }

    /// Whether it is at work, as far as is known.
    pub fn is_alive(&self, now: Moment) -> bool {
        let is_recent = self.heard.is_some_and(|heard| now.nanos_since(heard).abs() < ALIVE_NANOS);
        matches!(self.state, State::Playing | State::Paused) && is_recent
    }

    /// Whether another may take its place.
    fn check(&self, what: &str, resume: bool, now: Moment) -> Result<()> {
        let name = &self.name;
        let why = if self.is_alive(now) {
            format!("run {name} is being played by another process, which was heard of {}", ago(self, now))
        } else if !resume {
            format!(
                "there is a run {name} already, {}: go on with it by --resume, remove it by `kinescope replay clean`, or \
                 give this one another name with --run",
                self.state.word()
            )
        } else if self.state == State::Ended {
            format!("run {name} has come to its end: there is nothing to go on with")
        } else if self.what != what {
            format!("run {name} was begun as \"{}\", and this is \"{what}\": go on with the same", self.what)
        } else {
            return Ok(());
        };
        Err(Error::Run(why))
    }
}

fn ago(run: &Run, now: Moment) -> String {
    let seconds = run.heard.map_or(0, |heard| now.nanos_since(heard) / 1_000_000_000);
    format!("{seconds} s ago")
}

// === impl State ===

impl State {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            State::Playing => "playing",
            State::Paused => "paused",
            State::Stopped => "stopped",
            State::Ended => "ended",
        }
    }

    fn read(word: &str) -> Option<State> {
        [State::Playing, State::Paused, State::Stopped, State::Ended].into_iter().find(|it| it.word() == word)
    }
}
