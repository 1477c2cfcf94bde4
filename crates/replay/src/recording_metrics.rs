//! Metrics of a recording, and the number of its nodes over time.

use std::collections::HashSet;
use std::sync::Arc;

use calibration::observed::{ObservedChange, ParsedPod};
use kubernetes::objects::{NodeView, PodView};
use model::{Moment, What};
use rustc_hash::FxHashMap;
use simulation::Requests;

use crate::metrics::{ClusterMetrics, MetricsAccumulator};

/// Accumulates the metrics of a recording, change by change.
#[derive(Debug)]
pub struct RecordingMeter {
    metrics: MetricsAccumulator,
    start: Moment,
    /// Pods whose pending time and binding do not count.
    initial_pods: HashSet<Arc<str>>,
    pods: FxHashMap<Arc<str>, RecordedPodState>,
    /// The number of nodes of each class over time.
    pub node_counts: NodeCountCurve,
}

/// The number of nodes of each class over time, as a list of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeCountCurve(pub Vec<NodeCountStep>);

/// A node was added or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCountStep {
    /// When.
    pub at: Moment,
    /// Its class.
    pub class: Arc<str>,
    /// Its name.
    pub node: Arc<str>,
    /// 1 if it was added, -1 if it was removed.
    pub delta: i64,
}

/// A cursor over a curve that returns the sizes of classes.
#[derive(Debug)]
pub(crate) struct ClassSizes<'a> {
    remaining: &'a [NodeCountStep],
    sizes: FxHashMap<&'a str, i64>,
}

#[derive(Debug)]
struct RecordedPodState {
    created: Moment,
    requests: Requests,
    node: Option<Arc<str>>,
    is_pending: bool,
    /// Whether it has, or had, a node.
    was_bound: bool,
}

impl RecordingMeter {
    /// Creates an accumulator without changes.
    pub fn new(start: Moment) -> RecordingMeter {
        RecordingMeter {
            metrics: MetricsAccumulator::new(start),
            start,
            initial_pods: HashSet::new(),
            pods: FxHashMap::default(),
            node_counts: NodeCountCurve::default(),
        }
    }

    /// The same without the pending times and bindings of pods that a live replay creates at its beginning.
    pub fn without_initial_pods(mut self, initial_pods: HashSet<Arc<str>>) -> RecordingMeter {
        self.initial_pods = initial_pods;
        self
    }

    /// Takes a change.
    pub(crate) fn observe(
        &mut self,
        at: Moment,
        change: &ObservedChange,
        class_of: &dyn Fn(&NodeView) -> Option<Arc<str>>,
    ) {
        let ObservedChange { key, what, pod, node, .. } = change;
        if let Some(pod) = pod {
            self.observe_pod(at, what, pod);
            return;
        }
        let Some(node) = node else { return };
        match what {
            What::Deleted(_) => {
                self.metrics.remove_node(at, &key.name);
                if let Some(class) = class_of(node) {
                    self.node_counts.push(at, class, key.name.clone(), -1);
                }
            }
            What::Added(_) => {
                self.metrics.set_node(at, node);
                if let Some(class) = class_of(node) {
                    self.node_counts.push(at, class, key.name.clone(), 1);
                }
            }
            What::Modified(_) => self.metrics.set_node(at, node),
        }
    }

