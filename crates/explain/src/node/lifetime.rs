//! Recorded lifetimes of nodes, and the autoscaler's Events about them.

use std::collections::BTreeMap;

use history::Selection;
use model::{Change, Key, Kind, Moment, What, Window};
use query::{AsOf, OpenHistory};
use serde::Deserialize;

use crate::pod_outcome::{Event, RecordedEvent};

/// The recorded lifetime of a node.
pub(crate) struct NodeLifetime {
    uid: Option<String>,
    first_seen: Moment,
    /// When it last got the ToBeDeleted taint.
    to_be_deleted_since: Option<(Moment, i64)>,
    deleted_at: Option<(Moment, i64)>,
    /// Changes of the fields that an autoscaler writes.
    changes: Vec<(Moment, &'static str)>,
    marks: ScaleDownMarks,
}

/// The recorded outcome of a node.
pub struct ObservedNodeOutcome {
    /// When it was first observed.
    pub first_seen: Moment,
    /// Changes of taints, cordoning and deletion, with their times.
    pub changes: Vec<(Moment, &'static str)>,
    /// Events of the autoscaler about it.
    pub events: Vec<RecordedEvent>,
    /// When it was deleted.
    pub deleted_at: Option<Moment>,
}

/// The fields of a node that an autoscaler writes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ScaleDownMarks {
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
/// Events within this time before and after the moment are shown.
const EVENTS_AROUND: i64 = 60 * MINUTE;
/// The maximum number of changes, and of Events, that are shown: those nearest to the moment.
const MAX_SHOWN: usize = 10;

// === impl NodeLifetime ===

impl NodeLifetime {
    /// Returns the lifetime of a node at a moment, or its last one.
    pub(crate) fn find(
        open_history: &OpenHistory,
        key: &Key,
        at: Option<Moment>,
    ) -> anyhow::Result<NodeLifetime> {
        let mut lives = lifetimes(open_history, key)?;
        let is_there = |life: &NodeLifetime, at: Moment| {
            life.first_seen <= at && life.deleted_at.is_none_or(|(gone, _)| at < gone)
        };
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
        let nearest = lives.iter().rev().find(|life| life.first_seen <= at).unwrap_or(life);
        let to = match nearest.deleted_at {
            Some((gone, _)) => gone.to_string(),
            None => "the end of the history".to_owned(),
        };
        anyhow::bail!("there was no node {name:?} at {at}: it lived from {} to {to}", nearest.first_seen)
    }

    /// Returns the moment to explain, and why: the requested or the most telling one.
    pub(crate) fn as_of(&self, open_history: &OpenHistory, at: Option<Moment>) -> (AsOf, &'static str) {
        match (at, self.deleted_at, self.to_be_deleted_since) {
            (Some(at), ..) => (AsOf::At(at), "as asked for"),
            (None, Some(_), Some((at, seq))) => (AsOf::Before(at, seq), "when it was marked to be deleted"),
            (None, Some((at, seq)), None) => (AsOf::Before(at, seq), "when it was gone"),
            (None, None, _) => (AsOf::At(open_history.times.end), "at the end of the history"),
        }
    }

    fn new(uid: Option<String>, change: &Change) -> NodeLifetime {
        NodeLifetime {
            uid,
            first_seen: change.at,
            to_be_deleted_since: None,
            deleted_at: None,
            changes: Vec::new(),
            marks: ScaleDownMarks::default(),
        }
    }

