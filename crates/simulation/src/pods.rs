//! The lives of pods: from the wish until they run, as a controller and a kubelet would have it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use autoscaler::PodStatusUpdate;
use kubernetes::time::whole_second;
use model::{Moment, NamespacedName, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use scheduler::{Inclined, Placement};

use super::agenda::Due;
use super::autoscaling::News;
use super::body::{Body, Now};
use super::given::{Again, Asked, BadGiven, Begun, Demand, DemandId, Life, Took};
use super::taints::Eviction;
use super::told::{Audience, Decided, LostTo, PodId, Takes};
use super::{Run, after};
use crate::pace::Step;

/// A demand, and how far it has come.
#[derive(Debug)]
pub(super) struct DemandState {
    pub(super) demand: Demand,
    body: Arc<Body>,
    takes: Takes,
    /// How many pods were made for it.
    pub(super) made: u32,
    /// How many of them are there.
    pub(super) there: u32,
    /// Nobody wants it any more, or it is done.
    pub(super) over: bool,
    /// It goes when it is done.
    pub(super) cleaned_up: bool,
    /// Demands that wait for its end.
    pub(super) waiting: Vec<DemandId>,
}

/// A pod.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: NamespacedName,
    uid: Arc<str>,
    pub(super) body: Arc<Body>,
    pub(super) takes: Takes,
    pub(super) came: Moment,
    pub(super) stage: Stage,
    /// The node it is on, or on its way to.
    pub(super) node: Option<Arc<str>>,
    pub(super) nominated: Option<Arc<str>>,
    pub(super) bound: Option<Moment>,
    pub(super) placement: Option<Placement>,
    /// What the scheduler last said, and since when it says no.
    refused: Option<(Arc<str>, Moment)>,
    pub(super) refusals: u32,
    started: Option<Moment>,
    pub(super) ended: Option<(Moment, bool)>,
    /// When a taint of its node drives it out.
    pub(super) eviction: Option<Eviction>,
    pub(super) leaving: Option<(Moment, i64)>,
    /// It is not wanted any more.
    pub(super) withdrawn: bool,
    pub(super) lost: Option<(LostTo, Moment)>,
    /// Somebody has still to take note of it before it can go.
    pub(super) is_tracked: bool,
    /// It would be gone if nobody had to.
    pub(super) is_over: bool,
    /// Demands that wait until its name is free.
    pub(super) then: Vec<DemandId>,
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
/// So often the API server makes up a name that is taken before it gives up.
const NAMES_TRIED: usize = 8;

impl Run<'_> {
    /// A pod that comes with its node.
    pub(super) fn come_with(&mut self, node: &Arc<str>, pod: Object, audience: &mut dyn Audience) {
        if self.is_made_by_controller(&pod) {
            return;
        }
        let meta = pod.meta();
        let uid = meta.uid.as_deref().unwrap_or_default().into();
        let life = Life { name: (*meta.name).into(), uid, ..Life::default() };
        let begun = Begun {
            came: self.now,
            node: Some(node.clone()),
            nominated: None,
            refused: None,
            started: Some(self.now),
            leaving: false,
        };
        let demand = Demand {
            id: self.own_demand(),
            after: None,
            begun: Some(begun),
            again: Again::Never,
            set: None,
            runs: None,
            lives: vec![life],
            unmade: None,
            pod,
        };
        // One that cannot be understood is in the template of its group, which was read.
        if let Ok(asked) = Asked::of(demand) {
            self.ask(asked, audience);
        }
    }

    /// A number for a demand that nobody gave.
    pub(super) fn own_demand(&mut self) -> DemandId {
        self.own_demands += 1;
        // Counted from the end: those that are given are counted from the beginning.
        DemandId(u64::MAX - self.own_demands)
    }

    pub(super) fn ask(&mut self, asked: Asked, audience: &mut dyn Audience) {
        let Asked { demand, body, takes } = asked;
        let (id, begun) = (demand.id, demand.begun.clone());
        let after = demand.after.filter(|_| begun.is_none());
        let before = after.and_then(|after| self.demands.get_mut(&after)).filter(|state| !state.over);
        let waits = before.is_some();
        if let Some(state) = before {
            state.waiting.push(id);
        }
        let state = DemandState {
            demand,
            body,
            takes,
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
    }

    /// Makes the next pod of a demand.
    pub(super) fn make(&mut self, demand: DemandId, audience: &mut dyn Audience) {
        let Some(id) = self.create(demand, self.now) else { return };
        self.tell_came(id, audience);
        self.tell_pod(id, What::Added, audience);
        self.may_be_placed(id);
    }

    /// A pod waits for a node: it is inclined to the recorded one. What another scheduler decides is as recorded.
    fn may_be_placed(&mut self, id: PodId) {
        let node = self.recorded(id).and_then(|life| life.node.clone());
        let (Some(node), Some(pod)) = (node, self.pods.get(&id)) else { return };
        if self.scheduler.schedules(&pod.name.namespace, &pod.name.name) {
            self.scheduler.incline(&pod.name.namespace, &pod.name.name, &node);
            return;
        }
        let at = self.takes(id, |life| life.bind, Step::Bind);
        let inclined = Some(Inclined::Taken);
        let placement =
            Placement { node, volumes: Vec::new(), looked_at: 0, fitting: 0, equals: 0, inclined };
        self.will_bind(id, placement, at);
    }

    /// A pod is on its way to a node, and seen there at that moment.
    pub(super) fn will_bind(&mut self, id: PodId, placement: Placement, at: Moment) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        pod.stage = Stage::Binding;
        self.waiting.remove(&id);
        pod.node = Some(placement.node.clone());
        self.on_node.entry(placement.node.clone()).or_default().insert(id);
        pod.placement = Some(placement);
        self.agenda.put(at, Due::Bind(id));
    }

    /// A pod that was there before.
    fn begin(&mut self, demand: DemandId, begun: &Begun, audience: &mut dyn Audience) {
        let Some(id) = self.create(demand, begun.came) else { return };
        let Some(pod) = self.pods.get_mut(&id) else { return };
        (pod.nominated, pod.refused) = (begun.nominated.clone(), begun.refused.clone());
        if let Some(node) = &begun.node {
            pod.node = Some(node.clone());
            (pod.stage, pod.bound, pod.started) = (Stage::Bound, Some(begun.came), begun.started);
            self.waiting.remove(&id);
            self.on_node.entry(node.clone()).or_default().insert(id);
            audience.decided(self.now, &Decided::Sits { id, node, takes: pod.takes });
        }
        self.tell_pod(id, What::Added, audience);
        self.tell_came(id, audience);
        let state = self.demands.get(&demand);
        match (&begun.node, begun.started) {
            (None, _) => self.may_be_placed(id),
            (Some(_), None) => self.will_start(id),
            (Some(_), Some(started)) => {
                if let Some(runs) = state.and_then(|state| state.demand.runs) {
                    self.agenda.put(after(started, runs.lasting).max(self.now), Due::End(id));
                }
            }
        }
        if begun.leaving {
            self.delete(id, None, audience);
            self.make_again(id, audience);
        }
        self.mind_taints(id);
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
        let namespace = state.body.namespace.clone();
        let (name, uid) = name(state, id, self.seed, |name| {
            self.names.contains_key(&NamespacedName { namespace: namespace.clone(), name: name.clone() })
        });
        let name = NamespacedName { namespace, name };
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
            eviction: None,
            leaving: None,
            withdrawn: false,
            lost: None,
            is_tracked: state.body.has_finalizers(),
            is_over: false,
            then: Vec::new(),
            name: name.clone(),
        };
        self.names.insert(name, id);
        self.pods.insert(id, pod);
        self.waiting.insert(id);
        Some(id)
    }

    /// The binding of a pod is seen.
    pub(super) fn bind(&mut self, id: PodId, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id).filter(|pod| pod.stage == Stage::Binding) else { return };
        let Some(node) = pod.node.clone() else { return };
        let name = pod.name.clone();
        // A pod that is going is not bound. Whether the node is still there nobody asks.
        if pod.leaving.is_some() {
            (pod.stage, pod.node) = (Stage::Waiting, None);
            self.leave_node(id, &node);
            self.scheduler.bind_failed(now, &name.namespace, &name.name);
            return;
        }
        (pod.stage, pod.bound, pod.nominated) = (Stage::Bound, Some(now), None);
        let (placement, came, refusals) = (pod.placement.take(), pod.came, pod.refusals);
        audience.decided(now, &Decided::Sits { id, node: &node, takes: pod.takes });
        if self.scheduler.schedules(&name.namespace, &name.name) {
            self.scheduler.placed(now, &name.namespace, &name.name);
            self.tell_fate(id, What::Modified, audience);
        } else {
            self.tell_pod(id, What::Modified, audience);
        }
        if let Some(placement) = placement {
            self.tell_scheduled(id, &node, audience);
            let decided = Decided::Bound { id, pod: &name, came, placement: &placement, refusals };
            audience.decided(now, &decided);
        }
        if !self.nodes.contains_key(&node) {
            self.node_is_gone(&node);
            return;
        }
        self.will_start(id);
        self.mind_taints(id);
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
    pub(super) fn takes(&self, id: PodId, recorded: fn(&Life) -> Option<Took>, step: Step) -> Moment {
        self.takes_since(self.now, id, recorded, step)
    }

    /// The same, where what was recorded began then.
    pub(super) fn takes_since(
        &self,
        began: Moment,
        id: PodId,
        recorded: fn(&Life) -> Option<Took>,
        step: Step,
    ) -> Moment {
        match self.recorded(id).and_then(recorded) {
            Some(Took { time, longer: false }) => after(began, time),
            Some(Took { time, longer: true }) => {
                self.over_for(id, step).max(after(began, time).plus_nanos(1))
            }
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
        self.scheduler.started(&pod.name.namespace, &pod.name.name, whole_second(now));
        // The autoscaler does not decide by it.
        self.show_pod(id, What::Modified, audience);
    }

    /// Somebody changes the pod of a demand.
    pub(super) fn change(
        &mut self,
        demand: DemandId,
        changed: &Object,
        audience: &mut dyn Audience,
    ) -> Result<(), BadGiven> {
        let mark = self.demands.get(&demand).and_then(|state| state.demand.mark());
        let body = Arc::new(Body::of(changed, mark.as_ref())?);
        if let Some(id) = self.pods_of(demand).pop()
            && let Some(pod) = self.pods.get_mut(&id)
        {
            pod.body = body;
            self.tell_pod(id, What::Modified, audience);
            self.mind_taints(id);
        }
        Ok(())
    }

    pub(super) fn pods_of(&self, demand: DemandId) -> Vec<PodId> {
        self.pods.range(all_of(demand)).map(|(id, _)| *id).collect()
    }

    /// Tells everybody of a pod that is new, or not the one that was asked for any more.
    pub(super) fn tell_pod(&mut self, id: PodId, how: fn(Object) -> What, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id) else { return };
        self.scheduler.apply(self.now, &how(pod.object()));
        if let Some(scaler) = &mut self.scaler {
            scaler.hear_of(pod, News::All);
        }
        self.show_pod(id, how, audience);
    }

    /// Tells everybody but the scheduler, which knows, what became of a pod.
    pub(super) fn tell_fate(&mut self, id: PodId, how: fn(Object) -> What, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id) else { return };
        if let Some(scaler) = &mut self.scaler {
            scaler.hear_of(pod, News::PodStatusUpdate);
        }
        self.show_pod(id, how, audience);
    }

    /// Tells everybody that a pod takes no room any more.
    pub(super) fn tell_gone(&mut self, id: PodId, how: fn(Object) -> What, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id) else { return };
        // That it is gone is all that the scheduler asks for.
        self.scheduler.gone(self.now, &pod.name.namespace, &pod.name.name, || pod.object());
        self.tell_fate(id, how, audience);
    }

    /// Tells everybody that a pod is being deleted.
    pub(super) fn tell_leaving(&mut self, id: PodId, audience: &mut dyn Audience) {
        let Some(pod) = self.pods.get(&id) else { return };
        if pod.bound.is_none() {
            return self.tell_pod(id, What::Modified, audience);
        }
        let preempted = matches!(pod.lost, Some((LostTo::Preemption(_), _)));
        self.scheduler.leaves(self.now, &pod.name.namespace, &pod.name.name, preempted);
        self.tell_fate(id, What::Modified, audience);
    }

    /// Shows a pod to those who look at objects.
    fn show_pod(&mut self, id: PodId, how: fn(Object) -> What, audience: &mut dyn Audience) {
        if self.control.is_none() && !audience.wants_changes() {
            return;
        }
        if let Some(pod) = self.pods.get(&id) {
            self.show(how(pod.object()), audience);
        }
    }
}