    fn observe_pod(&mut self, at: Moment, what: &What, parsed: &ParsedPod) {
        if let What::Deleted(_) = what {
            if let Some(pod) = self.pods.remove(&parsed.uid) {
                if let Some(node) = &pod.node {
                    self.metrics.release_resources(at, node, pod.requests);
                }
                if pod.is_pending {
                    self.metrics.add_pending(at, -1);
                }
            }
            return;
        }
        let counts = !self.initial_pods.contains(&parsed.uid);
        let is_initial = at <= self.start;
        let is_new = !self.pods.contains_key(&parsed.uid);
        let pod = self.pods.entry(parsed.uid.clone()).or_insert_with(|| RecordedPodState {
            created: if is_initial { parsed.created.map_or(at, |created| created.min(at)) } else { at },
            requests: Requests::of(&PodView::parse(what.object())),
            node: None,
            is_pending: false,
            was_bound: false,
        });
        if is_new && parsed.node.is_none() && !parsed.is_scheduled && counts {
            pod.is_pending = true;
            self.metrics.add_pending(at, 1);
        }
        if (parsed.node.is_some() || parsed.is_scheduled) && !std::mem::replace(&mut pod.was_bound, true) {
            if let Some(node) = parsed.node.as_ref().filter(|_| !parsed.is_finished()) {
                self.metrics.claim_resources(at, node, pod.requests);
                pod.node = Some(node.clone());
            }
            if !is_initial && counts {
                self.metrics.pod_bound(at, pod.created);
            }
            if std::mem::take(&mut pod.is_pending) {
                self.metrics.add_pending(at, -1);
            }
        }
        if parsed.is_finished()
            && let Some(node) = pod.node.take()
        {
            self.metrics.release_resources(at, &node, pod.requests);
        }
    }

    /// Recorded pods were evicted.
    pub fn pods_evicted(&mut self, kind: &'static str, count: u64) {
        self.metrics.pods_evicted(kind, count);
    }

    /// Returns the metrics and the node counts.
    pub fn finish(self, end: Moment) -> (ClusterMetrics, NodeCountCurve) {
        (self.metrics.finish(end), self.node_counts)
    }
}

// === impl NodeCountCurve ===

impl NodeCountCurve {
    pub(crate) fn push(&mut self, at: Moment, class: Arc<str>, node: impl Into<Arc<str>>, delta: i64) {
        self.0.push(NodeCountStep { at, class, node: node.into(), delta });
    }

    pub(crate) fn class_sizes(&self) -> ClassSizes<'_> {
        ClassSizes { remaining: &self.0, sizes: FxHashMap::default() }
    }

    /// Returns the area between two curves, and that under the first, in node seconds.
    pub fn area_between(&self, other: &NodeCountCurve, from: Moment, to: Moment) -> (f64, f64) {
        let mut steps: Vec<(Moment, i64, i64)> = self.0.iter().map(|step| (step.at, step.delta, 0)).collect();
        steps.extend(other.0.iter().map(|step| (step.at, 0, step.delta)));
        steps.sort_by_key(|(at, ..)| *at);
        let (mut difference, mut area, mut now) = (0.0, 0.0, from);
        let (mut ours, mut theirs) = (0_i64, 0_i64);
        for (at, delta, other_delta) in steps.into_iter().chain([(to, 0, 0)]) {
            let at = at.min(to).max(from);
            let seconds = at.nanos_since(now) as f64 / 1e9;
            difference += ours.abs_diff(theirs) as f64 * seconds;
            area += ours as f64 * seconds;
            (ours, theirs, now) = (ours + delta, theirs + other_delta, at);
        }
        (difference, area)
    }
}

// === impl ClassSizes ===

impl ClassSizes<'_> {
    /// Returns the number of nodes of a class at a moment, which must not be before that of the previous call.
    pub(crate) fn at(&mut self, at: Moment, class: &str) -> i64 {
        let passed = self.remaining.partition_point(|step| step.at <= at);
        let (passed, ahead) = self.remaining.split_at(passed);
        for NodeCountStep { class, delta, .. } in passed {
            *self.sizes.entry(class).or_default() += delta;
        }
        self.remaining = ahead;
        self.sizes.get(class).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_a_curve() {
        let mut curve = NodeCountCurve::default();
        for (second, class, delta) in [(0, "a", 1), (0, "b", 1), (5, "a", 1), (9, "a", -1)] {
            curve.push(Moment::from_nanos(second), class.into(), "n", delta);
        }
        let mut sizes = curve.class_sizes();
        let mut size = |second, class| sizes.at(Moment::from_nanos(second), class);
        let observed_sizes =
            [size(0, "a"), size(0, "b"), size(4, "a"), size(5, "a"), size(9, "a"), size(9, "c")];
        assert_eq!(observed_sizes, [1, 1, 1, 2, 1, 0]);
    }
}
