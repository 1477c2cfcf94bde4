//! Metrics of a cluster over a time, computed alike for recordings and replays.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::Moment;
use serde::Serialize;
use simulation::Requests;

/// Accumulates metrics, event by event.
#[derive(Clone, Debug)]
pub struct MetricsAccumulator {
    now: Moment,
    start: Moment,
    bound: u64,
    pending_time: Histogram,
    evictions: BTreeMap<&'static str, u64>,
    failed_attempts: u64,
    requested: Requests,
    allocatable: Requests,
    nodes: BTreeMap<Arc<str>, NodeAllocation>,
    node_count: u64,
    pending_pods: i64,
    integrals: TimeIntegrals,
    nodes_added: u64,
    nodes_removed: u64,
}

#[derive(Clone, Debug, Default)]
struct NodeAllocation {
    /// Whether the node exists. A deleted one is kept while pods are on it.
    exists: bool,
    allocatable: Requests,
    requested: Requests,
}

/// Integrals of quantities over time, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct TimeIntegrals {
    cpu_requested: f64,
    cpu_allocatable: f64,
    memory_requested: f64,
    memory_allocatable: f64,
    nodes: f64,
    pending_pods: f64,
}

/// Metrics of a cluster over a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterMetrics {
    /// Pods that were bound.
    pub pods_bound: u64,
    /// How long those pods had been pending, in seconds.
    #[serde(rename = "waited")]
    pub pending_time: PendingTimes,
    /// The number of unschedulable attempts, where known.
    #[serde(rename = "refusals")]
    pub failed_attempts: u64,
    /// Evicted pods, by kind of eviction, without those that are input.
    #[serde(rename = "lost")]
    pub evictions: BTreeMap<&'static str, u64>,
    /// The share of allocatable resources that pods requested, averaged over time.
    pub utilization: Utilization,
    /// The average number of nodes.
    pub nodes: f64,
    /// The number of nodes added.
    #[serde(rename = "nodesCame")]
    pub nodes_added: u64,
    /// The number of nodes removed.
    #[serde(rename = "nodesWent")]
    pub nodes_removed: u64,
    /// The average number of pending pods.
    #[serde(rename = "waiting")]
    pub pending_pods: f64,
    /// The distribution of pending times.
    #[serde(skip)]
    pending_histogram: Histogram,
}

/// Statistics of pending times, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct PendingTimes {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub longest: f64,
}

/// Pending times of a replay, compared with those recorded. Where many pods were pending almost equally long, a few
/// pods move quantiles far; shares of pods are robust.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PendingTimeComparison {
    /// The share of pods below the recorded median.
    pub p50: f64,
    /// The share below the recorded 90th percentile.
    pub p90: f64,
    /// The share below the recorded 99th percentile.
    pub p99: f64,
    /// The maximum difference between the two cumulative distributions.
    #[serde(rename = "apart")]
    pub max_difference: f64,
}

/// The share of allocatable resources that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Utilization {
    pub cpu: f64,
    pub memory: f64,
}

// === impl MetricsAccumulator ===

impl MetricsAccumulator {
    /// Creates an empty accumulator.
    pub fn new(start: Moment) -> MetricsAccumulator {
        MetricsAccumulator {
            now: start,
            start,
            bound: 0,
            pending_time: Histogram::default(),
            evictions: BTreeMap::new(),
            failed_attempts: 0,
            requested: Requests::default(),
            allocatable: Requests::default(),
            nodes: BTreeMap::new(),
            node_count: 0,
            pending_pods: 0,
            integrals: TimeIntegrals::default(),
            nodes_added: 0,
            nodes_removed: 0,
        }
    }

    /// Advances the time.
    pub fn advance_to(&mut self, now: Moment) {
        let seconds = now.nanos_since(self.now).max(0) as f64 / 1e9;
        self.now = self.now.max(now);
        let integrals = &mut self.integrals;
        integrals.cpu_requested += self.requested.milli_cpu as f64 * seconds;
        integrals.cpu_allocatable += self.allocatable.milli_cpu as f64 * seconds;
        integrals.memory_requested += self.requested.memory as f64 * seconds;
        integrals.memory_allocatable += self.allocatable.memory as f64 * seconds;
        integrals.nodes += self.node_count as f64 * seconds;
        integrals.pending_pods += self.pending_pods as f64 * seconds;
    }

