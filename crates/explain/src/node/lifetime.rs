//! Recorded lifetimes of nodes, and the autoscaler's Events about them.

use std::collections::BTreeMap;

use history::Selection;
use kubernetes::objects::{EventView, NodeView};
use kubernetes::well_known::{DELETION_CANDIDATE, TO_BE_DELETED};
use model::{Change, Key, Kind, Moment, What, Window};
use query::{AsOf, OpenHistory};

use crate::not_found::NotFound;
use crate::pod_outcome::{RecordedEvent, regards};

/// The recorded lifetime of a node.
pub(crate) struct NodeLifetime {
    uid: Option<String>,
    first_seen: Moment,
    /// When it last got the ToBeDeleted taint.
    to_be_deleted_since: Option<(Moment, i64)>,
    deleted_at: Option<(Moment, i64)>,
    /// Changes of the fields that an autoscaler writes.
    changes: Vec<(Moment, NodeChange)>,
    marks: ScaleDownMarks,
}

/// The recorded outcome of a node.
pub struct ObservedNodeOutcome {
    /// When it was first observed.
    pub first_seen: Moment,
    /// Changes of taints, cordoning and deletion, with their times.
    pub changes: Vec<(Moment, NodeChange)>,
    /// Events of the autoscaler about it.
    pub events: Vec<RecordedEvent>,
    /// When it was deleted.
    pub deleted_at: Option<Moment>,
}

/// A recorded change of a field that an autoscaler writes: set, or unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The taint `DeletionCandidateOfClusterAutoscaler`.
    DeletionCandidate(bool),
    /// The taint `ToBeDeletedByClusterAutoscaler`.
    ToBeDeleted(bool),
    /// `spec.unschedulable`.
    Cordoned(bool),
    /// The deletion timestamp.
    Deletion(bool),
}

/// The fields of a node that an autoscaler writes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ScaleDownMarks {
    candidate: bool,
    to_be_deleted: bool,
    cordoned: bool,
    deletion: bool,
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
        let mut node_lifetimes = lifetimes(open_history, key)?;
        let exists = |lifetime: &NodeLifetime, at: Moment| {
            lifetime.first_seen <= at && lifetime.deleted_at.is_none_or(|(deleted_at, _)| at < deleted_at)
        };
        let found = match at {
            Some(at) => node_lifetimes.iter().position(|lifetime| exists(lifetime, at)),
            None => node_lifetimes.len().checked_sub(1),
        };
        if let Some(index) = found {
            return Ok(node_lifetimes.swap_remove(index));
        }
        let name = &key.name;
        let (Some(at), Some(lifetime)) = (at, node_lifetimes.last()) else {
            return Err(NotFound(format!("node {name:?} not found in the history")).into());
        };
        let nearest =
            node_lifetimes.iter().rev().find(|lifetime| lifetime.first_seen <= at).unwrap_or(lifetime);
        let to = match nearest.deleted_at {
            Some((deleted_at, _)) => deleted_at.to_string(),
            None => "the end of the history".to_owned(),
        };
        let message =
            format!("node {name:?} did not exist at {at}: it existed from {} to {to}", nearest.first_seen);
        Err(NotFound(message).into())
    }

    /// Returns the moment to explain, and why: the requested or the most telling one.
    pub(crate) fn as_of(&self, open_history: &OpenHistory, at: Option<Moment>) -> (AsOf, &'static str) {
        match (at, self.deleted_at, self.to_be_deleted_since) {
            (Some(at), ..) => (AsOf::At(at), "as requested"),
            (None, Some(_), Some((at, seq))) => {
                (AsOf::Before(at, seq), "when it was tainted ToBeDeletedByClusterAutoscaler")
            }
            (None, Some((at, seq)), None) => (AsOf::Before(at, seq), "when it was deleted"),
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
        let marks = ScaleDownMarks::of(&NodeView::parse(object));
        if marks.to_be_deleted && !self.marks.to_be_deleted {
            self.to_be_deleted_since = Some((change.at, change.seq));
        }
        for (was_set, node_change) in [
            (self.marks.candidate, NodeChange::DeletionCandidate(marks.candidate)),
            (self.marks.to_be_deleted, NodeChange::ToBeDeleted(marks.to_be_deleted)),
            (self.marks.cordoned, NodeChange::Cordoned(marks.cordoned)),
            (self.marks.deletion, NodeChange::Deletion(marks.deletion)),
        ] {
            if was_set != node_change.is_set() {
                self.changes.push((change.at, node_change));
            }
        }
        self.marks = marks;
    }
}

// === impl NodeChange ===

