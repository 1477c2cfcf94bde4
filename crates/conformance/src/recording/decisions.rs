//! Extraction of the scheduler's decisions from the watch events of a recording.

use std::sync::Arc;

use model::{Moment, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{AttemptOutcome, RecordedDecision, WatchEvent};

/// A scheduler decision as an Event object reports it.
#[derive(Debug)]
pub(super) struct SchedulerEvent {
    pub(super) uid_index: usize,
    pub(super) event_time: Moment,
    pub(super) seen_version: Option<u64>,
    /// The message of a failed attempt; `None` if the pod was bound.
    pub(super) failure_message: Option<String>,
    /// Whether the Event is a series, of which this is the last decision.
    pub(super) is_series: bool,
}

/// The longest time from a decision to its message in the pod's status. A later message is of another decision.
const STATUS_DELAY: i64 = 1_000_000_000;
/// More than any watch is behind the recording's.
const MAX_WATCH_LAG: i64 = 200_000_000;

const DAEMON_BINDINGS: &str = "bindings of daemon pods";
const BEING_DELETED: &str = "pods skipped because they are being deleted";
const FAILED_BINDINGS: &str = "bindings that failed";
const BEFORE_RECORDING: &str = "decisions before the recording";
const UNKNOWN_PODS: &str = "decisions about pods that are not in the recording";

/// Returns the decisions, those from Events first, and the counts of those that cannot be compared.
pub(super) fn find_decisions(
    events: &[WatchEvent],
    scheduler_events: Vec<SchedulerEvent>,
) -> (Vec<RecordedDecision>, Vec<(&'static str, u64)>) {
    let mut versions: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (index, _) in events.iter().enumerate().filter(|(_, one)| one.pod.is_some()) {
        versions.entry(events[index].uid_index).or_default().push(index);
    }
    let start = events.first().map_or(Moment::MIN, |first| first.at);
    let mut not_compared: Vec<(&'static str, u64)> =
        [DAEMON_BINDINGS, BEING_DELETED, FAILED_BINDINGS, BEFORE_RECORDING, UNKNOWN_PODS]
            .map(|why| (why, 0))
            .into();
    let mut count_not_compared =
        |why| not_compared.iter_mut().filter(|one| one.0 == why).for_each(|one| one.1 += 1);

    let mut decisions = Vec::new();
    let mut bound: FxHashMap<usize, (Moment, Option<u64>)> = FxHashMap::default();
    let mut reported = FxHashSet::default();
    for event in scheduler_events {
        let Some(message) = &event.failure_message else {
            bound.insert(event.uid_index, (event.event_time, event.seen_version));
            continue;
        };
        // An Event is received again for other reasons than a new count of its series.
        if !reported.insert((event.uid_index, event.event_time)) {
            continue;
        }
        let Some(of_pod) = versions.get(&event.uid_index) else {
            count_not_compared(UNKNOWN_PODS);
            continue;
        };
        if event.event_time < start {
            count_not_compared(BEFORE_RECORDING);
        } else if message.starts_with("skip schedule deleting pod") {
            count_not_compared(BEING_DELETED);
        } else if is_binding_failure(message) {
            count_not_compared(FAILED_BINDINGS);
        } else {
            let write = find_status_write(events, of_pod, &event, message);
            let condition = differing_condition(events, of_pod, &event, message);
            let outcome = AttemptOutcome::Unschedulable(message.clone());
            let one = recorded_decision(events, of_pod, outcome, event.event_time, event.seen_version, write);
            decisions.push(RecordedDecision { condition_message: condition, ..one });
        }
    }
    let writes: FxHashSet<usize> = decisions.iter().filter_map(|one| one.write_index).collect();
    for index in find_bindings(events, &versions) {
        let (uid_index, pod) =
            (events[index].uid_index, events[index].pod.as_ref().expect("only pods are bound"));
        if pod.is_daemon {
            count_not_compared(DAEMON_BINDINGS);
        }
        // Without an Event it is only known that the decision was taken before the binding was received.
        let (event_time, seen_version) = bound.get(&uid_index).copied().unwrap_or((events[index].at, None));
        let outcome = AttemptOutcome::Bound(pod.node.clone());
        let nomination = find_nomination(events, &versions[&uid_index], index, &writes);
        let one =
            recorded_decision(events, &versions[&uid_index], outcome, event_time, seen_version, Some(index));
        decisions.push(RecordedDecision { nomination_index: nomination, ..one });
    }
    not_compared.retain(|one| one.1 > 0);
    (decisions, not_compared)
}

/// Whether the scheduling cycle had found a node and the binding cycle failed.
fn is_binding_failure(message: &str) -> bool {
    ["running Bind plugin", "running PreBind plugin", "binding rejected"]
        .iter()
        .any(|beginning| message.starts_with(beginning))
}

fn recorded_decision(
    events: &[WatchEvent],
    of_pod: &[usize],
    outcome: AttemptOutcome,
    event_time: Moment,
    seen_version: Option<u64>,
    write: Option<usize>,
) -> RecordedDecision {
    let first = &events[of_pod[0]];
    let meta = first.what.object().meta();
    let is_compared = !first.pod.as_ref().is_some_and(|pod| pod.is_daemon)
        || matches!(outcome, AttemptOutcome::Unschedulable(_));
    let is_first = seen_version == Some(version(events, of_pod[0]));
    let first_attempt_priority = first.pod.as_ref().filter(|_| is_first).map(|pod| pod.priority);
    let next = seen_version
        .and_then(|seen_version| version_pair(events, of_pod, seen_version))
        .map(|(_, next)| next);
    // The queue may keep an old version of a pod that was being scheduled when the new version arrived.
    let may_be_unseen = |index: &usize| event_time.nanos_since(events[*index].at) < MAX_WATCH_LAG;
    let unseen_version = next.filter(may_be_unseen).map(|index| version(events, index));
    RecordedDecision {
        namespace: Arc::from(&*meta.namespace),
        name: Arc::from(&*meta.name),
        outcome,
        is_compared,
        event_time,
        seen_version,
        first_attempt_priority,
        unseen_version,
        write_index: write,
        nomination_index: None,
        condition_message: None,
    }
}

/// The indexes of the watch events in which pods get their node.
fn find_bindings(events: &[WatchEvent], versions: &FxHashMap<usize, Vec<usize>>) -> Vec<usize> {
    let has_node = |index: usize| events[index].pod.as_ref().is_some_and(|pod| !pod.node.is_empty());
    let mut found: Vec<usize> = versions
        .values()
        .filter_map(|of_pod| of_pod.windows(2).find(|two| !has_node(two[0]) && has_node(two[1])))
        .map(|two| two[1])
        .filter(|index| !matches!(events[*index].what, What::Deleted(_)))
        .collect();
    found.sort_unstable();
    found
}

/// The index of the watch event that nominates the node to which a pod with claims is bound later, unless preemption
/// nominated it. The binding waits for the volumes, and the nomination is written first.
fn find_nomination(
    events: &[WatchEvent],
    of_pod: &[usize],
    binding: usize,
    status_writes: &FxHashSet<usize>,
) -> Option<usize> {
    let bound = events[binding].pod.as_ref().filter(|pod| pod.has_claims)?;
    let before = &of_pod[..of_pod.iter().position(|index| *index == binding)?];
    let nominated = |index: usize| events[index].pod.as_ref().map(|pod| pod.nominated.as_str());
    let is_nomination =
        |two: &[usize]| nominated(two[0]) != nominated(two[1]) && nominated(two[1]) == Some(&bound.node);
    let nominated_index = before.windows(2).rev().find(|two| is_nomination(two))?[1];
    (!status_writes.contains(&nominated_index)).then_some(nominated_index)
}

/// The index of the pod's next version, if the decision wrote it: its status has the message, or another nominated
/// node. `None` if there was nothing to write.
fn find_status_write(
    events: &[WatchEvent],
    of_pod: &[usize],
    event: &SchedulerEvent,
    message: &str,
) -> Option<usize> {
    let (before, after) = version_pair(events, of_pod, event.seen_version?)?;
    let (before, pod) = (events[before].pod.as_ref()?, events[after].pod.as_ref()?);
    let is_new = before.message != pod.message || before.nominated != pod.nominated;
    (is_new && is_same_text(message, &pod.message)).then_some(after)
}

/// The message of the pod's condition soon after the last decision of a series, if it differs from the first one's.
fn differing_condition(
    events: &[WatchEvent],
    of_pod: &[usize],
    event: &SchedulerEvent,
    message: &str,
) -> Option<String> {
    let (_, after) = version_pair(events, of_pod, event.seen_version?)?;
    let condition = &events[after].pod.as_ref()?.message;
    let is_soon = events[after].at.nanos_since(event.event_time) < STATUS_DELAY;
    (event.is_series && is_soon && !condition.is_empty() && !is_same_text(message, condition))
        .then(|| condition.clone())
}

/// The indexes of the version the scheduler had and of the next one.
fn version_pair(events: &[WatchEvent], of_pod: &[usize], seen_version: u64) -> Option<(usize, usize)> {
    let next = of_pod.iter().position(|index| version(events, *index) > seen_version)?;
    Some((of_pod[next.checked_sub(1)?], of_pod[next]))
}

/// Whether the text of an Event, which may be truncated, is that of a condition.
fn is_same_text(event: &str, condition: &str) -> bool {
    event == condition || event.strip_suffix(" ...").is_some_and(|beginning| condition.starts_with(beginning))
}

fn version(events: &[WatchEvent], index: usize) -> u64 {
    events[index].pod.as_ref().map_or(0, |pod| pod.version)
}
