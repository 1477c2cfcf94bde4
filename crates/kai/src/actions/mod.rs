//! The actions of a cycle.

mod allocate;
mod consolidation;
mod minimal_jobs;
mod preempt;
mod reclaim;
mod stale_gang_eviction;
mod victim_search;

use crate::decisions::ActionDecisions;
use crate::session::Session;
use crate::settings::Action;

impl Session {
    /// Runs all actions of the configuration, and returns their decisions.
    pub fn run(&mut self) -> &[ActionDecisions] {
        for action in self.settings.config.actions.clone() {
            self.run_action(action);
        }
        &self.decisions
    }

    /// Runs one action, and returns its decisions.
    pub fn run_action(&mut self, action: Action) -> &ActionDecisions {
        self.decisions.push(ActionDecisions::new(action));
        match action {
            Action::Allocate => allocate::run(self),
            Action::Consolidation => consolidation::run(self),
            Action::Reclaim => reclaim::run(self),
            Action::Preempt => preempt::run(self),
            Action::StaleGangEviction => stale_gang_eviction::run(self),
        }
        self.decisions.last().expect("the action was just recorded")
    }

    /// The most jobs of a queue that an action tries.
    fn queue_depth(&self, action: Action) -> Option<usize> {
        self.settings.config.queue_depth_per_action.get(action.name()).copied()
    }
}
