//! Tests that compare a history with a naive model, and tests of damaged files.

mod counts;
mod damage;
mod first_seen;
mod naive;
mod object_index;
mod pruning;
mod random_histories;
