//! Plugin elastic: jobs that have fewer pods than they need first, those that have more last.

use std::cmp::Ordering;

use crate::cluster::job::Job;

#[derive(PartialEq, Eq)]
enum MinAvailableState {
    Below,
    At,
    Above,
}

pub(crate) fn compare_jobs(left: &Job, right: &Job) -> Ordering {
    use MinAvailableState::{Above, At, Below};
    match (min_available_state(left), min_available_state(right)) {
        (Below, At | Above) | (At, Above) => Ordering::Less,
        (At | Above, Below) | (Above, At) => Ordering::Greater,
        (Below, Below) | (At, At) | (Above, Above) => Ordering::Equal,
    }
}

fn min_available_state(job: &Job) -> MinAvailableState {
    let mut state = MinAvailableState::At;
    for pod_set in &job.tree.pod_sets {
        match (pod_set.active_allocated() as i64).cmp(&i64::from(pod_set.min_available)) {
            Ordering::Less => return MinAvailableState::Below,
            Ordering::Equal => {}
            Ordering::Greater => state = MinAvailableState::Above,
        }
    }
    state
}
