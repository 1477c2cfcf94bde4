//! A pod's life as far as scheduling goes, and the moment of it that is explained.

use std::fmt;

use kubernetes::admission::renew;
use model::{Change, Key, Moment, Object, What};
use query::{AsOf, Chosen};

use super::Case;
use super::seen::Seen;
use query::span;

/// One life of a pod.
pub struct Life {
    /// Its uid.
    pub uid: Option<String>,
    first: Mark,
    created: Option<Moment>,
    /// As it was seen first.
    as_first_seen: Object,
    /// Where it was bound to.
    pub bound: Option<Bound>,
    /// The nodes it was promised, the last ones of them.
    pub nominated: Vec<(Moment, String)>,
    /// Whether a scheduler ever said that no node takes it.
    pub was_refused: bool,
    /// When it was first seen with a time to be gone by.
    pub deletion: Option<Moment>,
    /// When it stopped waiting without having been bound, and how.
    gave_up: Option<(Mark, End)>,
    /// When it was gone.
    pub gone: Option<Moment>,
}

/// When a pod was bound.
pub struct Bound {
    pub node: String,
    mark: Mark,
    /// The history never saw it without a node.
    at_first_sight: bool,
}

/// A change's place in the history.
#[derive(Clone, Copy)]
struct Mark {
    at: Moment,
    seq: i64,
}

/// How a pod stops waiting that was not bound.
#[derive(Clone, Copy)]
enum End {
    Deletion,
    Finished,
    Gone,
}

const SECOND: i64 = 1_000_000_000;
/// A node that is promised and taken back all the time is not remembered each time.
const MOST_NOMINATIONS: usize = 10;

/// The pod of that name as of the moment that tells most: just before it was bound, or while it waited.
pub(crate) fn case(chosen: &Chosen, key: Key, at: Option<Moment>) -> anyhow::Result<Case> {
    let mut lives = lives(chosen, &key)?;
    let lived = match at {
        Some(at) => lives
            .iter()
            .position(|life| life.is_there(at))
            .or_else(|| lives.iter().rposition(|life| life.was_just_there(at))),
        None => lives.len().checked_sub(1),
    };
    let Some(life) = lived.map(|index| lives.swap_remove(index)) else {
        return Err(not_there(chosen, &key, at, &lives)?);
    };
    let moment = at.unwrap_or(chosen.times.end);
    if moment < life.first.at {
        let later = span(life.first.at.nanos_since(moment));
        let why = format!("{later} before the history saw it");
        let pod = Some(taken_off(&life.as_first_seen)?);
        return Ok(Case { as_of: AsOf::At(moment), why, pod, key, owner: None, life: Some(life) });
    }
    let bound = life.bound.as_ref().filter(|bound| bound.mark.at <= moment);
    let as_a_whole = at.is_none() || life.gone.is_some_and(|gone| gone <= moment);
    let (as_of, why, pod) = match (bound, life.gave_up) {
        (Some(Bound { node, mark, at_first_sight: false }), _) => {
            (AsOf::Before(mark.at, mark.seq), format!("when it was bound to {node}"), None)
        }
        (Some(Bound { node, .. }), _) => {
            let start = chosen.history.span()?.map(|(start, _)| start).unwrap_or_default();
            // Creation is known to the second.
            let came_later = life.created.is_some_and(|created| created.plus_nanos(SECOND) > start);
            let pod = Some(taken_off(&life.as_first_seen)?);
            if came_later {
                let why = format!("when the history first saw it, on {node} already");
                (AsOf::Before(life.first.at, life.first.seq), why, pod)
            } else {
                let why = format!("taken off {node}, where it was when the history begins");
                (AsOf::At(moment.min(life.gone.map_or(moment, |gone| gone.plus_nanos(-1)))), why, pod)
            }
        }
        (None, Some((mark, end))) if as_a_whole && mark.seq == life.first.seq => {
            let why = format!("when the history first saw it, {}", end.already());
            (AsOf::Before(mark.at, mark.seq), why, Some(taken_off(&life.as_first_seen)?))
        }
        (None, Some((mark, end))) if as_a_whole => {
            (AsOf::Before(mark.at, mark.seq), format!("when {end}, having waited in vain"), None)
        }
        (None, Some((mark, end))) if mark.at <= moment => (AsOf::At(moment), format!("after {end}"), None),
        (None, _) => (AsOf::At(moment), "while it waited".to_owned(), None),
    };
    Ok(Case { as_of, why, pod, key, owner: None, life: Some(life) })
}

fn not_there(
    chosen: &Chosen,
    key: &Key,
    at: Option<Moment>,
    lives: &[Life],
) -> anyhow::Result<anyhow::Error> {
    let name = &key.name;
    let distance = |life: &&Life| {
        let at = at.unwrap_or(chosen.times.end);
        let after = at.nanos_since(life.gone.unwrap_or(Moment::MAX)).max(0);
        after.max(life.first.at.nanos_since(at))
    };
    if let (Some(at), Some(life)) = (at, lives.iter().min_by_key(distance)) {
        let to = match life.gone {
            Some(gone) => gone.to_string(),
            None => "the end of the history".to_owned(),
        };
        return Ok(anyhow::anyhow!(
            "there was no pod {name:?} in namespace {} at {at}: it lived from {} to {to}",
            key.namespace,
            life.first.at
        ));
    }
    let others = chosen.history.names(&key.kind, None, name, 100)?;
    let mut others: Vec<String> =
        others.into_iter().filter(|(_, other)| **other == **name).map(|(namespace, _)| namespace).collect();
    others.dedup();
    let hint = match &others[..] {
        [] => String::new(),
        others => format!("; there is one in {}: say so with -n", others.join(", ")),
    };
    Ok(anyhow::anyhow!("the history never saw a pod {name:?} in namespace {}{hint}", key.namespace))
}

