//! What was recorded beside what was replayed, decision by decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Object, What};
use scheduler::{Inclined, Placement};
use serde::Serialize;
use simulation::{Decided, Demand, LostTo, Observer, PodId};

use crate::causes::{Causes, Lost};
use crate::error::Error;
use crate::figures::{Figures, Ledger, Waits};
use crate::play::Follower;
use crate::record::Record;
use crate::recorded::Curve;

/// Follows a replay, and holds it against the record.
pub struct Comparison<'a> {
    record: Record<'a>,
    ledger: Ledger,
    start: Moment,
    placements: Placements,
    evictions: Evictions,
    /// What nodes are alike.
    class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    /// What the nodes are like that are there.
    classes: BTreeMap<Arc<str>, Arc<str>>,
    curve: Curve,
}

/// How much of what was recorded came out as recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fidelity {
    /// Pods bound to nodes.
    pub placements: Placements,
    /// Pods that lost their place.
    pub evictions: Evictions,
    /// How long pods waited.
    pub waits: Waits,
}

/// How recorded bindings came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placements {
    /// All that were recorded.
    pub recorded: u64,
    /// On the same node.
    pub same_node: u64,
    /// On another node of the same class.
    pub same_class: u64,
    /// On a node of another class.
    pub elsewhere: u64,
    /// Not bound at all, or not again.
    pub not_bound: u64,
    /// Within a second of the recorded moment, wherever.
    pub within_a_second: u64,
    /// Within ten seconds.
    pub within_ten_seconds: u64,
    /// Bound, though nothing of the sort was recorded.
    pub not_recorded: u64,
    /// Why the recorded node was not taken, and how often.
    pub reasons: BTreeMap<String, u64>,
}

/// How recorded losses of places came out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evictions {
    /// All that were recorded.
    pub recorded: u64,
    /// The same life of the same demand, for the same reason.
    pub same: u64,
    /// For another reason.
    pub otherwise: u64,
    /// Not at all.
    pub not_lost: u64,
    /// Lost, though nothing of the sort was recorded.
    pub not_recorded: u64,
}

impl<'a> Comparison<'a> {
    /// Nothing was replayed yet of what stands behind a recording.
    pub fn new(
        causes: &'a Causes,
        start: Moment,
        class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    ) -> Comparison<'a> {
        let totals = &causes.totals;
        let lost = totals.lost.iter().filter(|(how, _)| **how != Lost::People).map(|(_, count)| count).sum();
        Comparison {
            record: Record::of(causes),
            ledger: Ledger::new(start),
            start,
            // Nothing came out until it is seen to.
            placements: Placements {
                recorded: totals.bound,
                not_bound: totals.bound,
                ..Placements::default()
            },
            evictions: Evictions { recorded: lost, not_lost: lost, ..Evictions::default() },
            class_of,
            classes: BTreeMap::new(),
            curve: Curve::default(),
        }
    }

    /// What was replayed, in figures, and how much of it is as recorded.
    pub fn finish(self, end: Moment, recorded: &Figures) -> Result<(Figures, Fidelity, Curve), Error> {
        self.record.finish().map_err(Error::kept)?;
        let replayed = self.ledger.finish(end);
        let waits = replayed.waits_beside(recorded);
        Ok((replayed, Fidelity { placements: self.placements, evictions: self.evictions, waits }, self.curve))
    }

    fn bound(&mut self, at: Moment, id: PodId, placement: &Placement) {
        let recorded = self.record.find(id).and_then(|(life, seen)| {
            Some((seen.bound_after(self.start)?, life.node.as_ref()?, seen.class.as_ref()))
        });
        let Some((then, node, class)) = recorded else {
            self.placements.not_recorded += 1;
            return;
        };
        let apart = at.nanos_since(then).abs();
        let is_same = *node == placement.node;
        let is_alike = class.is_some() && class == self.classes.get(&placement.node);
        self.placements.came_out(apart, is_same, is_alike);
        if is_same {
            return;
        }
        *self.placements.reasons.entry(words(placement.inclined)).or_default() += 1;
    }

    fn lost(&mut self, id: PodId, to: &LostTo) {
        let how = match to {
            LostTo::Preemption(_) => Lost::Preempted,
            LostTo::ScaleDown => Lost::ScaledDown,
            LostTo::Taint(_) => Lost::Tainted,
            LostTo::NodeGone => Lost::NodeGone,
        };
        self.ledger.lost(how.word(), 1);
        let recorded = self.record.find(id).and_then(|(_, seen)| seen.lost);
        self.evictions.came_out(recorded, Some(how));
    }
}

