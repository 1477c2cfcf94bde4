//! Extraction of the scheduler's decisions from the watch events of a recording.

use std::sync::Arc;

use model::{Moment, What};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Decided, Did, Seen};

/// What an Event object says about a decision.
#[derive(Debug)]
pub(super) struct Note {
    pub(super) life: usize,
    pub(super) stamped: Moment,
    pub(super) looked_at: Option<u64>,
    /// The message of a failed attempt; `None` if the pod was bound.
    pub(super) refused: Option<String>,
    /// Whether the Event is a series, of which this is the last decision.
    pub(super) is_series: bool,
}

/// The longest time from a decision to its message in the pod's status. A later message is of another decision.
const SOON: i64 = 1_000_000_000;
/// More than any watch is behind the recording's.
const LATE: i64 = 200_000_000;

const OF_DAEMONS: &str = "bindings of daemon pods";
const BEING_DELETED: &str = "pods skipped because they are being deleted";
const FAILED_LATER: &str = "bindings that failed";
const BEFORE: &str = "decisions from before the film";
const UNKNOWN: &str = "decisions about pods that are not in the film";

/// Returns the decisions, those from Events first, and the counts of those that cannot be compared.
pub(super) fn decisions(seen: &[Seen], notes: Vec<Note>) -> (Vec<Decided>, Vec<(&'static str, u64)>) {
    let mut versions: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (index, _) in seen.iter().enumerate().filter(|(_, one)| one.pod.is_some()) {
        versions.entry(seen[index].life).or_default().push(index);
    }
    let start = seen.first().map_or(Moment::MIN, |first| first.at);
    let mut apart: Vec<(&'static str, u64)> =
        [OF_DAEMONS, BEING_DELETED, FAILED_LATER, BEFORE, UNKNOWN].map(|why| (why, 0)).into();
    let mut leave = |why| apart.iter_mut().filter(|one| one.0 == why).for_each(|one| one.1 += 1);

    let mut decided = Vec::new();
    let mut bound: FxHashMap<usize, (Moment, Option<u64>)> = FxHashMap::default();
    let mut told = FxHashSet::default();
    for note in notes {
        let Some(refused) = &note.refused else {
            bound.insert(note.life, (note.stamped, note.looked_at));
            continue;
        };
        // An Event is received again for other reasons than a new count of its series.
        if !told.insert((note.life, note.stamped)) {
            continue;
        }
        let Some(of_pod) = versions.get(&note.life) else {
            leave(UNKNOWN);
            continue;
        };
        if note.stamped < start {
            leave(BEFORE);
        } else if refused.starts_with("skip schedule deleting pod") {
            leave(BEING_DELETED);
        } else if is_later_failure(refused) {
            leave(FAILED_LATER);
        } else {
            let write = left_in_status(seen, of_pod, &note, refused);
            let condition = other_text(seen, of_pod, &note, refused);
            let did = Did::Refused(refused.clone());
            let one = decision(seen, of_pod, did, note.stamped, note.looked_at, write);
            decided.push(Decided { condition, ..one });
        }
    }
    let writes: FxHashSet<usize> = decided.iter().filter_map(|one| one.write).collect();
    for index in bindings(seen, &versions) {
        let (life, pod) = (seen[index].life, seen[index].pod.as_ref().expect("only pods are bound"));
        if pod.is_daemon {
            leave(OF_DAEMONS);
        }
        // Without an Event all that is known is that it was decided before it was received.
        let (stamped, looked_at) = bound.get(&life).copied().unwrap_or((seen[index].at, None));
        let did = Did::Bound(pod.node.clone());
        let promise = promise(seen, &versions[&life], index, &writes);
        let one = decision(seen, &versions[&life], did, stamped, looked_at, Some(index));
        decided.push(Decided { promise, ..one });
    }
    apart.retain(|one| one.1 > 0);
    (decided, apart)
}

/// Whether the scheduling cycle had found a node and the binding cycle failed.
fn is_later_failure(message: &str) -> bool {
    ["running Bind plugin", "running PreBind plugin", "binding rejected"]
        .iter()
        .any(|beginning| message.starts_with(beginning))
}

fn decision(
    seen: &[Seen],
    of_pod: &[usize],
    did: Did,
    stamped: Moment,
    looked_at: Option<u64>,
    write: Option<usize>,
) -> Decided {
    let first = &seen[of_pod[0]];
    let meta = first.what.object().meta();
    let is_compared = !first.pod.as_ref().is_some_and(|pod| pod.is_daemon) || matches!(did, Did::Refused(_));
    let is_first = looked_at == Some(version(seen, of_pod[0]));
    let fresh = first.pod.as_ref().filter(|_| is_first).map(|pod| pod.priority);
    let next = looked_at.and_then(|looked_at| around(seen, of_pod, looked_at)).map(|(_, next)| next);
    // The queue may keep an old version of a pod that was being scheduled when the new version arrived.
    let may_be_unseen = |index: &usize| stamped.nanos_since(seen[*index].at) < LATE;
    let not_seen = next.filter(may_be_unseen).map(|index| version(seen, index));
    Decided {
        namespace: Arc::from(&*meta.namespace),
        name: Arc::from(&*meta.name),
        did,
        is_compared,
        stamped,
        looked_at,
        fresh,
        not_seen,
        write,
        promise: None,
        condition: None,
    }
}

/// The indexes of the watch events in which pods get their node.
fn bindings(seen: &[Seen], versions: &FxHashMap<usize, Vec<usize>>) -> Vec<usize> {
    let has_node = |index: usize| seen[index].pod.as_ref().is_some_and(|pod| !pod.node.is_empty());
    let mut found: Vec<usize> = versions
        .values()
        .filter_map(|of_pod| of_pod.windows(2).find(|two| !has_node(two[0]) && has_node(two[1])))
        .map(|two| two[1])
        .filter(|index| !matches!(seen[*index].what, What::Deleted(_)))
        .collect();
    found.sort_unstable();
    found
}

/// The index of the watch event that nominates the node to which a pod with claims is bound later, unless preemption
/// nominated it. The binding waits for the volumes, and the nomination is written first.
fn promise(seen: &[Seen], of_pod: &[usize], binding: usize, of_refusals: &FxHashSet<usize>) -> Option<usize> {
    let bound = seen[binding].pod.as_ref().filter(|pod| pod.has_claims)?;
    let before = &of_pod[..of_pod.iter().position(|index| *index == binding)?];
    let nominated = |index: usize| seen[index].pod.as_ref().map(|pod| pod.nominated.as_str());
    let is_promise =
        |two: &[usize]| nominated(two[0]) != nominated(two[1]) && nominated(two[1]) == Some(&bound.node);
    let promised = before.windows(2).rev().find(|two| is_promise(two))?[1];
    (!of_refusals.contains(&promised)).then_some(promised)
}

/// The index of the pod's next version, if the decision wrote it: its status has the message, or another nominated
/// node. `None` if there was nothing to write.
fn left_in_status(seen: &[Seen], of_pod: &[usize], note: &Note, message: &str) -> Option<usize> {
    let (before, after) = around(seen, of_pod, note.looked_at?)?;
    let (before, pod) = (seen[before].pod.as_ref()?, seen[after].pod.as_ref()?);
    let is_new = before.message != pod.message || before.nominated != pod.nominated;
    (is_new && is_text_of(message, &pod.message)).then_some(after)
}

/// The message of the pod's condition soon after the last decision of a series, if it differs from the first one's.
fn other_text(seen: &[Seen], of_pod: &[usize], note: &Note, message: &str) -> Option<String> {
    let (_, after) = around(seen, of_pod, note.looked_at?)?;
    let says = &seen[after].pod.as_ref()?.message;
    let is_soon = seen[after].at.nanos_since(note.stamped) < SOON;
    (note.is_series && is_soon && !says.is_empty() && !is_text_of(message, says)).then(|| says.clone())
}

/// The indexes of the version the scheduler had and of the next one.
fn around(seen: &[Seen], of_pod: &[usize], looked_at: u64) -> Option<(usize, usize)> {
    let next = of_pod.iter().position(|index| version(seen, *index) > looked_at)?;
    Some((of_pod[next.checked_sub(1)?], of_pod[next]))
}

/// Whether the text of an Event, which may be truncated, is that of a condition.
fn is_text_of(event: &str, condition: &str) -> bool {
    event == condition || event.strip_suffix(" ...").is_some_and(|beginning| condition.starts_with(beginning))
}

fn version(seen: &[Seen], index: usize) -> u64 {
    seen[index].pod.as_ref().map_or(0, |pod| pod.version)
}
