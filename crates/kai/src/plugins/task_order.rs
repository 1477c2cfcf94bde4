//! Plugin taskorder: pods with a larger priority label first, then those without one.

use std::cmp::Ordering;

use crate::cluster::pod::Pod;

const PRIORITY_LABEL: &str = "kai.scheduler/task-priority";

pub(crate) fn compare_pods(left: &Pod, right: &Pod) -> Ordering {
    let (left, right) = match (left.view.label(PRIORITY_LABEL), right.view.label(PRIORITY_LABEL)) {
        (None, None) => return Ordering::Equal,
        (Some(_), None) => return Ordering::Less,
        (None, Some(_)) => return Ordering::Greater,
        (Some(left), Some(right)) => (left, right),
    };
    match (left.parse::<i64>(), right.parse::<i64>()) {
        (Err(_), _) => Ordering::Greater,
        (Ok(_), Err(_)) => Ordering::Less,
        (Ok(left), Ok(right)) => right.cmp(&left),
    }
}
