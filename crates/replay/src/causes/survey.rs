//! A recording read for the first time: which pods belong together, and how each life ended.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use calibration::seen::{Disruption, Owner, OwnerKind, Phase, PodSeen, Seen};
use controllers::Controller;
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::{Again, DemandId, DemandMark, Life, Runs, Took};

use super::made::Made;
use super::owners::{self, Owners, Vacancy};
use super::store::Store;
use super::{Act, Cause, Causes, LifeSeen, Lost, Totals, objects};
use calibration::REPLAY_SETTINGS;

/// Reads a recording for the first time.
pub struct Survey<'a> {
    store: Store,
    totals: Totals,
    made: Made,
    untold: BTreeMap<&'static str, u64>,
    /// Demands of which there may be more to tell.
    growing: FxHashMap<DemandId, Growing>,
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
    from: Moment,
    /// Whether an autoscaler of the run drains nodes; otherwise what it did is given.
    scales: bool,
    /// What nodes are alike.
    class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    /// Pods that do not count any more, of those that were there at first.
    over: Vec<Arc<str>>,
    begun: bool,
}

/// A demand of which there may be more to tell: a pod of it is there, or will be made again.
#[derive(Debug)]
struct Growing {
    cause: Cause,
    /// How many of its pods are there.
    there: u32,
    /// Its owner has a place for another.
    vacant: bool,
}

#[derive(Debug)]
struct Open {
    demand: DemandId,
    /// How many lives that had before.
    life: usize,
    was_there: bool,
    owner: Option<Owner>,
    /// Counts as one of its owner's pods.
    counts: bool,
    disruption: Option<Lost>,
    /// It ended by itself, or was lost with its node.
    finished: bool,
    ended: bool,
    node: Option<Arc<str>>,
    /// When its containers were seen to run.
    started: Option<Moment>,
    hash: Option<Arc<str>>,
    /// Which demand it is of, if it says so.
    mark: Option<DemandMark>,
    withdrawn: bool,
}

#[derive(Debug)]
struct NodeSeen {
    /// The autoscaler is removing it.
    going: bool,
    class: Option<Arc<str>>,
}

// === impl Survey ===

