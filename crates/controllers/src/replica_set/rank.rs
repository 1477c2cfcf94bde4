//! Which pod goes first when there are too many.

use std::cmp::Ordering;
use std::sync::Arc;

use kubernetes::go;
use model::Moment;

use crate::pod::Pod;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// A pod, and how many related pods are on its node, itself included.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub(crate) pod: Arc<Pod>,
    pub(crate) neighbours: usize,
}

/// How ages are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ages {
    /// The younger goes first.
    Exact,
    /// Only the power of two counts that an age reaches; where that is the same, uids decide, which is as good as chance.
    Magnitude(Moment),
}

/// Puts those that go first before the others, as the original does step by step: its rule is no order, so every comparison
/// counts. Which of equals comes first depends on where they were.
pub(crate) fn sort(pods: &mut [Ranked], ages: Ages) {
    go::sort(pods, |a, b| compare(a, b, ages) == Ordering::Less);
}

/// Which of two pods goes first: one without a node, one that is less far, one that is not ready, one that costs less, one
/// that has more neighbours, one that became ready later, one that was started again more often, one that is younger.
fn compare(a: &Ranked, b: &Ranked, ages: Ages) -> Ordering {
    let (first, second) = (&*a.pod, &*b.pod);
    let costs = |pod: &Pod| match ages {
        Ages::Exact => 0,
        Ages::Magnitude(_) => cost(pod),
    };
    let by_age = |one: Option<Moment>, other: Option<Moment>| match (one, other, ages) {
        (one, other, _) if one == other => Ordering::Equal,
        (Some(one), Some(other), Ages::Exact) => other.cmp(&one),
        (Some(one), Some(other), Ages::Magnitude(now)) => {
            magnitude(one, now).cmp(&magnitude(other, now)).then_with(|| first.uid.cmp(&second.uid))
        }
        (one, other, _) => one.is_some().cmp(&other.is_some()),
    };
    (second.node.is_none().cmp(&first.node.is_none()))
        .then_with(|| first.phase.cmp(&second.phase))
        .then_with(|| first.ready.cmp(&second.ready))
        .then_with(|| costs(first).cmp(&costs(second)))
        .then_with(|| b.neighbours.cmp(&a.neighbours))
        .then_with(|| match first.ready && second.ready {
            true => by_age(first.ready_changed, second.ready_changed),
            false => Ordering::Equal,
        })
        .then_with(|| second.restarts.cmp(&first.restarts))
        .then_with(|| second.sidecar_restarts.cmp(&first.sidecar_restarts))
        .then_with(|| by_age(first.meta.creation_timestamp, second.meta.creation_timestamp))
}

/// What a pod says that its deletion costs. What is no 32-bit number counts for nothing, as does one with a plus or zeros
/// before it.
fn cost(pod: &Pod) -> i32 {
    let text = pod.meta.annotations.get(DELETION_COST).unwrap_or_default();
    let is_plain = text == "0" || !text.starts_with(['+', '0']);
    text.parse().ok().filter(|_| is_plain).unwrap_or(0)
}

/// The power of two that an age in nanoseconds reaches.
fn magnitude(since: Moment, now: Moment) -> i64 {
    match now.nanos_since(since) {
        ..=0 => -1,
        age => (age as f64).log2() as i64,
    }
}
