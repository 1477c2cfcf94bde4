//! The bytes that files in the scratch folder may take together.

use std::io;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use recorder::lock;

use super::super::problem::{Problem, Result};

/// Changes after which the length of a file that grows is looked at.
const STEPS: u32 = 256;

/// How much there may be, and how much is taken.
pub(super) struct Budget {
    size: u64,
    taken: Mutex<u64>,
}

/// A part of the budget, given back when this is dropped.
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    steps: u32,
}

// === impl Budget ===

impl Budget {
    pub(super) fn new(size: u64) -> Budget {
        Budget { size, taken: Mutex::default() }
    }
}

// === impl Reservation ===

impl Reservation {
    pub(super) fn new(budget: Arc<Budget>) -> Reservation {
        Reservation { budget, bytes: 0, steps: 0 }
    }

    /// Takes as much more as is needed to have `bytes`, if there is so much.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<()> {
        let size = self.budget.size;
        if bytes > size {
            let words = format!(
                "this needs {} of scratch space, and --scratch-size allows {}: start the server with more",
                query::bytes(bytes),
                query::bytes(size)
            );
            return Err(Problem::new(StatusCode::INSUFFICIENT_STORAGE, words));
        }
        let mut taken = lock(&self.budget.taken);
        let others = *taken - self.bytes;
        if bytes > self.bytes && others + bytes > size {
            return Err(Problem::busy(format!(
                "this needs {} of scratch space, and other downloads take {} of the {} that --scratch-size allows: \
                 ask again when they have ended",
                query::bytes(bytes),
                query::bytes(others),
                query::bytes(size)
            )));
        }
        if bytes > self.bytes {
            *taken = others + bytes;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Grows with a file, whose length is looked at now and then. To be called after each change that is written.
    pub(super) fn follow(&mut self, length: impl FnOnce() -> io::Result<u64>) -> Result<()> {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS) { self.grow_to(length()?) } else { Ok(()) }
    }

    /// Has exactly so much from now on: the file is there.
    pub(super) fn set(&mut self, bytes: u64) {
        let mut taken = lock(&self.budget.taken);
        *taken = *taken - self.bytes + bytes;
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *lock(&self.budget.taken) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_never_more_than_the_budget_and_comes_back() {
        let budget = Arc::new(Budget::new(100));
        let mut one = Reservation::new(budget.clone());
        let mut other = Reservation::new(budget.clone());
        one.grow_to(60).unwrap();
        other.grow_to(40).unwrap();
        assert_eq!(one.grow_to(61).unwrap_err().code(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(other.grow_to(101).unwrap_err().code(), StatusCode::INSUFFICIENT_STORAGE);
        one.set(50);
        other.grow_to(50).unwrap();
        // Less is not given back before the file is there: it may still grow.
        other.grow_to(10).unwrap();
        assert_eq!(one.grow_to(51).unwrap_err().code(), StatusCode::SERVICE_UNAVAILABLE);
        drop(other);
        one.grow_to(100).unwrap();
        drop(one);
        assert_eq!(*lock(&budget.taken), 0);
    }
}
