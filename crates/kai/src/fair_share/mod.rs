//! The shares of queues: what they deserve, request, have and may have.

mod division;
mod quantities;
mod queue_share;

pub(crate) use division::{DividedQueue, divide};
pub(crate) use quantities::{Quantities, quantify};
pub(crate) use queue_share::QueueShare;

#[cfg(test)]
mod tests;
