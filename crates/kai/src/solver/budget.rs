//! Budgets of searches, counted in scenarios: a millisecond of the configured time allows one of them.

use crate::settings::{Action, SearchBudgets};

/// Nanoseconds that a scenario is taken to last.
const NANOS_OF_A_SCENARIO: i64 = 1_000_000;

/// The budget of an action, and the limits of its parts.
#[derive(Clone, Debug)]
pub(crate) struct ActionBudget {
    left: Budget,
    limits: SearchBudgets,
}

/// What is left of a job's budget.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobBudget {
    start: Budget,
    left: Budget,
}

/// A number of scenarios; `None` for any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget(Option<i64>);

impl ActionBudget {
    pub(crate) fn new(action: Action, limits: &SearchBudgets) -> ActionBudget {
        ActionBudget { left: Budget::of(limits.of_action(action)), limits: limits.clone() }
    }

    /// The budget of the next job; `None` if nothing is left.
    pub(super) fn start_job(&self) -> Option<JobBudget> {
        let mut left = self.left.min(Budget::of(self.limits.job));
        if let Budget(Some(count)) = &mut left {
            *count = (*count).max(self.limits.min_job / NANOS_OF_A_SCENARIO);
        }
        (!left.is_exhausted()).then_some(JobBudget { start: left, left })
    }

    /// The budget of a generator for a job.
    pub(super) fn start_generator(&self, job: &JobBudget, generator: &str) -> Budget {
        job.left.min(Budget::of(self.limits.of_generator(generator)))
    }

    /// Takes what a job used from the action's budget.
    pub(super) fn end_job(&mut self, job: JobBudget) {
        if let (Budget(Some(start)), Budget(Some(left))) = (job.start, job.left) {
            self.left.spend(start - left);
        }
    }
}

impl JobBudget {
    pub(super) fn is_exhausted(&self) -> bool {
        self.left.is_exhausted()
    }

    /// Takes a scenario from it.
    pub(super) fn spend(&mut self) {
        self.left.spend(1);
    }
}

impl Budget {
    /// Zero stands for any time.
    fn of(nanos: i64) -> Budget {
        Budget((nanos != 0).then_some((nanos / NANOS_OF_A_SCENARIO).max(1)))
    }

    fn min(self, other: Budget) -> Budget {
        match (self.0, other.0) {
            (Some(left), Some(right)) => Budget(Some(left.min(right))),
            (left, right) => Budget(left.or(right)),
        }
    }

    pub(super) fn is_exhausted(self) -> bool {
        self.0.is_some_and(|left| left <= 0)
    }

    /// Takes scenarios from it.
    pub(super) fn spend(&mut self, count: i64) {
        if let Some(left) = &mut self.0 {
            *left = left.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SchedulerConfiguration;

    #[test]
    fn a_job_gets_what_is_left_of_its_action() {
        let config = r#"{"actions":"reclaim","scenarioSearchBudgets":{
            "maxActionSearchDuration":{"reclaim":"3ms"},"maxJobSearchDuration":"2ms"}}"#;
        let limits = SchedulerConfiguration::parse(config).unwrap().search_budgets;
        let mut action = ActionBudget::new(Action::Reclaim, &limits);
        let mut counts = Vec::new();
        while let Some(mut job) = action.start_job() {
            let mut count = 0;
            while !job.is_exhausted() {
                job.spend();
                count += 1;
            }
            action.end_job(job);
            counts.push(count);
        }
        assert_eq!(counts, [2, 1]);
    }
}
