//! Pods with a recent `Preempted` Event.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use rustc_hash::FxHashMap;

/// Pods with a `Preempted` Event, by uid. Events arrive shortly before or after the changes that they report: old ones
/// are forgotten when there are many.
#[derive(Debug, Default)]
pub(super) struct PreemptedPods {
    /// When the last Event about each pod was observed.
    observed: FxHashMap<Arc<str>, Moment>,
    /// The same, by time.
    by_time: BTreeSet<(Moment, Arc<str>)>,
}

/// The number of pods up to which none is forgotten.
const MIN_COUNT: usize = 10_000;
const MAX_AGE: Duration = Duration::from_secs(600);

impl PreemptedPods {
    pub(super) fn contains(&self, uid: &str) -> bool {
        self.observed.contains_key(uid)
    }

    /// Adds a pod. `at` must not be before that of an earlier call.
    pub(super) fn insert(&mut self, uid: Arc<str>, at: Moment) {
        if let Some(previous) = self.observed.insert(uid.clone(), at) {
            self.by_time.remove(&(previous, uid.clone()));
        }
        self.by_time.insert((at, uid));
        if self.observed.len() > MIN_COUNT {
            let is_old =
                |(observed_at, _): &&(Moment, _)| at.nanos_since(*observed_at) >= MAX_AGE.as_nanos() as i64;
            while self.by_time.first().filter(is_old).is_some()
                && let Some((_, uid)) = self.by_time.pop_first()
            {
                self.observed.remove(&uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_ones_are_forgotten_when_there_are_many() {
        let mut preempted = PreemptedPods::default();
        let uid = |number: usize| -> Arc<str> { number.to_string().into() };
        let at = |second: i64| Moment::from_nanos(second * 1_000_000_000);
        for number in 0..MIN_COUNT {
            preempted.insert(uid(number), at(if number < 100 { 0 } else { 300 }));
        }
        // The Event about it is repeated.
        preempted.insert(uid(50), at(600));
        assert!((0..MIN_COUNT).all(|number| preempted.contains(&uid(number))));
        preempted.insert(uid(MIN_COUNT), at(600));
        let forgotten: Vec<usize> =
            (0..=MIN_COUNT).filter(|number| !preempted.contains(&uid(*number))).collect();
        assert_eq!(forgotten, (0..100).filter(|number| *number != 50).collect::<Vec<_>>());
        assert_eq!(preempted.observed.len(), preempted.by_time.len());
    }
}
