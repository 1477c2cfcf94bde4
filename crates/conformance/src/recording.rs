//! Recordings of real clusters: the real scheduler's decisions in them, and ours on the same state of the cluster.
//!
//! A recording holds what one watch client received. The scheduler received the same through watches of its own, a
//! little earlier or later, and knew its own decisions at once. The playback reconstructs that state.

mod decisions;
mod playback;
mod reader;
mod report;

use std::sync::Arc;

use model::{Moment, What};

pub use playback::TimingAssumption;
pub(crate) use reader::WatchEventLine;
pub use report::{DecisionAspect, DecisionExample, MatchRatio, SchedulerReport, compare_scheduler};

/// All watch events of a cluster over some time, held in memory.
#[derive(Debug)]
pub struct WatchRecording {
    /// Its name.
    pub name: String,
    /// The watch events in order of arrival, without those of Event objects.
    events: Vec<WatchEvent>,
    /// The scheduler's decisions: first those found in Event objects, then the bindings.
    decisions: Vec<RecordedDecision>,
    /// The reasons why decisions are not compared, each with its count.
    not_compared: Vec<(&'static str, u64)>,
}

/// A watch event.
#[derive(Debug)]
struct WatchEvent {
    at: Moment,
    what: What,
    /// The number assigned to the object's uid.
    uid_index: usize,
    pod: Option<PodFields>,
}

/// The fields of a pod that the comparison needs.
#[derive(Debug)]
struct PodFields {
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
struct RecordedDecision {
    namespace: Arc<str>,
    name: Arc<str>,
    outcome: AttemptOutcome,
    /// Whether it is compared with ours. Decisions that are not compared still change the scheduler's state.
    is_compared: bool,
    /// When the scheduler wrote the Event, by its own clock.
    event_time: Moment,
    /// The pod's resourceVersion at the attempt: the scheduler had received the pod watch up to there.
    seen_version: Option<u64>,
    /// The pod's priority, if this was the first attempt: such pods leave the queue by priority, then in order of
    /// arrival.
    first_attempt_priority: Option<i64>,
    /// The pod's next resourceVersion: the scheduler had not received the pod watch up to there.
    unseen_version: Option<u64>,
    /// The index of the watch event that shows it: the binding, or the message and nomination in the pod's status.
    write_index: Option<usize>,
    /// The index of the watch event that nominates the node before a binding that had to wait for volumes.
    nomination_index: Option<usize>,
    /// The message of the pod's condition, where the Event's differs: an Event series keeps the text of its first
    /// decision.
    condition_message: Option<String>,
}

/// The outcome of a scheduling attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AttemptOutcome {
    /// No node is feasible, with the message.
    Unschedulable(String),
    /// The pod is bound to this node.
    Bound(String),
}
