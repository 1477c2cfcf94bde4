//! Makes room by deleting weaker pods: see [`preemption`](crate::preemption).

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "DefaultPreemption",
    points: |_| &[ExtensionPoint::PreEnqueue, ExtensionPoint::PostFilter],
    ..Registration::EMPTY
};
