//! Causes from effects: what of a recording was given, and what was decided.
//!
//! A recorded pod is an effect. Behind it stands a demand: its owner wanted a pod. A pod that was evicted and made again
//! is one demand with two lives; how often that happens in a run is for the run to decide. What an owner deletes, what
//! people delete, how long containers ran: that is given.
//!
//! The recording is read twice. The first time [`Survey`] tells which pods belong together and how each life ended; the
//! second time [`Script`](crate::script::Script) hands out what is given, in order.

mod owners;
pub(crate) mod pod;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use sim::run::{Again, DemandId, Life, Runs};

use self::owners::{Owner, OwnerKind, Owners};
use self::pod::PodSeen;
use crate::settings;

/// What stands behind the recorded pods.
#[derive(Debug, Default)]
pub struct Causes {
    /// By number: the demands in the order in which they were first seen.
    pub demands: Vec<Cause>,
    /// The lives in the order in which they were first seen.
    pub lives: Vec<LifeSeen>,
    /// What could not be told, in words, and how often.
    pub untold: BTreeMap<&'static str, u64>,
}

/// A demand as the recording shows it.
#[derive(Debug)]
pub struct Cause {
    /// Its pods.
    pub lives: Vec<Life>,
    /// Which of [`Causes::lives`] they are.
    pub places: Vec<usize>,
    /// Its containers end by themselves.
    pub runs: Option<Runs>,
    /// It was made because that one had ended.
    pub after: Option<DemandId>,
    /// Who makes it again.
    pub again: Again,
    /// What its owner or others do to it, by time.
    pub acts: Vec<(Moment, Act)>,
}

/// What is done to a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// It is not wanted any more.
    Withdrawn,
    /// Its pod is deleted, by people.
    Deleted,
    /// It had ended, and nobody needs to know of it any more.
    CleanedUp,
}

/// A recorded pod.
#[derive(Clone, Debug)]
pub struct LifeSeen {
    /// The demand it belongs to, and how many lives that had before.
    pub demand: DemandId,
    /// See there.
    pub life: u32,
    /// When it came.
    pub came: Moment,
    /// Whether it was there when the window began.
    pub was_there: bool,
    /// When it was seen to be bound.
    pub bound: Option<Moment>,
    /// When its containers were seen to run.
    pub started: Option<Moment>,
    /// When they were seen to have ended.
    pub ended: Option<Moment>,
    /// When its deletion was seen to begin.
    pub leaving: Option<Moment>,
    /// How it lost its place, if it did.
    pub lost: Option<Lost>,
}

/// How a recorded pod lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// To one of higher priority.
    Preempted,
    /// The autoscaler drained its node.
    ScaledDown,
    /// To a taint.
    Tainted,
    /// With its node.
    NodeGone,
    /// To people, who drained its node or deleted it.
    People,
}

/// Reads a recording for the first time.
#[derive(Debug)]
pub struct Survey {
    causes: Causes,
    owners: Owners,
    /// Pods that are there, by uid, or by name where they have none.
    open: FxHashMap<Arc<str>, Open>,
    nodes: BTreeMap<Arc<str>, NodeSeen>,
    /// Lives that the scheduler said it took the place of.
    preempted: FxHashMap<Arc<str>, Moment>,
    /// The recording is of a replay: what took time for a pod was drawn for it, whoever else there was.
    is_replay: bool,
    /// When the scheduler was last seen to refuse a pod.
    refused: Option<Moment>,
    /// Whether an autoscaler of the run drains nodes; otherwise what it did is given.
    scales: bool,
    /// Pods that do not count any more, of those that were there at first.
    over: Vec<Arc<str>>,
    begun: bool,
}

#[derive(Debug)]
struct Open {
    place: usize,
    owner: Option<Owner>,
    /// Counts as one of its owner's pods.
    counts: bool,
    disruption: Option<Lost>,
    finished: bool,
    fails: bool,
    node: Option<Arc<str>>,
    started_at: Option<Moment>,
    hash: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct NodeSeen {
    /// The autoscaler is removing it.
    going: bool,
}

impl Survey {
    /// Before anything was seen. If the run `scales`, its own autoscaler drains nodes; if not, what the recorded one
    /// did is given.
    pub fn new(scales: bool) -> Survey {
        Survey {
            causes: Causes::default(),
            owners: Owners::default(),
            open: FxHashMap::default(),
            nodes: BTreeMap::new(),
            preempted: FxHashMap::default(),
            is_replay: false,
            refused: None,
            scales,
            over: Vec::new(),
            begun: false,
        }
    }

