//! A history played again in virtual time.

mod batches;

use std::sync::Arc;

use history::{History, Selection};
use model::{Kind, Moment, Object, What, Window};
use sim::run::{Audience, BadGiven, Demand, Given, Run, Setup};

pub use batches::{StepFollower, Steps, play_in_batches};

use crate::causes::{Causes, Survey};
use crate::script::Script;

/// Which part of a history is played.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of which recording.
    pub source: Arc<str>,
    /// From when to when.
    pub window: Window,
}

/// Why a history cannot be played.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says it itself")]
pub enum Error {
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Given(#[from] BadGiven),
    #[error("the replay was stopped")]
    Stopped,
}

/// Who follows a play: what is given is told too.
pub trait Follower: Audience {
    /// A pod is asked for.
    fn asked(&mut self, at: Moment, demand: &Demand);

    /// So far it has come.
    fn reached(&mut self, _now: Moment) {}

    /// Whether it is to go on.
    fn goes_on(&self) -> bool {
        true
    }
}

/// What stands behind the pods of a part of a history.
pub fn survey(
    history: &History,
    part: &Part,
    scales: bool,
    mut each: impl FnMut(Moment, &What),
) -> Result<Causes, Error> {
    let mut survey = Survey::new(scales);
    for object in beginning(history, part)? {
        survey.begin(part.window.from, &object);
        each(part.window.from, &What::Added(object));
    }
    for change in history.between(after_beginning(part), &everything(part))? {
        let change = change?;
        survey.see(change.at, &change.what);
        each(change.at, &change.what);
    }
    Ok(survey.finish())
}

/// Plays a part of a history.
pub fn play(
    history: &History,
    part: &Part,
    causes: &Causes,
    is_scaled: &dyn Fn(&Object) -> bool,
    setup: Setup,
    follower: &mut dyn Follower,
) -> Result<(), Error> {
    let from = part.window.from;
    let mut script = Script::new(causes, is_scaled);
    let mut run = Run::new(setup);
    for object in beginning(history, part)? {
        if let Some(given) = script.begin(from, object) {
            give(&mut run, from, given, follower)?;
        }
    }
    for change in history.between(after_beginning(part), &everything(part))? {
        let change = change?;
        while let Some((at, given)) = script.due(change.at) {
            run.advance(at, upcast(follower));
            give(&mut run, at, given, follower)?;
        }
        if let Some(given) = script.see(change.at, change.what) {
            run.advance(change.at, upcast(follower));
            give(&mut run, change.at, given, follower)?;
            follower.reached(change.at);
        }
        if !follower.goes_on() {
            return Err(Error::Stopped);
        }
    }
    while let Some((at, given)) = script.due(part.window.to) {
        run.advance(at, upcast(follower));
        give(&mut run, at, given, follower)?;
    }
    run.advance(part.window.to, upcast(follower));
    Ok(())
}

fn give(run: &mut Run, at: Moment, given: Given, follower: &mut dyn Follower) -> Result<(), BadGiven> {
    if let Given::Asked(demand) = &given {
        follower.asked(at, demand);
    }
    run.give(at, given, upcast(follower))
}

fn upcast(follower: &mut dyn Follower) -> &mut dyn Audience {
    follower
}

/// All that is there when a part begins: surroundings first, then nodes, then pods by age.
fn beginning(history: &History, part: &Part) -> Result<Vec<Object>, Error> {
    let mut objects: Vec<(u8, String, model::Key, Object)> = Vec::new();
    history.each_at(part.window.from, &everything(part), |version| {
        let kind = &version.key.kind;
        let order = if *kind == Kind::new("", "Pod") {
            2
        } else if *kind == Kind::new("", "Node") {
            1
        } else {
            0
        };
        let age = if order == 2 { created(&version.object) } else { String::new() };
        objects.push((order, age, version.key, version.object));
    })?;
    objects.sort_unstable_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
    Ok(objects.into_iter().map(|(.., object)| object).collect())
}

fn created(object: &Object) -> String {
    #[derive(serde::Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        creation_timestamp: Option<String>,
    }
    object.view::<Outer>().ok().and_then(|outer| outer.metadata.creation_timestamp).unwrap_or_default()
}

fn everything(part: &Part) -> Selection {
    Selection { source: Some(part.source.clone()), ..Selection::default() }
}

fn after_beginning(part: &Part) -> Window {
    Window { from: part.window.from.plus_nanos(1), to: part.window.to }
}
