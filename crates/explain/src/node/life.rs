//! A node's life as far as autoscaling goes, and what was said of it.

use std::collections::BTreeMap;

use history::Selection;
use model::{Change, Key, Kind, Moment, What, Window};
use query::{AsOf, Chosen};
use serde::Deserialize;

use crate::happened::{Event, Said};

/// One life of a node.
pub(crate) struct Life {
    uid: Option<String>,
    first: Moment,
    /// When it last got the taint of those that are being deleted.
    marked: Option<(Moment, i64)>,
    gone: Option<(Moment, i64)>,
    /// What changed that an autoscaler changes.
    changes: Vec<(Moment, &'static str)>,
    last: Marks,
}

/// What really happened to a node.
pub struct Happened {
    /// When it was first seen.
    pub first: Moment,
    /// What changed, and when.
    pub changes: Vec<(Moment, &'static str)>,
    /// What the autoscaler said of it, with the reason.
    pub said: Vec<Said>,
    /// When it was gone.
    pub gone: Option<Moment>,
}

/// What an autoscaler changes in a node.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Marks {
    candidate: bool,
    to_be_deleted: bool,
    cordoned: bool,
    deletion: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Node {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Taint>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
}

const MINUTE: i64 = 60_000_000_000;
/// What was said so long before and after the moment is told.
const AROUND: i64 = 60 * MINUTE;
/// A node whose marks come and go all the time is not told of each time: the ones nearest to the moment are.
const MOST: usize = 10;

// === impl Life ===

impl Life {
    /// The life that a node has at a moment, or its last one.
    pub(crate) fn find(chosen: &Chosen, key: &Key, at: Option<Moment>) -> anyhow::Result<Life> {
        let mut lives = lives(chosen, key)?;
        let is_there =
            |life: &Life, at: Moment| life.first <= at && life.gone.is_none_or(|(gone, _)| at < gone);
        let found = match at {
            Some(at) => lives.iter().position(|life| is_there(life, at)),
            None => lives.len().checked_sub(1),
        };
        if let Some(place) = found {
            return Ok(lives.swap_remove(place));
        }
        let name = &key.name;
        let (Some(at), Some(life)) = (at, lives.last()) else {
            anyhow::bail!("the history never saw a node {name:?}");
        };
        let nearest = lives.iter().rev().find(|life| life.first <= at).unwrap_or(life);
        let to = match nearest.gone {
            Some((gone, _)) => gone.to_string(),
            None => "the end of the history".to_owned(),
        };
        anyhow::bail!("there was no node {name:?} at {at}: it lived from {} to {to}", nearest.first)
    }

    /// The moment that is explained, and why that one: what is asked for, or what tells most.
    pub(crate) fn as_of(&self, chosen: &Chosen, at: Option<Moment>) -> (AsOf, &'static str) {
        match (at, self.gone, self.marked) {
            (Some(at), ..) => (AsOf::At(at), "as asked for"),
            (None, Some(_), Some((at, seq))) => (AsOf::Before(at, seq), "when it was marked to be deleted"),
            (None, Some((at, seq)), None) => (AsOf::Before(at, seq), "when it was gone"),
            (None, None, _) => (AsOf::At(chosen.times.end), "at the end of the history"),
        }
    }

    fn begin(uid: Option<String>, change: &Change) -> Life {
        Life { uid, first: change.at, marked: None, gone: None, changes: Vec::new(), last: Marks::default() }
    }

