//! Repetition of loops that would have the same result as the last one, without running them.
//!
//! A loop is a function of the cluster, of the autoscaler's own state and of the time. If it left that state unchanged
//! and no relevant change was applied since, it has the same result until one of the moments that it compared the time
//! with.

use model::Moment;

use super::clock::LoopClock;
use super::cloud::CloudProvider;
use super::{Autoscaler, LoopResult};

/// A loop that may be repeated.
#[derive(Clone, Copy, Debug)]
pub(super) struct RepeatableLoop {
    /// When it last ran or was repeated.
    at: Moment,
    until: Moment,
    /// The number of templates that it built.
    templates_built: u64,
}

impl Autoscaler {
    /// Returns whether a loop now has exactly the result of the last one, except for the time. If so, it counts as run.
    pub fn try_repeat(&mut self, now: Moment, cloud: &dyn CloudProvider) -> bool {
        self.refresh_instances(now, cloud);
        let Some(repeatable) = self
            .repeatable_loop
            .filter(|repeatable| now <= repeatable.until && self.scale_down.is_repeatable(now))
        else {
            return false;
        };
        self.state.templates.repeat_recompute(repeatable.at, now, repeatable.templates_built);
        self.state.registry.repeat_update(repeatable.at, now);
        self.scale_down.repeat_update(repeatable.at, now);
        self.status.repeat_write(repeatable.at, now);
        self.loop_trigger.loop_ran(now, false);
        self.repeatable_loop = Some(RepeatableLoop { at: now, ..repeatable });
        true
    }

    /// Refreshes the instance cache if that is due.
    pub(super) fn refresh_instances(&mut self, now: Moment, cloud: &dyn CloudProvider) {
        if self.state.registry.refresh_instances(now, cloud) {
            self.repeatable_loop = None;
        }
    }

    /// Called at the end of a loop: keeps it if the next one may repeat it.
    pub(super) fn remember_if_repeatable(
        &mut self,
        loop_result: &LoopResult,
        clock: &LoopClock,
        built_templates: u64,
    ) {
        let is_idle = loop_result.actions.is_empty() && loop_result.scale_down.delete_results.is_empty();
        let until = clock.stable_until().filter(|_| is_idle);
        self.repeatable_loop =
            until.map(|until| RepeatableLoop { at: clock.now(), until, templates_built: built_templates });
    }

    /// Whether the next loop may be a repetition of the last one.
    pub fn may_repeat(&self) -> bool {
        self.repeatable_loop.is_some()
    }
}
