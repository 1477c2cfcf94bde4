//! What a run tells: every change of an object, and every decision with its reasons.

use std::sync::Arc;

use autoscaler::{Autoscaler, Loop, RemovedNode, ScaleUp};
use kubernetes::requests::PodResources;
use model::{Moment, NamespacedName, Object, What};
use scheduler::{Placement, Rejection};

use super::given::DemandId;

/// Who listens to a run.
pub trait Audience {
    /// Whether changes are of interest. If not, objects that only a listener would see are not made.
    fn wants_changes(&self) -> bool;

    /// An object came, changed or went.
    fn changed(&mut self, at: Moment, what: What);

    /// Something was decided.
    fn decided(&mut self, at: Moment, decided: &Decided<'_>);
}

/// One of the pods of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// The demand.
    pub demand: DemandId,
    /// How many pods it had before.
    pub life: u32,
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
        takes: Takes,
    },
    /// It takes it no more.
    Rises {
        /// Which.
        id: PodId,
        /// On this one.
        node: &'a Arc<str>,
        /// What it asked for.
        takes: Takes,
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

/// What a pod asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takes {
    /// Thousandths of a core.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
}

/// Why a pod loses its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostTo {
    /// A pod of higher priority.
    Preemption(NamespacedName),
    /// The autoscaler drains its node.
    ScaleDown,
    /// A taint of its node.
    Taint(Arc<str>),
    /// Its node is gone.
    NodeGone,
}

impl Takes {
    /// So many times as much more.
    pub fn add(&mut self, other: Takes, times: i64) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu.saturating_mul(times));
        self.memory = self.memory.saturating_add(other.memory.saturating_mul(times));
    }

    /// What a pod asks for; nothing if that cannot be understood.
    pub fn of(pod: &Object) -> Takes {
        let Ok(resources) = pod.view::<PodResources<'_>>() else { return Takes::default() };
        let requests = resources.taken().requests;
        Takes { milli_cpu: requests.cpu().0, memory: requests.memory().0 }
    }
}

impl LostTo {
    /// The `reason` that Kubernetes gives in the pod's condition `DisruptionTarget`.
    pub fn reason(&self) -> &'static str {
        match self {
            LostTo::Preemption(_) => "PreemptionByScheduler",
            LostTo::ScaleDown => "EvictionByEvictionAPI",
            LostTo::Taint(_) => "DeletionByTaintManager",
            LostTo::NodeGone => "DeletionByPodGC",
        }
    }
}
