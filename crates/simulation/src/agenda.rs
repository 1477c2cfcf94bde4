//! Tasks by the moment at which they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use model::Moment;

/// Work that is due at some later moment.
pub trait Task {
    /// True for tasks that finish within seconds. Container run times, toleration timeouts and pod garbage collection
    /// may take much longer.
    fn finishes_soon(&self) -> bool;
}

/// Tasks by the moment at which they are due; those of one moment in the order in which they were added.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<AgendaEntry<T>>>,
    /// The number of tasks ever added.
    tasks_added: u64,
    /// The number of remaining tasks that finish soon.
    finishing_soon: usize,
}

#[derive(Debug)]
struct AgendaEntry<T> {
    at: Moment,
    order: u64,
    task: T,
}

impl<T: Task> Agenda<T> {
    /// Adds a task.
    pub fn put(&mut self, at: Moment, task: T) {
        self.tasks_added += 1;
        self.finishing_soon += usize::from(task.finishes_soon());
        self.heap.push(Reverse(AgendaEntry { at, order: self.tasks_added, task }));
    }

    /// When the first task is due.
    pub fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the first task that is due by now.
    pub fn take(&mut self, now: Moment) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        let Reverse(AgendaEntry { task, .. }) = self.heap.pop()?;
        self.finishing_soon -= usize::from(task.finishes_soon());
        Some(task)
    }

    /// Whether there is a task that finishes soon.
    pub fn is_busy(&self) -> bool {
        self.finishing_soon > 0
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), tasks_added: 0, finishing_soon: 0 }
    }
}

// === impl AgendaEntry ===

impl<T> Ord for AgendaEntry<T> {
    fn cmp(&self, other: &AgendaEntry<T>) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl<T> PartialOrd for AgendaEntry<T> {
    fn partial_cmp(&self, other: &AgendaEntry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for AgendaEntry<T> {
    fn eq(&self, other: &AgendaEntry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for AgendaEntry<T> {}
