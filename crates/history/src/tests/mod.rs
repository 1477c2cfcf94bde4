//! A history against a list: whatever is done to both, they answer alike. And against damage.

mod came;
mod counts;
mod damage;
mod forgetting;
mod naive;
mod random_histories;