    /// An object that is there when the window begins.
    pub fn begin(&mut self, from: Moment, object: &Object) {
        self.see_object(from, &What::Added(object.clone()));
    }

    /// What happened then.
    pub fn see(&mut self, at: Moment, what: &What) {
        if !std::mem::replace(&mut self.begun, true) {
            // Who is missing is known when all are.
            for uid in std::mem::take(&mut self.over) {
                self.no_longer_counts(at, &uid);
            }
        }
        self.see_object(at, what);
    }

    fn see_object(&mut self, at: Moment, what: &What) {
        let meta = what.object().meta();
        match (&*meta.api_version, &*meta.kind) {
            ("v1", "Pod") => self.pod(at, what),
            ("v1", "Node") => self.node(&meta.name, what),
            (_, "Event") => self.event(at, what),
            (_, settings::KIND) => self.is_replay = true,
            (version, kind) => {
                let Some(kind) = OwnerKind::of(kind).filter(|_| OwnerKind::VERSIONS.contains(&version))
                else {
                    return;
                };
                for vacancy in self.owners.see(kind, what) {
                    self.withdraw(vacancy.demand, vacancy.since, at);
                }
            }
        }
    }

    fn node(&mut self, name: &str, what: &What) {
        match what {
            What::Deleted(_) => drop(self.nodes.remove(name)),
            What::Added(node) | What::Modified(node) => {
                let going = pod::is_being_removed(node);
                self.nodes.entry(name.into()).or_default().going = going;
            }
        }
    }

    fn event(&mut self, at: Moment, what: &What) {
        if let Some(uid) = pod::preempted(what.object()) {
            if let Some(open) = self.open.get_mut(&*uid) {
                open.disruption.get_or_insert(Lost::Preempted);
                let life = &mut self.causes.lives[open.place];
                if life.lost == Some(Lost::People) {
                    // It was taken for somebody's doing until now.
                    life.lost = Some(Lost::Preempted);
                    let acts = &mut self.causes.demands[life.demand.0 as usize].acts;
                    acts.retain(|(when, act)| (Some(*when), *act) != (life.leaving, Act::Deleted));
                }
            }
            self.preempted.insert(uid, at);
            // Events come with what they tell of: old ones are of no use.
            if self.preempted.len() > 10_000 {
                self.preempted.retain(|_, told| at.nanos_since(*told) < 600_000_000_000);
            }
        }
    }

    fn pod(&mut self, at: Moment, what: &What) {
        let Ok(seen) = PodSeen::read(what.object()) else {
            *self.causes.untold.entry("pods that cannot be understood").or_default() += 1;
            return;
        };
        let gone = matches!(what, What::Deleted(_));
        if !self.open.contains_key(&seen.uid) {
            if gone {
                // Its life was not seen: it came and went in a gap.
                *self.causes.untold.entry("pods of which only the end was seen").or_default() += 1;
                return;
            }
            self.came(at, &seen);
        }
        self.follow(at, &seen);
        if gone {
            self.went(at, &seen.uid);
        }
    }