    fn see(&mut self, change: &Change) {
        let Some(object) = change.what.state() else {
            self.gone = Some((change.at, change.seq));
            return;
        };
        let marks = Marks::of(&object.view().unwrap_or_default());
        if marks.to_be_deleted && !self.last.to_be_deleted {
            self.marked = Some((change.at, change.seq));
        }
        for (before, now, came, went) in [
            (self.last.candidate, marks.candidate, "marked as one that could go", "that mark was taken off"),
            (self.last.to_be_deleted, marks.to_be_deleted, "marked to be deleted", "no more to be deleted"),
            (self.last.cordoned, marks.cordoned, "cordoned", "uncordoned"),
            (self.last.deletion, marks.deletion, "its deletion began", "its deletion was taken back"),
        ] {
            if before != now {
                self.changes.push((change.at, if now { came } else { went }));
            }
        }
        self.last = marks;
    }
}

// === impl Marks ===

impl Marks {
    fn of(node: &Node) -> Marks {
        let has = |key: &str| node.spec.taints.iter().flatten().any(|taint| taint.key == key);
        Marks {
            candidate: has("DeletionCandidateOfClusterAutoscaler"),
            to_be_deleted: has("ToBeDeletedByClusterAutoscaler"),
            cordoned: node.spec.unschedulable == Some(true),
            deletion: node.metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl Happened ===

impl Happened {
    pub(crate) fn read(chosen: &Chosen, key: &Key, life: Life, moment: Moment) -> anyhow::Result<Happened> {
        let end = life.gone.map_or(Moment::MAX, |(gone, _)| gone.plus_nanos(MINUTE));
        let window = Window {
            from: moment.plus_nanos(-AROUND).max(life.first),
            to: moment.plus_nanos(AROUND).min(end),
        };
        let kinds = vec![Kind::new("events.k8s.io", "Event"), Kind::new("", "Event")];
        let selection =
            Selection { kinds: Some(kinds), source: Some(key.source.clone()), ..Selection::default() };
        // By what is said, for one event may be seen through both APIs.
        let mut said: BTreeMap<(String, String), Said> = BTreeMap::new();
        for change in chosen.history.between(window, &selection)? {
            let change = change?;
            let Some(object) = change.what.state() else { continue };
            if !object.as_str().contains("\"ScaleDown") || !object.as_str().contains(&*key.name) {
                continue;
            }
            let Ok(event) = object.view::<Event>() else { continue };
            let mut told = event.said(change.seen);
            let about_it = event.is_about("Node", &key.name, life.uid.as_deref());
            if !told.reason.starts_with("ScaleDown") || !(about_it || names(&told.text, &key.name)) {
                continue;
            }
            if !about_it {
                // Such a series is about many nodes, and about this one when it was last told.
                (told.first, told.times) = (told.last, 1);
            }
            said.entry((told.reason.clone(), told.text.clone()))
                .and_modify(|same| {
                    same.first = same.first.min(told.first);
                    same.last = same.last.max(told.last);
                    same.times = same.times.max(told.times);
                })
                .or_insert(told);
        }
        let distance = |at: Moment| at.nanos_since(moment).abs();
        let mut changes = life.changes;
        changes.sort_by_key(|(at, _)| distance(*at));
        changes.truncate(MOST);
        changes.sort_by_key(|(at, _)| *at);
        let mut said: Vec<Said> = said.into_values().collect();
        said.sort_by_key(|said| (distance(said.first), said.first));
        said.truncate(MOST);
        said.sort_by_key(|said| said.first);
        Ok(Happened { first: life.first, changes, said, gone: life.gone.map(|(gone, _)| gone) })
    }
}

/// All lives under a name, in their order.
fn lives(chosen: &Chosen, key: &Key) -> anyhow::Result<Vec<Life>> {
    let mut lives: Vec<Life> = Vec::new();
    for change in chosen.history.of(key)? {
        let change = change?;
        let uid = change.what.object().meta().uid.map(|uid| uid.into_owned());
        let is_same = |life: &&mut Life| life.gone.is_none() && (life.uid == uid || uid.is_none());
        match (lives.last_mut().filter(is_same), &change.what) {
            (Some(life), _) => life.see(&change),
            // All that is known of such a life is that it was there.
            (None, What::Deleted(_)) => {}
            (None, What::Added(_) | What::Modified(_)) => {
                if let Some(life) = lives.last_mut().filter(|life| life.gone.is_none()) {
                    // Another uid without a delete: the history missed it.
                    life.gone = Some((change.at, change.seq));
                }
                let mut life = Life::begin(uid, &change);
                life.see(&change);
                lives.push(life);
            }
        }
    }
    Ok(lives)
}

/// Whether a text names a node, and not one whose name is longer.
fn names(text: &str, node: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    text.split(|letter| !is_part(letter)).any(|word| word == node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_its_whole_name() {
        assert!(names("Scale-down: removing empty node \"a-1\"", "a-1"));
        assert!(names("Scale-down: removing node a-1, utilization: {0}", "a-1"));
        assert!(!names("Scale-down: removing empty node \"a-12\"", "a-1"));
    }
}
