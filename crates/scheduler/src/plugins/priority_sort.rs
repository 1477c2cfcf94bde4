//! PrioritySort: the order of the queue, implemented in `queue.rs`.

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

pub(crate) const REGISTRATION: Registration =
    Registration::new("PrioritySort", |_| &[ExtensionPoint::QueueSort]);
