//! Who has something to look at, now or later.

use std::collections::{BTreeMap, BTreeSet};

use model::{Moment, NamespacedName};

use super::Controller;

/// An object for a controller to look at.
pub(super) type Task = (Controller, NamespacedName);

/// What is to be looked at. Each task waits once: for now, or for the earliest time it was asked for.
#[derive(Debug)]
pub(super) struct Queue {
    /// Only those work.
    which: BTreeSet<Controller>,
    now: BTreeSet<Task>,
    later: BTreeMap<Task, Moment>,
    times: BTreeSet<(Moment, Task)>,
}

impl Queue {
    pub(super) fn new(which: &[Controller]) -> Queue {
        let which = which.iter().copied().collect();
        Queue { which, now: BTreeSet::new(), later: BTreeMap::new(), times: BTreeSet::new() }
    }

    pub(super) fn works(&self, controller: Controller) -> bool {
        self.which.contains(&controller)
    }

    pub(super) fn add(&mut self, controller: Controller, name: NamespacedName) {
        if self.works(controller) {
            self.now.insert((controller, name));
        }
    }

    pub(super) fn add_at(&mut self, at: Moment, controller: Controller, name: NamespacedName) {
        let task = (controller, name);
        if !self.works(controller) || self.later.get(&task).is_some_and(|known| *known <= at) {
            return;
        }
        if let Some(known) = self.later.insert(task.clone(), at) {
            self.times.remove(&(known, task.clone()));
        }
        self.times.insert((at, task));
    }

    /// The next task, if any is due.
    pub(super) fn next(&mut self, now: Moment) -> Option<Task> {
        while let Some((_, task)) = self.times.first().filter(|(at, _)| *at <= now).cloned() {
            self.times.pop_first();
            self.later.remove(&task);
            self.now.insert(task);
        }
        self.now.pop_first()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.now.is_empty()
    }

    /// When the next task is due that is not due already.
    pub(super) fn next_time(&self) -> Option<Moment> {
        self.times.first().map(|(at, _)| *at)
    }
}
