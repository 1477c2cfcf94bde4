//! What was recorded beside what was replayed, decision by decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Moment, Object, What};
use serde::Serialize;
use sim::run::{Audience, Decided, Demand, LostTo};
use sim::scheduler::Inclined;

use crate::causes::{Causes, Lost};
use crate::figures::{Figures, Ledger};
use crate::play::Follower;
use crate::recorded::Curve;

/// Follows a replay, and holds it against the record.
pub struct Comparison<'a> {
    causes: &'a Causes,
    ledger: Ledger,
    start: Moment,
    /// By recorded life.
    bound: Vec<Option<Bound>>,
    lost: Vec<Option<Kept>>,
    /// Lives that were not recorded.
    more: More,
    /// What nodes are alike.
    class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    classes: BTreeMap<Arc<str>, Arc<str>>,
    curve: Curve,
}

/// How a replayed pod was bound.
#[derive(Clone, Debug)]
struct Bound {
    at: Moment,
    node: Arc<str>,
    inclined: Option<Inclined>,
}

/// How a replayed pod lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    at: Moment,
    how: Lost,
}

#[derive(Clone, Copy, Debug, Default)]
struct More {
    bound: u64,
    lost: u64,
}

/// How much of what was recorded came out as recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fidelity {
    /// Pods bound to nodes.
    pub placements: Placements,
    /// Pods that lost their place.
    pub evictions: Evictions,
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
    /// Nothing was replayed yet.
    pub fn new(
        causes: &'a Causes,
        start: Moment,
        class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    ) -> Comparison<'a> {
        Comparison {
            causes,
            ledger: Ledger::new(start),
            start,
            bound: vec![None; causes.lives.len()],
            lost: vec![None; causes.lives.len()],
            more: More::default(),
            class_of,
            classes: BTreeMap::new(),
            curve: Curve::default(),
        }
    }

    fn place(&self, id: sim::run::PodId) -> Option<usize> {
        self.causes.demands.get(id.demand.0 as usize)?.places.get(id.life as usize).copied()
    }

    /// What was replayed, in figures, and how much of it is as recorded. `class_of` names what recorded nodes are.
    pub fn finish(
        self,
        end: Moment,
        recorded_class: &dyn Fn(&str) -> Option<Arc<str>>,
    ) -> (Figures, Fidelity, Curve) {
        let mut placements = Placements { not_recorded: self.more.bound, ..Placements::default() };
        let mut evictions = Evictions { not_recorded: self.more.lost, ..Evictions::default() };
        for (place, life) in self.causes.lives.iter().enumerate() {
            let cause = &self.causes.demands[life.demand.0 as usize];
            let node = cause.lives[life.life as usize].node.as_ref();
            // One that came with its node was bound by nobody.
            let bound = life.bound.filter(|bound| *bound > self.start && *bound > life.came);
            match (bound.zip(node), &self.bound[place]) {
                (None, None) => {}
                (None, Some(_)) => placements.not_recorded += 1,
                (Some(_), None) => {
                    placements.recorded += 1;
                    placements.not_bound += 1;
                }
                (Some((then, node)), Some(Bound { at, node: taken, inclined })) => {
                    placements.recorded += 1;
                    let apart = at.nanos_since(then).abs();
                    placements.within_a_second += u64::from(apart <= 1_000_000_000);
                    placements.within_ten_seconds += u64::from(apart <= 10_000_000_000);
                    let class = self.classes.get(taken);
                    if node == taken {
                        placements.same_node += 1;
                    } else {
                        if class.is_some() && class == recorded_class(node).as_ref() {
                            placements.same_class += 1;
                        } else {
                            placements.elsewhere += 1;
                        }
                        *placements.reasons.entry(words(*inclined)).or_default() += 1;
                    }
                }
            }
            match (life.lost, self.lost[place]) {
                (None | Some(Lost::People), None) => {}
                (None | Some(Lost::People), Some(_)) => evictions.not_recorded += 1,
                (Some(_), None) => {
                    evictions.recorded += 1;
                    evictions.not_lost += 1;
                }
                (Some(how), Some(kept)) => {
                    evictions.recorded += 1;
                    if how == kept.how {
                        evictions.same += 1;
                    } else {
                        evictions.otherwise += 1;
                    }
                }
            }
        }
        (self.ledger.finish(end), Fidelity { placements, evictions }, self.curve)
    }
}

impl Audience for Comparison<'_> {
    fn wants_changes(&self) -> bool {
        true
    }

    fn changed(&mut self, at: Moment, what: What) {
        let object = what.object();
        if object.meta().kind != "Node" {
            return;
        }
        let class = (self.class_of)(object);
        match &what {
            What::Added(node) => {
                self.ledger.node(at, node);
                let name: Arc<str> = (*node.meta().name).into();
                if let Some(class) = class {
                    self.classes.insert(name, class.clone());
                    self.curve.0.push((at, class, 1));
                }
            }
            What::Modified(node) => self.ledger.node(at, node),
            What::Deleted(node) => {
                self.ledger.node_went(at, &node.meta().name);
                if let Some(class) = class {
                    self.curve.0.push((at, class, -1));
                }
            }
        }
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        match decided {
            Decided::Came { waits: true, .. } => self.ledger.waits(at, 1),
            Decided::Went { waited: true, .. } => self.ledger.waits(at, -1),
            Decided::Bound { id, came, placement, .. } => {
                self.ledger.waits(at, -1);
                self.ledger.bound(at, *came);
                match self.place(*id) {
                    Some(place) => {
                        let (node, inclined) = (placement.node.clone(), placement.inclined);
                        self.bound[place] = Some(Bound { at, node, inclined });
                    }
                    None => self.more.bound += 1,
                }
            }
            Decided::Sits { node, takes, .. } => self.ledger.sits(at, node, *takes),
            Decided::Rises { node, takes, .. } => self.ledger.rises(at, node, *takes),
            Decided::Refused { .. } => self.ledger.refused(),
            Decided::Lost { id, to, .. } => {
                let how = match to {
                    LostTo::Preemption(_) => Lost::Preempted,
                    LostTo::ScaleDown => Lost::ScaledDown,
                    LostTo::Taint(_) => Lost::Tainted,
                    LostTo::NodeGone => Lost::NodeGone,
                };
                self.ledger.lost(how.word());
                match self.place(*id) {
                    Some(place) => self.lost[place] = Some(Kept { at, how }),
                    None => self.more.lost += 1,
                }
            }
            Decided::Came { .. }
            | Decided::Went { .. }
            | Decided::ScaledUp(_)
            | Decided::ScaledDown { .. }
            | Decided::NotTried { .. }
            | Decided::Looped(_)
            | Decided::NodeCame { .. }
            | Decided::NodeWent { .. } => {}
        }
    }
}

impl Follower for Comparison<'_> {
    fn asked(&mut self, _: Moment, _: &Demand) {}
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
