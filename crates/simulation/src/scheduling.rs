//! The scheduler at work: one pod after the other, each taking its time.

use std::sync::Arc;

use model::{NamespacedName, What};
use scheduler::{Attempted, Decision, Placement, Rejection};

use super::agenda::Due;
use super::told::{Audience, Decided, LostTo, PodId};
use super::{Run, after};
use crate::pace::Step;

impl Run<'_> {
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
        let Some(pod) = self.pods.get(&id) else { return };
        let bound = if pod.refusals == 0 {
            self.takes_since(pod.came, id, |life| life.bind, Step::Bind)
        } else {
            self.over_for(id, Step::Bind)
        };
        self.will_bind(id, placement, bound.max(self.busy_until));
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
            self.tell_fate(id, What::Modified, audience);
            if self.scaler.as_ref().is_some_and(|scaler| !scaler.has_given_up(&name)) {
                self.news = now;
            }
        }
        self.tell_refused(id, rejection, audience);
        audience.decided(now, &Decided::Refused { id, pod: &name, rejection });
        self.preempt(id, &name, rejection);
        for cleared in rejection.cleared.iter().filter(|cleared| **cleared != name) {
            let Some(other) = self.names.get(cleared).copied() else { continue };
            if self.pods.get_mut(&other).is_some_and(|pod| pod.promise(None)) {
                self.tell_fate(other, What::Modified, audience);
            }
        }
    }

    /// Deletes the victims of a pod, one after the other, and keeps the pod back until that is done.
    fn preempt(&mut self, id: PodId, name: &NamespacedName, rejection: &Rejection) {
        let mut at = self.now;
        for victim in &rejection.victims {
            if let Some(victim) = self.names.get(victim).copied() {
                at = after(at, self.pacer.draw(Step::Preempt, self.now));
                self.agenda.put(at, Due::Lose(victim, LostTo::Preemption(name.clone())));
            }
        }
        if at == self.now {
            return;
        }
        if self.scheduler.preempts(&name.namespace, &name.name) {
            self.agenda.put(at, Due::Preempted(id));
        } else {
            self.busy_until = self.busy_until.max(at);
        }
    }

    /// All victims of a pod are marked for deletion.
    pub(super) fn has_preempted(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(&id) {
            self.scheduler.has_preempted(&pod.name.namespace, &pod.name.name);
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
