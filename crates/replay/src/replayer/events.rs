//! Scaling events of a recording.

use std::sync::Arc;

use autoscaler::NodeGroup;
use history::{History, Selection};
use kubernetes::objects::{EventView, NodeView, ObjectReference};
use model::{Kind, Moment, Object, What, Window};
use rustc_hash::FxHashSet;

use crate::snapshot::group_of;

/// A recorded scaling event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingEvent {
    /// When it was observed.
    pub at: Moment,
    /// What happened.
    pub kind: ScalingEventKind,
}

/// What happened in a scaling event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalingEventKind {
    /// An Event of the autoscaler.
    AutoscalerEvent {
        /// The reason, such as `TriggeredScaleUp`.
        reason: String,
        /// The message.
        message: String,
        /// The kind of the object that it regards: `Pod`, `Node`, `ConfigMap`.
        kind: String,
        /// The object as `namespace/name`, or its name alone if it has no namespace.
        object: String,
    },
    /// A node of a group was added.
    NodeAdded {
        /// The node.
        node: Arc<str>,
        /// Its group.
        group: Arc<str>,
    },
    /// A node of a group was removed.
    NodeDeleted {
        /// The node.
        node: Arc<str>,
        /// Its group.
        group: Arc<str>,
    },
}

/// The reasons of the autoscaler's Events; no other component uses them.
const AUTOSCALER_REASONS: [&str; 13] = [
    "TriggeredScaleUp",
    "NotTriggerScaleUp",
    "ScaledUpGroup",
    "FailedToScaleUpGroup",
    "ScaleUpTimedOut",
    "FailedToRevertScaleUp",
    "MaxNodesTotalReached",
    "ScaleDown",
    "ScaleDownEmpty",
    "ScaleDownFailed",
    "DeleteUnregistered",
    "DeleteUnregisteredFailed",
    "ClusterUnhealthy",
];

/// Returns the scaling events of a window, in a cluster with these groups and these initial nodes.
pub(super) fn scaling_events(
    history: &History,
    source: &Arc<str>,
    window: Window,
    groups: &[NodeGroup],
    mut nodes: FxHashSet<Arc<str>>,
) -> Result<Vec<ScalingEvent>, history::Error> {
    let kinds = vec![Kind::new("", "Node"), Kind::new("", "Event"), Kind::new("events.k8s.io", "Event")];
    let selection = Selection { source: Some(source.clone()), kinds: Some(kinds), ..Selection::default() };
    let mut events = Vec::new();
    for change in history.between(window, &selection)? {
        let change = change?;
        let kind = match (&*change.key.kind.kind, &change.what) {
            ("Event", What::Added(event) | What::Modified(event)) => autoscaler_event(event),
            ("Node", What::Added(node) | What::Modified(node)) => {
                let is_new = nodes.insert(change.key.name.clone());
                let group = group_of(groups, &NodeView::parse(node)).filter(|_| is_new);
                group.map(|group| ScalingEventKind::NodeAdded { node: change.key.name.clone(), group })
            }
            ("Node", What::Deleted(node)) => {
                nodes.remove(&change.key.name);
                let group = group_of(groups, &NodeView::parse(node));
                group.map(|group| ScalingEventKind::NodeDeleted { node: change.key.name.clone(), group })
            }
            _ => None,
        };
        events.extend(kind.map(|kind| ScalingEvent { at: change.at, kind }));
    }
    Ok(events)
}

fn autoscaler_event(event: &Object) -> Option<ScalingEventKind> {
    let event = EventView::parse(event).ok()?;
    if !AUTOSCALER_REASONS.contains(&&*event.reason) {
        return None;
    }
    let ObjectReference { kind, namespace, name, .. } = &event.regarding;
    let object = if namespace.is_empty() { name.to_string() } else { format!("{namespace}/{name}") };
    Some(ScalingEventKind::AutoscalerEvent {
        reason: event.reason.to_string(),
        message: event.message.to_string(),
        kind: kind.to_string(),
        object,
    })
}
