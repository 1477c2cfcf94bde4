//! The lives of pods: from the wish to the end, as a controller and a kubelet would have it.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::agenda::Due;
use super::body::{Body, Now};
use super::given::{Again, Begun, Demand, DemandId, Life};
use super::told::{Audience, Decided, LostTo, PodId, Takes};
use super::{BadGiven, Run, after};
use crate::pace::Step;
use crate::scheduler::{Placement, PodName};

/// A demand, and how far it has come.
#[derive(Debug)]
pub(super) struct DemandState {
    pub(super) demand: Demand,
    body: Arc<Body>,
    takes: Takes,
    /// How many pods were made for it.
    made: u32,
    /// How many of them are there.
    there: u32,
    /// Nobody wants it any more, or it is done.
    over: bool,
    /// It goes when it is done.
    cleaned_up: bool,
    /// Demands that wait for its end.
    waiting: Vec<DemandId>,
}

/// A pod.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: PodName,
    uid: Arc<str>,
    body: Arc<Body>,
    takes: Takes,
    pub(super) came: Moment,
    pub(super) stage: Stage,
    /// The node it is on, or on its way to.
    pub(super) node: Option<Arc<str>>,
    pub(super) nominated: Option<Arc<str>>,
    bound: Option<Moment>,
    pub(super) placement: Option<Placement>,
    /// What the scheduler last said, and since when it says no.
    refused: Option<(Arc<str>, Moment)>,
    pub(super) refusals: u32,
    started: Option<Moment>,
    ended: Option<(Moment, bool)>,
    leaving: Option<(Moment, i64)>,
    lost: Option<(LostTo, Moment)>,
    /// Demands that wait until its name is free.
    then: Vec<DemandId>,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    Binding,
    Bound,
    Ended,
}

