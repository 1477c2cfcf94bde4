//! Replays of a history into an autoscaler, which show its decisions about a pod or a node.

mod external_scaling;
mod player;
mod pod_results;

use autoscaler::LoopResult;

pub use self::player::AutoscalerReplay;
pub(crate) use self::player::replay_autoscaler;
pub use self::pod_results::{PodLoopResults, ScaleUpOutcome, ScaleUpSearch, TriggeredScaleUp};

/// Returns why a loop ended early.
pub(crate) fn end_reason(done: &LoopResult) -> String {
    match (&done.error, done.healthy) {
        (Some(error), _) => error.clone(),
        // The loop ended before the scale-up.
        (None, _) if done.scale_ups.is_empty() => {
            "no node is ready, and --scale-up-from-zero is false".to_owned()
        }
        (None, false) => "too many nodes are not ready".to_owned(),
        (None, true) => "the size of a group is corrected first".to_owned(),
    }
}
