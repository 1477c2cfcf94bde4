//! Creation of pods: demanded by the input, with a node, by a controller, or recreated.

use std::sync::Arc;

use kubernetes::time::after;
use model::{Moment, Object, What};
use scheduler::{Placement, RecordedNodeOutcome};

use super::Run;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::input::{InitialPodState, ParsedDemand, PodDemand, PodIncarnation, RecreatePolicy};
use crate::latency::LatencyKind;
use crate::observer::{Observer, SimulationEvent};
use crate::pod_template::InvalidPod;
use crate::pod_template::PodTemplate;
use crate::store::{Pod, PodStage};
use crate::timeline::RunTask;

impl<O: Observer> Run<'_, O> {
    /// Creates a pod of a new node.
    pub(super) fn create_with_node(&mut self, node: &Arc<str>, pod: Object) {
        let controllers = self.informers.controllers.as_ref();
        if controllers.is_some_and(|controllers| controllers.creates_pods_of(&pod)) {
            return;
        }
        let begun = InitialPodState {
            created: self.now(),
            node: Some(node.clone()),
            nominated: None,
            unschedulable: None,
            started: Some(self.now()),
            is_terminating: false,
        };
        let demand =
            PodDemand { initial_state: Some(begun), ..internal_demand(self.demands.next_internal_id(), pod) };
        // The group's pod templates were parsed before.
        if let Ok(asked) = ParsedDemand::parse(demand) {
            self.add_demand(asked);
        }
    }

    /// Creates a pod for a controller.
    pub(super) fn create_for_controller(&mut self, pod: Object) {
        let Some(controllers) = &mut self.informers.controllers else { return };
        let known = controllers.next_record(&pod).unwrap_or_default();
        let id = known.demand.unwrap_or_else(|| self.demands.next_internal_id());
        let mut demand = PodDemand { exit: known.exit, ..internal_demand(id, pod) };
        if !known.incarnations.is_empty() {
            demand.incarnations = known.incarnations;
        }
        // An invalid template was rejected when its owner was read.
        if let Ok(asked) = ParsedDemand::parse(demand) {
            self.add_demand(asked);
        }
    }

    pub(super) fn add_demand(&mut self, asked: ParsedDemand) {
        let (id, begun) = (asked.demand.id, asked.demand.initial_state.clone());
        let after = asked.demand.after.filter(|_| begun.is_none());
        let before = after.and_then(|after| self.demands.get_unfinished_mut(after));
        let waits = before.is_some();
        if let Some(state) = before {
            state.successors.push(id);
        }
        self.demands.insert(asked);
        match begun {
            Some(begun) => self.create_initial_pod(id, &begun),
            None if waits => {}
            None => self.create_next_pod(id),
        }
    }

    /// Creates the next pod of a demand.
    pub(super) fn create_next_pod(&mut self, demand: DemandId) {
        let Some(id) = self.insert_pod(demand, self.now()) else { return };
        self.notify_created(id);
        self.notify_pod(id, What::Added);
        self.await_scheduling(id);
    }

    /// A pod becomes pending: the scheduler prefers the recorded node. Another scheduler's pods are bound as recorded.
    fn await_scheduling(&mut self, id: PodId) {
        let node = self.demands.recorded_incarnation(id).and_then(|life| life.node.clone());
        let (Some(node), Some(pod)) = (node, self.pods.get(id)) else { return };
        let scheduler = &mut self.informers.scheduler;
        if scheduler.schedules(&pod.name) {
            scheduler.prefer_node(&pod.name, &node);
            return;
        }
        let at = self.completion_time(id, |life| life.bind_duration, LatencyKind::Bind);
        let inclined = Some(RecordedNodeOutcome::Chosen);
        let placement = Placement {
            node,
            volume_changes: Vec::new(),
            evaluated_nodes: 0,
            feasible_nodes: 0,
            tied_nodes: 0,
            recorded_node: inclined,
        };
        self.begin_binding(id, placement, at);
    }

    /// Creates a pod that exists at the start of the run.
    fn create_initial_pod(&mut self, demand: DemandId, begun: &InitialPodState) {
        let Some(id) = self.insert_pod(demand, begun.created) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        (pod.nominated, pod.unschedulable) = (begun.nominated.clone(), begun.unschedulable.clone());
        if let Some(node) = &begun.node {
            (pod.stage, pod.bound_at, pod.started) = (PodStage::Bound, Some(begun.created), begun.started);
            let takes = pod.requests;
            self.pods.assign(id, node);
            self.informers.notify_event(
                self.timeline.now(),
                &SimulationEvent::ResourcesClaimed { id, node, requests: takes },
            );
        }
        self.notify_pod(id, What::Added);
        self.notify_created(id);
        match (&begun.node, begun.started) {
            (None, _) => self.await_scheduling(id),
            (Some(_), None) => self.begin_start(id),
            (Some(_), Some(started)) => {
                if let Some(runs) = self.demands.get(demand).and_then(|state| state.demand.exit) {
                    self.timeline
                        .put(after(started, runs.after).max(self.now()), RunTask::FinishContainers(id));
                }
            }
        }
        if begun.is_terminating {
            self.begin_deletion(id, None);
            self.recreate(id);
        }
        self.check_taints(id);
        if let Some(node) = begun.node.as_ref().filter(|node| !self.nodes.contains(node)) {
            self.schedule_pod_gc(node);
        }
    }

    fn notify_created(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            let waits = pod.bound_at.is_none();
            self.informers.notify_event(
                self.timeline.now(),
                &SimulationEvent::PodCreated { id, pod: &pod.name, is_pending: waits },
            );
        }
    }

    fn insert_pod(&mut self, demand: DemandId, came: Moment) -> Option<PodId> {
        let state = self.demands.get_unfinished(demand)?;
        let id = PodId { demand, incarnation: state.pods_created };
        let (name, uid) = self.demands.next_name(state, &self.pods);
        if let Some(holder) = self.pods.id_of(&name).and_then(|id| self.pods.get_mut(id)) {
            holder.waiting_for_name.push(demand);
            return None;
        }
        self.pods.insert(id, Pod::new(name, uid, state.template.clone(), state.requests, came));
        let state = self.demands.get_mut(demand)?;
        state.pods_created += 1;
        state.pods_existing += 1;
        Some(id)
    }

    /// A client changes the pod of a demand.
    pub(super) fn change_pod(&mut self, demand: DemandId, changed: &Object) -> Result<(), InvalidPod> {
        let mark = self.demands.get(demand).and_then(|state| state.demand.annotation());
        let body = Arc::new(PodTemplate::of(changed, mark.as_ref())?);
        let newest = self.pods.of_demand(demand).next_back().map(|(id, _)| id);
        if let Some(id) = newest
            && let Some(pod) = self.pods.get_mut(id)
        {
            pod.template = body;
            self.notify_pod(id, What::Modified);
            self.check_taints(id);
        }
        Ok(())
    }
}

/// A demand that the run makes itself, for a pod that is created once, under its own name.
fn internal_demand(id: DemandId, pod: Object) -> PodDemand {
    let meta = pod.meta();
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    let life = PodIncarnation { name: (*meta.name).into(), uid, ..PodIncarnation::default() };
    PodDemand {
        id,
        after: None,
        initial_state: None,
        recreate: RecreatePolicy::Never,
        replica_set: None,
        exit: None,
        incarnations: vec![life],
        not_recreated_for: None,
        pod,
    }
}