/// FNV-1a: names are told apart by it.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Run {
    /// A pod that comes with its node.
    pub(super) fn come_with(&mut self, node: &Arc<str>, pod: Object, audience: &mut dyn Audience) {
        self.own_demands += 1;
        let meta = pod.meta();
        let uid = meta.uid.as_deref().unwrap_or_default().into();
        let life = Life { name: (*meta.name).into(), uid, ..Life::default() };
        let begun =
            Begun { came: self.now, node: Some(node.clone()), started: Some(self.now), leaving: false };
        let demand = Demand {
            // Counted from the end: those that are given are counted from the beginning.
            id: DemandId(u64::MAX - self.own_demands),
            after: None,
            begun: Some(begun),
            again: Again::Never,
            runs: None,
            lives: vec![life],
            pod,
        };
        // One that cannot be understood is in the template of its group, which was read.
        let _ = self.ask(demand, audience);
    }

    pub(super) fn ask(&mut self, demand: Demand, audience: &mut dyn Audience) -> Result<(), BadGiven> {
        let body = Body::of(&demand.pod).map_err(|source| {
            let meta = demand.pod.meta();
            BadGiven { pod: format!("pod {}/{}", meta.namespace, meta.name), source }
        })?;
        let (id, begun) = (demand.id, demand.begun.clone());
        let after = demand.after.filter(|_| begun.is_none());
        let before = after.and_then(|after| self.demands.get_mut(&after)).filter(|state| !state.over);
        let waits = before.is_some();
        if let Some(state) = before {
            state.waiting.push(id);
        }
        let state = DemandState {
            takes: Takes::of(&demand.pod),
            demand,
            body: Arc::new(body),
            made: 0,
            there: 0,
            over: false,
            cleaned_up: false,
            waiting: Vec::new(),
        };
        self.demands.insert(id, state);
        match begun {
            Some(begun) => self.begin(id, &begun, audience),
            None if waits => {}
            None => self.make(id, audience),
        }
        Ok(())
    }

    /// Makes the next pod of a demand.
    pub(super) fn make(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(id) = self.create(demand, self.now) else { return };
        self.tell_came(id, audience);
        self.tell_pod(id, What::Added, audience);
        let node = self.recorded(id).and_then(|life| life.node.clone());
        if let (Some(node), Some(pod)) = (node, self.pods.get(&id)) {
            self.scheduler.incline(&pod.name.namespace, &pod.name.name, &node);
        }
    }

    /// A pod that was there before.
    fn begin(&mut self, demand: DemandId, begun: &Begun, audience: &mut dyn Audience) {
        let Some(id) = self.create(demand, begun.came) else { return };
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if let Some(node) = &begun.node {
            pod.node = Some(node.clone());
            (pod.stage, pod.bound, pod.started) = (Stage::Bound, Some(begun.came), begun.started);
            self.on_node.entry(node.clone()).or_default().insert(id);
            audience.decided(self.now, &Decided::Sits { id, node, takes: pod.takes });
        }
        self.tell_pod(id, What::Added, audience);
        self.tell_came(id, audience);
        let state = self.demands.get(&demand);
        match (&begun.node, begun.started) {
            (None, _) => {
                let node = state.and_then(|state| state.demand.lives.first()?.node.clone());
                if let (Some(node), Some(pod)) = (node, self.pods.get(&id)) {
                    self.scheduler.incline(&pod.name.namespace, &pod.name.name, &node);
                }
            }
            (Some(_), None) => self.will_start(id),
            (Some(_), Some(started)) => {
                if let Some(runs) = state.and_then(|state| state.demand.runs) {
                    self.agenda.put(after(started, runs.lasting).max(self.now), Due::End(id));
                }
            }
        }
        if begun.leaving {
            self.delete(id, None, audience);
            self.make_again(id);
        }
        if let Some(node) = begun.node.as_ref().filter(|node| !self.nodes.contains_key(*node)) {
            self.node_is_gone(node);
        }
    }

    fn tell_came(&self, id: PodId, audience: &mut dyn Audience) {
        if let Some(pod) = self.pods.get(&id) {
            let waits = pod.bound.is_none();
            audience.decided(self.now, &Decided::Came { id, pod: &pod.name, waits });
        }
    }

    fn create(&mut self, demand: DemandId, came: Moment) -> Option<PodId> {
        let state = self.demands.get_mut(&demand).filter(|state| !state.over)?;
        let id = PodId { demand, life: state.made };
        let (name, uid) = name(state, id, self.seed);
        let name = PodName { namespace: state.body.namespace.clone(), name };
        if let Some(holder) = self.names.get(&name).and_then(|id| self.pods.get_mut(id)) {
            holder.then.push(demand);
            return None;
        }
        state.made += 1;
        state.there += 1;
        let pod = Pod {
            uid,
            body: state.body.clone(),
            takes: state.takes,
            came,
            stage: Stage::Waiting,
            node: None,
            nominated: None,
            bound: None,
            placement: None,
            refused: None,
            refusals: 0,
            started: None,
            ended: None,
            leaving: None,
            lost: None,
            then: Vec::new(),
            name: name.clone(),
        };
        self.names.insert(name, id);
        self.pods.insert(id, pod);
        Some(id)
    }

    /// The binding of a pod is seen.
    pub(super) fn bind(&mut self, id: PodId, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.stage == Stage::Binding) else { return };
        let Some(node) = pod.node.clone() else { return };
        let name = pod.name.clone();
        if !self.nodes.contains_key(&node) {
            (pod.stage, pod.node) = (Stage::Waiting, None);
            self.leave_node(id, &node);
            self.scheduler.bind_failed(now, &name.namespace, &name.name);
            return;
        }
        (pod.stage, pod.bound, pod.nominated) = (Stage::Bound, Some(now), None);
        let (placement, came, refusals) = (pod.placement.take(), pod.came, pod.refusals);
        audience.decided(now, &Decided::Sits { id, node: &node, takes: pod.takes });
        self.scheduler.placed(now, &name.namespace, &name.name);
        self.tell_pod_but_scheduler(id, What::Modified, audience);
        if let Some(placement) = placement {
            self.tell_scheduled(id, &node, audience);
            let decided = Decided::Bound { id, pod: &name, came, placement: &placement, refusals };
            audience.decided(now, &decided);
        }
        self.will_start(id);
    }

    fn will_start(&mut self, id: PodId) {
        let at = self.takes(id, |life| life.start, Step::Start);
        self.agenda.put(at, Due::Start(id));
    }

    /// The pod as it was recorded, if there was one.
    pub(super) fn recorded(&self, id: PodId) -> Option<&Life> {
        self.demands.get(&id.demand)?.demand.lives.get(id.life as usize)
    }

    /// When something is over that begins for a pod now: it takes as long as recorded, or as usual.
    fn takes(&self, id: PodId, recorded: fn(&Life) -> Option<Duration>, step: Step) -> Moment {
        match self.recorded(id).and_then(recorded) {
            Some(duration) => after(self.now, duration),
            None => self.over_for(id, step),
        }
    }

    /// When a step is over that begins for a pod now. It depends on no other pod: so a replay of a replay, which has
    /// more of them recorded, still has the same for the rest.
    pub(super) fn over_for(&self, id: PodId, step: Step) -> Moment {
        let pod = self.pods.get(&id).map(|pod| (&pod.name.namespace, &pod.name.name));
        let demand = || self.demands.get(&id.demand).map(|state| (&state.body.namespace, &state.body.name));
        let mut whose = if pod.is_some() { FNV_OFFSET } else { FNV_OFFSET ^ u64::from(id.life) };
        if let Some((namespace, name)) = pod.or_else(demand) {
            for byte in namespace.bytes().chain([b'/']).chain(name.bytes()) {
                whose = (whose ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        after(self.now, self.pacer.draw_for(whose, step, self.now))
    }

    /// The containers of a pod run.
    pub(super) fn start(&mut self, id: PodId, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if pod.stage != Stage::Bound || pod.leaving.is_some() || pod.started.is_some() {
            return;
        }
        pod.started = Some(now);
        if let Some(runs) = self.demands.get(&id.demand).and_then(|state| state.demand.runs) {
            self.agenda.put(after(now, runs.lasting), Due::End(id));
        }
        // Nobody decides by it.
        if audience.wants_changes() {
            let object = self.pods[&id].object();
            audience.changed(now, What::Modified(object));
        }
    }

    /// The containers of a pod have ended.
    pub(super) fn end(&mut self, id: PodId, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if pod.stage != Stage::Bound || pod.leaving.is_some() {
            return;
        }
        let fails =
            self.demands.get(&id.demand).and_then(|state| state.demand.runs).is_some_and(|runs| runs.fails);
        (pod.stage, pod.ended) = (Stage::Ended, Some((now, fails)));
        let node = pod.node.clone();
        if let Some(node) = &node {
            audience.decided(now, &Decided::Rises { id, node, takes: pod.takes });
        }
        self.tell_pod(id, What::Modified, audience);
        if let Some(node) = node {
            self.leave_node(id, &node);
        }
        self.demand_is_over(id.demand);
        if self.demands.get(&id.demand).is_some_and(|state| state.cleaned_up) {
            self.withdraw(id.demand, audience);
        }
    }

    /// A demand is no more: those that wait for it come.
    fn demand_is_over(&mut self, demand: DemandId) {
        let Some(state) = self.demands.get_mut(&demand) else { return };
        state.over = true;
        for waiting in std::mem::take(&mut state.waiting) {
            let first = PodId { demand: waiting, life: 0 };
            let at = self.takes(first, |life| life.again, Step::NextOfJob);
            self.agenda.put(at, Due::Ask(waiting));
        }
        self.forget_if_done(demand);
    }

    fn forget_if_done(&mut self, demand: DemandId) {
        if self.demands.get(&demand).is_some_and(|state| state.over && state.there == 0) {
            self.demands.remove(&demand);
        }
    }

    /// The pod of a demand goes when it has ended.
    pub(super) fn clean_up(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(state) = self.demands.get_mut(&demand) else { return };
        if state.over {
            self.withdraw(demand, audience);
        } else {
            state.cleaned_up = true;
        }
    }

    /// Nobody wants a demand any more.
    pub(super) fn withdraw(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        self.demand_is_over(demand);
        for id in self.pods_of(demand) {
            self.delete(id, None, audience);
        }
    }

    /// Somebody deletes the pod of a demand.
    pub(super) fn delete_given(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(id) = self.pods_of(demand).pop() else { return };
        if self.pods[&id].leaving.is_none() {
            self.delete(id, None, audience);
            self.make_again(id);
        }
    }

    /// A pod loses its place.
    pub(super) fn lose(&mut self, id: PodId, to: LostTo, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id).filter(|pod| pod.leaving.is_none() && pod.stage != Stage::Ended)
        else {
            return;
        };
        let (name, node) = (pod.name.clone(), pod.node.clone());
        let decided = Decided::Lost { id, pod: &name, node: node.as_ref(), to: &to };
        audience.decided(self.now, &decided);
        if let LostTo::Preemption(by) = &to {
            self.tell_preempted(id, by, audience);
        }
        self.delete(id, Some(to), audience);
        self.make_again(id);
    }

    /// Its owner makes a pod again that is being deleted.
    fn make_again(&mut self, id: PodId) {
        let Some(state) = self.demands.get(&id.demand).filter(|state| !state.over) else { return };
        match state.demand.again {
            Again::Never => self.demand_is_over(id.demand),
            Again::AtOnce => {
                let next = PodId { demand: id.demand, life: state.made };
                let at = self.takes(next, |life| life.again, Step::Again);
                self.agenda.put(at, Due::Ask(id.demand));
            }
            Again::WhenGone => {}
        }
    }

    /// Begins to delete a pod.
    fn delete(&mut self, id: PodId, to: Option<LostTo>, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.leaving.is_none()) else { return };
        let is_forced =
            matches!(to, Some(LostTo::NodeGone)) || pod.stage == Stage::Ended || pod.bound.is_none();
        let grace = if is_forced { 0 } else { pod.body.grace_seconds };
        pod.leaving = Some((now, grace));
        if let Some(to) = to {
            if to == LostTo::NodeGone {
                pod.ended = pod.ended.or(Some((now, true)));
            }
            pod.lost = Some((to, now));
        }
        if is_forced {
            self.gone(id, audience);
            return;
        }
        self.tell_pod(id, What::Modified, audience);
        // Where the node is gone nobody ends a pod.
        let node = self.pods.get(&id).and_then(|pod| pod.node.clone());
        if node.is_some_and(|node| self.nodes.contains_key(&node)) {
            let at = self.takes(id, |life| life.end, Step::End);
            self.agenda.put(at, Due::Go(id));
        }
    }

    /// A pod is gone.
    pub(super) fn gone(&mut self, id: PodId, audience: &mut dyn Audience) {
        if !self.pods.contains_key(&id) {
            return;
        }
        self.tell_pod(id, What::Deleted, audience);
        let Some(pod) = self.pods.remove(&id) else { return };
        let waited = pod.bound.is_none();
        audience.decided(self.now, &Decided::Went { id, pod: &pod.name, waited });
        if let (Stage::Bound, Some(node)) = (pod.stage, &pod.node) {
            audience.decided(self.now, &Decided::Rises { id, node, takes: pod.takes });
        }
        self.names.remove(&pod.name);
        for demand in pod.then {
            self.agenda.put(self.now, Due::Ask(demand));
        }
        if let Some(node) = &pod.node {
            self.leave_node(id, node);
        }
        let Some(state) = self.demands.get_mut(&id.demand) else { return };
        state.there = state.there.saturating_sub(1);
        if !state.over && state.demand.again == Again::WhenGone && state.there == 0 {
            let next = PodId { demand: id.demand, life: state.made };
            let at = self.takes(next, |life| life.again, Step::Again);
            self.agenda.put(at, Due::Ask(id.demand));
        }
        self.forget_if_done(id.demand);
    }

    fn leave_node(&mut self, id: PodId, node: &Arc<str>) {
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(&id);
            if pods.is_empty() {
                self.on_node.remove(node);
            }
        }
    }

    pub(super) fn pods_of(&self, demand: DemandId) -> Vec<PodId> {
        let all = PodId { demand, life: 0 }..=PodId { demand, life: u32::MAX };
        self.pods.range(all).map(|(id, _)| *id).collect()
    }

    /// Tells everybody of a pod.
    pub(super) fn tell_pod(
        &mut self,
        id: PodId,
        how: fn(model::Object) -> What,
        audience: &mut dyn Audience,
    ) {
        if let Some(pod) = self.pods.get(&id) {
            self.tell(how(pod.object()), audience);
        }
    }

    /// Tells everybody but the scheduler, which knows.
    pub(super) fn tell_pod_but_scheduler(
        &mut self,
        id: PodId,
        how: fn(model::Object) -> What,
        audience: &mut dyn Audience,
    ) {
        if self.scaler.is_none() && !audience.wants_changes() {
            return;
        }
        if let Some(pod) = self.pods.get(&id) {
            self.tell_scaler(how(pod.object()), audience);
        }
    }
}

