//! A history against a list: whatever is done to both, they answer alike.

mod naive;
mod random_histories;
