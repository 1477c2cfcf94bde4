//! Pods come: asked for by the input, with a node, by a controller, or made again.

use std::sync::Arc;

use kubernetes::time::after;
use model::{Moment, Object, What};
use scheduler::{Inclined, Placement};

use super::Run;
use crate::given::{Again, Asked, Begun, Demand, Life};
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::observer::{Decided, Observer};
use crate::pace::Step;
use crate::pod_template::BadGiven;
use crate::pod_template::PodTemplate;
use crate::store::{Pod, Stage};
use crate::timeline::Due;

impl<O: Observer> Run<'_, O> {
    /// A pod that comes with its node.
    pub(super) fn come_with(&mut self, node: &Arc<str>, pod: Object) {
        let controllers = self.informers.controllers.as_ref();
        if controllers.is_some_and(|controllers| controllers.makes(&pod)) {
            return;
        }
        let begun = Begun {
            came: self.now(),
            node: Some(node.clone()),
            nominated: None,
            refused: None,
            started: Some(self.now()),
            leaving: false,
        };
        let demand = Demand { begun: Some(begun), ..own_demand(self.demands.own_id(), pod) };
        // One that cannot be understood is in the template of its group, which was read.
        if let Ok(asked) = Asked::of(demand) {
            self.ask(asked);
        }
    }

    /// A pod that a controller asks for.
    pub(super) fn make_for_controller(&mut self, pod: Object) {
        let Some(controllers) = &mut self.informers.controllers else { return };
        let known = controllers.recall(&pod).unwrap_or_default();
        let id = known.demand.unwrap_or_else(|| self.demands.own_id());
        let mut demand = Demand { runs: known.runs, ..own_demand(id, pod) };
        if !known.lives.is_empty() {
            demand.lives = known.lives;
        }
        // A template that makes no sense was refused when its owner was read.
        if let Ok(asked) = Asked::of(demand) {
            self.ask(asked);
        }
    }

    pub(super) fn ask(&mut self, asked: Asked) {
        let (id, begun) = (asked.demand.id, asked.demand.begun.clone());
        let after = asked.demand.after.filter(|_| begun.is_none());
        let before = after.and_then(|after| self.demands.open_mut(after));
        let waits = before.is_some();
        if let Some(state) = before {
            state.waiting.push(id);
        }
        self.demands.insert(asked);
        match begun {
            Some(begun) => self.begin(id, &begun),
            None if waits => {}
            None => self.make(id),
        }
    }

    /// Makes the next pod of a demand.
    pub(super) fn make(&mut self, demand: DemandId) {
        let Some(id) = self.create(demand, self.now()) else { return };
        self.tell_created(id);
        self.tell_pod(id, What::Added);
        self.may_be_placed(id);
    }

    /// A pod waits for a node: it is inclined to the recorded one. What another scheduler decides is as recorded.
    fn may_be_placed(&mut self, id: PodId) {
        let node = self.demands.recorded(id).and_then(|life| life.node.clone());
        let (Some(node), Some(pod)) = (node, self.pods.get(id)) else { return };
        let scheduler = &mut self.informers.scheduler;
        if scheduler.schedules(&pod.name) {
            scheduler.prefer_node(&pod.name, &node);
            return;
        }
        let at = self.takes(id, |life| life.bind, Step::Bind);
        let inclined = Some(Inclined::Taken);
        let placement =
            Placement { node, volumes: Vec::new(), looked_at: 0, fitting: 0, equals: 0, inclined };
        self.will_bind(id, placement, at);
    }

    /// A pod that was there before.
    fn begin(&mut self, demand: DemandId, begun: &Begun) {
        let Some(id) = self.create(demand, begun.came) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        (pod.nominated, pod.refused) = (begun.nominated.clone(), begun.refused.clone());
        if let Some(node) = &begun.node {
            (pod.stage, pod.bound, pod.started) = (Stage::Bound, Some(begun.came), begun.started);
            let takes = pod.takes;
            self.pods.assign(id, node);
            self.informers.decided(self.timeline.now(), &Decided::Sits { id, node, takes });
        }
        self.tell_pod(id, What::Added);
        self.tell_created(id);
        match (&begun.node, begun.started) {
            (None, _) => self.may_be_placed(id),
            (Some(_), None) => self.will_start(id),
            (Some(_), Some(started)) => {
                if let Some(runs) = self.demands.get(demand).and_then(|state| state.demand.runs) {
                    self.timeline.put(after(started, runs.lasting).max(self.now()), Due::End(id));
                }
            }
        }
        if begun.leaving {
            self.delete(id, None);
            self.make_again(id);
        }
        self.consider_taints(id);
        if let Some(node) = begun.node.as_ref().filter(|node| !self.nodes.contains(node)) {
            self.miss_node(node);
        }
    }

    fn tell_created(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            let waits = pod.bound.is_none();
            self.informers.decided(self.timeline.now(), &Decided::Came { id, pod: &pod.name, waits });
        }
    }

    fn create(&mut self, demand: DemandId, came: Moment) -> Option<PodId> {
        let state = self.demands.open(demand)?;
        let id = PodId { demand, life: state.made };
        let (name, uid) = self.demands.next_name(state, &self.pods);
        if let Some(holder) = self.pods.find(&name).and_then(|id| self.pods.get_mut(id)) {
            holder.then.push(demand);
            return None;
        }
        self.pods.insert(id, Pod::new(name, uid, state.body.clone(), state.takes, came));
        let state = self.demands.get_mut(demand)?;
        state.made += 1;
        state.there += 1;
        Some(id)
    }

    /// Somebody changes the pod of a demand.
    pub(super) fn change(&mut self, demand: DemandId, changed: &Object) -> Result<(), BadGiven> {
        let mark = self.demands.get(demand).and_then(|state| state.demand.mark());
        let body = Arc::new(PodTemplate::of(changed, mark.as_ref())?);
        let newest = self.pods.of_demand(demand).next_back().map(|(id, _)| id);
        if let Some(id) = newest
            && let Some(pod) = self.pods.get_mut(id)
        {
            pod.body = body;
            self.tell_pod(id, What::Modified);
            self.consider_taints(id);
        }
        Ok(())
    }
}

/// A demand that nobody gave, for a pod that is made once, under its own name.
fn own_demand(id: DemandId, pod: Object) -> Demand {
    let meta = pod.meta();
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    let life = Life { name: (*meta.name).into(), uid, ..Life::default() };
    Demand {
        id,
        after: None,
        begun: None,
        again: Again::Never,
        set: None,
        runs: None,
        lives: vec![life],
        unmade: None,
        pod,
    }
}