    /// A pod is there: a new demand, or another life of one.
    fn came(&mut self, at: Moment, seen: &PodSeen) {
        let place = self.causes.lives.len();
        let owner = seen.owner.clone();
        let vacancy = owner.as_ref().and_then(|owner| self.owners.fill(owner, seen.slot.as_deref()));
        let next = DemandId(self.causes.demands.len() as u64);
        // A StatefulSet waits until the one before is gone.
        let could_know = vacancy.as_ref().map(|vacancy| vacancy.gone.unwrap_or(vacancy.since));
        let (demand, after) = match vacancy {
            // Another template is another demand: the pod of the last one was not wanted any more.
            Some(Vacancy { demand, lost: true, hash, since, .. }) if hash != seen.hash => {
                self.withdraw(demand, since, at);
                (next, None)
            }
            Some(Vacancy { demand, lost: true, .. }) => (demand, None),
            Some(Vacancy { demand, lost: false, .. }) => (next, Some(demand)),
            None => (next, None),
        };
        if demand == next {
            let again = match &owner {
                None => Again::Never,
                Some(owner) if owner.kind == OwnerKind::StatefulSet => Again::WhenGone,
                Some(owner) if owner.kind == OwnerKind::DaemonSet => Again::Never,
                Some(_) => Again::AtOnce,
            };
            self.causes.demands.push(Cause {
                lives: Vec::new(),
                places: Vec::new(),
                runs: None,
                after,
                again,
                acts: Vec::new(),
            });
        }
        let cause = &mut self.causes.demands[demand.0 as usize];
        let life = cause.lives.len() as u32;
        cause.lives.push(Life {
            name: seen.name.clone(),
            uid: seen.uid.clone(),
            again: could_know.map(|since| between(since, at)),
            ..Life::default()
        });
        cause.places.push(place);
        let came = if self.begun { at } else { seen.created.map_or(at, |created| created.min(at)) };
        self.causes.lives.push(LifeSeen {
            demand,
            life,
            came,
            was_there: !self.begun,
            bound: None,
            started: None,
            ended: None,
            leaving: None,
            lost: None,
        });
        if let Some(owner) = &owner {
            self.owners.joined(owner);
        }
        let disruption = self.preempted.contains_key(&seen.uid).then_some(Lost::Preempted);
        let open = Open {
            place,
            counts: true,
            owner,
            disruption,
            finished: false,
            fails: false,
            node: None,
            started_at: None,
            hash: seen.hash.clone(),
        };
        self.open.insert(seen.uid.clone(), open);
    }

    /// What a version of a pod tells.
    fn follow(&mut self, at: Moment, seen: &PodSeen) {
        let Some(open) = self.open.get_mut(&seen.uid) else { return };
        let life = &mut self.causes.lives[open.place];
        let cause = &mut self.causes.demands[life.demand.0 as usize];
        let known = &mut cause.lives[life.life as usize];
        if let (Some(node), None) = (&seen.node, life.bound) {
            life.bound = Some(at);
            known.node = Some(node.clone());
            // Whoever came after the last refusal was written had nobody to wait for.
            let had_to_wait = !self.is_replay && self.refused.is_some_and(|refused| refused >= life.came);
            known.bind = (!had_to_wait && !life.was_there).then(|| between(life.came, at));
            open.node = Some(node.clone());
        }
        if seen.refused && self.begun {
            self.refused = Some(at);
        }
        if seen.started.is_some() && life.started.is_none() {
            // Where the start was seen to the millisecond, that counts; in the first list only whole seconds are known.
            let started = if self.begun { at } else { seen.started.unwrap_or(at) };
            life.started = Some(started);
            open.started_at = Some(started);
            if self.begun && !life.was_there || life.bound.is_some_and(|bound| bound < started) {
                known.start = life.bound.map(|bound| between(bound, started));
            }
        }
        if let Some(disruption) = seen.disruption {
            let lost = match disruption {
                Lost::ScaledDown => {
                    let going = open
                        .node
                        .as_ref()
                        .and_then(|node| self.nodes.get(node))
                        .is_some_and(|node| node.going);
                    if going { Lost::ScaledDown } else { Lost::People }
                }
                other => other,
            };
            open.disruption.get_or_insert(lost);
        }
        if seen.finished && !open.finished {
            open.finished = true;
            open.fails = seen.fails;
            life.ended = Some(at);
            // One that a lost node took with it did not end by itself.
            if open.disruption.is_none() {
                let started = open.started_at.unwrap_or(at);
                let lasting =
                    u64::try_from(at.nanos_since(started)).map(Duration::from_nanos).unwrap_or_default();
                cause.runs = Some(Runs { lasting, fails: seen.fails });
            }
        }
        if seen.leaving && life.leaving.is_none() {
            life.leaving = Some(at);
        }
        let over = open.finished || life.leaving.is_some();
        if over && std::mem::take(&mut open.counts) {
            if self.begun {
                self.no_longer_counts(at, &seen.uid);
            } else {
                self.over.push(seen.uid.clone());
            }
        }
    }