impl<'a> Survey<'a> {
    /// Before anything was seen of what happened from that moment on. If the run `scales`, its own autoscaler drains
    /// nodes; if not, what the recorded one did is given. These controllers work in it: what those did is not given
    /// either. `class_of` tells what nodes are alike.
    pub fn new(
        from: Moment,
        scales: bool,
        controllers: &[Controller],
        class_of: &'a dyn Fn(&Object) -> Option<Arc<str>>,
    ) -> io::Result<Survey<'a>> {
        Ok(Survey {
            store: Store::new()?,
            totals: Totals::default(),
            made: Made::by(controllers),
            untold: BTreeMap::new(),
            growing: FxHashMap::default(),
            owners: Owners::default(),
            open: FxHashMap::default(),
            nodes: BTreeMap::new(),
            preempted: FxHashMap::default(),
            is_replay: false,
            refused: None,
            from,
            scales,
            class_of,
            over: Vec::new(),
            begun: false,
        })
    }

    /// What is there when the window begins.
    pub(crate) fn begin(&mut self, seen: &Seen) -> io::Result<()> {
        self.see_object(self.from, seen)
    }

    /// What happened then.
    pub(crate) fn see(&mut self, at: Moment, seen: &Seen) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            // Who is missing is known when all are.
            for uid in std::mem::take(&mut self.over) {
                self.no_longer_counts(self.from, &uid);
            }
        }
        self.see_object(at, seen)
    }

    fn see_object(&mut self, at: Moment, seen: &Seen) -> io::Result<()> {
        let Seen { key, what, pod } = seen;
        self.made.see(seen);
        match (&*key.kind.group, &*key.kind.kind) {
            ("", "Pod") => match pod {
                Some(pod) => self.pod(at, what, pod)?,
                None => *self.untold.entry("pods that cannot be understood").or_default() += 1,
            },
            ("", "Node") => self.node(at, &key.name, what),
            (_, "Event") => self.event(at, what),
            (_, REPLAY_SETTINGS) => self.is_replay = true,
            (group, kind) => {
                let Some(kind) = OwnerKind::of(kind).filter(|_| owners::GROUPS.contains(&group)) else {
                    return Ok(());
                };
                for vacancy in self.owners.see(kind, what, self.is_replay) {
                    self.withdraw(vacancy.demand, vacancy.since, at);
                    self.put_if_whole(vacancy.demand)?;
                }
            }
        }
        Ok(())
    }

    fn node(&mut self, at: Moment, name: &Arc<str>, what: &What) {
        match what {
            What::Deleted(_) => {
                self.nodes.remove(name);
                for open in self.open.values().filter(|open| open.node.as_ref() == Some(name)) {
                    let cause = cause_of(&mut self.growing, open.demand);
                    let leaving = cause.seen[open.life].leaving;
                    cause.lives[open.life].end =
                        leaving.map(|leaving| Took::longer_than(between(leaving, at)));
                }
            }
            What::Added(node) | What::Modified(node) => {
                let seen = NodeSeen { going: objects::is_being_removed(node), class: (self.class_of)(node) };
                self.nodes.insert(name.clone(), seen);
            }
        }
    }

    fn event(&mut self, at: Moment, what: &What) {
        if let Some(uid) = objects::preempted(what.object()) {
            if let Some(open) = self.open.get_mut(&*uid) {
                open.disruption.get_or_insert(Lost::Preempted);
                let cause = cause_of(&mut self.growing, open.demand);
                let seen = &mut cause.seen[open.life];
                if seen.lost == Some(Lost::People) {
                    // It was taken for somebody's doing until now.
                    seen.lost = Some(Lost::Preempted);
                    let left = seen.leaving;
                    cause.acts.retain(|(when, act)| (Some(*when), *act) != (left, Act::Deleted));
                }
            }
            self.preempted.insert(uid, at);
            // Events come with what they tell of: old ones are of no use.
            if self.preempted.len() > 10_000 {
                self.preempted.retain(|_, told| at.nanos_since(*told) < 600_000_000_000);
            }
        }
    }

    fn pod(&mut self, at: Moment, what: &What, seen: &PodSeen) -> io::Result<()> {
        let gone = matches!(what, What::Deleted(_));
        if !self.open.contains_key(&seen.uid) {
            if gone {
                // Its life was not seen: it came and went in a gap.
                *self.untold.entry("pods of which only the end was seen").or_default() += 1;
                return Ok(());
            }
            self.came(at, seen, what.object())?;
        }
        self.follow(at, seen);
        if gone {
            self.went(at, &seen.uid)?;
        }
        Ok(())
    }

    /// A pod is there: a new demand, or another life of one.
    fn came(&mut self, at: Moment, seen: &PodSeen, pod: &Object) -> io::Result<()> {
        let owner = seen.owner.clone();
        let is_made = self.made.makes(pod);
        let vacancy = owner.as_ref().filter(|_| !is_made);
        let mark = seen.mark.filter(|_| self.is_replay);
        // A StatefulSet uses names again.
        let slot = owner.as_ref().filter(|owner| owner.kind == OwnerKind::StatefulSet).map(|_| &*seen.name);
        let vacancy = vacancy.and_then(|owner| self.owners.fill(owner, slot, mark));
        let next = DemandId(self.totals.demands);
        // A StatefulSet waits until the one before is gone.
        let could_know = vacancy.as_ref().map(|vacancy| vacancy.gone.unwrap_or(vacancy.since));
        let (demand, after) = match vacancy {
            // Another template is another demand: the pod of the last one was not wanted any more.
            Some(Vacancy { demand, lost: true, hash, since, .. })
                if hash != seen.revision && mark.is_none() =>
            {
                self.withdraw(demand, since, at);
                self.put_if_whole(demand)?;
                (next, None)
            }
            Some(Vacancy { demand, lost: true, .. }) => (demand, None),
            Some(Vacancy { demand, lost: false, .. }) => (next, Some(demand)),
            None => (next, None),
        };
        self.store.life(demand, demand == next)?;
        if self.begun {
            self.made.note(pod, demand);
        }
        self.totals.demands += u64::from(demand == next);
        let growing = self.growing.entry(demand).or_insert_with(|| Growing {
            cause: Cause {
                lives: Vec::new(),
                seen: Vec::new(),
                unmade: None,
                runs: None,
                after,
                again: owner.as_ref().map_or(Again::Never, |owner| owners::makes_again(owner.kind)),
                acts: Vec::new(),
            },
            there: 0,
            vacant: false,
        });
        (growing.there, growing.vacant) = (growing.there + 1, false);
        let cause = &mut growing.cause;
        let life = cause.lives.len();
        cause.lives.push(Life {
            name: seen.name.clone(),
            uid: seen.uid.clone(),
            again: could_know.map(|since| Took::exactly(between(since, at))),
            ..Life::default()
        });
        let came = if self.begun { at } else { seen.created.map_or(at, |created| created.min(at)) };
        cause.seen.push(LifeSeen { came, bound: None, class: None, leaving: None, lost: None });
        if let Some(owner) = &owner {
            self.owners.joined(owner);
        }
        let disruption = self.preempted.contains_key(&seen.uid).then_some(Lost::Preempted);
        let open = Open {
            demand,
            life,
            was_there: !self.begun,
            counts: true,
            owner,
            disruption,
            finished: false,
            ended: false,
            node: None,
            started: None,
            hash: seen.revision.clone(),
            mark,
            withdrawn: false,
        };
        self.open.insert(seen.uid.clone(), open);
        Ok(())
    }

    /// What a version of a pod tells.
    fn follow(&mut self, at: Moment, seen: &PodSeen) {
        let Some(open) = self.open.get_mut(&seen.uid) else { return };
        let cause = cause_of(&mut self.growing, open.demand);
        let (known, life) = (&mut cause.lives[open.life], &mut cause.seen[open.life]);
        if let (Some(node), None) = (&seen.node, life.bound) {
            life.bound = Some(at);
            life.class = self.nodes.get(node).and_then(|node| node.class.clone());
            known.node = Some(node.clone());
            // Whoever came after the last refusal was written had nobody to wait for.
            let had_to_wait = !self.is_replay
                && !seen.is_others
                && self.refused.is_some_and(|refused| refused >= life.came);
            known.bind = (!had_to_wait && !open.was_there).then(|| Took::exactly(between(life.came, at)));
            open.node = Some(node.clone());
        }
        if seen.refusal.is_some() && self.begun {
            self.refused = Some(at);
        }
        if seen.started.is_some() && open.started.is_none() {
            // Where the start was seen to the millisecond, that counts; in the first list only whole seconds are known.
            let started = if self.begun { at } else { seen.started.unwrap_or(at) };
            open.started = Some(started);
            if self.begun && !open.was_there || life.bound.is_some_and(|bound| bound < started) {
                known.start = life.bound.map(|bound| Took::exactly(between(bound, started)));
            }
        }
        let lost = match seen.disruption {
            Some(Disruption::Preempted) => Some(Lost::Preempted),
            Some(Disruption::Evicted) => {
                let node = open.node.as_ref().and_then(|node| self.nodes.get(node));
                let going = node.is_some_and(|node| node.going);
                Some(if going { Lost::ScaledDown } else { Lost::People })
            }
            Some(Disruption::Tainted) => Some(Lost::Tainted),
            Some(Disruption::Collected) => Some(Lost::NodeGone),
            Some(Disruption::Stopped) => Some(Lost::People),
            Some(Disruption::Other) | None => None,
        };
        open.disruption = open.disruption.or(lost);
        if seen.is_finished() && !std::mem::replace(&mut open.ended, true) {
            let is_stopped = seen.leaving || life.leaving.is_some();
            open.finished = !is_stopped;
            // Neither one that is being deleted nor one that a lost node took with it ended by itself.
            if open.disruption.is_none() && !is_stopped {
                let lasting = between(open.started.unwrap_or(at), at);
                cause.runs = Some(Runs { lasting, fails: seen.phase == Phase::Failed });
            }
        }
        let is_withdrawn = seen.withdrawn && !std::mem::replace(&mut open.withdrawn, true);
        if seen.leaving && life.leaving.is_none() {
            life.leaving = Some(at);
            cut_short(known, life.bound, open.started, at);
        }
        let over = open.finished || life.leaving.is_some();
        if is_withdrawn && !open.counts && !open.finished && self.begun {
            // It was lost before, and is not made again.
            cause.acts.push((at, Act::Withdrawn));
            if let Some(owner) = &open.owner {
                self.owners.forget(owner, open.demand);
            }
            if let Some(growing) = self.growing.get_mut(&open.demand) {
                growing.vacant = false;
            }
        }
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
        let demand = open.demand;
        let Some(growing) = self.growing.get_mut(&demand) else { return };
        let cause = &mut growing.cause;
        let (known, life) = (&cause.lives[open.life], &mut cause.seen[open.life]);
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
                Some(Vacancy {
                    demand,
                    lost: false,
                    since: at,
                    gone: None,
                    slot: None,
                    hash: None,
                    mark: open.mark,
                }),
            );
            return;
        }
        // A replay says it of its pods; elsewhere it is seen by how many its owner wants.
        let is_withdrawn =
            if self.is_replay { open.withdrawn } else { self.owners.explains(owner, &known.name) };
        let lost = match lost {
            Some(lost) => lost,
            None if is_withdrawn => {
                cause.acts.push((at, Act::Withdrawn));
                self.owners.left(owner, None);
                return;
            }
            // A replay says of its pods that they went with their node.
            None if node_gone && !self.is_replay => Lost::NodeGone,
            None => Lost::People,
        };
        life.lost = Some(lost);
        if lost == Lost::People {
            cause.acts.push((at, Act::Deleted));
        }
        let slot = Some(known.name.clone());
        let (hash, mark) = (open.hash.clone(), open.mark);
        let vacancy = Vacancy { demand, lost: true, since: at, gone: None, slot, hash, mark };
        growing.vacant |= self.owners.left(owner, Some(vacancy));
    }

    fn went(&mut self, at: Moment, uid: &Arc<str>) -> io::Result<()> {
        let Some(open) = self.open.get_mut(uid) else { return Ok(()) };
        let (demand, life, finished) = (open.demand, open.life, open.finished);
        let cause = cause_of(&mut self.growing, demand);
        let (known, seen) = (&mut cause.lives[life], &mut cause.seen[life]);
        let left = seen.leaving.unwrap_or(at);
        if seen.leaving.is_none() {
            seen.leaving = Some(at);
            cut_short(known, seen.bound, open.started, at);
        }
        // On a node that is gone nobody ends a pod; on a node that is there it ends. In a replay what has ended by itself
        // goes as if its node were there.
        let is_there = open.node.as_ref().is_some_and(|node| self.nodes.contains_key(node));
        if seen.bound.is_some() && (is_there || self.is_replay && finished) {
            known.end = Some(Took::exactly(between(left, at)));
        }
        if let Some(owner) = &open.owner {
            self.owners.gone(owner, &known.name, at);
        }
        if std::mem::take(&mut open.counts) {
            self.no_longer_counts(at, uid);
        } else if finished && seen.lost.is_none() {
            cause.acts.push((left, Act::CleanedUp));
        }
        self.open.remove(uid);
        if let Some(growing) = self.growing.get_mut(&demand) {
            growing.there -= 1;
        }
        self.put_if_whole(demand)?;
        for vacancy in self.owners.forget_idle() {
            if let Some(growing) = self.growing.get_mut(&vacancy.demand) {
                growing.vacant = false;
            }
            self.put_if_whole(vacancy.demand)?;
        }
        Ok(())
    }

    /// Nobody wants a demand any more whose pod went then: what was taken for somebody's doing was its owner's.
    fn withdraw(&mut self, demand: DemandId, since: Moment, at: Moment) {
        let Some(growing) = self.growing.get_mut(&demand) else { return };
        growing.vacant = false;
        let cause = &mut growing.cause;
        match cause.acts.iter_mut().find(|act| **act == (since, Act::Deleted)) {
            Some((_, act)) => {
                *act = Act::Withdrawn;
                if let Some(seen) = cause.seen.iter_mut().rev().find(|seen| seen.leaving == Some(since)) {
                    seen.lost = None;
                }
            }
            None => {
                cause.unmade = Some(between(since, at));
                cause.acts.push((at, Act::Withdrawn));
            }
        }
    }

    /// Puts a demand away if it can get no further life, and nothing more can be done to it.
    fn put_if_whole(&mut self, demand: DemandId) -> io::Result<()> {
        match self.growing.get(&demand) {
            Some(Growing { there: 0, vacant: false, .. }) => self.put(demand),
            Some(_) | None => Ok(()),
        }
    }

    fn put(&mut self, demand: DemandId) -> io::Result<()> {
        let Some(Growing { mut cause, .. }) = self.growing.remove(&demand) else { return Ok(()) };
        cause.acts.sort_unstable();
        cause.acts.dedup();
        for seen in &cause.seen {
            self.totals.bound += u64::from(seen.bound_after(self.from).is_some());
            if let Some(lost) = seen.lost {
                *self.totals.lost.entry(lost).or_default() += 1;
            }
        }
        self.store.put(demand, &cause)
    }

    /// All that could be told until that moment.
    pub fn finish(mut self, until: Moment) -> io::Result<Causes> {
        for open in self.open.values() {
            let cause = cause_of(&mut self.growing, open.demand);
            let (known, seen) = (&mut cause.lives[open.life], &cause.seen[open.life]);
            match seen.leaving {
                None => cut_short(known, seen.bound, open.started, until),
                Some(leaving) if known.end.is_none() => {
                    known.end = Some(Took::longer_than(between(leaving, until)));
                }
                Some(_) => {}
            }
        }
        for vacancy in self.owners.vacancies().filter(|vacancy| vacancy.lost) {
            let could_know = vacancy.gone.unwrap_or(vacancy.since);
            if let Some(growing) = self.growing.get_mut(&vacancy.demand) {
                growing.cause.unmade = Some(between(could_know, until));
            }
        }
        let mut growing: Vec<DemandId> = self.growing.keys().copied().collect();
        growing.sort_unstable();
        for demand in growing {
            self.put(demand)?;
        }
        let stored = self.store.finish()?;
        Ok(Causes { stored, totals: self.totals, made: self.made, untold: self.untold })
    }
}

/// The cause of a demand of which a pod is there.
fn cause_of(growing: &mut FxHashMap<DemandId, Growing>, demand: DemandId) -> &mut Cause {
    &mut growing.get_mut(&demand).expect("a demand grows while a pod of it is there").cause
}

/// A pod goes no further: what it had not come to took longer.
fn cut_short(known: &mut Life, bound: Option<Moment>, started: Option<Moment>, at: Moment) {
    if let (Some(bound), None) = (bound, started) {
        known.start = Some(Took::longer_than(between(bound, at)));
    }
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos_since(from)).unwrap_or(0))
}
