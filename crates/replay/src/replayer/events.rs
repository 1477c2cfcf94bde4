//! What a recording tells of scaling.

use std::sync::Arc;

use autoscaler::NodeGroup;
use history::{History, Selection};
use model::{Kind, Moment, Object, What, Window};
use rustc_hash::FxHashSet;
use serde::Deserialize;

use crate::snapshot::group_of;

/// Something recorded that tells of scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalingEvent {
    /// When it was seen.
    pub at: Moment,
    /// What it tells.
    pub what: ScalingTold,
}

/// What a recording tells of scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalingTold {
    /// The autoscaler said it, in an Event.
    Said {
        /// Such as `TriggeredScaleUp`.
        reason: String,
        /// In words.
        message: String,
        /// The kind of what it is about: `Pod`, `Node`, `ConfigMap`.
        kind: String,
        /// `namespace/name`, or the name alone of what has no namespace.
        about: String,
    },
    /// A node of a group came.
    NodeCame {
        /// The node.
        node: Arc<str>,
        /// Its group.
        group: Arc<str>,
    },
    /// A node of a group went.
    NodeWent {
        /// The node.
        node: Arc<str>,
        /// Its group.
        group: Arc<str>,
    },
}

/// The reasons of Events that tell of scaling; no other component uses them.
const REASONS: [&str; 13] = [
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventJson {
    reason: Option<String>,
    /// As `events.k8s.io` calls it.
    note: Option<String>,
    message: Option<String>,
    regarding: Option<AboutJson>,
    involved_object: Option<AboutJson>,
}

#[derive(Default, Deserialize)]
struct AboutJson {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

/// What happened in a window to a cluster with these groups, of whose nodes these were there when it began.
pub(super) fn scaling_events(
    history: &History,
    source: &Arc<str>,
    window: Window,
    groups: &[NodeGroup],
    mut nodes: FxHashSet<Arc<str>>,
) -> Result<Vec<ScalingEvent>, history::Error> {
    let kinds = vec![Kind::new("", "Node"), Kind::new("", "Event"), Kind::new("events.k8s.io", "Event")];
    let selection = Selection { source: Some(source.clone()), kinds: Some(kinds), ..Selection::default() };
    let mut told = Vec::new();
    for change in history.between(window, &selection)? {
        let change = change?;
        let what = match (&*change.key.kind.kind, &change.what) {
            ("Event", What::Added(event) | What::Modified(event)) => said(event),
            ("Node", What::Added(node) | What::Modified(node)) => {
                let is_new = nodes.insert(change.key.name.clone());
                let group = group_of(groups, node).filter(|_| is_new);
                group.map(|group| ScalingTold::NodeCame { node: change.key.name.clone(), group })
            }
            ("Node", What::Deleted(node)) => {
                nodes.remove(&change.key.name);
                let group = group_of(groups, node);
                group.map(|group| ScalingTold::NodeWent { node: change.key.name.clone(), group })
            }
            _ => None,
        };
        told.extend(what.map(|what| ScalingEvent { at: change.at, what }));
    }
    Ok(told)
}

fn said(event: &Object) -> Option<ScalingTold> {
    let event: EventJson = event.view().ok()?;
    let reason = event.reason.filter(|reason| REASONS.contains(&reason.as_str()))?;
    let AboutJson { kind, namespace, name } = event.regarding.or(event.involved_object).unwrap_or_default();
    let name = name.unwrap_or_default();
    let about = match namespace.filter(|namespace| !namespace.is_empty()) {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name,
    };
    Some(ScalingTold::Said {
        reason,
        message: event.note.or(event.message).unwrap_or_default(),
        kind: kind.unwrap_or_default(),
        about,
    })
}