// === impl Pod ===

impl Pod {
    pub(super) fn object(&self) -> Object {
        self.body.object(&self.fares())
    }

    /// What became of it.
    pub(super) fn fate(&self) -> PodStatusUpdate {
        self.fares().fate()
    }

    /// It waits for a node, and no node takes it.
    pub(super) fn is_refused(&self) -> bool {
        self.bound.is_none() && self.refused.is_some() && self.leaving.is_none()
    }

    fn fares(&self) -> Now<'_> {
        Now {
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
            withdrawn: self.withdrawn,
            lost: self.lost.as_ref().map(|(to, at)| (to, *at)),
            is_tracked: self.is_tracked,
        }
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

/// All pods that a demand can have.
pub(super) fn all_of(demand: DemandId) -> RangeInclusive<PodId> {
    PodId { demand, life: 0 }..=PodId { demand, life: u32::MAX }
}

/// The name and uid of the next pod of a demand: as recorded, or made up, with a name that is not taken.
fn name(
    state: &DemandState,
    id: PodId,
    seed: u64,
    is_taken: impl Fn(&Arc<str>) -> bool,
) -> (Arc<str>, Arc<str>) {
    let recorded = state.demand.lives.get(id.life as usize);
    let mut dice =
        Pcg64::seed_from_u64(seed ^ id.demand.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(id.life));
    let name = match (recorded, &state.body.generate_name) {
        (Some(life), _) => life.name.clone(),
        (None, None) => state.body.name.clone(),
        (None, Some(stem)) => {
            let mut draw = || -> Arc<str> {
                let letters = (0..5).map(|_| char::from(LETTERS[dice.random_range(0..LETTERS.len())]));
                format!("{stem}{}", letters.collect::<String>()).into()
            };
            let mut name = draw();
            for _ in 1..NAMES_TRIED {
                if !is_taken(&name) {
                    break;
                }
                name = draw();
            }
            name
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