    /// A pod does not count for its owner any more: it ended, or is being deleted.
    fn no_longer_counts(&mut self, at: Moment, uid: &Arc<str>) {
        let Some(open) = self.open.get(uid) else { return };
        let life = &mut self.causes.lives[open.place];
        let cause = &mut self.causes.demands[life.demand.0 as usize];
        let demand = life.demand;
        let node_gone = open.node.as_ref().is_some_and(|node| !self.nodes.contains_key(node));
        let ended_by_itself = open.finished && open.disruption.is_none();
        let lost = match open.disruption {
            Some(Lost::ScaledDown) if !self.scales => Some(Lost::People),
            lost => lost,
        };
        let Some(owner) = &open.owner else {
            match lost {
                Some(Lost::People) | None if !ended_by_itself => cause.acts.push((at, Act::Withdrawn)),
                lost => life.lost = lost,
            }
            return;
        };
        if owner.kind == OwnerKind::DaemonSet {
            // Its pods follow nodes: none is made because another was lost.
            match lost {
                Some(lost) => life.lost = Some(lost),
                None if !ended_by_itself => cause.acts.push((at, Act::Withdrawn)),
                None => {}
            }
            self.owners.left(owner, None);
            return;
        }
        if ended_by_itself {
            // Its Job may make the next.
            self.owners.left(
                owner,
                Some(Vacancy { demand, lost: false, since: at, gone: None, slot: None, hash: None }),
            );
            return;
        }
        let slot = cause.lives[life.life as usize].name.clone();
        let vacancy =
            Vacancy { demand, lost: true, since: at, gone: None, slot: Some(slot), hash: open.hash.clone() };
        match lost {
            Some(Lost::People) => {
                life.lost = lost;
                cause.acts.push((at, Act::Deleted));
                self.owners.left(owner, Some(vacancy));
            }
            Some(_) => {
                life.lost = lost;
                self.owners.left(owner, Some(vacancy));
            }
            None if self.owners.explains(owner, &cause.lives[life.life as usize].name) => {
                cause.acts.push((at, Act::Withdrawn));
                self.owners.left(owner, None);
            }
            None if node_gone => {
                life.lost = Some(Lost::NodeGone);
                self.owners.left(owner, Some(vacancy));
            }
            None => {
                life.lost = Some(Lost::People);
                cause.acts.push((at, Act::Deleted));
                self.owners.left(owner, Some(vacancy));
            }
        }
    }

    fn went(&mut self, at: Moment, uid: &Arc<str>) {
        let Some(open) = self.open.get_mut(uid) else { return };
        let life = &mut self.causes.lives[open.place];
        if life.leaving.is_none() {
            life.leaving = Some(at);
        }
        let demand = life.demand.0 as usize;
        let known = &mut self.causes.demands[demand].lives[life.life as usize];
        // On a node that is gone nobody ends a pod; on a node that is there it ends.
        if life.bound.is_some() && open.node.as_ref().is_some_and(|node| self.nodes.contains_key(node)) {
            known.end = life.leaving.map(|leaving| between(leaving, at));
        }
        if let Some(owner) = &open.owner {
            self.owners.gone(owner, &known.name, at);
        }
        if std::mem::take(&mut open.counts) {
            self.no_longer_counts(at, uid);
        } else if open.finished && life.lost.is_none() {
            let cause = &mut self.causes.demands[demand];
            cause.acts.push((life.leaving.unwrap_or(at), Act::CleanedUp));
        }
        self.open.remove(uid);
    }

    /// Nobody wants a demand any more whose pod went then: what was taken for somebody's doing was its owner's.
    fn withdraw(&mut self, demand: DemandId, since: Moment, at: Moment) {
        let cause = &mut self.causes.demands[demand.0 as usize];
        match cause.acts.iter_mut().find(|act| **act == (since, Act::Deleted)) {
            Some((_, act)) => {
                *act = Act::Withdrawn;
                let place =
                    cause.places.iter().rev().find(|place| self.causes.lives[**place].leaving == Some(since));
                if let Some(place) = place {
                    self.causes.lives[*place].lost = None;
                }
            }
            None => cause.acts.push((at, Act::Withdrawn)),
        }
    }

    /// All that could be told.
    pub fn finish(mut self) -> Causes {
        for cause in &mut self.causes.demands {
            cause.acts.sort_unstable();
            cause.acts.dedup();
        }
        self.causes
    }
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos_since(from)).unwrap_or(0))
}

/// A place for a pod that its owner will fill.
#[derive(Clone, Debug)]
struct Vacancy {
    demand: DemandId,
    /// The pod was lost, and is made again; or it ended, and the next comes.
    lost: bool,
    /// Since when.
    since: Moment,
    /// When the pod of the same name was gone, where names are used again.
    gone: Option<Moment>,
    /// The name that will be used again, where names are.
    slot: Option<Arc<str>>,
    /// Which template the pod was made of, where the owner has several.
    hash: Option<Arc<str>>,
}

type Vacancies = VecDeque<Vacancy>;