    /// A pod was bound that was created at `created`.
    pub fn pod_bound(&mut self, at: Moment, created: Moment) {
        self.bound += 1;
        self.pending_time.add(at.nanos_since(created).max(0));
    }

    /// A pod claims resources on a node. A deleted node has none.
    pub fn claim_resources(&mut self, at: Moment, node: &str, requests: Requests) {
        self.add_requests(at, node, requests, 1);
    }

    /// A pod releases its resources.
    pub fn release_resources(&mut self, at: Moment, node: &str, requests: Requests) {
        self.add_requests(at, node, requests, -1);
    }

    fn add_requests(&mut self, at: Moment, node: &str, requests: Requests, times: i64) {
        self.advance_to(at);
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.into(), NodeAllocation::default());
        }
        let Some(allocation) = self.nodes.get_mut(node) else { return };
        allocation.requested.add_times(requests, times);
        if allocation.exists {
            self.requested.add_times(requests, times);
        } else if allocation.requested == Requests::default() {
            self.nodes.remove(node);
        }
    }

    /// Adds `delta` to the number of pending pods.
    pub fn add_pending(&mut self, at: Moment, delta: i64) {
        self.advance_to(at);
        self.pending_pods += delta;
    }

    /// A pod was unschedulable in an attempt.
    pub fn pod_unschedulable(&mut self) {
        self.failed_attempts += 1;
    }

    /// Pods were evicted.
    pub fn pods_evicted(&mut self, kind: &'static str, count: u64) {
        *self.evictions.entry(kind).or_default() += count;
    }

    /// A node was added or changed.
    pub fn set_node(&mut self, at: Moment, node: &NodeView) {
        self.advance_to(at);
        let allocatable =
            Requests { milli_cpu: node.allocatable.cpu().0, memory: node.allocatable.memory().0 };
        let allocation = self.nodes.entry(node.name.clone()).or_default();
        let is_new = !std::mem::replace(&mut allocation.exists, true);
        if is_new {
            self.node_count += 1;
            self.requested.add_times(allocation.requested, 1);
        }
        self.allocatable.add_times(allocation.allocatable, -1);
        self.allocatable.add_times(allocatable, 1);
        allocation.allocatable = allocatable;
        self.nodes_added += u64::from(is_new && at > self.start);
    }

    /// A node was removed.
    pub fn remove_node(&mut self, at: Moment, name: &str) {
        self.advance_to(at);
        let Some(allocation) = self.nodes.get_mut(name).filter(|allocation| allocation.exists) else {
            return;
        };
        self.allocatable.add_times(allocation.allocatable, -1);
        self.requested.add_times(allocation.requested, -1);
        self.node_count -= 1;
        self.nodes_removed += 1;
        if allocation.requested == Requests::default() {
            self.nodes.remove(name);
        } else {
            *allocation = NodeAllocation { requested: allocation.requested, ..NodeAllocation::default() };
        }
    }

    /// Returns the metrics.
    pub fn finish(mut self, end: Moment) -> ClusterMetrics {
        self.advance_to(end);
        let seconds = end.nanos_since(self.start).max(1) as f64 / 1e9;
        let share = |requested: f64, room: f64| if room > 0.0 { requested / room } else { 0.0 };
        ClusterMetrics {
            pods_bound: self.bound,
            pending_time: PendingTimes {
                mean: self.pending_time.mean(),
                p50: self.pending_time.quantile(0.5),
                p90: self.pending_time.quantile(0.9),
                p99: self.pending_time.quantile(0.99),
                longest: self.pending_time.longest as f64 / 1e9,
            },
            failed_attempts: self.failed_attempts,
            evictions: self.evictions,
            utilization: Utilization {
                cpu: share(self.integrals.cpu_requested, self.integrals.cpu_allocatable),
                memory: share(self.integrals.memory_requested, self.integrals.memory_allocatable),
            },
            nodes: self.integrals.nodes / seconds,
            nodes_added: self.nodes_added,
            nodes_removed: self.nodes_removed,
            pending_pods: self.integrals.pending_pods / seconds,
            pending_histogram: self.pending_time,
        }
    }
}

// === impl ClusterMetrics ===

