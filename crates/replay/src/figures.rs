//! What a cluster's time came to, in figures: recorded and replayed are counted alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use model::{Moment, Object};
use serde::{Deserialize, Serialize};
use simulation::Requests;

/// What happened, counted as it happens.
#[derive(Clone, Debug)]
pub struct Ledger {
    now: Moment,
    start: Moment,
    bound: u64,
    waited: Quantiles,
    lost: BTreeMap<&'static str, u64>,
    refused: u64,
    taken: Requests,
    room: Requests,
    nodes: BTreeMap<Arc<str>, NodeRoom>,
    nodes_there: u64,
    waiting: i64,
    area: Area,
    nodes_came: u64,
    nodes_went: u64,
}

#[derive(Clone, Debug, Default)]
struct NodeRoom {
    /// It is kept in mind while pods are on it, though it may be gone.
    is_there: bool,
    room: Requests,
    taken: Requests,
}

/// Levels, each times the seconds it lasted.
#[derive(Clone, Copy, Debug, Default)]
struct Area {
    cpu_taken: f64,
    cpu_room: f64,
    memory_taken: f64,
    memory_room: f64,
    nodes: f64,
    waiting: f64,
}

/// What a cluster's time came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Figures {
    /// Pods that were bound.
    pub pods_bound: u64,
    /// How long those had waited, in seconds.
    pub waited: Waited,
    /// How often a pod was refused, where that is known.
    pub refusals: u64,
    /// Pods that lost their place, by why.
    pub lost: BTreeMap<&'static str, u64>,
    /// The share of the nodes' room that pods asked for, over the time.
    pub utilization: Utilization,
    /// Nodes on average.
    pub nodes: f64,
    /// Nodes that came, and that went.
    pub nodes_came: u64,
    /// See there.
    pub nodes_went: u64,
    /// Pods that waited, on average.
    pub waiting: f64,
    /// How long each had waited.
    #[serde(skip)]
    waits: Quantiles,
}

/// How long pods had waited, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Waited {
    pub mean: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub longest: f64,
}

/// How long pods waited in a replay, held against how long they had waited. Where many waited almost as long, quantiles
/// are far apart for a few pods; shares of pods are not.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// The share that waited less than half of those recorded.
    pub p50: f64,
    /// The same of nine tenths.
    pub p90: f64,
    /// The same of ninety-nine hundredths.
    pub p99: f64,
    /// By how much the shares of those who waited less than any given time differ at the most.
    pub apart: f64,
}

/// The share of the room that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Utilization {
    pub cpu: f64,
    pub memory: f64,
}

#[derive(Default, Deserialize)]
struct NodeJson {
    #[serde(default)]
    status: NodeStatusJson,
}

#[derive(Default, Deserialize)]
struct NodeStatusJson {
    #[serde(default)]
    allocatable: BTreeMap<String, serde_json::Value>,
}

// === impl Ledger ===

impl Ledger {
    /// Nothing has happened yet.
    pub fn new(start: Moment) -> Ledger {
        Ledger {
            now: start,
            start,
            bound: 0,
            waited: Quantiles::default(),
            lost: BTreeMap::new(),
            refused: 0,
            taken: Requests::default(),
            room: Requests::default(),
            nodes: BTreeMap::new(),
            nodes_there: 0,
            waiting: 0,
            area: Area::default(),
            nodes_came: 0,
            nodes_went: 0,
        }
    }

    /// Time passes.
    pub fn pass(&mut self, now: Moment) {
        let seconds = now.nanos_since(self.now).max(0) as f64 / 1e9;
        self.now = self.now.max(now);
        let area = &mut self.area;
        area.cpu_taken += self.taken.milli_cpu as f64 * seconds;
        area.cpu_room += self.room.milli_cpu as f64 * seconds;
        area.memory_taken += self.taken.memory as f64 * seconds;
        area.memory_room += self.room.memory as f64 * seconds;
        area.nodes += self.nodes_there as f64 * seconds;
        area.waiting += self.waiting as f64 * seconds;
    }

    /// A pod was bound that had come then.
    pub fn bound(&mut self, at: Moment, came: Moment) {
        self.bound += 1;
        self.waited.add(at.nanos_since(came).max(0));
    }

