//! When a cluster has come to rest.

use std::time::Duration;

use super::told::Audience;
use super::{Run, after};

impl Run<'_> {
    /// Lets everything happen until nothing more comes of what was given, or until so long after the last node came.
    /// Says whether the cluster has come to rest.
    pub fn settle(&mut self, patience: Duration, audience: &mut dyn Audience) -> bool {
        let mut until = after(self.now, patience);
        while !self.is_stable() {
            if self.awaits_node() {
                until = after(self.now, patience).max(until);
            }
            let Some(next) = self.next().filter(|next| *next <= until || self.awaits_node()) else {
                return false;
            };
            self.now = self.now.max(next);
            self.step(audience);
        }
        true
    }

    /// Whether no pod is about to be tried, bound, made or gone, no node is on its way, and the autoscaler has looked at
    /// pods that wait and can do nothing for them. Containers may end and nodes become unneeded: that takes its time.
    pub fn is_stable(&self) -> bool {
        if self.may_try || self.agenda.is_busy() || !self.scheduler.is_idle() {
            return false;
        }
        self.scaler.as_ref().is_none_or(|scaler| {
            !scaler.awaits_node() && (!self.scheduler.has_refused() || scaler.is_calm(self.news))
        })
    }

    fn awaits_node(&self) -> bool {
        self.scaler.as_ref().is_some_and(|scaler| scaler.awaits_node())
    }
}