    fn observe(&mut self, change: &Change) {
        let Some(object) = change.what.state() else {
            self.deleted_at = Some((change.at, change.seq));
            return;
        };
        let marks = ScaleDownMarks::of(&object.view().unwrap_or_default());
        if marks.to_be_deleted && !self.marks.to_be_deleted {
            self.to_be_deleted_since = Some((change.at, change.seq));
        }
        for (before, now, came, went) in [
            (self.marks.candidate, marks.candidate, "marked as one that could go", "that mark was taken off"),
            (self.marks.to_be_deleted, marks.to_be_deleted, "marked to be deleted", "no more to be deleted"),
            (self.marks.cordoned, marks.cordoned, "cordoned", "uncordoned"),
            (self.marks.deletion, marks.deletion, "its deletion began", "its deletion was taken back"),
        ] {
            if before != now {
                self.changes.push((change.at, if now { came } else { went }));
            }
        }
        self.marks = marks;
    }
}

// === impl ScaleDownMarks ===

impl ScaleDownMarks {
    fn of(node: &Node) -> ScaleDownMarks {
        let has = |key: &str| node.spec.taints.iter().flatten().any(|taint| taint.key == key);
        ScaleDownMarks {
            candidate: has("DeletionCandidateOfClusterAutoscaler"),
            to_be_deleted: has("ToBeDeletedByClusterAutoscaler"),
            cordoned: node.spec.unschedulable == Some(true),
            deletion: node.metadata.deletion_timestamp.is_some(),
        }
    }
}

// === impl ObservedNodeOutcome ===

impl ObservedNodeOutcome {
    pub(crate) fn read(
        open_history: &OpenHistory,
        key: &Key,
        lifetime: NodeLifetime,
        moment: Moment,
    ) -> anyhow::Result<ObservedNodeOutcome> {
        let end = lifetime.deleted_at.map_or(Moment::MAX, |(gone, _)| gone.plus_nanos(MINUTE));
        let window = Window {
            from: moment.plus_nanos(-EVENTS_AROUND).max(lifetime.first_seen),
            to: moment.plus_nanos(EVENTS_AROUND).min(end),
        };
        let kinds = vec![Kind::new("events.k8s.io", "Event"), Kind::new("", "Event")];
        let selection =
            Selection { kinds: Some(kinds), source: Some(key.source.clone()), ..Selection::default() };
        // By reason and message, as an Event may be recorded through both APIs.
        let mut said: BTreeMap<(String, String), RecordedEvent> = BTreeMap::new();
        for change in open_history.history.between(window, &selection)? {
            let change = change?;
            let Some(object) = change.what.state() else { continue };
            if !object.as_str().contains("\"ScaleDown") || !object.as_str().contains(&*key.name) {
                continue;
            }
            let Ok(event) = object.view::<Event>() else { continue };
            let mut told = event.recorded(change.seen);
            let about_it = event.regards("Node", &key.name, lifetime.uid.as_deref());
            if !told.reason.starts_with("ScaleDown") || !(about_it || mentions(&told.message, &key.name)) {
                continue;
            }
            if !about_it {
                // Such a series regards many nodes, and this one at its last occurrence.
                (told.first, told.times) = (told.last, 1);
            }
            said.entry((told.reason.clone(), told.message.clone()))
                .and_modify(|same| {
                    same.first = same.first.min(told.first);
                    same.last = same.last.max(told.last);
                    same.times = same.times.max(told.times);
                })
                .or_insert(told);
        }
        let distance = |at: Moment| at.nanos_since(moment).abs();
        let mut changes = lifetime.changes;
        changes.sort_by_key(|(at, _)| distance(*at));
        changes.truncate(MAX_SHOWN);
        changes.sort_by_key(|(at, _)| *at);
        let mut said: Vec<RecordedEvent> = said.into_values().collect();
        said.sort_by_key(|said| (distance(said.first), said.first));
        said.truncate(MAX_SHOWN);
        said.sort_by_key(|said| said.first);
        Ok(ObservedNodeOutcome {
            first_seen: lifetime.first_seen,
            changes,
            events: said,
            deleted_at: lifetime.deleted_at.map(|(gone, _)| gone),
        })
    }
}

/// Returns all lifetimes of a name, in order.
fn lifetimes(open_history: &OpenHistory, key: &Key) -> anyhow::Result<Vec<NodeLifetime>> {
    let mut lives: Vec<NodeLifetime> = Vec::new();
    for change in open_history.history.of(key)? {
        let change = change?;
        let uid = change.what.object().meta().uid.map(|uid| uid.into_owned());
        let is_same =
            |life: &&mut NodeLifetime| life.deleted_at.is_none() && (life.uid == uid || uid.is_none());
        match (lives.last_mut().filter(is_same), &change.what) {
            (Some(life), _) => life.observe(&change),
            // Nothing is known of such a lifetime but its end.
            (None, What::Deleted(_)) => {}
            (None, What::Added(_) | What::Modified(_)) => {
                if let Some(life) = lives.last_mut().filter(|life| life.deleted_at.is_none()) {
                    // Another uid without a deletion: the history missed the deletion.
                    life.deleted_at = Some((change.at, change.seq));
                }
                let mut life = NodeLifetime::new(uid, &change);
                life.observe(&change);
                lives.push(life);
            }
        }
    }
    Ok(lives)
}

/// Whether a text contains a node's name as a whole word.
fn mentions(text: &str, node: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    text.split(|letter| !is_part(letter)).any(|word| word == node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_its_whole_name() {
        assert!(mentions("Scale-down: removing empty node \"a-1\"", "a-1"));
        assert!(mentions("Scale-down: removing node a-1, utilization: {0}", "a-1"));
        assert!(!mentions("Scale-down: removing empty node \"a-12\"", "a-1"));
    }
}
