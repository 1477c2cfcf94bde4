//! What a run is given: what nobody in it decides about.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};

/// A wish for a pod, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DemandId(pub u64);

/// Something that happens whatever the run decides.
#[derive(Clone, Debug)]
pub enum Given {
    /// An object came, changed or went.
    Object(What),
    /// A pod is asked for.
    Asked(Box<Demand>),
    /// Whoever asked for a pod does not want it any more.
    Withdrawn(DemandId),
    /// The pod of a demand has ended, or will have, and nobody needs to know of it any more.
    CleanedUp(DemandId),
    /// Somebody deletes the pod of a demand, which is made again if its owner does that.
    Deleted(DemandId),
}

/// A wish for a pod: one after the other, if the first is lost.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Its number.
    pub id: DemandId,
    /// The pod as it was asked for; its status and node do not count.
    pub pod: Object,
    /// It is not asked for before the pod of that demand has ended.
    pub after: Option<DemandId>,
    /// Where its pod is when the run begins, if that is so.
    pub begun: Option<Begun>,
    /// Who makes it again if it is lost.
    pub again: Again,
    /// Its containers end by themselves so long after they have started.
    pub runs: Option<Runs>,
    /// Its pods as they were recorded, in their order.
    pub lives: Vec<Life>,
}

/// A pod that is there before the run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Since when it is there.
    pub came: Moment,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// Since when its containers run.
    pub started: Option<Moment>,
    /// Its deletion has begun.
    pub leaving: bool,
}

/// Who makes a pod again if it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// Nobody.
    Never,
    /// Its owner, as soon as the deletion begins: a ReplicaSet, a Job.
    AtOnce,
    /// Its owner, when it is gone, under the same name: a StatefulSet.
    WhenGone,
}

/// Containers that end by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// After so long.
    pub lasting: Duration,
    /// The pod has failed then.
    pub fails: bool,
}

/// A pod of a demand, as it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid; empty if nothing tells.
    pub uid: Arc<str>,
    /// The node it was bound to.
    pub node: Option<Arc<str>>,
    /// How long it took from its coming until it was seen on its node, where nothing but the API server was waited for.
    pub bind: Option<Duration>,
    /// How long its containers took to start, from its binding.
    pub start: Option<Duration>,
    /// How long it took to go, from the beginning of its deletion.
    pub end: Option<Duration>,
    /// How long its owner took to make it, from the loss or the end of the one before.
    pub again: Option<Duration>,
}
