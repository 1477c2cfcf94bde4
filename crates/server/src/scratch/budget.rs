//! The budget of bytes that all files in the scratch folder share.

use std::io;
use std::sync::{Arc, Mutex};

use axum::http::StatusCode;
use recorder::lock;

use super::super::api_error::{ApiError, Result};

/// The number of changes between two checks of a growing file's length.
const CHECK_INTERVAL: u32 = 256;

/// The size of the scratch folder, and how much of it is reserved.
pub(super) struct Budget {
    size: u64,
    reserved: Mutex<u64>,
}

/// A reserved part of the budget, released when dropped.
pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
    calls: u32,
}

// === impl Budget ===

impl Budget {
    pub(super) fn new(size: u64) -> Budget {
        Budget { size, reserved: Mutex::default() }
    }
}

// === impl Reservation ===

impl Reservation {
    pub(super) fn new(budget: Arc<Budget>) -> Reservation {
        Reservation { budget, bytes: 0, calls: 0 }
    }

    /// Grows the reservation to `bytes`, or fails if the budget does not allow it. Never shrinks it.
    pub(super) fn grow_to(&mut self, bytes: u64) -> Result<()> {
        let size = self.budget.size;
        if bytes > size {
            let message = format!(
                "this requires {} of scratch space; --scratch-size is {}: restart the server with a larger one",
                query::format_bytes(bytes),
                query::format_bytes(size)
            );
            return Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, message));
        }
        let mut reserved = lock(&self.budget.reserved);
        let others = *reserved - self.bytes;
        if bytes > self.bytes && others + bytes > size {
            return Err(ApiError::unavailable(format!(
                "this requires {} of scratch space; other downloads use {} of {} (--scratch-size): retry when they have \
                 ended",
                query::format_bytes(bytes),
                query::format_bytes(others),
                query::format_bytes(size)
            )));
        }
        if bytes > self.bytes {
            *reserved = others + bytes;
            self.bytes = bytes;
        }
        Ok(())
    }

    /// Grows with a file, whose length is checked every [`CHECK_INTERVAL`] calls. To be called after each change
    /// written.
    pub(super) fn track(&mut self, length: impl FnOnce() -> io::Result<u64>) -> Result<()> {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(CHECK_INTERVAL) { self.grow_to(length()?) } else { Ok(()) }
    }

    /// Sets the reservation to the final length of the file.
    pub(super) fn set_final(&mut self, bytes: u64) {
        let mut reserved = lock(&self.budget.reserved);
        *reserved = *reserved - self.bytes + bytes;
        self.bytes = bytes;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        *lock(&self.budget.reserved) -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_keep_within_the_budget_and_are_released() {
        let budget = Arc::new(Budget::new(100));
        let mut one = Reservation::new(budget.clone());
        let mut other = Reservation::new(budget.clone());
        one.grow_to(60).unwrap();
        other.grow_to(40).unwrap();
        assert_eq!(one.grow_to(61).unwrap_err().code(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(other.grow_to(101).unwrap_err().code(), StatusCode::INSUFFICIENT_STORAGE);
        one.set_final(50);
        other.grow_to(50).unwrap();
        // A reservation does not shrink before the file is complete: it may still grow.
        other.grow_to(10).unwrap();
        assert_eq!(one.grow_to(51).unwrap_err().code(), StatusCode::SERVICE_UNAVAILABLE);
        drop(other);
        one.grow_to(100).unwrap();
        drop(one);
        assert_eq!(*lock(&budget.reserved), 0);
    }
}
