//! What a run is given: what nobody in it decides about.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};

use crate::ids::{DemandId, DemandMark};
use crate::pod_template::{BadGiven, PodTemplate};
use crate::requests::Requests;

/// Something that happens whatever the run decides.
#[derive(Clone, Debug)]
pub enum Given {
    /// An object came, changed or went.
    Object(What),
    /// A pod is asked for.
    Asked(Box<Asked>),
    /// Whoever asked for a pod does not want it any more. Who has asked for a set of them gives up the one that is least
    /// far, whichever that is.
    Withdrawn(DemandId),
    /// The pod of a demand has ended, or will have, and nobody needs to know of it any more.
    CleanedUp(DemandId),
    /// Somebody deletes the pod of a demand, which is made again if its owner does that.
    Deleted(DemandId),
    /// Somebody changes the pod of a demand: it is labelled otherwise, or tolerates more.
    Changed(DemandId, Object),
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
    /// The set of pods that it is one of, if one is as good as the other: the uid of their ReplicaSet.
    pub set: Option<Arc<str>>,
    /// Its containers end by themselves so long after they have started.
    pub runs: Option<Runs>,
    /// Its pods as they were recorded, in their order.
    pub lives: Vec<Life>,
    /// For how long its owner had not made the next one when no more was recorded, if the last was lost.
    pub unmade: Option<Duration>,
}

/// A demand, its pod taken apart. That takes a while, and needs no run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The demand.
    pub demand: Demand,
    pub(crate) body: Arc<PodTemplate>,
    pub(crate) takes: Requests,
}

/// A pod that is there before the run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Since when it is there.
    pub came: Moment,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// The node that it was promised.
    pub nominated: Option<Arc<str>>,
    /// What the scheduler last said when it refused it, and since when it does.
    pub refused: Option<(Arc<str>, Moment)>,
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
    pub bind: Option<Took>,
    /// How long its containers took to start, from its binding.
    pub start: Option<Took>,
    /// How long it took to go, from the beginning of its deletion.
    pub end: Option<Took>,
    /// How long its owner took to make it, from the loss or the end of the one before.
    pub again: Option<Took>,
}

/// How long something took, as it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// So long.
    pub time: Duration,
    /// It was not over then: something else came between, or nothing more was recorded.
    pub longer: bool,
}

// === impl Given ===

impl Given {
    /// A pod is asked for, if it can be understood.
    pub fn asked(demand: Demand) -> Result<Given, BadGiven> {
        Ok(Given::Asked(Box::new(Asked::of(demand)?)))
    }
}

// === impl Asked ===

impl Asked {
    pub(crate) fn of(demand: Demand) -> Result<Asked, BadGiven> {
        let body = PodTemplate::of(&demand.pod, demand.mark().as_ref())?;
        Ok(Asked { body: Arc::new(body), takes: Requests::of(&demand.pod), demand })
    }
}

// === impl Demand ===

impl Demand {
    /// What is written on its pods; nothing if nobody gave it.
    pub(crate) fn mark(&self) -> Option<DemandMark> {
        (self.id.0 < u64::MAX / 2).then_some(DemandMark { demand: self.id, after: self.after })
    }
}

// === impl Took ===

impl Took {
    /// So long.
    pub fn exactly(time: Duration) -> Took {
        Took { time, longer: false }
    }

    /// Longer than that.
    pub fn longer_than(time: Duration) -> Took {
        Took { time, longer: true }
    }
}
