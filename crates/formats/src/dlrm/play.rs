//! What happens in a trace, in the order of time.

use std::collections::VecDeque;

use model::{Moment, Observed, What};

use super::objects::Scheduled;
use super::trace::Trace;
use crate::{Given, Item, Result};

/// Tells what happens, one thing after the other.
pub(super) struct Play {
    trace: Trace,
    given: Given,
    beginning: Moment,
    events: Vec<Event>,
    /// How many of them have been told.
    told: usize,
    /// How many of them the scaling that has been told, or is ready, explains.
    explained: usize,
    /// How many instances of each workload live.
    living: Vec<u32>,
    /// Whether each workload has been told of.
    known: Vec<bool>,
    /// Scaling that is to be told before the next event.
    ready: VecDeque<Item>,
    ended: bool,
}

/// Something that happens to an instance. The order is that of the history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    /// Nanoseconds since the trace began.
    at: i64,
    step: Step,
    workload: u32,
    instance: u32,
}

/// Of what happens at one moment, what goes makes room for what comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Deleted,
    Created,
    Scheduled,
    /// At the very moment of its creation or scheduling.
    DeletedAtOnce,
}

// === impl Play ===

impl Play {
    pub(super) fn new(trace: Trace, given: Given) -> Play {
        let mut events = Vec::with_capacity(trace.instances.len());
        for (instance, number) in trace.instances.iter().zip(0..) {
            let (life, workload) = (instance.life, instance.workload);
            let mut add = |at, step| events.push(Event { at, step, workload, instance: number });
            add(life.start(), Step::Created);
            if let Some(scheduled) = life.scheduled {
                add(scheduled, Step::Scheduled);
            }
            if let Some(deleted) = life.deleted {
                let at_once = deleted == life.start() || Some(deleted) == life.scheduled;
                add(deleted, if at_once { Step::DeletedAtOnce } else { Step::Deleted });
            }
        }
        events.sort_unstable();
        let count = trace.workloads.len();
        Play {
            beginning: given.at.unwrap_or(given.now),
            trace,
            given,
            events,
            told: 0,
            explained: 0,
            living: vec![0; count],
            known: vec![false; count],
            ready: VecDeque::new(),
            ended: false,
        }
    }

    /// Scales a workload for all that happens to its instances in this step.
    fn scale(&mut self, event: Event) {
        let alike =
            |other: &&Event| (other.at, other.step, other.workload) == (event.at, event.step, event.workload);
        let count = self.events[self.told..].iter().take_while(alike).count();
        self.explained += count;
        let count = u32::try_from(count).expect("there are no more than instances");
        let index = event.workload as usize;
        let living = &mut self.living[index];
        match event.step {
            Step::Created => *living += count,
            Step::Deleted | Step::DeletedAtOnce => *living -= count,
            Step::Scheduled => return,
        }
        let replicas = *living;
        let workload = &self.trace.workloads[index];
        let since = workload.since.map(|since| self.beginning.plus_nanos(since));
        let make = if std::mem::replace(&mut self.known[index], true) { What::Modified } else { What::Added };
        for object in [workload.deployment(replicas, since), workload.replica_set(replicas, since)] {
            let item = self.made_up(event.at, make(object));
            self.ready.push_back(item);
        }
    }

    fn tell(&self, event: Event) -> Item {
        let instance = &self.trace.instances[event.instance as usize];
        let life = instance.life;
        let moment = |since| self.beginning.plus_nanos(since);
        let scheduled = match (event.step, life.scheduled) {
            (_, None) if life.was_scheduled_before() => Scheduled::Before,
            (Step::Created, _) | (_, None) => Scheduled::NotYet,
            (Step::Scheduled | Step::Deleted | Step::DeletedAtOnce, Some(at)) => Scheduled::At(moment(at)),
        };
        let workload = &self.trace.workloads[instance.workload as usize];
        let pod = workload.pod(&instance.name, life.created.map(moment), scheduled);
        let what = match event.step {
            Step::Created => What::Added(pod),
            Step::Scheduled => What::Modified(pod),
            Step::Deleted | Step::DeletedAtOnce => What::Deleted(pod),
        };
        self.made_up(event.at, what)
    }

    fn made_up(&self, at: i64, what: What) -> Item {
        let seen = self.beginning.plus_nanos(at);
        Item::Change(Observed { inferred: true, ..Observed::received(seen, &self.given.source, what) })
    }
}

impl Iterator for Play {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        let Some(&event) = self.events.get(self.told) else {
            let untold = !std::mem::replace(&mut self.ended, true);
            return untold.then(|| Ok(Item::TimesInferred(self.given.source.clone())));
        };
        if self.told == self.explained {
            self.scale(event);
        }
        if let Some(item) = self.ready.pop_front() {
            return Some(Ok(item));
        }
        self.told += 1;
        Some(Ok(self.tell(event)))
    }
}
