//! The changes of a trace in order of time.

use std::collections::VecDeque;

use model::{IncomingChange, Moment, What};

use super::objects::SchedulingState;
use super::trace::Trace;
use crate::{ImportItem, ReadOptions, Result};

/// Returns the changes of a trace one by one.
pub(super) struct TraceTimeline {
    trace: Trace,
    options: ReadOptions,
    beginning: Moment,
    events: Vec<InstanceEvent>,
    /// How many of them have been returned.
    emitted: usize,
    /// How many of them are covered by scaling changes that have been returned or are ready.
    scaled: usize,
    /// The number of live instances per workload.
    live_counts: Vec<u32>,
    /// Whether each workload's objects have been added.
    added: Vec<bool>,
    /// Scaling changes to be returned before the next event.
    ready: VecDeque<ImportItem>,
    ended: bool,
}

/// An event in the life of an instance. The order is that of the history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct InstanceEvent {
    /// Nanoseconds since the trace began.
    at: i64,
    kind: InstanceEventKind,
    workload: u32,
    instance: u32,
}

/// At one moment, deletions come before creations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum InstanceEventKind {
    Deleted,
    Created,
    Scheduled,
    /// Deleted at the moment of its creation or scheduling.
    DeletedImmediately,
}

// === impl TraceTimeline ===

impl TraceTimeline {
    pub(super) fn new(trace: Trace, options: ReadOptions) -> TraceTimeline {
        let mut events = Vec::with_capacity(trace.instances.len());
        for (instance, number) in trace.instances.iter().zip(0..) {
            let (times, workload) = (instance.times, instance.workload);
            let mut add =
                |at, step| events.push(InstanceEvent { at, kind: step, workload, instance: number });
            add(times.start(), InstanceEventKind::Created);
            if let Some(scheduled) = times.scheduled {
                add(scheduled, InstanceEventKind::Scheduled);
            }
            if let Some(deleted) = times.deleted {
                let at_once = deleted == times.start() || Some(deleted) == times.scheduled;
                add(
                    deleted,
                    if at_once { InstanceEventKind::DeletedImmediately } else { InstanceEventKind::Deleted },
                );
            }
        }
        events.sort_unstable();
        let count = trace.workloads.len();
        TraceTimeline {
            beginning: options.at.unwrap_or(options.now),
            trace,
            options,
            events,
            emitted: 0,
            scaled: 0,
            live_counts: vec![0; count],
            added: vec![false; count],
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// Scales a workload for all events of the same kind and moment.
    fn scale(&mut self, event: InstanceEvent) {
        let is_same_change = |other: &&InstanceEvent| {
            (other.at, other.kind, other.workload) == (event.at, event.kind, event.workload)
        };
        let count = self.events[self.emitted..].iter().take_while(is_same_change).count();
        self.scaled += count;
        let count = u32::try_from(count).expect("the count is at most the number of instances");
        let index = event.workload as usize;
        let live_count = &mut self.live_counts[index];
        match event.kind {
            InstanceEventKind::Created => *live_count += count,
            InstanceEventKind::Deleted | InstanceEventKind::DeletedImmediately => *live_count -= count,
            InstanceEventKind::Scheduled => return,
        }
        let replicas = *live_count;
        let workload = &self.trace.workloads[index];
        let since = workload.created.map(|since| self.beginning.plus_nanos(since));
        let make = if std::mem::replace(&mut self.added[index], true) { What::Modified } else { What::Added };
        for object in [workload.deployment(replicas, since), workload.replica_set(replicas, since)] {
            let item = self.inferred_change(event.at, make(object));
            self.ready.push_back(item);
        }
    }

    fn pod_change(&self, event: InstanceEvent) -> ImportItem {
        let instance = &self.trace.instances[event.instance as usize];
        let times = instance.times;
        let moment = |since| self.beginning.plus_nanos(since);
        let scheduled = match (event.kind, times.scheduled) {
            (_, None) if times.was_scheduled_before_trace() => SchedulingState::BeforeTrace,
            (InstanceEventKind::Created, _) | (_, None) => SchedulingState::Unscheduled,
            (
                InstanceEventKind::Scheduled
                | InstanceEventKind::Deleted
                | InstanceEventKind::DeletedImmediately,
                Some(at),
            ) => SchedulingState::At(moment(at)),
        };
        let workload = &self.trace.workloads[instance.workload as usize];
        let pod = workload.pod(&instance.name, times.created.map(moment), scheduled);
        let what = match event.kind {
            InstanceEventKind::Created => What::Added(pod),
            InstanceEventKind::Scheduled => What::Modified(pod),
            InstanceEventKind::Deleted | InstanceEventKind::DeletedImmediately => What::Deleted(pod),
        };
        self.inferred_change(event.at, what)
    }

    fn inferred_change(&self, at: i64, what: What) -> ImportItem {
        let seen = self.beginning.plus_nanos(at);
        ImportItem::Change(IncomingChange {
            inferred: true,
            ..IncomingChange::received(seen, &self.options.source, what)
        })
    }
}

impl Iterator for TraceTimeline {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        let Some(&event) = self.events.get(self.emitted) else {
            let is_first_end = !std::mem::replace(&mut self.ended, true);
            return is_first_end.then(|| Ok(ImportItem::TimesInferred(self.options.source.clone())));
        };
        if self.emitted == self.scaled {
            self.scale(event);
        }
        if let Some(item) = self.ready.pop_front() {
            return Some(Ok(item));
        }
        self.emitted += 1;
        Some(Ok(self.pod_change(event)))
    }
}