impl ClusterMetrics {
    /// Compares pending times with those recorded.
    pub fn compare_pending_times(&self, recorded: &ClusterMetrics) -> PendingTimeComparison {
        let below = |share| self.pending_histogram.share_below(recorded.pending_histogram.bucket_at(share));
        let difference = |bucket: &i32| {
            (self.pending_histogram.share_below(*bucket) - recorded.pending_histogram.share_below(*bucket))
                .abs()
        };
        let buckets = self.pending_histogram.buckets.keys().chain(recorded.pending_histogram.buckets.keys());
        PendingTimeComparison {
            p50: below(0.5),
            p90: below(0.9),
            p99: below(0.99),
            max_difference: buckets.map(difference).fold(0.0, f64::max),
        }
    }
}

/// A histogram of durations of bounded size: buckets grow by one percent.
#[derive(Clone, Debug, Default, PartialEq)]
struct Histogram {
    buckets: BTreeMap<i32, u64>,
    count: u64,
    sum: f64,
    longest: i64,
}

const BUCKET_GROWTH: f64 = 1.01;

impl Histogram {
    fn add(&mut self, nanos: i64) {
        let bucket =
            if nanos <= 0 { i32::MIN } else { ((nanos as f64).ln() / BUCKET_GROWTH.ln()).floor() as i32 };
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
        self.sum += nanos as f64;
        self.longest = self.longest.max(nanos);
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 / 1e9 }
    }

    /// In seconds.
    fn quantile(&self, share: f64) -> f64 {
        match self.bucket_at(share) {
            i32::MIN => 0.0,
            bucket => BUCKET_GROWTH.powf(f64::from(bucket) + 0.5) / 1e9,
        }
    }

    fn bucket_at(&self, share: f64) -> i32 {
        let wanted = (self.count as f64 * share).floor() as u64;
        let mut cumulative = 0;
        let mut cumulative_counts = self.buckets.iter().map(|(bucket, count)| {
            cumulative += count;
            (*bucket, cumulative)
        });
        cumulative_counts.find(|(_, cumulative)| *cumulative > wanted).map_or(i32::MIN, |(bucket, _)| bucket)
    }

    /// The share of values in lower buckets, plus half of those in this bucket.
    fn share_below(&self, bucket: i32) -> f64 {
        let less: u64 = self.buckets.range(..bucket).map(|(_, count)| count).sum();
        let equal = self.buckets.get(&bucket).copied().unwrap_or(0);
        if self.count == 0 { 0.0 } else { (less as f64 + equal as f64 / 2.0) / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_times_are_compared_by_shares_of_pods() {
        let at = |nanos: i64| Moment::from_nanos(nanos);
        let metrics = |pending_time: &dyn Fn(i64) -> i64| {
            let mut accumulator = MetricsAccumulator::new(at(0));
            (1..=1000).for_each(|pod| accumulator.pod_bound(at(pending_time(pod)), at(0)));
            accumulator.finish(at(1_000_000_000))
        };
        let recorded = metrics(&|pod| pod * 1_000_000);
        // A tenth of the pods, of the slower half, is ten times as fast.
        let replayed = metrics(&|pod| if pod > 900 { pod * 100_000 } else { pod * 1_000_000 });
        let times = replayed.compare_pending_times(&recorded);
        let near = |a: f64, b: f64| (a - b).abs() < 0.02;
        assert!(near(times.p50, 0.6) && near(times.p90, 1.0) && near(times.p99, 1.0), "{times:?}");
        assert!(near(times.max_difference, 0.1), "{times:?}");
        let same = recorded.compare_pending_times(&recorded);
        assert!(near(same.p50, 0.5) && near(same.p90, 0.9) && same.max_difference == 0.0, "{same:?}");
    }

    #[test]
    fn pods_of_a_node_count_again_when_it_returns() {
        let at = |second: i64| Moment::from_nanos(second * 1_000_000_000);
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4","memory":"4"}}}"#;
        let node = NodeView::parse(&model::Object::parse(node).unwrap());
        let requests = Requests { milli_cpu: 2_000, memory: 2 };
        let mut accumulator = MetricsAccumulator::new(at(0));
        accumulator.set_node(at(0), &node);
        accumulator.claim_resources(at(0), "n", requests);
        accumulator.remove_node(at(10), "n");
        accumulator.set_node(at(20), &node);
        accumulator.release_resources(at(25), "n", requests);
        let metrics = accumulator.finish(at(30));
        // Half of the node for 15 of the 20 seconds that it existed.
        assert_eq!((metrics.utilization.cpu, metrics.utilization.memory), (0.375, 0.375));
        assert_eq!((metrics.nodes, metrics.nodes_added, metrics.nodes_removed), (20.0 / 30.0, 1, 1));
    }
}
