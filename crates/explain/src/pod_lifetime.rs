//! Recorded lifetimes of pods, and the moment of them that is explained.

use std::fmt;

use kubernetes::admission::remove_runtime_state;
use kubernetes::objects::PodView;
use model::{Change, Key, Moment, Object, What};
use query::{AsOf, OpenHistory};

use super::PodSnapshot;
use super::not_found::NotFound;
use query::format_duration;

/// The recorded lifetime of a pod, from creation to deletion.
pub struct PodLifetime {
    /// Its uid.
    pub uid: Option<String>,
    first_seen: ChangePosition,
    created: Option<Moment>,
    /// Its first recorded version.
    first_version: Object,
    /// Its binding.
    pub bound: Option<RecordedBinding>,
    /// The last nodes that it was nominated to.
    pub nominated: Vec<(Moment, String)>,
    /// Whether it was ever marked unschedulable.
    pub was_unschedulable: bool,
    /// When it was first observed with a deletion timestamp.
    pub deletion_began: Option<Moment>,
    /// When and how it stopped being pending without being bound.
    pending_end: Option<(ChangePosition, PendingEnd)>,
    /// When it was deleted.
    pub deleted_at: Option<Moment>,
}

/// The binding of a pod.
pub struct RecordedBinding {
    pub node: String,
    position: ChangePosition,
    /// The history has no version of it without a node.
    is_first_version: bool,
}

/// The position of a change in the history.
#[derive(Clone, Copy)]
struct ChangePosition {
    at: Moment,
    seq: i64,
}

/// How a pod that was never bound stopped being pending.
#[derive(Clone, Copy)]
enum PendingEnd {
    Deletion,
    Finished,
    Gone,
}

const SECOND: i64 = 1_000_000_000;
/// Bounds the number of nominations that are remembered.
const MAX_NOMINATIONS: usize = 10;

/// Returns the pod of that name as of the most telling moment: just before its binding, or while it was pending.
pub(crate) fn recorded_snapshot(
    open_history: &OpenHistory,
    key: Key,
    at: Option<Moment>,
) -> anyhow::Result<PodSnapshot> {
    let mut pod_lifetimes = lifetimes(open_history, &key)?;
    let found_index = match at {
        Some(at) => pod_lifetimes
            .iter()
            .position(|lifetime| lifetime.existed_at(at))
            .or_else(|| pod_lifetimes.iter().rposition(|lifetime| lifetime.deleted_just_before(at))),
        None => pod_lifetimes.len().checked_sub(1),
    };
    let Some(lifetime) = found_index.map(|index| pod_lifetimes.swap_remove(index)) else {
        return Err(not_found_error(open_history, &key, at, &pod_lifetimes)?);
    };
    let moment = at.unwrap_or(open_history.times.end);
    if moment < lifetime.first_seen.at {
        let later = format_duration(lifetime.first_seen.at.nanos_since(moment));
        let why = format!("{later} before it was first seen");
        let pod = Some(unbound(&lifetime.first_version)?);
        return Ok(PodSnapshot {
            as_of: AsOf::At(moment),
            why,
            pod,
            key,
            owner: None,
            lifetime: Some(lifetime),
        });
    }
    let bound = lifetime.bound.as_ref().filter(|bound| bound.position.at <= moment);
    let is_over = at.is_none() || lifetime.deleted_at.is_some_and(|deleted_at| deleted_at <= moment);
    let (as_of, why, pod) = match (bound, lifetime.pending_end) {
        (Some(RecordedBinding { node, position, is_first_version: false }), _) => {
            (AsOf::Before(position.at, position.seq), format!("when it was bound to {node}"), None)
        }
        (Some(RecordedBinding { node, .. }), _) => {
            let start = open_history.history.span()?.map(|(start, _)| start).unwrap_or_default();
            // Creation timestamps are whole seconds.
            let created_after_start =
                lifetime.created.is_some_and(|created| created.plus_nanos(SECOND) > start);
            let pod = Some(unbound(&lifetime.first_version)?);
            if created_after_start {
                let why = format!("when first seen, already bound to {node}");
                (AsOf::Before(lifetime.first_seen.at, lifetime.first_seen.seq), why, pod)
            } else {
                let why = format!("as if not bound to {node}, where it was at the start of the history");
                (
                    AsOf::At(
                        moment
                            .min(lifetime.deleted_at.map_or(moment, |deleted_at| deleted_at.plus_nanos(-1))),
                    ),
                    why,
                    pod,
                )
            }
        }
        (None, Some((position, end))) if is_over && position.seq == lifetime.first_seen.seq => {
            let why = format!("when first seen, already {}", end.already());
            (AsOf::Before(position.at, position.seq), why, Some(unbound(&lifetime.first_version)?))
        }
        (None, Some((position, end))) if is_over => {
            (AsOf::Before(position.at, position.seq), format!("when {end}, still pending"), None)
        }
        (None, Some((position, end))) if position.at <= moment => {
            (AsOf::At(moment), format!("after {end}"), None)
        }
        (None, _) => (AsOf::At(moment), "while pending".to_owned(), None),
    };
    Ok(PodSnapshot { as_of, why, pod, key, owner: None, lifetime: Some(lifetime) })
}