impl NodeChange {
    fn is_set(self) -> bool {
        match self {
            NodeChange::DeletionCandidate(is_set)
            | NodeChange::ToBeDeleted(is_set)
            | NodeChange::Cordoned(is_set)
            | NodeChange::Deletion(is_set) => is_set,
        }
    }
}

// === impl ScaleDownMarks ===

impl ScaleDownMarks {
    fn of(node: &NodeView) -> ScaleDownMarks {
        ScaleDownMarks {
            candidate: node.taint(DELETION_CANDIDATE).is_some(),
            to_be_deleted: node.taint(TO_BE_DELETED).is_some(),
            cordoned: node.unschedulable,
            deletion: node.deletion_timestamp.is_some(),
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
        let end = lifetime.deleted_at.map_or(Moment::MAX, |(deleted_at, _)| deleted_at.plus_nanos(MINUTE));
        let window = Window {
            from: moment.plus_nanos(-EVENTS_AROUND).max(lifetime.first_seen),
            to: moment.plus_nanos(EVENTS_AROUND).min(end),
        };
        let kinds = vec![Kind::new("events.k8s.io", "Event"), Kind::new("", "Event")];
        let selection =
            Selection { kinds: Some(kinds), source: Some(key.source.clone()), ..Selection::default() };
        // By reason and message, as an Event may be recorded through both APIs.
        let mut recorded: BTreeMap<(String, String), RecordedEvent> = BTreeMap::new();
        for change in open_history.history.between(window, &selection)? {
            let change = change?;
            let Some(object) = change.what.state() else { continue };
            if !object.as_str().contains("\"ScaleDown") || !object.as_str().contains(&*key.name) {
                continue;
            }
            let Ok(event) = EventView::parse(object) else { continue };
            let mut recorded_event = RecordedEvent::new(&event, change.seen);
            let regards_node = regards(&event, "Node", &key.name, lifetime.uid.as_deref());
            if !recorded_event.reason.starts_with("ScaleDown")
                || !(regards_node || mentions(&recorded_event.message, &key.name))
            {
                continue;
            }
            if !regards_node {
                // Such a series regards many nodes, and this one at its last occurrence.
                (recorded_event.first, recorded_event.times) = (recorded_event.last, 1);
            }
            recorded
                .entry((recorded_event.reason.clone(), recorded_event.message.clone()))
                .and_modify(|existing| {
                    existing.first = existing.first.min(recorded_event.first);
                    existing.last = existing.last.max(recorded_event.last);
                    existing.times = existing.times.max(recorded_event.times);
                })
                .or_insert(recorded_event);
        }
        let distance = |at: Moment| at.nanos_since(moment).abs();
        let mut changes = lifetime.changes;
        changes.sort_by_key(|(at, _)| distance(*at));
        changes.truncate(MAX_SHOWN);
        changes.sort_by_key(|(at, _)| *at);
        let mut recorded: Vec<RecordedEvent> = recorded.into_values().collect();
        recorded.sort_by_key(|recorded| (distance(recorded.first), recorded.first));
        recorded.truncate(MAX_SHOWN);
        recorded.sort_by_key(|recorded| recorded.first);
        Ok(ObservedNodeOutcome {
            first_seen: lifetime.first_seen,
            changes,
            events: recorded,
            deleted_at: lifetime.deleted_at.map(|(deleted_at, _)| deleted_at),
        })
    }
}

/// Returns all lifetimes of a name, in order.
fn lifetimes(open_history: &OpenHistory, key: &Key) -> anyhow::Result<Vec<NodeLifetime>> {
    let mut node_lifetimes: Vec<NodeLifetime> = Vec::new();
    for change in open_history.history.of(key)? {
        let change = change?;
        let uid = change.what.object().meta().uid.map(|uid| uid.into_owned());
        let is_same = |lifetime: &&mut NodeLifetime| {
            lifetime.deleted_at.is_none() && (lifetime.uid == uid || uid.is_none())
        };
        match (node_lifetimes.last_mut().filter(is_same), &change.what) {
            (Some(lifetime), _) => lifetime.observe(&change),
            // Nothing is known of such a lifetime but its end.
            (None, What::Deleted(_)) => {}
            (None, What::Added(_) | What::Modified(_)) => {
                if let Some(lifetime) =
                    node_lifetimes.last_mut().filter(|lifetime| lifetime.deleted_at.is_none())
                {
                    // Another uid without a deletion: the history missed the deletion.
                    lifetime.deleted_at = Some((change.at, change.seq));
                }
                let mut lifetime = NodeLifetime::new(uid, &change);
                lifetime.observe(&change);
                node_lifetimes.push(lifetime);
            }
        }
    }
    Ok(node_lifetimes)
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
