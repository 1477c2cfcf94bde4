//! Tasks by the moment at which they are due.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use model::Moment;

/// Something that was begun and has yet to end.
pub trait Task {
    /// True for tasks that finish within seconds. Container run times, toleration timeouts and pod garbage collection
    /// may take much longer.
    fn finishes_soon(&self) -> bool;
}

/// Tasks by the moment at which they are due; those of one moment in the order in which they were added.
#[derive(Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    /// How many tasks were ever added.
    count: u64,
    /// How many of those that are left finish soon.
    soon: usize,
}

#[derive(Debug)]
struct Entry<T> {
    at: Moment,
    count: u64,
    task: T,
}

impl<T: Task> Agenda<T> {
    /// Adds a task.
    pub fn put(&mut self, at: Moment, task: T) {
        self.count += 1;
        self.soon += usize::from(task.finishes_soon());
        self.heap.push(Reverse(Entry { at, count: self.count, task }));
    }

    /// When the first task is due.
    pub fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Takes the first task that is due by now.
    pub fn take(&mut self, now: Moment) -> Option<T> {
        self.next().filter(|at| *at <= now)?;
        let Reverse(Entry { task, .. }) = self.heap.pop()?;
        self.soon -= usize::from(task.finishes_soon());
        Some(task)
    }

    /// Whether there is a task that finishes soon.
    pub fn is_busy(&self) -> bool {
        self.soon > 0
    }
}

impl<T> Default for Agenda<T> {
    fn default() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), count: 0, soon: 0 }
    }
}

// === impl Entry ===

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        (self.at, self.count).cmp(&(other.at, other.count))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Entry<T> {}