// === impl Pod ===

impl Pod {
    pub(super) fn object(&self) -> model::Object {
        self.body.object(&Now {
            name: &self.name.name,
            uid: &self.uid,
            came: self.came,
            node: self.node.as_deref().filter(|_| self.bound.is_some()),
            nominated: self.nominated.as_deref(),
            bound: self.bound,
            refused: self.refused.as_ref().map(|(message, since)| (&**message, *since)),
            started: self.started,
            ended: self.ended,
            leaving: self.leaving,
            lost: self.lost.as_ref().map(|(to, at)| (to, *at)),
        })
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    pub(super) fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    /// The scheduler says no, in these words. Whether anything is new about it.
    pub(super) fn refuse(&mut self, now: Moment, message: &str, nominated: Option<Arc<str>>) -> bool {
        self.refusals = self.refusals.saturating_add(1);
        let is_news = self.refused.as_ref().is_none_or(|(said, _)| **said != *message);
        let since = self.refused.as_ref().map_or(now, |(_, since)| *since);
        if is_news {
            self.refused = Some((message.into(), since));
        }
        let is_other = self.nominated != nominated;
        self.nominated = nominated;
        is_news || is_other
    }
}

/// The name and uid of the next pod of a demand: as recorded, or made up.
fn name(state: &DemandState, id: PodId, seed: u64) -> (Arc<str>, Arc<str>) {
    let recorded = state.demand.lives.get(id.life as usize);
    let mut dice =
        Pcg64::seed_from_u64(seed ^ id.demand.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id.life));
    let name = match (recorded, &state.body.generate_name) {
        (Some(life), _) => life.name.clone(),
        (None, None) => state.body.name.clone(),
        (None, Some(stem)) => {
            let letters = (0..5).map(|_| char::from(LETTERS[dice.random_range(0..LETTERS.len())]));
            format!("{stem}{}", letters.collect::<String>()).into()
        }
    };
    let uid = match recorded.map(|life| &life.uid).filter(|uid| !uid.is_empty()) {
        Some(uid) => uid.clone(),
        None => {
            let (a, b) = (dice.random::<u64>(), dice.random::<u64>());
            let (a1, a2, a3) = (a >> 32, (a >> 16) & 0xffff, a & 0xfff);
            format!("{a1:08x}-{a2:04x}-4{a3:03x}-a{:03x}-{:012x}", b >> 52, b & 0xffff_ffff_ffff).into()
        }
    };
    (name, uid)
}