    /// A pod takes room on a node. On one that is gone there is none to take.
    pub fn sits(&mut self, at: Moment, node: &str, takes: Requests) {
        self.take(at, node, takes, 1);
    }

    /// It takes it no more.
    pub fn rises(&mut self, at: Moment, node: &str, takes: Requests) {
        self.take(at, node, takes, -1);
    }

    fn take(&mut self, at: Moment, node: &str, takes: Requests, times: i64) {
        self.pass(at);
        if !self.nodes.contains_key(node) {
            self.nodes.insert(node.into(), NodeRoom::default());
        }
        let Some(known) = self.nodes.get_mut(node) else { return };
        known.taken.add(takes, times);
        if known.is_there {
            self.taken.add(takes, times);
        } else if known.taken == Requests::default() {
            self.nodes.remove(node);
        }
    }

    /// One more pod waits, or one less.
    pub fn waits(&mut self, at: Moment, more: i64) {
        self.pass(at);
        self.waiting += more;
    }

    /// A pod was refused.
    pub fn refused(&mut self) {
        self.refused += 1;
    }

    /// So many pods lost their place.
    pub fn lost(&mut self, why: &'static str, count: u64) {
        *self.lost.entry(why).or_default() += count;
    }

    /// A node is there, or otherwise.
    pub fn node(&mut self, at: Moment, node: &Object) {
        self.pass(at);
        let name: Arc<str> = (*node.meta().name).into();
        let room = room_of(node);
        let known = self.nodes.entry(name).or_default();
        let is_new = !std::mem::replace(&mut known.is_there, true);
        if is_new {
            self.nodes_there += 1;
            self.taken.add(known.taken, 1);
        }
        self.room.add(known.room, -1);
        self.room.add(room, 1);
        known.room = room;
        self.nodes_came += u64::from(is_new && at > self.start);
    }

    /// A node is gone.
    pub fn node_went(&mut self, at: Moment, name: &str) {
        self.pass(at);
        let Some(known) = self.nodes.get_mut(name).filter(|known| known.is_there) else { return };
        self.room.add(known.room, -1);
        self.taken.add(known.taken, -1);
        self.nodes_there -= 1;
        self.nodes_went += 1;
        if known.taken == Requests::default() {
            self.nodes.remove(name);
        } else {
            *known = NodeRoom { taken: known.taken, ..NodeRoom::default() };
        }
    }

    /// The sum.
    pub fn finish(mut self, end: Moment) -> Figures {
        self.pass(end);
        let seconds = end.nanos_since(self.start).max(1) as f64 / 1e9;
        let share = |taken: f64, room: f64| if room > 0.0 { taken / room } else { 0.0 };
        Figures {
            pods_bound: self.bound,
            waited: Waited {
                mean: self.waited.mean(),
                p50: self.waited.at(0.5),
                p90: self.waited.at(0.9),
                p99: self.waited.at(0.99),
                longest: self.waited.longest as f64 / 1e9,
            },
            refusals: self.refused,
            lost: self.lost,
            utilization: Utilization {
                cpu: share(self.area.cpu_taken, self.area.cpu_room),
                memory: share(self.area.memory_taken, self.area.memory_room),
            },
            nodes: self.area.nodes / seconds,
            nodes_came: self.nodes_came,
            nodes_went: self.nodes_went,
            waiting: self.area.waiting / seconds,
            waits: self.waited,
        }
    }
}

// === impl Figures ===

impl Figures {
    /// How long pods waited, held against what was recorded.
    pub fn waits_beside(&self, recorded: &Figures) -> Waits {
        let below = |share| self.waits.below(recorded.waits.bucket_at(share));
        let apart = |bucket: &i32| (self.waits.below(*bucket) - recorded.waits.below(*bucket)).abs();
        let buckets = self.waits.buckets.keys().chain(recorded.waits.buckets.keys());
        Waits {
            p50: below(0.5),
            p90: below(0.9),
            p99: below(0.99),
            apart: buckets.map(apart).fold(0.0, f64::max),
        }
    }
}

