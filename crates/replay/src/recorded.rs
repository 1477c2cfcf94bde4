//! What a recording came to, in figures.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use sim::run::Takes;

use crate::causes::pod::PodSeen;
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
pub struct Curve(pub Vec<(Moment, Arc<str>, i64)>);

#[derive(Debug)]
struct PodState {
    came: Moment,
    takes: Takes,
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
    pub fn see(&mut self, at: Moment, what: &What, class_of: &dyn Fn(&Object) -> Option<Arc<str>>) {
        let object = what.object();
        let meta = object.meta();
        match (&*meta.kind, what) {
            ("Node", What::Deleted(_)) => {
                self.ledger.node_went(at, &meta.name);
                if let Some(class) = class_of(object) {
                    self.curve.0.push((at, class, -1));
                }
            }
            ("Node", What::Added(node)) => {
                self.ledger.node(at, node);
                if let Some(class) = class_of(node) {
                    self.curve.0.push((at, class, 1));
                }
            }
            ("Node", What::Modified(node)) => self.ledger.node(at, node),
            ("Pod", _) => self.pod(at, what),
            _ => {}
        }
    }

    fn pod(&mut self, at: Moment, what: &What) {
        let Ok(seen) = PodSeen::read(what.object()) else { return };
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
            takes: Takes::of(what.object()),
            node: None,
            waits: false,
            bound: false,
        });
        if is_new && seen.node.is_none() && !seen.is_scheduled {
            pod.waits = true;
            self.ledger.waits(at, 1);
        }
        if (seen.node.is_some() || seen.is_scheduled) && !std::mem::replace(&mut pod.bound, true) {
            if let Some(node) = seen.node.filter(|_| !seen.finished) {
                self.ledger.sits(at, &node, pod.takes);
                pod.node = Some(node);
            }
            if !was_there {
                self.ledger.bound(at, pod.came);
            }
            if std::mem::take(&mut pod.waits) {
                self.ledger.waits(at, -1);
            }
        }
        if seen.finished
            && let Some(node) = pod.node.take()
        {
            self.ledger.rises(at, &node, pod.takes);
        }
    }

    /// A recorded pod lost its place.
    pub fn lost(&mut self, why: &'static str) {
        self.ledger.lost(why);
    }

    /// The sum.
    pub fn finish(self, end: Moment) -> (Figures, Curve) {
        (self.ledger.finish(end), self.curve)
    }
}

// === impl Curve ===

impl Curve {
    /// The area between two curves of the number of nodes, and that under the first, in seconds times nodes.
    pub fn apart(&self, other: &Curve, from: Moment, to: Moment) -> (f64, f64) {
        let mut steps: Vec<(Moment, i64, i64)> = self.0.iter().map(|(at, _, by)| (*at, *by, 0)).collect();
        steps.extend(other.0.iter().map(|(at, _, by)| (*at, 0, *by)));
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

    /// How many nodes of each class came and went after a moment.
    pub fn moves(&self, after: Moment) -> BTreeMap<Arc<str>, (u64, u64)> {
        let mut moves: BTreeMap<Arc<str>, (u64, u64)> = BTreeMap::new();
        for (_, class, by) in self.0.iter().filter(|(at, ..)| *at > after) {
            let entry = moves.entry(class.clone()).or_default();
            if *by > 0 {
                entry.0 += 1;
            } else {
                entry.1 += 1;
            }
        }
        moves
    }
}
