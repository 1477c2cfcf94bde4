//! What an autoscaler makes of a pod or a node: a history played into it.

mod others;
mod play;
mod pod;

use autoscaler::Loop;

pub use self::play::Played;
pub(crate) use self::play::play;
pub use self::pod::{Outcome, PodSeen, Search, Triggered};

/// Why a loop did nothing for anybody.
pub(crate) fn why_ended(done: &Loop) -> String {
    match (&done.error, done.healthy) {
        (Some(error), _) => error.clone(),
        // There was not even a search to begin with.
        (None, _) if done.scale_ups.is_empty() => {
            "no node is ready, and --scale-up-from-zero is false".to_owned()
        }
        (None, false) => "too many nodes are not ready".to_owned(),
        (None, true) => "the size of a group is corrected first".to_owned(),
    }
}
