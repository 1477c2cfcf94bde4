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

/// A recorder's first list of everything comes within this time.
const LISTING_NANOS: i64 = 60 * 1_000_000_000;

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

/// The first moment of a source, and that at which it is whole: an object that is older than the recording and seen for
/// the first time belongs to the recorder's first list.
pub fn whole_from(
    history: &History,
    source: &Arc<str>,
    first: Moment,
    end: Moment,
) -> Result<(Moment, Moment), history::Error> {
    let selection = Selection { source: Some(source.clone()), ..Selection::default() };
    let (mut start, mut whole) = (None, first);
    for change in history.between(Window { from: first, to: end.plus_nanos(1) }, &selection)? {
        let change = change?;
        let start = *start.get_or_insert(change.at);
        if change.at.nanos_since(start) > LISTING_NANOS {
            break;
        }
        let created = created(change.what.object()).and_then(|created| created.parse::<Moment>().ok());
        // Without a time of creation all that comes at the first moment was there.
        // Kubernetes tells whole seconds: what was created in the first one may be new.
        let second = start.plus_nanos(-start.nanos().rem_euclid(1_000_000_000));
        let is_old = created.map_or(change.at == start, |created| created < second);
        if is_old && matches!(change.what, What::Added(_)) {
            whole = change.at;
        }
    }
    let start = start.unwrap_or(first);
    Ok((start, whole.max(start)))
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
    let mut objects: Vec<(u8, Option<String>, model::Key, Object)> = Vec::new();
    history.each_at(part.window.from, &everything(part), |version| {
        let kind = &version.key.kind;
        let order = if *kind == Kind::new("", "Pod") {
            2
        } else if *kind == Kind::new("", "Node") {
            1
        } else {
            0
        };
        let age = if order == 2 { created(&version.object) } else { None };
        objects.push((order, age, version.key, version.object));
    })?;
    objects.sort_unstable_by(|a, b| (a.0, &a.1, &a.2).cmp(&(b.0, &b.1, &b.2)));
    Ok(objects.into_iter().map(|(.., object)| object).collect())
}

/// When an object was created, as it says itself.
fn created(object: &Object) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Outer {
        metadata: Inner,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Inner {
        creation_timestamp: Option<String>,
    }
    object.view::<Outer>().ok()?.metadata.creation_timestamp
}

fn everything(part: &Part) -> Selection {
    Selection { source: Some(part.source.clone()), ..Selection::default() }
}

fn after_beginning(part: &Part) -> Window {
    Window { from: part.window.from.plus_nanos(1), to: part.window.to }
}
