//! Features of the kubelet that a pod needs.

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::settings::Version;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeDeclaredFeatures",
    points: |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
    filter: Some(
        Filter::OF_NODE
            .unprepared(r#"error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found"#),
    ),
    since: Version::V1_35,
    default_since: Version::V1_36,
    events: &[
        Sort::NodeAdded,
        Sort::NodeFeatures,
        Sort::PodLabels,
        Sort::PodScaledDown,
        Sort::PodGatesGone,
        Sort::PodTolerations,
        Sort::PodClaims,
        Sort::PodOther,
    ],
    queueing_hint,
    ..Registration::EMPTY
};

pub(crate) fn filter(shape: &Shape, node: &NodeSpec) -> Result<(), Refusal> {
    let declared = |feature: &str| node.declared_features.iter().any(|other| **other == *feature);
    if shape.features.iter().all(|feature| declared(feature)) {
        return Ok(());
    }
    Err(Refusal::unresolvable(Plugin::NodeDeclaredFeatures, "node(s) didn't match Pod's required features"))
}

/// A node says that it can do something else, or the pod needs something else.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Node { old, new: Some(new) } => {
            old.is_none_or(|old| old.declared_features != new.declared_features)
        }
        About::Pod { old: Some(old), new: Some(new), .. } => {
            hint.is_about_itself() && old.shape.features != new.shape.features
        }
        _ => true,
    }
}
