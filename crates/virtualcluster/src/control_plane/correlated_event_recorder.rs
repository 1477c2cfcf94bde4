//! Events of several components about objects, written as client-go's recorder does unless told otherwise: equal ones
//! are counted, similar ones combined, and of too many about one object the rest is dropped.

use std::collections::{BTreeSet, HashMap};

use apiserver::Registry;
use model::{Moment, NamespacedName};

use super::core_event_recorder::{CoreEventWriter, EventText, InvolvedObject};

/// Writes the Events of components.
#[derive(Default)]
pub(super) struct CorrelatedEventRecorder {
    writer: CoreEventWriter,
    similar: HashMap<SimilarEvents, SimilarMessages>,
    written: HashMap<WrittenKey, WrittenEvent>,
    budgets: HashMap<(&'static str, InvolvedObject), EventBudget>,
}

/// Events of one component about one object that differ only in their messages.
#[derive(Clone, PartialEq, Eq, Hash)]
struct SimilarEvents {
    source: &'static str,
    involved: InvolvedObject,
    event_type: String,
    reason: String,
}

/// The messages of similar Events, until there are too many of them.
struct SimilarMessages {
    messages: BTreeSet<String>,
    last: Moment,
}

/// An Event that may occur again: one with its message, or the combination of similar ones.
#[derive(Clone, PartialEq, Eq, Hash)]
struct WrittenKey {
    events: SimilarEvents,
    message: Option<String>,
}

struct WrittenEvent {
    /// `None` if it was dropped.
    name: Option<NamespacedName>,
    count: u64,
}

/// How many Events about an object may be written, in nanoseconds of the time in which one more may be.
#[derive(Clone, Copy)]
struct EventBudget {
    nanos: i64,
    at: Moment,
}

/// From so many messages on, similar Events are combined.
const MAX_SIMILAR: usize = 10;
/// The time after which similar Events are new.
const SIMILAR_NANOS: i64 = 600 * 1_000_000_000;
/// The time in which one more Event about an object may be written.
const REFILL_NANOS: i64 = 300 * 1_000_000_000;
/// How many may be written at once.
const BURST: i64 = 25;
/// The most Events that are remembered, of each table; then all begin again.
const MAX_REMEMBERED: usize = 4096;

// === impl CorrelatedEventRecorder ===

impl CorrelatedEventRecorder {
    /// Writes an Event, or counts it. One that cannot be written is lost, as in Kubernetes.
    pub(super) fn record(
        &mut self,
        registry: &Registry,
        now: Moment,
        source: &'static str,
        involved: &InvolvedObject,
        resource_version: &str,
        text: EventText,
    ) {
        let (key, text) = self.combined(now, source, involved, text);
        if self.written.len() >= MAX_REMEMBERED {
            self.written.clear();
        }
        let written = self.written.entry(key).or_insert(WrittenEvent { name: None, count: 0 });
        written.count += 1;
        if self.budgets.len() >= MAX_REMEMBERED {
            self.budgets.clear();
        }
        let budget = self.budgets.entry((source, involved.clone())).or_insert(EventBudget::full(now));
        if !budget.take(now) {
            return;
        }
        if let Some(name) = &written.name
            && self.writer.count(registry, now, name, &text, written.count)
        {
            return;
        }
        written.name =
            self.writer.create(registry, now, source, involved, resource_version, &text, written.count);
    }

    /// The text that is written: that of the combination if there have been many similar Events.
    fn combined(
        &mut self,
        now: Moment,
        source: &'static str,
        involved: &InvolvedObject,
        text: EventText,
    ) -> (WrittenKey, EventText) {
        let EventText { event_type, reason, message } = text.clone();
        let events = SimilarEvents { source, involved: involved.clone(), event_type, reason };
        if self.similar.len() >= MAX_REMEMBERED {
            self.similar.clear();
        }
        let similar = self
            .similar
            .entry(events.clone())
            .or_insert_with(|| SimilarMessages { messages: BTreeSet::new(), last: now });
        if now.nanos_since(similar.last) > SIMILAR_NANOS {
            similar.messages.clear();
        }
        similar.last = now;
        similar.messages.insert(message.clone());
        if similar.messages.len() < MAX_SIMILAR {
            return (WrittenKey { events, message: Some(message) }, text);
        }
        similar.messages.pop_first();
        let message = format!("(combined from similar events): {message}");
        (WrittenKey { events, message: None }, EventText { message, ..text })
    }
}

// === impl EventBudget ===

impl EventBudget {
    fn full(now: Moment) -> EventBudget {
        EventBudget { nanos: BURST * REFILL_NANOS, at: now }
    }

    /// Takes the time of one Event. Returns false if there is too little.
    fn take(&mut self, now: Moment) -> bool {
        let gained = now.nanos_since(self.at).max(0);
        self.nanos = self.nanos.saturating_add(gained).min(BURST * REFILL_NANOS);
        self.at = now;
        let is_enough = self.nanos >= REFILL_NANOS;
        if is_enough {
            self.nanos -= REFILL_NANOS;
        }
        is_enough
    }
}
