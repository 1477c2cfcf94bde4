//! Plugin priority: jobs of higher priority first.

use std::cmp::Ordering;

use crate::cluster::job::Job;

pub(crate) fn compare_jobs(left: &Job, right: &Job) -> Ordering {
    right.group.priority.cmp(&left.group.priority)
}