/// All lives under a name, in their order.
fn lives(chosen: &Chosen, key: &Key) -> anyhow::Result<Vec<Life>> {
    let mut lives: Vec<Life> = Vec::new();
    for change in chosen.history.of(key)? {
        let change = change?;
        let uid = change.what.object().meta().uid.map(|uid| uid.into_owned());
        let is_same = |life: &&mut Life| life.gone.is_none() && (life.uid == uid || uid.is_none());
        match (lives.last_mut().filter(is_same), &change.what) {
            (Some(life), what) => life.see(&change, what),
            // All that is known of such a life is that it was there.
            (None, What::Deleted(_)) => {}
            (None, What::Added(object) | What::Modified(object)) => {
                if let Some(life) = lives.last_mut().filter(|life| life.gone.is_none()) {
                    // Another uid without a delete: the history missed it.
                    life.gone = Some(change.at);
                }
                let mut life = Life::begin(uid, &change, object);
                life.see(&change, &change.what);
                lives.push(life);
            }
        }
    }
    Ok(lives)
}

/// A pod as if nobody had bound it yet.
fn taken_off(pod: &Object) -> anyhow::Result<Object> {
    let mut value = pod.value()?;
    renew(&mut value);
    Ok(Object::parse(&value.to_string())?)
}

// === impl Life ===

impl Life {
    fn begin(uid: Option<String>, change: &Change, object: &Object) -> Life {
        let seen = Seen::read(object);
        Life {
            uid,
            first: Mark { at: change.at, seq: change.seq },
            created: seen.metadata.creation_timestamp.and_then(|text| text.parse().ok()),
            as_first_seen: object.clone(),
            bound: None,
            nominated: Vec::new(),
            was_refused: false,
            deletion: None,
            gave_up: None,
            gone: None,
        }
    }

    fn see(&mut self, change: &Change, what: &What) {
        let mark = Mark { at: change.at, seq: change.seq };
        let Some(object) = what.state() else {
            self.gone = Some(change.at);
            if self.bound.is_none() {
                self.gave_up.get_or_insert((mark, End::Gone));
            }
            return;
        };
        let Seen { metadata, spec, status } = Seen::read(object);
        if let Some(node) = spec.node()
            && self.bound.is_none()
        {
            self.bound = Some(Bound { node, mark, at_first_sight: mark.seq == self.first.seq });
        }
        self.was_refused |= status.is_refused();
        if metadata.deletion_timestamp.is_some() {
            self.deletion.get_or_insert(change.at);
        }
        let end = match status.phase.as_deref() {
            Some("Succeeded" | "Failed") => Some(End::Finished),
            _ => metadata.deletion_timestamp.map(|_| End::Deletion),
        };
        if let Some(end) = end.filter(|_| self.bound.is_none()) {
            self.gave_up.get_or_insert((mark, end));
        }
        if let Some(node) = status.promised().filter(|_| self.bound.is_none())
            && self.nominated.last().is_none_or(|(_, last)| *last != node)
        {
            if self.nominated.len() == MOST_NOMINATIONS {
                self.nominated.remove(0);
            }
            self.nominated.push((change.at, node));
        }
    }

    /// Whether it was there at a moment. A scheduler may see a pod, and answer, before a recorder sees it: one that was
    /// created by then, to the second, and seen soon after, was there.
    fn is_there(&self, at: Moment) -> bool {
        let was_there_unseen = self.created.is_some_and(|created| created <= at)
            && at < self.first.at
            && self.first.at.nanos_since(at) < SECOND;
        (self.first.at <= at || was_there_unseen) && self.gone.is_none_or(|gone| at < gone)
    }

    /// Whether it was gone at a moment, but not for long: Events are stamped a little later than what they tell of.
    fn was_just_there(&self, at: Moment) -> bool {
        self.gone.is_some_and(|gone| gone <= at && at.nanos_since(gone) < SECOND)
    }

    /// When it was first seen.
    pub fn from(&self) -> Moment {
        self.first.at
    }
}

// === impl Bound ===

impl Bound {
    /// When that was; `None` if it was before the history saw the pod.
    pub fn at(&self) -> Option<Moment> {
        (!self.at_first_sight).then_some(self.mark.at)
    }
}

// === impl End ===

impl End {
    /// In words that follow a moment at which it was so.
    fn already(self) -> &'static str {
        match self {
            End::Deletion => "being deleted already",
            End::Finished => "at its end already",
            End::Gone => "gone already",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            End::Deletion => "its deletion began",
            End::Finished => "it came to its end",
            End::Gone => "it was gone",
        })
    }
}