fn not_found_error(
    open_history: &OpenHistory,
    key: &Key,
    at: Option<Moment>,
    pod_lifetimes: &[PodLifetime],
) -> anyhow::Result<anyhow::Error> {
    let name = &key.name;
    let distance = |lifetime: &&PodLifetime| {
        let at = at.unwrap_or(open_history.times.end);
        let after = at.nanos_since(lifetime.deleted_at.unwrap_or(Moment::MAX)).max(0);
        after.max(lifetime.first_seen.at.nanos_since(at))
    };
    if let (Some(at), Some(lifetime)) = (at, pod_lifetimes.iter().min_by_key(distance)) {
        let to = match lifetime.deleted_at {
            Some(deleted_at) => deleted_at.to_string(),
            None => "the end of the history".to_owned(),
        };
        let message = format!(
            "pod {name:?} did not exist in namespace {} at {at}: it existed from {} to {to}",
            key.namespace, lifetime.first_seen.at
        );
        return Ok(NotFound(message).into());
    }
    let others = open_history.history.names_with_prefix(&key.kind, None, name, 100)?;
    let mut others: Vec<String> =
        others.into_iter().filter(|(_, other)| **other == **name).map(|(namespace, _)| namespace).collect();
    others.dedup();
    let hint = match &others[..] {
        [] => String::new(),
        others => format!("; found in namespace {}: use -n", others.join(", ")),
    };
    Ok(NotFound(format!("pod {name:?} not found in namespace {}{hint}", key.namespace)).into())
}

/// Returns all lifetimes of a name, in order.
fn lifetimes(open_history: &OpenHistory, key: &Key) -> anyhow::Result<Vec<PodLifetime>> {
    let mut pod_lifetimes: Vec<PodLifetime> = Vec::new();
    for change in open_history.history.of(key)? {
        let change = change?;
        let uid = change.what.object().meta().uid.map(|uid| uid.into_owned());
        let is_same = |lifetime: &&mut PodLifetime| {
            lifetime.deleted_at.is_none() && (lifetime.uid == uid || uid.is_none())
        };
        match (pod_lifetimes.last_mut().filter(is_same), &change.what) {
            (Some(lifetime), what) => lifetime.observe(&change, what),
            // Nothing is known of such a lifetime but its end.
            (None, What::Deleted(_)) => {}
            (None, What::Added(object) | What::Modified(object)) => {
                if let Some(lifetime) =
                    pod_lifetimes.last_mut().filter(|lifetime| lifetime.deleted_at.is_none())
                {
                    // Another uid without a deletion: the history missed the deletion.
                    lifetime.deleted_at = Some(change.at);
                }
                let mut lifetime = PodLifetime::new(uid, &change, object);
                lifetime.observe(&change, &change.what);
                pod_lifetimes.push(lifetime);
            }
        }
    }
    Ok(pod_lifetimes)
}

