//! A history played again in virtual time.

mod batches;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use calibration::seen::Seen;
use controllers::Controller;
use history::{Changes, History, Selection};
use kubernetes::kinds::is_secret;
use model::{Key, Kind, Moment, Object, What, Window};
use simulation::{BadGiven, Demand, Given, Observer, Run, Setup};

use crate::causes::made::Recall;
use crate::causes::{Causes, Survey};
use crate::error::Error;
use crate::recorded::Recorded;
use crate::script::{self, Script};

pub use batches::{StepFollower, Steps, play_in_batches};

/// Which part of a history is played.
#[derive(Clone, Debug)]
pub struct Part {
    /// Of which recording.
    pub source: Arc<str>,
    /// From when to when.
    pub window: Window,
}

/// So many are read at once, and so many times as many ahead.
const BATCH: usize = 256;
const AHEAD: usize = 4;

/// A recorder's first list of everything comes within this time.
const LISTING_NANOS: i64 = 60 * 1_000_000_000;

/// Who follows a play: what is given is told too.
pub trait Follower: Observer {
    /// A pod is asked for.
    fn asked(&mut self, at: Moment, demand: &Demand);

    /// So far it has come.
    fn reached(&mut self, _now: Moment) {}

    /// Whether it is to go on.
    fn goes_on(&self) -> bool {
        true
    }
}

impl<T: Follower + ?Sized> Follower for &mut T {
    fn asked(&mut self, at: Moment, demand: &Demand) {
        (**self).asked(at, demand);
    }

    fn reached(&mut self, now: Moment) {
        (**self).reached(now);
    }

    fn goes_on(&self) -> bool {
        (**self).goes_on()
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

/// What stands behind the pods of a part of a history, for a run that `scales` and in which these controllers work; and
/// what it came to, if that is to be counted. `class_of` tells what nodes are alike. An error
/// of `each` ends it.
pub fn survey(
    history: &History,
    part: &Part,
    scales: bool,
    controllers: &[Controller],
    class_of: &dyn Fn(&Object) -> Option<Arc<str>>,
    mut recorded: Option<&mut Recorded>,
    mut each: impl FnMut(Moment, &Seen) -> Result<(), Error>,
) -> Result<Causes, Error> {
    let from = part.window.from;
    let mut survey = Survey::new(from, scales, controllers, class_of).map_err(Error::kept)?;
    let mut see = |at: Moment, seen: &Seen| {
        if let Some(recorded) = &mut recorded {
            recorded.see(at, seen, class_of);
        }
        each(at, seen)
    };
    let everything = Selection { source: Some(part.source.clone()), ..Selection::default() };
    for (key, object) in beginning(history, part, &everything)? {
        let seen = Seen::of(key, What::Added(object));
        survey.begin(&seen).map_err(Error::kept)?;
        see(from, &seen)?;
    }
    let changes = changes(history, part, &everything)?;
    each_ahead(
        changes.map(|change| Ok(change.map(|it| (it.at, Seen::of(it.key, it.what)))?)),
        |(at, seen)| {
            survey.see(at, &seen).map_err(Error::kept)?;
            see(at, &seen)
        },
    )?;
    survey.finish(part.window.to).map_err(Error::kept)
}

/// How a play ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When: in steps that may be later than the recording did.
    pub at: Moment,
    /// Each unsupported controller feature that was requested, with its count.
    pub unsupported: BTreeMap<String, u64>,
}

/// Plays a part of a history.
pub fn play(
    history: &History,
    part: &Part,
    causes: &Causes,
    is_scaled: &(dyn Fn(&Object) -> bool + Sync),
    setup: Setup,
    follower: impl Follower,
) -> Result<Ended, Error> {
    let from = part.window.from;
    let mut script = Script::new(causes, is_scaled);
    let mut recall = Recall::new(causes);
    let mut run = run(setup, causes, &mut recall, follower);
    let matters = what_matters(history, part)?;
    for (_, object) in beginning(history, part, &matters)? {
        if let Some(given) = script.begin(from, object)? {
            give(&mut run, from, given)?;
        }
    }
    each_ahead(script.read(changes(history, part, &matters)?, part.window.to), |(at, given)| {
        run.advance(at);
        give(&mut run, at, given)?;
        run.observer_mut().reached(at);
        if run.observer().goes_on() { Ok(()) } else { Err(Error::Stopped) }
    })?;
    run.advance(part.window.to);
    let ended = Ended::of(&run);
    drop(run);
    recall.finish().map_err(Error::kept)?;
    Ok(ended)
}

/// A run with the controllers that were meant to work in it.
fn run<'m, F: Follower>(
    setup: Setup,
    causes: &Causes,
    memory: &'m mut Recall<'_>,
    follower: F,
) -> Run<'m, F> {
    let (run, made) = (Run::new(setup, follower), &causes.made);
    match made.controllers() {
        [] => run,
        controllers => run.with_controllers(controllers, Some(made.words.clone()), Some(memory)),
    }
}

fn give(run: &mut Run<'_, impl Follower>, at: Moment, given: Given) -> Result<(), BadGiven> {
    if let Given::Asked(asked) = &given {
        run.observer_mut().asked(at, &asked.demand);
    }
    run.give(at, given)
}

/// What happens in a part after its beginning.
fn changes(history: &History, part: &Part, selection: &Selection) -> Result<Changes, history::Error> {
    history.between(Window { from: part.window.from.plus_nanos(1), to: part.window.to }, selection)
}

/// Takes what is read one by one, in order, until the first error. It is read ahead, on a thread of its own.
fn each_ahead<T: Send>(
    mut read: impl Iterator<Item = Result<T, Error>> + Send,
    mut each: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let (ahead, behind) = mpsc::sync_channel::<Vec<_>>(AHEAD);
        scope.spawn(move || {
            loop {
                let batch: Vec<_> = read.by_ref().take(BATCH).collect();
                // Nobody takes it if the play has ended.
                if batch.is_empty() || ahead.send(batch).is_err() {
                    return;
                }
            }
        });
        for item in behind.into_iter().flatten() {
            each(item?)?;
        }
        Ok(())
    })
}

/// All that is there when a part begins: surroundings first, then nodes, then pods by age.
fn beginning(history: &History, part: &Part, selection: &Selection) -> Result<Vec<(Key, Object)>, Error> {
    let mut objects: Vec<(u8, Option<String>, Key, Object)> = Vec::new();
    history.each_at(part.window.from, selection, |version| {
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
    Ok(objects.into_iter().map(|(.., key, object)| (key, object)).collect())
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

/// What a script looks at. Events and Leases, of no account to it, are most of what a recorder sees. Secrets, of which an
/// import may have brought some, are not to be written again.
fn what_matters(history: &History, part: &Part) -> Result<Selection, Error> {
    let sources = history.summary()?.sources.into_iter().filter(|source| source.name == part.source);
    let kinds = sources.flat_map(|source| source.kinds).map(|kind| kind.kind);
    let kinds = kinds.filter(|kind| !script::IGNORED.contains(&&*kind.kind) && !is_secret(kind));
    Ok(Selection { kinds: Some(kinds.collect()), source: Some(part.source.clone()), ..Selection::default() })
}

// === impl Ended ===

impl Ended {
    fn of<F: Follower>(run: &Run<'_, F>) -> Ended {
        let unsupported = run.unsupported().map(|(what, count)| (what.to_owned(), count)).collect();
        Ended { at: run.now(), unsupported }
    }
}
