//! The order in which surplus pods are deleted.

use std::cmp::Ordering;
use std::sync::Arc;

use kubernetes::go;
use kubernetes::objects::Phase;
use model::Moment;

use crate::pod::Pod;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod, and the number of related pods on its node, itself included.
#[derive(Clone, Debug)]
pub(crate) struct RankedPod {
    pub(crate) pod: Arc<Pod>,
    pub(crate) rank: usize,
}

/// The comparison of ages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AgeComparison {
    /// The younger pod is deleted first.
    Exact,
    /// Ages are compared by the integer part of their logarithm to base two; ties are broken by uid, which is
    /// effectively random.
    Logarithmic(Moment),
}

/// Sorts pods by deletion order with the same algorithm as Go: the comparison is not a strict weak order, so every
/// comparison matters, and the order of equal pods depends on their initial order.
pub(crate) fn sort_for_deletion(pods: &mut [RankedPod], ages: AgeComparison) {
    go::sort(pods, |a, b| compare(a, b, ages) == Ordering::Less);
}

/// Compares two pods; the lesser is deleted first: unassigned, earlier phase, not ready, lower deletion cost, higher
/// rank, ready more recently, more restarts, younger.
fn compare(a: &RankedPod, b: &RankedPod, ages: AgeComparison) -> Ordering {
    let (first, second) = (&*a.pod, &*b.pod);
    let costs = |pod: &Pod| match ages {
        AgeComparison::Exact => 0,
        AgeComparison::Logarithmic(_) => deletion_cost(pod),
    };
    let by_age = |left: Option<Moment>, right: Option<Moment>| match (left, right, ages) {
        (left, right, _) if left == right => Ordering::Equal,
        (Some(left), Some(right), AgeComparison::Exact) => right.cmp(&left),
        (Some(left), Some(right), AgeComparison::Logarithmic(now)) => {
            log2_age(left, now).cmp(&log2_age(right, now)).then_with(|| first.uid.cmp(&second.uid))
        }
        (left, right, _) => left.is_some().cmp(&right.is_some()),
    };
    (second.node_name.is_none().cmp(&first.node_name.is_none()))
        .then_with(|| phase_order(first).cmp(&phase_order(second)))
        .then_with(|| first.ready.cmp(&second.ready))
        .then_with(|| costs(first).cmp(&costs(second)))
        .then_with(|| b.rank.cmp(&a.rank))
        .then_with(|| match first.ready && second.ready {
            true => by_age(first.ready_transition, second.ready_transition),
            false => Ordering::Equal,
        })
        .then_with(|| second.max_restarts.cmp(&first.max_restarts))
        .then_with(|| second.max_sidecar_restarts.cmp(&first.max_sidecar_restarts))
        .then_with(|| by_age(first.creation_timestamp, second.creation_timestamp))
}

/// Pods in earlier phases are deleted first.
fn phase_order(pod: &Pod) -> u8 {
    match pod.status.phase {
        Phase::Pending => 0,
        Phase::Unknown => 1,
        Phase::Running => 2,
        Phase::Succeeded => 3,
        Phase::Failed => 4,
    }
}

/// The pod deletion cost. A value that is not a 32-bit integer, or has a plus sign or leading zeros, counts as zero.
fn deletion_cost(pod: &Pod) -> i32 {
    let text = pod.annotations.get(DELETION_COST).unwrap_or_default();
    let is_plain = text == "0" || !text.starts_with(['+', '0']);
    text.parse().ok().filter(|_| is_plain).unwrap_or(0)
}

/// The integer part of an age's logarithm to base two, in nanoseconds.
fn log2_age(since: Moment, now: Moment) -> i64 {
    match now.nanos_since(since) {
        ..=0 => -1,
        age => (age as f64).log2() as i64,
    }
}
