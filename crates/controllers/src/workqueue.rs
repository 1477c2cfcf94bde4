//! The work queue of the controllers, with delayed items.

use std::collections::{BTreeMap, BTreeSet};

use model::{Moment, NamespacedName};

use super::Controller;

/// An object to sync, and its controller.
pub(super) type QueueItem = (Controller, NamespacedName);

/// A work queue. Each item is queued once: for now, or for the earliest moment it was added for.
#[derive(Debug)]
pub(super) struct WorkQueue {
    /// The enabled controllers.
    enabled: BTreeSet<Controller>,
    ready: BTreeSet<QueueItem>,
    delayed: BTreeMap<QueueItem, Moment>,
    delayed_by_time: BTreeSet<(Moment, QueueItem)>,
}

impl WorkQueue {
    pub(super) fn new(enabled: &[Controller]) -> WorkQueue {
        let enabled = enabled.iter().copied().collect();
        WorkQueue {
            enabled,
            ready: BTreeSet::new(),
            delayed: BTreeMap::new(),
            delayed_by_time: BTreeSet::new(),
        }
    }

    pub(super) fn is_enabled(&self, controller: Controller) -> bool {
        self.enabled.contains(&controller)
    }

    pub(super) fn add(&mut self, controller: Controller, name: NamespacedName) {
        if self.is_enabled(controller) {
            self.ready.insert((controller, name));
        }
    }

    pub(super) fn add_at(&mut self, at: Moment, controller: Controller, name: NamespacedName) {
        let item = (controller, name);
        if !self.is_enabled(controller)
            || self.delayed.get(&item).is_some_and(|previous_time| *previous_time <= at)
        {
            return;
        }
        if let Some(previous_time) = self.delayed.insert(item.clone(), at) {
            self.delayed_by_time.remove(&(previous_time, item.clone()));
        }
        self.delayed_by_time.insert((at, item));
    }

    /// The next item that is due, if any.
    pub(super) fn pop(&mut self, now: Moment) -> Option<QueueItem> {
        while let Some((_, item)) = self.delayed_by_time.first().filter(|(at, _)| *at <= now).cloned() {
            self.delayed_by_time.pop_first();
            self.delayed.remove(&item);
            self.ready.insert(item);
        }
        self.ready.pop_first()
    }

    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the next delayed item is due.
    pub(super) fn next_time(&self) -> Option<Moment> {
        self.delayed_by_time.first().map(|(at, _)| *at)
    }
}
