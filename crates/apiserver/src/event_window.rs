//! The recent events of a resource, from which watches are served.

use std::collections::VecDeque;

use tokio::sync::watch;

use crate::store::{StoreError, StoreEvent};

/// The most events that are kept.
const MAX_EVENTS: usize = 16_384;
/// The most bytes of objects that are kept, if there are more than [`MIN_EVENTS`].
const MAX_BYTES: usize = 64 << 20;
const MIN_EVENTS: usize = 256;

/// The recent events of a resource, oldest first.
#[derive(Debug)]
pub(crate) struct EventWindow {
    events: VecDeque<StoreEvent>,
    bytes: usize,
    /// All events after this resourceVersion are in the window.
    oldest: u64,
    last_event: watch::Sender<u64>,
}

impl EventWindow {
    /// An empty window, after this resourceVersion.
    pub(crate) fn new(version: u64) -> EventWindow {
        EventWindow {
            events: VecDeque::new(),
            bytes: 0,
            oldest: version,
            last_event: watch::Sender::new(version),
        }
    }

    /// Adds an event and wakes up the watches.
    pub(crate) fn push(&mut self, event: StoreEvent) {
        let version = event.version;
        self.bytes += bytes_of(&event);
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || (self.bytes > MAX_BYTES && self.events.len() > MIN_EVENTS) {
            let Some(event) = self.events.pop_front() else { break };
            self.bytes -= bytes_of(&event);
            self.oldest = event.version;
        }
        self.last_event.send_replace(version);
    }

    /// Forgets all events: what follows is not a continuation of them. Watches end.
    pub(crate) fn clear(&mut self, version: u64) {
        self.events.clear();
        (self.bytes, self.oldest) = (0, version);
        self.last_event.send_replace(version);
    }

    /// The next events after a resourceVersion.
    pub(crate) fn after(&self, version: u64, limit: usize) -> Result<Vec<StoreEvent>, StoreError> {
        if version < self.oldest {
            return Err(StoreError::Expired { oldest: self.oldest });
        }
        let start = self.events.partition_point(|event| event.version <= version);
        Ok(self.events.iter().skip(start).take(limit).cloned().collect())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.last_event.subscribe()
    }
}

fn bytes_of(event: &StoreEvent) -> usize {
    event.new.as_str().len()
}

#[cfg(test)]
mod tests {
    use model::Kind;
    use testobjects::{object, pod};

    use super::*;

    fn event(version: u64) -> StoreEvent {
        let new = object(&pod("p").json());
        StoreEvent { version, kind: Kind::new("", "Pod"), old: None, new, is_deletion: false }
    }

    #[test]
    fn a_watch_that_fell_behind_the_window_is_told() {
        let mut window = EventWindow::new(10);
        let versions = |window: &EventWindow, after| -> Option<Vec<u64>> {
            Some(window.after(after, 3).ok()?.iter().map(|event| event.version).collect())
        };
        assert_eq!(versions(&window, 9), None);
        assert_eq!(versions(&window, 10), Some(vec![]));
        for version in 0..MAX_EVENTS as u64 + 5 {
            window.push(event(20 + 2 * version));
        }
        assert_eq!(versions(&window, 10), None);
        assert_eq!(versions(&window, 28), Some(vec![30, 32, 34]));
        assert_eq!(versions(&window, 29), Some(vec![30, 32, 34]));
        assert_eq!(versions(&window, 1_000_000), Some(vec![]));
        window.clear(2_000_000);
        assert_eq!(versions(&window, 1_000_000), None);
        assert_eq!(*window.subscribe().borrow(), 2_000_000);
    }
}
