//! Plugin taskorder: pods with a larger priority label first, then those without one.

use std::cmp::Ordering;

use crate::cluster::pod::Pod;

/// The priority label of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskPriority {
    Absent,
    /// It is no number.
    Invalid,
    Number(i64),
}

const PRIORITY_LABEL: &str = "kai.scheduler/task-priority";

impl TaskPriority {
    pub(crate) fn of(pod: &Pod) -> TaskPriority {
        match pod.view.label(PRIORITY_LABEL) {
            None => TaskPriority::Absent,
            Some(text) => text.parse().map_or(TaskPriority::Invalid, TaskPriority::Number),
        }
    }

    /// Which pod comes first. Of two with invalid labels each comes after the other.
    pub(crate) fn compare(self, other: TaskPriority) -> Ordering {
        use TaskPriority::{Absent, Invalid, Number};
        match (self, other) {
            (Absent, Absent) => Ordering::Equal,
            (Absent, Invalid | Number(_)) | (Invalid, Invalid | Number(_)) => Ordering::Greater,
            (Invalid | Number(_), Absent) | (Number(_), Invalid) => Ordering::Less,
            (Number(left), Number(right)) => right.cmp(&left),
        }
    }
}