fn room_of(node: &Object) -> Requests {
    let allocatable = node.view::<NodeJson>().unwrap_or_default().status.allocatable;
    let of = |name: &str| {
        let text = match allocatable.get(name)? {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Quantity::parse(&text).ok()
    };
    Requests {
        milli_cpu: of("cpu").map_or(0, |cpu| cpu.milli_value()),
        memory: of("memory").map_or(0, |memory| memory.value()),
    }
}

/// How long things took, to a hundredth, in bounded room: buckets that grow by a hundredth.
#[derive(Clone, Debug, Default, PartialEq)]
struct Quantiles {
    buckets: BTreeMap<i32, u64>,
    count: u64,
    sum: f64,
    longest: i64,
}

const STEP: f64 = 1.01;

impl Quantiles {
    fn add(&mut self, nanos: i64) {
        let bucket = if nanos <= 0 { i32::MIN } else { ((nanos as f64).ln() / STEP.ln()).floor() as i32 };
        *self.buckets.entry(bucket).or_default() += 1;
        self.count += 1;
        self.sum += nanos as f64;
        self.longest = self.longest.max(nanos);
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 / 1e9 }
    }

    /// In seconds.
    fn at(&self, share: f64) -> f64 {
        match self.bucket_at(share) {
            i32::MIN => 0.0,
            bucket => STEP.powf(f64::from(bucket) + 0.5) / 1e9,
        }
    }

    fn bucket_at(&self, share: f64) -> i32 {
        let wanted = (self.count as f64 * share).floor() as u64;
        let mut seen = 0;
        let mut counted = self.buckets.iter().map(|(bucket, count)| {
            seen += count;
            (*bucket, seen)
        });
        counted.find(|(_, seen)| *seen > wanted).map_or(i32::MIN, |(bucket, _)| bucket)
    }

    /// The share that took less, and half of those that took as long as the bucket says.
    fn below(&self, bucket: i32) -> f64 {
        let less: u64 = self.buckets.range(..bucket).map(|(_, count)| count).sum();
        let equal = self.buckets.get(&bucket).copied().unwrap_or(0);
        if self.count == 0 { 0.0 } else { (less as f64 + equal as f64 / 2.0) / self.count as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_held_against_each_other_by_shares_of_pods() {
        let at = |nanos: i64| Moment::from_nanos(nanos);
        let figures = |waits: &dyn Fn(i64) -> i64| {
            let mut ledger = Ledger::new(at(0));
            (1..=1000).for_each(|pod| ledger.bound(at(waits(pod)), at(0)));
            ledger.finish(at(1_000_000_000))
        };
        let recorded = figures(&|pod| pod * 1_000_000);
        // A tenth of the pods is ten times as fast; they were among the slower half.
        let replayed = figures(&|pod| if pod > 900 { pod * 100_000 } else { pod * 1_000_000 });
        let waits = replayed.waits_beside(&recorded);
        let near = |a: f64, b: f64| (a - b).abs() < 0.02;
        assert!(near(waits.p50, 0.6) && near(waits.p90, 1.0) && near(waits.p99, 1.0), "{waits:?}");
        assert!(near(waits.apart, 0.1), "{waits:?}");
        let same = recorded.waits_beside(&recorded);
        assert!(near(same.p50, 0.5) && near(same.p90, 0.9) && same.apart == 0.0, "{same:?}");
    }

    #[test]
    fn who_sat_on_a_node_sits_there_when_it_is_back() {
        let at = |second: i64| Moment::from_nanos(second * 1_000_000_000);
        let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"allocatable":{"cpu":"4","memory":"4"}}}"#;
        let node = Object::parse(node).unwrap();
        let takes = Requests { milli_cpu: 2_000, memory: 2 };
        let mut ledger = Ledger::new(at(0));
        ledger.node(at(0), &node);
        ledger.sits(at(0), "n", takes);
        ledger.node_went(at(10), "n");
        ledger.node(at(20), &node);
        ledger.rises(at(25), "n", takes);
        let figures = ledger.finish(at(30));
        // Half of it for 15 of the 20 seconds that it was there.
        assert_eq!((figures.utilization.cpu, figures.utilization.memory), (0.375, 0.375));
        assert_eq!((figures.nodes, figures.nodes_came, figures.nodes_went), (20.0 / 30.0, 1, 1));
    }
}