impl Observer for Comparison<'_> {
    fn wants_changes(&self) -> bool {
        false
    }

    fn changed(&mut self, _: Moment, _: What) {}

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        match decided {
            Decided::Came { waits: true, .. } => self.ledger.waits(at, 1),
            Decided::Went { waited: true, .. } => self.ledger.waits(at, -1),
            Decided::Bound { id, came, placement, .. } => {
                self.ledger.waits(at, -1);
                self.ledger.bound(at, *came);
                self.bound(at, *id, placement);
            }
            Decided::Sits { node, takes, .. } => self.ledger.sits(at, node, *takes),
            Decided::Rises { node, takes, .. } => self.ledger.rises(at, node, *takes),
            Decided::Refused { .. } => self.ledger.refused(),
            Decided::Lost { id, to, .. } => self.lost(*id, to),
            Decided::Over(demand) => self.record.forget(*demand),
            Decided::NodeCame { node, object, .. } => {
                self.ledger.node(at, object);
                if let Some(class) = (self.class_of)(object) {
                    self.classes.insert((*node).clone(), class.clone());
                    self.curve.push(at, class, node, 1);
                }
            }
            Decided::NodeChanged { object } => self.ledger.node(at, object),
            Decided::NodeWent { node, object } => {
                self.ledger.node_went(at, node);
                self.classes.remove(*node);
                if let Some(class) = (self.class_of)(object) {
                    self.curve.push(at, class, node, -1);
                }
            }
            Decided::Came { .. }
            | Decided::Went { .. }
            | Decided::ScaledUp(_)
            | Decided::ScaledDown { .. }
            | Decided::NotTried { .. }
            | Decided::Looped { .. } => {}
        }
    }
}

impl Follower for Comparison<'_> {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.record.is_well()
    }
}

// === impl Placements ===

impl Placements {
    /// One that was recorded came out, so many nanoseconds apart, on the same node or on one alike.
    pub(crate) fn came_out(&mut self, apart: i64, is_same: bool, is_alike: bool) {
        self.not_bound = self.not_bound.saturating_sub(1);
        self.within_a_second += u64::from(apart <= 1_000_000_000);
        self.within_ten_seconds += u64::from(apart <= 10_000_000_000);
        match (is_same, is_alike) {
            (true, _) => self.same_node += 1,
            (false, true) => self.same_class += 1,
            (false, false) => self.elsewhere += 1,
        }
    }
}

// === impl Evictions ===

impl Evictions {
    /// A pod lost its place, for which that was recorded.
    pub(crate) fn came_out(&mut self, recorded: Option<Lost>, how: Option<Lost>) {
        match recorded {
            None | Some(Lost::People) => self.not_recorded += 1,
            recorded => {
                self.not_lost = self.not_lost.saturating_sub(1);
                if recorded == how {
                    self.same += 1;
                } else {
                    self.otherwise += 1;
                }
            }
        }
    }
}

// === impl Lost ===

impl Lost {
    /// What it is called in reports.
    pub fn word(self) -> &'static str {
        match self {
            Lost::Preempted => "preempted",
            Lost::ScaledDown => "scaledDown",
            Lost::Tainted => "tainted",
            Lost::NodeGone => "nodeGone",
            Lost::People => "people",
        }
    }
}

/// Why the recorded node was not taken.
fn words(inclined: Option<Inclined>) -> String {
    match inclined {
        None => "it was not known at that moment which node was recorded".to_owned(),
        Some(Inclined::Taken) => "it was taken".to_owned(),
        Some(Inclined::Worse(_)) => "its score was lower".to_owned(),
        Some(Inclined::Refused(plugin)) => format!("{} refused it", plugin.name()),
        Some(Inclined::NotLookedAt) => "it was not looked at".to_owned(),
        Some(Inclined::NotThere) => "it was not there".to_owned(),
    }
}
