//! What a recording came to, in figures.

use std::sync::Arc;

use calibration::seen::{PodSeen, Seen};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::Requests;

use crate::figures::{Figures, Ledger};

/// Follows a recording change by change.
#[derive(Debug)]
pub struct Recorded {
    ledger: Ledger,
    start: Moment,
    pods: FxHashMap<Arc<str>, PodState>,
    /// When nodes of each class came and went.
    pub curve: Curve,
}

/// How many nodes of each class there were, change by change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve(pub Vec<Step>);

/// A node came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Moment,
    /// What it is like.
    pub class: Arc<str>,
    /// Its name.
    pub node: Arc<str>,
    /// One more, or one fewer.
    pub by: i64,
}

/// The sizes of classes along a curve, as time goes on.
#[derive(Debug)]
pub(crate) struct Sizes<'a> {
    ahead: &'a [Step],
    sizes: FxHashMap<&'a str, i64>,
}

#[derive(Debug)]
struct PodState {
    came: Moment,
    takes: Requests,
    node: Option<Arc<str>>,
    waits: bool,
    /// It has, or had, a node.
    bound: bool,
}

impl Recorded {
    /// Before anything happened.
    pub fn new(start: Moment) -> Recorded {
        Recorded { ledger: Ledger::new(start), start, pods: FxHashMap::default(), curve: Curve::default() }
    }

    /// An object is there, changed or went.
    pub(crate) fn see(&mut self, at: Moment, seen: &Seen, class_of: &dyn Fn(&Object) -> Option<Arc<str>>) {
        let Seen { key, what, pod } = seen;
        if let Some(pod) = pod {
            self.pod(at, what, pod);
            return;
        }
        match (&*key.kind.kind, what) {
            ("Node", What::Deleted(node)) => {
                self.ledger.node_went(at, &key.name);
                if let Some(class) = class_of(node) {
                    self.curve.push(at, class, &key.name, -1);
                }
            }
            ("Node", What::Added(node)) => {
                self.ledger.node(at, node);
                if let Some(class) = class_of(node) {
                    self.curve.push(at, class, &key.name, 1);
                }
            }
            ("Node", What::Modified(node)) => self.ledger.node(at, node),
            _ => {}
        }
    }

    fn pod(&mut self, at: Moment, what: &What, seen: &PodSeen) {
        if let What::Deleted(_) = what {
            if let Some(pod) = self.pods.remove(&seen.uid) {
                if let Some(node) = &pod.node {
                    self.ledger.rises(at, node, pod.takes);
                }
                if pod.waits {
                    self.ledger.waits(at, -1);
                }
            }
            return;
        }
        let was_there = at <= self.start;
        let is_new = !self.pods.contains_key(&seen.uid);
        let pod = self.pods.entry(seen.uid.clone()).or_insert_with(|| PodState {
            came: if was_there { seen.created.map_or(at, |created| created.min(at)) } else { at },
            takes: Requests::of(what.object()),
            node: None,
            waits: false,
            bound: false,
        });
        if is_new && seen.node.is_none() && !seen.is_scheduled {
            pod.waits = true;
            self.ledger.waits(at, 1);
        }
        if (seen.node.is_some() || seen.is_scheduled) && !std::mem::replace(&mut pod.bound, true) {
            if let Some(node) = seen.node.as_ref().filter(|_| !seen.is_finished()) {
                self.ledger.sits(at, node, pod.takes);
                pod.node = Some(node.clone());
            }
            if !was_there {
                self.ledger.bound(at, pod.came);
            }
            if std::mem::take(&mut pod.waits) {
                self.ledger.waits(at, -1);
            }
        }
        if seen.is_finished()
            && let Some(node) = pod.node.take()
        {
            self.ledger.rises(at, &node, pod.takes);
        }
    }

    /// So many recorded pods lost their place.
    pub fn lost(&mut self, why: &'static str, count: u64) {
        self.ledger.lost(why, count);
    }

    /// The sum.
    pub fn finish(self, end: Moment) -> (Figures, Curve) {
        (self.ledger.finish(end), self.curve)
    }
}

// === impl Curve ===

impl Curve {
    pub(crate) fn push(&mut self, at: Moment, class: Arc<str>, node: &str, by: i64) {
        self.0.push(Step { at, class, node: node.into(), by });
    }

    pub(crate) fn sizes(&self) -> Sizes<'_> {
        Sizes { ahead: &self.0, sizes: FxHashMap::default() }
    }

    /// The area between two curves of the number of nodes, and that under the first, in seconds times nodes.
    pub fn apart(&self, other: &Curve, from: Moment, to: Moment) -> (f64, f64) {
        let mut steps: Vec<(Moment, i64, i64)> = self.0.iter().map(|step| (step.at, step.by, 0)).collect();
        steps.extend(other.0.iter().map(|step| (step.at, 0, step.by)));
        steps.sort_by_key(|(at, ..)| *at);
        let (mut apart, mut under, mut now) = (0.0, 0.0, from);
        let (mut ours, mut theirs) = (0_i64, 0_i64);
        for (at, by, by_other) in steps.into_iter().chain([(to, 0, 0)]) {
            let at = at.min(to).max(from);
            let seconds = at.nanos_since(now) as f64 / 1e9;
            apart += ours.abs_diff(theirs) as f64 * seconds;
            under += ours as f64 * seconds;
            (ours, theirs, now) = (ours + by, theirs + by_other, at);
        }
        (apart, under)
    }
}

// === impl Sizes ===

impl Sizes<'_> {
    /// How many nodes of a class there are at a moment, which is not before the last one that was asked for.
    pub(crate) fn at(&mut self, at: Moment, class: &str) -> i64 {
        let passed = self.ahead.partition_point(|step| step.at <= at);
        let (passed, ahead) = self.ahead.split_at(passed);
        for Step { class, by, .. } in passed {
            *self.sizes.entry(class).or_default() += by;
        }
        self.ahead = ahead;
        self.sizes.get(class).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_a_curve() {
        let mut curve = Curve::default();
        for (second, class, by) in [(0, "a", 1), (0, "b", 1), (5, "a", 1), (9, "a", -1)] {
            curve.push(Moment::from_nanos(second), class.into(), "n", by);
        }
        let mut sizes = curve.sizes();
        let mut size = |second, class| sizes.at(Moment::from_nanos(second), class);
        let seen = [size(0, "a"), size(0, "b"), size(4, "a"), size(5, "a"), size(9, "a"), size(9, "c")];
        assert_eq!(seen, [1, 1, 1, 2, 1, 0]);
    }
}
