//! Films of real clusters: what the real scheduler decided in them, and what ours decides on what the real one knew.
//!
//! A film is what one watcher saw. The scheduler saw the same through watches of its own, a little earlier or later,
//! and knew its own decisions at once. The judge puts that together again.

mod decisions;
mod play;
mod reading;
mod verdicts;

use std::sync::Arc;

use model::{Moment, What};

pub use play::Guess;
pub(crate) use reading::Line;
pub use verdicts::{Aspect, Example, Share, Verdicts, judge};

/// All that happened in a cluster while it was watched, in memory as a whole.
#[derive(Debug)]
pub struct Film {
    /// Its name.
    pub name: String,
    /// What was seen, in order of arrival, Events apart.
    seen: Vec<Seen>,
    /// What the scheduler decided, in the order of its Events and of the bindings.
    decided: Vec<Decided>,
    /// What is not compared, and how often that was.
    apart: Vec<(&'static str, u64)>,
}

/// Something that was seen happening.
#[derive(Debug)]
struct Seen {
    at: Moment,
    what: What,
    /// The number that stands for its uid.
    life: usize,
    pod: Option<PodSeen>,
}

/// What is looked at in a pod.
#[derive(Debug)]
struct PodSeen {
    /// API servers number all versions in the order in which they were stored. Zero if it is no number.
    version: u64,
    node: String,
    nominated: String,
    priority: i64,
    /// Whether it has claims, for which a binding has to wait.
    has_claims: bool,
    is_daemon: bool,
    /// What its condition says of why it has no node.
    message: String,
}

/// A decision of the real scheduler.
#[derive(Clone, Debug)]
struct Decided {
    namespace: Arc<str>,
    name: Arc<str>,
    did: Did,
    /// Whether ours is asked about it. Others too change what the scheduler knows.
    is_compared: bool,
    /// What the scheduler's clock showed after it.
    stamped: Moment,
    /// The version of the pod it looked at: so much of the watch of pods it had seen.
    looked_at: Option<u64>,
    /// The pod's priority, if this was the first attempt at it: such pods are taken from the queue by priority, and then in
    /// the order in which they came.
    fresh: Option<i64>,
    /// The next version of that pod: so much of the watch of pods it had not seen.
    not_seen: Option<u64>,
    /// Where in the film it is seen: the binding, or the message and the nomination in the pod's status.
    write: Option<usize>,
    /// Where in the film it is seen first, if a binding had to wait for volumes: the pod is promised its node before.
    promise: Option<usize>,
    /// What the pod's condition says of it, where the Event does not: an Event that stands for several decisions keeps
    /// the text of the first.
    condition: Option<String>,
}

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Did {
    /// No node takes the pod, and why.
    Refused(String),
    /// The pod goes to this node.
    Bound(String),
}
