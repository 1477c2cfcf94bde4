//! DefaultPreemption: preemption of lower-priority pods, implemented in [`preemption`](crate::preemption).

use super::registration::Registration;
use crate::plugin::ExtensionPoint;

pub(crate) const REGISTRATION: Registration =
    Registration::new("DefaultPreemption", |_| &[ExtensionPoint::PreEnqueue, ExtensionPoint::PostFilter]);
