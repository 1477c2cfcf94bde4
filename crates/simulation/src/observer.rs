//! The observer of a run, who is told every change of an object and every decision with its reasons.

use std::sync::Arc;

use autoscaler::{Autoscaler, Loop, RemovedNode, ScaleUp};
use model::{Moment, NamespacedName, Object, What};
use scheduler::{Placement, Rejection};

use crate::eviction::LostTo;
use crate::ids::{DemandId, PodId};
use crate::requests::Requests;

/// Observes a run.
pub trait Observer {
    /// Whether changes are of interest. If not, objects that only an observer would see are not made.
    fn wants_changes(&self) -> bool;

    /// An object came, changed or went.
    fn changed(&mut self, at: Moment, what: What);

    /// Something was decided.
    fn decided(&mut self, at: Moment, decided: &Decided<'_>);
}

impl<T: Observer + ?Sized> Observer for &mut T {
    fn wants_changes(&self) -> bool {
        (**self).wants_changes()
    }

    fn changed(&mut self, at: Moment, what: What) {
        (**self).changed(at, what);
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        (**self).decided(at, decided);
    }
}

/// What was decided, and why.
#[derive(Debug)]
pub enum Decided<'a> {
    /// A pod is there.
    Came {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// It waits for a node.
        waits: bool,
    },
    /// A pod is gone.
    Went {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// It still waited for a node.
        waited: bool,
    },
    /// A pod was bound to a node.
    Bound {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// Since when it had been there.
        came: Moment,
        /// What the scheduler says of it.
        placement: &'a Placement,
        /// How often it had been refused.
        refusals: u32,
    },
    /// A pod takes room on a node.
    Sits {
        /// Which.
        id: PodId,
        /// On this one.
        node: &'a Arc<str>,
        /// What it asks for.
        takes: Requests,
    },
    /// It takes it no more.
    Rises {
        /// Which.
        id: PodId,
        /// On this one.
        node: &'a Arc<str>,
        /// What it asked for.
        takes: Requests,
    },
    /// No node takes a pod.
    Refused {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// What the scheduler says of it.
        rejection: &'a Rejection,
    },
    /// A pod was neither placed nor refused.
    NotTried {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// Why.
        why: &'a str,
    },
    /// A pod loses its place.
    Lost {
        /// Which.
        id: PodId,
        /// Its name.
        pod: &'a NamespacedName,
        /// The node it was on.
        node: Option<&'a Arc<str>>,
        /// To whom or what.
        to: &'a LostTo,
    },
    /// The autoscaler made groups larger.
    ScaledUp(&'a ScaleUp),
    /// The autoscaler begins to remove a node.
    ScaledDown {
        /// The node and its pods.
        removed: &'a RemovedNode,
        /// Its group.
        group: Option<&'a Arc<str>>,
    },
    /// The autoscaler has looked at everything.
    Looped {
        /// What came of it.
        done: &'a Loop,
        /// Who did: one may ask for its status.
        autoscaler: &'a Autoscaler,
    },
    /// A node is there.
    NodeCame {
        /// Its name.
        node: &'a Arc<str>,
        /// Its group, if the autoscaler asked for it.
        group: Option<&'a Arc<str>>,
        /// What it is like.
        object: &'a Object,
    },
    /// A node is otherwise from now on.
    NodeChanged {
        /// What it is like.
        object: &'a Object,
    },
    /// A node is gone.
    NodeWent {
        /// Its name.
        node: &'a Arc<str>,
        /// What it was like.
        object: &'a Object,
    },
    /// Nobody wants a demand any more, and none of its pods is there.
    Over(DemandId),
}
