//! PrioritySort: the order of the queue, which `queue.rs` keeps.

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration =
    Registration { name: "PrioritySort", points: |_| &[ExtensionPoint::QueueSort], ..Registration::EMPTY };
