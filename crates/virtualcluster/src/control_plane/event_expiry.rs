//! The end of Events: an API server keeps each for an hour after its last change.

use std::collections::VecDeque;
use std::time::Duration;

use apiserver::{DeleteOptions, StoreEvent, resource_version_of};
use kubernetes::time::after;
use model::{Kind, Moment, NamespacedName};

use super::ComponentContext;

/// The versions of Events that exist, and of some that were replaced, in the order in which they end.
#[derive(Default)]
pub(super) struct EventExpiry {
    versions: VecDeque<EventVersion>,
}

/// A version of an Event.
struct EventVersion {
    due: Moment,
    name: NamespacedName,
    resource_version: u64,
}

/// As kube-apiserver's `--event-ttl`.
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

impl EventExpiry {
    pub(super) fn observe(&mut self, now: Moment, event: &StoreEvent) {
        if event.is_deletion || !event.kind.is("", "Event") {
            return;
        }
        let meta = event.new.meta();
        self.versions.push_back(EventVersion {
            due: after(now, TIME_TO_LIVE),
            name: NamespacedName::new(&*meta.namespace, &*meta.name),
            resource_version: resource_version_of(&event.new),
        });
    }

    /// When the next one ends.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.versions.front().map(|version| version.due)
    }

    /// Deletes the Events that have not changed for an hour. Returns whether there were any.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let kind = Kind::new("", "Event");
        let mut has_deleted = false;
        while self.next_due().is_some_and(|due| due <= context.now) {
            let Some(version) = self.versions.pop_front() else { break };
            let current = context.registry.get(&kind, &version.name);
            if current.is_some_and(|current| resource_version_of(&current) == version.resource_version) {
                // Somebody else may delete it meanwhile.
                let _ = context.registry.delete_object(&kind, &version.name, &DeleteOptions::default());
                has_deleted = true;
            }
        }
        has_deleted
    }
}
