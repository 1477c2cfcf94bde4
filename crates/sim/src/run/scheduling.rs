//! The scheduler at work: one pod after the other, each taking its time.

use std::sync::Arc;

use model::What;

use super::agenda::Due;
use super::pods::Stage;
use super::told::{Audience, Decided, LostTo, PodId};
use super::{Run, after};
use crate::pace::Step;
use crate::scheduler::{Attempted, Decision, Placement, Rejection};

impl Run {
    /// Tries the pod whose turn it is. Says whether there was one.
    pub(super) fn try_one(&mut self, audience: &mut dyn Audience) -> bool {
        let Some(Attempted { pod, decision }) = self.scheduler.schedule_one(self.now) else {
            self.may_try = false;
            return false;
        };
        self.may_try = true;
        // The scheduler knows no pods but those it was told of.
        let Some(id) = self.names.get(&pod).copied() else { return true };
        match decision {
            Decision::Placed(placement) => self.placed(id, placement),
            Decision::Refused(rejection) => self.refused(id, &rejection, audience),
            Decision::Failed(why) | Decision::Skipped(why) => {
                audience.decided(self.now, &Decided::NotTried { id, pod: &pod, why: &why });
            }
            Decision::Gated(refusal) => {
                audience.decided(self.now, &Decided::NotTried { id, pod: &pod, why: &refusal.message() });
            }
        }
        true
    }

    fn placed(&mut self, id: PodId, placement: Placement) {
        self.busy_until = self.over(Step::Attempt);
        let recorded = self.recorded(id).and_then(|life| life.bind);
        let Some(pod) = self.pods.get(&id) else { return };
        let bound = match recorded.filter(|_| pod.refusals == 0) {
            Some(bind) => after(pod.came, bind),
            None => self.over_for(id, Step::Bind),
        };
        let Some(pod) = self.pods.get_mut(&id) else { return };
        pod.stage = Stage::Binding;
        pod.node = Some(placement.node.clone());
        self.on_node.entry(placement.node.clone()).or_default().insert(id);
        pod.placement = Some(placement);
        self.agenda.put(bound.max(self.busy_until), Due::Bind(id));
    }

    fn refused(&mut self, id: PodId, rejection: &Rejection, audience: &mut dyn Audience) {
        let now = self.now;
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let name = pod.name.clone();
        let message = rejection.full_message();
        let is_news = pod.refuse(now, &message, rejection.nominated_node.clone());
        self.busy_until = self.over(Step::Attempt);
        if is_news {
            // What it says to a pod it writes before it goes on; what it has said already it does not write again.
            self.busy_until = after(self.busy_until, self.pacer.draw(Step::Refuse, now));
            self.tell_pod_but_scheduler(id, What::Modified, audience);
            if self.scaler.as_ref().is_some_and(|scaler| !scaler.has_given_up(&name)) {
                self.news = now;
            }
        }
        self.tell_refused(id, rejection, audience);
        audience.decided(now, &Decided::Refused { id, pod: &name, rejection });
        let mut at = now;
        for victim in &rejection.victims {
            if let Some(victim) = self.names.get(victim).copied() {
                at = after(at, self.pacer.draw(Step::Preempt, now));
                self.agenda.put(at, Due::Lose(victim, LostTo::Preemption(name.clone())));
            }
        }
        for cleared in rejection.cleared.iter().filter(|cleared| **cleared != name) {
            let Some(other) = self.names.get(cleared).copied() else { continue };
            if self.pods.get_mut(&other).is_some_and(|pod| pod.promise(None)) {
                self.tell_pod_but_scheduler(other, What::Modified, audience);
            }
        }
    }
}

impl super::pods::Pod {
    /// Promises a node, or none. Whether that is news.
    fn promise(&mut self, node: Option<Arc<str>>) -> bool {
        let is_news = self.nominated != node;
        self.nominated = node;
        is_news
    }
}
