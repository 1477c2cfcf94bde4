//! Recordings of real clusters: the real scheduler's decisions in them, and ours on the same state of the cluster.
//!
//! A recording holds what one watch client received. The scheduler received the same through watches of its own, a
//! little earlier or later, and knew its own decisions at once. The playback reconstructs that state.

mod decisions;
mod play;
mod reading;
mod verdicts;

use std::sync::Arc;

use model::{Moment, What};

pub use play::Guess;
pub(crate) use reading::Line;
pub use verdicts::{Aspect, Example, Share, Verdicts, judge};

/// All watch events of a cluster over some time, held in memory.
#[derive(Debug)]
pub struct Film {
    /// Its name.
    pub name: String,
    /// The watch events in order of arrival, without those of Event objects.
    seen: Vec<Seen>,
    /// The scheduler's decisions: first those found in Event objects, then the bindings.
    decided: Vec<Decided>,
    /// The reasons why decisions are not compared, each with its count.
    apart: Vec<(&'static str, u64)>,
}

/// A watch event.
#[derive(Debug)]
struct Seen {
    at: Moment,
    what: What,
    /// The number assigned to the object's uid.
    life: usize,
    pod: Option<PodSeen>,
}

/// The fields of a pod that the comparison needs.
#[derive(Debug)]
struct PodSeen {
    /// The resourceVersion. API servers number versions in the order in which they are stored. Zero if it is no number.
    version: u64,
    node: String,
    nominated: String,
    priority: i64,
    /// Whether it has volume claims, for which a binding has to wait.
    has_claims: bool,
    is_daemon: bool,
    /// The message of its `PodScheduled` condition, if that is false.
    message: String,
}

/// A decision of the real scheduler.
#[derive(Clone, Debug)]
struct Decided {
    namespace: Arc<str>,
    name: Arc<str>,
    did: Did,
    /// Whether it is compared with ours. Decisions that are not compared still change the scheduler's state.
    is_compared: bool,
    /// When the scheduler wrote the Event, by its own clock.
    stamped: Moment,
    /// The pod's resourceVersion at the attempt: the scheduler had received the pod watch up to there.
    looked_at: Option<u64>,
    /// The pod's priority, if this was the first attempt: such pods leave the queue by priority, then in order of
    /// arrival.
    fresh: Option<i64>,
    /// The pod's next resourceVersion: the scheduler had not received the pod watch up to there.
    not_seen: Option<u64>,
    /// The index of the watch event that shows it: the binding, or the message and nomination in the pod's status.
    write: Option<usize>,
    /// The index of the watch event that nominates the node before a binding that had to wait for volumes.
    promise: Option<usize>,
    /// The message of the pod's condition, where the Event's differs: an Event series keeps the text of its first
    /// decision.
    condition: Option<String>,
}

/// The outcome of a scheduling attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// No node is feasible, with the message.
    Refused(String),
    /// The pod is bound to this node.
    Bound(String),
}
