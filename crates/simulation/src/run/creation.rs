//! Creation of pods: demanded by the input, with a node, by a controller, or recreated.

use std::sync::Arc;

use kubernetes::objects::PodView;
use kubernetes::time::after;
use model::{Moment, Object};
use scheduler::{RecordedNodeOutcome, ScheduleResult};

use super::Run;
use super::event_receivers::ChangeKind;
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
        let view = Arc::new(PodView::parse(&pod));
        let controllers = self.receivers.controllers.as_ref();
        if controllers.is_some_and(|controllers| controllers.creates_pods_of(&view)) {
            return;
        }
        let initial_state = InitialPodState {
            created: self.now(),
            node: Some(node.clone()),
            nominated: None,
            unschedulable: None,
            started: Some(self.now()),
            is_terminating: false,
        };
        let demand = PodDemand {
            initial_state: Some(initial_state),
            ..internal_demand(self.demands.next_internal_id(), pod)
        };
        // The group's pod templates were parsed before.
        if let Ok(parsed_demand) = ParsedDemand::new(demand, view) {
            self.add_demand(parsed_demand);
        }
    }

    /// Creates a pod for a controller.
    pub(super) fn create_for_controller(&mut self, pod: Object) {
        let Some(controllers) = &mut self.receivers.controllers else { return };
        let view = Arc::new(PodView::parse(&pod));
        let record = controllers.next_record(&view).unwrap_or_default();
        let id = record.demand.unwrap_or_else(|| self.demands.next_internal_id());
        let mut demand = PodDemand { exit: record.exit, ..internal_demand(id, pod) };
        if !record.incarnations.is_empty() {
            demand.incarnations = record.incarnations;
        }
        // An invalid template was rejected when its owner was read.
        if let Ok(parsed_demand) = ParsedDemand::new(demand, view) {
            self.add_demand(parsed_demand);
        }
    }

    pub(super) fn add_demand(&mut self, parsed_demand: ParsedDemand) {
        let (id, initial_state) = (parsed_demand.demand.id, parsed_demand.demand.initial_state.clone());
        let after = parsed_demand.demand.after.filter(|_| initial_state.is_none());
        let predecessor = after.and_then(|after| self.demands.get_unfinished_mut(after));
        let waits_for_predecessor = predecessor.is_some();
        if let Some(state) = predecessor {
            state.successors.push(id);
        }
        self.demands.insert(parsed_demand);
        match initial_state {
            Some(initial_state) => self.create_initial_pod(id, &initial_state),
            None if waits_for_predecessor => {}
            None => self.create_next_pod(id),
        }
    }

    /// Creates the next pod of a demand.
    pub(super) fn create_next_pod(&mut self, demand: DemandId) {
        let Some(id) = self.insert_pod(demand, self.now()) else { return };
        self.notify_created(id);
        self.notify_pod(id, ChangeKind::Added);
        self.await_scheduling(id);
    }

    /// A pod becomes pending: the scheduler prefers the recorded node. Another scheduler's pods are bound as recorded.
    fn await_scheduling(&mut self, id: PodId) {
        let node = self.demands.recorded_incarnation(id).and_then(|incarnation| incarnation.node.clone());
        let (Some(node), Some(pod)) = (node, self.pods.get(id)) else { return };
        let scheduler = &mut self.receivers.scheduler;
        if scheduler.schedules(&pod.name) {
            scheduler.prefer_node(&pod.name, &node);
            return;
        }
        let at = self.completion_time(id, |incarnation| incarnation.bind_duration, LatencyKind::Bind);
        let recorded_node = Some(RecordedNodeOutcome::Chosen);
        let placement = ScheduleResult {
            node,
            volume_changes: Vec::new(),
            evaluated_nodes: 0,
            feasible_nodes: 0,
            tied_nodes: 0,
            recorded_node,
        };
        self.begin_binding(id, placement, at);
    }

    /// Creates a pod that exists at the start of the run.
    fn create_initial_pod(&mut self, demand: DemandId, initial_state: &InitialPodState) {
        let Some(id) = self.insert_pod(demand, initial_state.created) else { return };
        let Some(pod) = self.pods.get_mut(id) else { return };
        (pod.nominated, pod.unschedulable) =
            (initial_state.nominated.clone(), initial_state.unschedulable.clone());
        if let Some(node) = &initial_state.node {
            (pod.stage, pod.bound_at, pod.started) =
                (PodStage::Bound, Some(initial_state.created), initial_state.started);
            let requests = pod.requests;
            self.pods.assign(id, node);
            self.receivers
                .notify_event(self.timeline.now(), &SimulationEvent::ResourcesClaimed { id, node, requests });
        }
        self.notify_pod(id, ChangeKind::Added);
        self.notify_created(id);
        match (&initial_state.node, initial_state.started) {
            (None, _) => self.await_scheduling(id),
            (Some(_), None) => self.begin_start(id),
            (Some(_), Some(started)) => {
                if let Some(exit) = self.demands.get(demand).and_then(|state| state.demand.exit) {
                    self.timeline
                        .put(after(started, exit.after).max(self.now()), RunTask::FinishContainers(id));
                }
            }
        }
        if initial_state.is_terminating {
            self.begin_deletion(id, None);
            self.recreate(id);
        }
        self.check_taints(id);
        if let Some(node) = initial_state.node.as_ref().filter(|node| !self.nodes.contains(node)) {
            self.schedule_pod_gc(node);
        }
    }

    fn notify_created(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            let is_pending = pod.bound_at.is_none();
            self.receivers.notify_event(
                self.timeline.now(),
                &SimulationEvent::PodCreated { id, pod: &pod.name, is_pending },
            );
        }
    }

    fn insert_pod(&mut self, demand: DemandId, created: Moment) -> Option<PodId> {
        let state = self.demands.get_unfinished(demand)?;
        let id = PodId { demand, incarnation: state.pods_created };
        let (name, uid) = self.demands.next_name(state, &self.pods);
        if let Some(holder) = self.pods.id_of(&name).and_then(|id| self.pods.get_mut(id)) {
            holder.waiting_for_name.push(demand);
            return None;
        }
        let pod = Pod::new(name, uid, state.template.clone(), state.requests, created);
        self.pods.insert(id, pod, state.demand.replica_set.as_ref());
        let state = self.demands.get_mut(demand)?;
        state.pods_created += 1;
        state.pods_existing += 1;
        Some(id)
    }

    /// A client changes the pod of a demand.
    pub(super) fn change_pod(&mut self, demand: DemandId, changed: &Object) -> Result<(), InvalidPod> {
        let annotation = self.demands.get(demand).and_then(|state| state.demand.annotation());
        let template = Arc::new(PodTemplate::of(changed, annotation)?);
        let newest = self.pods.of_demand(demand).next_back().map(|(id, _)| id);
        if let Some(id) = newest
            && let Some(pod) = self.pods.get_mut(id)
        {
            pod.template = template;
            self.notify_pod(id, ChangeKind::Modified);
            self.check_taints(id);
        }
        Ok(())
    }
}

/// A demand that the run makes itself, for a pod that is created once, under its own name.
fn internal_demand(id: DemandId, pod: Object) -> PodDemand {
    let meta = pod.meta();
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    let incarnation = PodIncarnation { name: (*meta.name).into(), uid, ..PodIncarnation::default() };
    PodDemand {
        id,
        after: None,
        initial_state: None,
        recreate: RecreatePolicy::Never,
        replica_set: None,
        exit: None,
        incarnations: vec![incarnation],
        not_recreated_for: None,
        pod,
    }
}
