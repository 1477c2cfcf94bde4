//! Pods on their way to a node: what the scheduler decided about them is carried out, and their containers start.

use kubernetes::time::{after, whole_second};
use model::{Moment, What};
use scheduler::{Attempted, Decision, Placement, Rejection};

use super::Run;
use crate::events::PodEvent;
use crate::eviction::LostTo;
use crate::ids::PodId;
use crate::observer::{Decided, Observer};
use crate::pace::Step;
use crate::store::Stage;
use crate::timeline::Due;

impl<O: Observer> Run<'_, O> {
    /// The scheduler has tried a pod.
    pub(super) fn attempted(&mut self, attempted: Attempted) {
        let Attempted { pod, decision } = attempted;
        // The scheduler knows no pods but those it was told of.
        let Some(id) = self.pods.find(&pod) else { return };
        let now = self.now();
        match decision {
            Decision::Placed(placement) => self.placed(id, placement),
            Decision::Refused(rejection) => self.refused(id, &rejection),
            Decision::Failed(why) | Decision::Skipped(why) => {
                self.informers.decided(now, &Decided::NotTried { id, pod: &pod, why: &why });
            }
            Decision::Gated(refusal) => {
                self.informers.decided(now, &Decided::NotTried { id, pod: &pod, why: &refusal.message() });
            }
        }
    }

    fn placed(&mut self, id: PodId, placement: Placement) {
        let now = self.now();
        let busy_until = self.informers.scheduler.spend_attempt(now, &mut self.timeline.pacer);
        let Some(pod) = self.pods.get(id) else { return };
        let bound = if pod.refusals == 0 {
            self.takes_since(pod.came, id, |life| life.bind, Step::Bind)
        } else {
            self.over_for(id, Step::Bind)
        };
        self.will_bind(id, placement, bound.max(busy_until));
    }

    fn refused(&mut self, id: PodId, rejection: &Rejection) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        let name = pod.name.clone();
        let is_news = pod.refuse(now, &rejection.full_message(), rejection.nominated_node.clone());
        self.informers.scheduler.spend_attempt(now, &mut self.timeline.pacer);
        if is_news {
            // What it says to a pod it writes before it goes on; what it has said already it does not write again.
            self.informers.scheduler.spend_status_write(now, &mut self.timeline.pacer);
            self.tell_status(id);
            if let Some(autoscaler) = &mut self.informers.autoscaler {
                autoscaler.pod_refused(now, &name);
            }
        }
        if let Some(pod) = self.pods.get(id) {
            self.informers.scheduler_event(now, pod, || PodEvent {
                reason: "FailedScheduling",
                action: "Scheduling",
                note: rejection.event_message(),
                warning: true,
            });
        }
        self.informers.decided(now, &Decided::Refused { id, pod: &name, rejection });
        let victims = rejection.victims.iter().filter_map(|victim| self.pods.find(victim));
        let victims: Vec<PodId> = victims.collect();
        let pacer = &mut self.timeline.pacer;
        let preemption = self.informers.scheduler.preempt(now, &name, victims.len(), pacer);
        for (victim, at) in victims.into_iter().zip(preemption.victims) {
            self.timeline.put(at, Due::Lose(victim, LostTo::Preemption(name.clone())));
        }
        if let Some(at) = preemption.ends {
            self.timeline.put(at, Due::Preempted(id));
        }
        for cleared in rejection.cleared.iter().filter(|cleared| **cleared != name) {
            let Some(other) = self.pods.find(cleared) else { continue };
            if self.pods.get_mut(other).is_some_and(|pod| pod.nominate(None)) {
                self.tell_status(other);
            }
        }
    }

    /// All victims of a pod are marked for deletion.
    pub(super) fn has_preempted(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            self.informers.scheduler.preemption_ended(&pod.name);
        }
    }

    /// A pod is on its way to a node, and seen there at that moment.
    pub(super) fn will_bind(&mut self, id: PodId, placement: Placement, at: Moment) {
        self.pods.assign(id, &placement.node);
        let Some(pod) = self.pods.get_mut(id) else { return };
        (pod.stage, pod.placement) = (Stage::Binding, Some(placement));
        self.timeline.put(at, Due::Bind(id));
    }

    /// The binding of a pod is seen.
    pub(super) fn bind(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id).filter(|pod| pod.stage == Stage::Binding) else { return };
        let Some(node) = pod.node().cloned() else { return };
        let name = pod.name.clone();
        // A pod that is being deleted is not bound. Whether the node is still there nobody asks.
        if pod.is_leaving() {
            pod.stage = Stage::Waiting;
            self.pods.unassign(id);
            self.informers.scheduler.bind_failed(now, &name);
            return;
        }
        (pod.stage, pod.bound, pod.nominated) = (Stage::Bound, Some(now), None);
        let (placement, came, refusals) = (pod.placement.take(), pod.came, pod.refusals);
        self.informers.decided(now, &Decided::Sits { id, node: &node, takes: pod.takes });
        let scheduler = &mut self.informers.scheduler;
        if scheduler.schedules(&name) {
            scheduler.pod_bound(now, &name);
            self.tell_status(id);
        } else {
            self.tell_pod(id, What::Modified);
        }
        if let (Some(placement), Some(pod)) = (placement, self.pods.get(id)) {
            self.informers.scheduler_event(now, pod, || PodEvent {
                reason: "Scheduled",
                action: "Binding",
                note: format!("Successfully assigned {}/{} to {node}", name.namespace, name.name),
                warning: false,
            });
            let decided = Decided::Bound { id, pod: &name, came, placement: &placement, refusals };
            self.informers.decided(now, &decided);
        }
        if !self.nodes.contains(&node) {
            self.miss_node(&node);
            return;
        }
        self.will_start(id);
        self.consider_taints(id);
    }

    pub(super) fn will_start(&mut self, id: PodId) {
        let at = self.takes(id, |life| life.start, Step::Start);
        self.timeline.put(at, Due::Start(id));
    }

    /// The containers of a pod run.
    pub(super) fn start(&mut self, id: PodId) {
        let now = self.now();
        let Some(pod) = self.pods.get_mut(id) else { return };
        if pod.stage != Stage::Bound || pod.is_leaving() || pod.started.is_some() {
            return;
        }
        pod.started = Some(now);
        if let Some(runs) = self.demands.get(id.demand).and_then(|state| state.demand.runs) {
            self.timeline.put(after(now, runs.lasting), Due::End(id));
        }
        self.informers.scheduler.pod_started(&pod.name, whole_second(now));
        // The autoscaler does not decide by it.
        self.informers.show_pod(&mut self.timeline, pod, What::Modified);
    }
}