/// Returns a pod as if it had not been bound yet.
fn unbound(pod: &Object) -> anyhow::Result<Object> {
    let mut value = pod.value()?;
    remove_runtime_state(&mut value);
    Ok(Object::parse(&value.to_string())?)
}

// === impl PodLifetime ===

impl PodLifetime {
    fn new(uid: Option<String>, change: &Change, object: &Object) -> PodLifetime {
        PodLifetime {
            uid,
            first_seen: ChangePosition { at: change.at, seq: change.seq },
            created: PodView::parse(object).creation_timestamp,
            first_version: object.clone(),
            bound: None,
            nominated: Vec::new(),
            was_unschedulable: false,
            deletion_began: None,
            pending_end: None,
            deleted_at: None,
        }
    }

    fn observe(&mut self, change: &Change, what: &What) {
        let position = ChangePosition { at: change.at, seq: change.seq };
        let Some(object) = what.state() else {
            self.deleted_at = Some(change.at);
            if self.bound.is_none() {
                self.pending_end.get_or_insert((position, PendingEnd::Gone));
            }
            return;
        };
        let pod = PodView::parse(object);
        if let Some(node) = &pod.node_name
            && self.bound.is_none()
        {
            self.bound = Some(RecordedBinding {
                node: node.to_string(),
                position,
                is_first_version: position.seq == self.first_seen.seq,
            });
        }
        self.was_unschedulable |= pod.status.is_unschedulable();
        if pod.is_terminating() {
            self.deletion_began.get_or_insert(change.at);
        }
        let end = match pod.is_finished() {
            true => Some(PendingEnd::Finished),
            false => pod.is_terminating().then_some(PendingEnd::Deletion),
        };
        if let Some(end) = end.filter(|_| self.bound.is_none()) {
            self.pending_end.get_or_insert((position, end));
        }
        if let Some(node) = pod.status.nominated_node_name.filter(|_| self.bound.is_none())
            && self.nominated.last().is_none_or(|(_, last)| **last != *node)
        {
            if self.nominated.len() == MAX_NOMINATIONS {
                self.nominated.remove(0);
            }
            self.nominated.push((change.at, node.to_string()));
        }
    }

    /// Whether it existed at a moment. A scheduler may see a pod, and decide, before a recorder sees it: a pod that was
    /// created by then, to the second, and observed soon after, existed.
    fn existed_at(&self, at: Moment) -> bool {
        let was_there_unseen = self.created.is_some_and(|created| created <= at)
            && at < self.first_seen.at
            && self.first_seen.at.nanos_since(at) < SECOND;
        (self.first_seen.at <= at || was_there_unseen)
            && self.deleted_at.is_none_or(|deleted_at| at < deleted_at)
    }

    /// Whether it was deleted shortly before a moment: Events have slightly later times than the changes they report.
    fn deleted_just_before(&self, at: Moment) -> bool {
        self.deleted_at.is_some_and(|deleted_at| deleted_at <= at && at.nanos_since(deleted_at) < SECOND)
    }

    /// When it was first observed.
    pub fn first_observed(&self) -> Moment {
        self.first_seen.at
    }
}

// === impl RecordedBinding ===

impl RecordedBinding {
    /// The time of the binding; `None` if that was before the pod was first observed.
    pub fn at(&self) -> Option<Moment> {
        (!self.is_first_version).then_some(self.position.at)
    }
}

// === impl PendingEnd ===

impl PendingEnd {
    /// Text that follows the moment at which the pod was first observed.
    fn already(self) -> &'static str {
        match self {
            PendingEnd::Deletion => "terminating",
            PendingEnd::Finished => "finished",
            PendingEnd::Gone => "deleted",
        }
    }
}

impl fmt::Display for PendingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PendingEnd::Deletion => "its deletion started",
            PendingEnd::Finished => "it finished",
            PendingEnd::Gone => "it was deleted",
        })
    }
}
