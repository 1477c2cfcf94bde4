//! Two recordings side by side: one that was played into a real cluster, and one of what came of it there.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use kubernetes::owners::Owners;
use model::{Change, Kind, Moment, What};
use simulation::DemandId;

use crate::causes::{Causes, LifeSeen, Lost};
use crate::compare::{Evictions, Fidelity, Placements};
use crate::figures::Figures;

/// Finds out which pods of the one stand for which of the other: those that say so, and else the first, second and so on
/// of the same owner.
#[derive(Debug)]
pub struct Counterparts {
    marks: Marks,
    recorded: Side,
    replayed: Side,
    /// Pods of the replay that say which recorded pod they stand for.
    told: HashMap<Arc<str>, Arc<str>>,
}

/// By which annotations pods of a replay tell what they stand for.
#[derive(Clone, Copy, Debug)]
pub struct Marks {
    /// The uid of the recorded pod.
    pub uid: &'static str,
    /// The recorded object whose pod it is, as `Kind namespace/name`.
    pub owner: &'static str,
}

/// One of the two.
#[derive(Debug, Default)]
struct Side {
    owners: Owners,
    /// The pods of each owner, in the order in which they came.
    pods: HashMap<String, Vec<Arc<str>>>,
    known: HashMap<Arc<str>, (String, usize)>,
}

/// What came of a recorded pod, as far as it counts.
struct Fate {
    bound: Option<Moment>,
    node: Option<Arc<str>>,
    class: Option<Arc<str>>,
    lost: Option<Lost>,
}

// === impl Counterparts ===

impl Counterparts {
    /// Nothing was seen yet.
    pub fn new(marks: Marks) -> Counterparts {
        Counterparts { marks, recorded: Side::default(), replayed: Side::default(), told: HashMap::new() }
    }

    /// Takes a change of what was played.
    pub fn recorded(&mut self, change: &Change) {
        self.recorded.see(change, None);
    }

    /// Takes a change of what came of it.
    pub fn replayed(&mut self, change: &Change) {
        let object = change.what.object();
        let mut owner = None;
        if is_pod(&change.key.kind) {
            let pod = object.value().unwrap_or_default();
            let told = |name: &str| pod["metadata"]["annotations"].get(name)?.as_str();
            if let (Some(uid), Some(old)) = (object.meta().uid, told(self.marks.uid)) {
                self.told.insert((*uid).into(), old.into());
            }
            owner = told(self.marks.owner).map(str::to_owned);
        }
        self.replayed.see(change, owner);
    }

    /// The recorded pod that one of the replay stands for.
    fn of(&self, uid: &Arc<str>) -> Option<&Arc<str>> {
        self.told.get(uid).or_else(|| {
            let (owner, place) = self.replayed.known.get(uid)?;
            self.recorded.pods.get(owner)?.get(*place)
        })
    }

    /// How much of what was recorded came out as recorded, in a window that begins then.
    pub fn compare(
        &self,
        from: Moment,
        (recorded, was): (&Causes, &Figures),
        (replayed, is): (&Causes, &Figures),
    ) -> io::Result<Fidelity> {
        let mut fates: HashMap<Arc<str>, Fate> = HashMap::new();
        each(recorded, from, |uid, fate| drop(fates.insert(uid, fate)))?;
        let lost = fates.values().filter(|fate| fate.is_lost()).count() as u64;
        let bound = fates.values().filter(|fate| fate.bound.is_some()).count() as u64;
        let mut placements = Placements { recorded: bound, not_bound: bound, ..Placements::default() };
        let mut evictions = Evictions { recorded: lost, not_lost: lost, ..Evictions::default() };
        each(replayed, from, |uid, fate| {
            let recorded = self.of(&uid).and_then(|old| fates.get(old));
            if let Some(at) = fate.bound {
                match recorded.and_then(|recorded| Some((recorded, recorded.bound?))) {
                    None => placements.not_recorded += 1,
                    Some((recorded, then)) => {
                        let is_same = recorded.node == fate.node;
                        let is_alike = recorded.class.is_some() && recorded.class == fate.class;
                        placements.came_out(at.nanos_since(then).abs(), is_same, is_alike);
                    }
                }
            }
            if fate.is_lost() {
                evictions.came_out(recorded.and_then(|recorded| recorded.lost), fate.lost);
            }
        })?;
        Ok(Fidelity { placements, evictions, waits: is.waits_beside(was) })
    }
}

/// Tells of every pod what came of it.
fn each(causes: &Causes, from: Moment, mut each: impl FnMut(Arc<str>, Fate)) -> io::Result<()> {
    for demand in 0..causes.totals.demands {
        let cause = causes.get(DemandId(demand))?;
        for (life, seen) in cause.lives.into_iter().zip(cause.seen) {
            each(life.uid, Fate::of(&seen, life.node, from));
        }
    }
    Ok(())
}

fn is_pod(kind: &Kind) -> bool {
    *kind == Kind::new("", "Pod")
}

// === impl Side ===

impl Side {
    fn see(&mut self, change: &Change, owner: Option<String>) {
        if !is_pod(&change.key.kind) {
            return self.owners.see(&change.key, &change.what);
        }
        let object = change.what.object();
        let Some(uid) = object.meta().uid else { return };
        if matches!(change.what, What::Deleted(_)) || self.known.contains_key(&*uid) {
            return;
        }
        let owner = owner.unwrap_or_else(|| {
            let above = self.owners.above(object);
            let (kind, name) = above.last().map_or_else(
                || (change.key.kind.clone(), change.key.name.to_string()),
                |owner| (owner.kind(), owner.name.clone()),
            );
            format!("{kind} {}/{name}", change.key.namespace)
        });
        let uid: Arc<str> = (*uid).into();
        let pods = self.pods.entry(owner.clone()).or_default();
        self.known.insert(uid.clone(), (owner, pods.len()));
        pods.push(uid);
    }
}

// === impl Fate ===

impl Fate {
    fn of(seen: &LifeSeen, node: Option<Arc<str>>, from: Moment) -> Fate {
        Fate { bound: seen.bound_after(from), node, class: seen.class.clone(), lost: seen.lost }
    }

    fn is_lost(&self) -> bool {
        self.lost.is_some_and(|lost| lost != Lost::People)
    }
}
